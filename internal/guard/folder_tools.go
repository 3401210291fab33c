package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// folderTools are the files as conversations see them that work in a folder of
// their own.
type folderTools struct {
	g *Guard

	mu   sync.Mutex
	seen map[projectKey]*view
}

// projectKey tells views apart. The conversation counts where it is kept inside
// its folder: what it may read besides is its own.
type projectKey struct {
	tool.Project
	session string
}

// of returns the view of a call.
func (x *folderTools) of(c tool.Call) (*view, error) {
	x.mu.Lock()
	defer x.mu.Unlock()

	key := projectKey{Project: c.Project}
	if c.Project.Only {
		key.session = c.SessionKey
	}

	whole := x.g.jail
	if v := x.seen[key]; v != nil && whole.Holds(v.jail) {
		return v, nil
	}

	if x.seen == nil || len(x.seen) >= maxOpen {
		x.seen = map[projectKey]*view{} // a call that still uses one keeps it open
	}

	delete(x.seen, key)
	jail, err := whole.At(diskio.Base{
		Dir:       c.Project.Dir,
		Only:      c.Project.Only,
		ReadOnly:  besides(c),
		Unlisted:  []string{x.g.places.media},
		Protected: []string{x.g.places.results()},
		Except:    []string{x.g.places.resultsOf(c.SessionKey)},
	})
	if err != nil {
		return nil, fmt.Errorf("the folder %s of this chat cannot be used now: %w", c.Project.Dir, err)
	}

	records := []func() (*origin.Store, error){x.g.tracker.origins.in(c.Project.Dir)}
	if c.Project.Started {
		records = append(records, x.g.tracker.origins.in(""))
	}

	v := &view{jail: jail, files: x.g.viewTools(jail, x.g.places.media, records...)}
	x.seen[key] = v
	return v, nil
}

func (x *folderTools) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var err error
	for _, v := range x.seen {
		err = errors.Join(err, v.jail.Close())
	}
	x.seen = nil
	return err
}

// besides returns what of the workspace a conversation that is kept inside a
// folder may read besides: the skills, and long results of its own tools.
func besides(c tool.Call) []string {
	return []string{"skills", filepath.Join(filepath.FromSlash(oldResults), text.SafeName(c.SessionKey))}
}

// inFull makes a tool name the files it changes as they are called from
// everywhere, for a call whose names begin in a folder of its own.
func inFull(t tool.Tool, p tool.Project) tool.Tool {
	if paths := t.Paths; paths != nil && p.Dir != "" {
		t.Paths = func(input json.RawMessage) []string {
			names := slices.Clone(paths(input))
			for i, name := range names {
				names[i] = p.Path(name)
			}
			return names
		}
	}
	return t
}
