package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/agent/prompt"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/origin"
	"github.com/nanobot-go/nanobot/internal/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/approve"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// tracker knows which files came from outside and records what commands and tools
// write.
type tracker struct {
	posture Posture
	origins *origins
	jail    *diskio.Jail
	media   string   // all its files came from outside
	share   string   // the folder of the workspace that guests write to; "" if there is none
	writing sync.Map // key of a call to writing, of running calls that write files
	log     *slog.Logger
}

// record returns the record of the files of a call; nil for guests, whose files are
// all from outside for the owner.
func (t *tracker) record(c tool.Call) (*origin.Store, error) {
	if c.Scope != "" {
		return nil, nil
	}
	return t.origins.of(c.Project.Dir)
}

// recordAt is the record that a file belongs to which a tool names: of a
// conversation that was started elsewhere, those of the workspace have theirs.
func (t *tracker) recordAt(c tool.Call, path string) (*origin.Store, error) {
	if c.Project.Started && c.Scope == "" && diskio.Within(path, t.jail.Workspace()) {
		return t.origins.of("")
	}
	return t.record(c)
}

// follows are the files of the folder a command works in that the agent takes
// for instructions.
func follows(c tool.Call) []string {
	if c.Project.Started {
		return []string{prompt.FolderFile}
	}
	return datadir.FollowedFiles()
}

// contained says why a command must not do more than a stranger's: it has the
// rights of the least trusted thing it can read. "" means that it is clean.
func (t *tracker) contained(c tool.Call) string {
	if t.posture.Sandbox == sandbox.None && !c.Project.Only {
		return "nothing confines it"
	}
	if c.Tainted {
		return "content from outside is in this conversation"
	}
	rec, err := t.record(c)
	switch {
	case err != nil:
		return err.Error()
	case rec == nil:
		return "it is a guest's"
	}
	dir := c.Project.Dir
	if dir == "" || !c.Project.Only && !c.Project.Started {
		dir = t.jail.Workspace()
	}
	if example := rec.Example(dir); example != "" {
		return "it can read a file from outside: " + example
	}
	if list, err := os.ReadDir(t.share); t.share != "" && err == nil && len(list) > 0 {
		return "it can read what guests share"
	}
	return ""
}

// watch observes a command from start to end, to decide whether what it writes and
// prints counts as from outside.
type watch struct {
	window  *origin.Window              // nil: nothing is recorded
	why     string                      // it is contained; "" if it is clean
	tainted atomic.Bool                 // content from outside was typed into it
	used    atomic.Pointer[func() bool] // reports whether it made connections; nil: it cannot
	absent  []string                    // files that the agent would follow, which were not there
	folder  string                      // the workspace; "" if the command cannot reach it
	follows []string                    // files of its folder that the agent takes for instructions
	rec     *origin.Store
	counts  func() // starts to count what it sends; may be nil
	ended   sync.Once
	log     *slog.Logger
}

// watch begins to observe a command.
func (t *tracker) watch(c tool.Call, seals bool) (*watch, error) {
	w := &watch{why: t.contained(c), log: t.log}
	rec, err := t.record(c)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return w, nil
	}
	w.rec, w.follows = rec, follows(c)
	if c.Project.Started { // its folder is the user's own, in which nothing is moved
		seals = true // it has no sealed folders
	} else {
		w.folder = t.jail.Workspace()
	}
	for _, name := range w.follows {
		if w.folder == "" {
			break
		}
		if _, err := os.Lstat(filepath.Join(w.folder, name)); errors.Is(err, fs.ErrNotExist) {
			w.absent = append(w.absent, name)
		}
	}
	if w.window, err = rec.Begin(origin.Running{Unsealed: !seals, Outside: w.outside}); err != nil {
		return nil, fmt.Errorf("a command does not run without a record of what it brings in: %w", err)
	}
	return w, nil
}

// outside reports whether the command may have brought in content from outside.
func (w *watch) outside() bool {
	if w.why != "" || w.tainted.Load() {
		return true
	}
	used := w.used.Load()
	return used != nil && (*used)()
}

// settleTime limits the search for files that a command wrote.
const settleTime = 30 * time.Second

// end records what the command wrote, once, when it has ended or can no longer
// write.
func (w *watch) end() { w.ended.Do(w.settle) }

func (w *watch) settle() {
	if w.window == nil {
		return
	}
	var err error
	if w.outside() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTime) // the turn may be over
		defer cancel()
		err = w.window.Foreign(ctx)
	} else {
		err = w.window.Clean(w.follows...)
	}
	if err != nil {
		w.log.Error("record what a command wrote; its window stays open", "err", err)
	}
	w.setAside()
}

// setAside renames files that a command created where the agent would follow them.
// The owner finds them beside their old name.
func (w *watch) setAside() {
	for _, name := range w.absent {
		path := filepath.Join(w.folder, name)
		if _, err := os.Lstat(path); err != nil || !w.rec.Foreign(path) {
			continue
		}
		tree, err := diskio.OpenTree(w.folder)
		if err == nil {
			err = errors.Join(tree.Rename(name, name+".from-command"), w.rec.Mark(path+".from-command"), tree.Close())
		}
		if err != nil {
			w.log.Error("a command made a file that the agent would follow; it is not followed", "file", name, "err", err)
			continue
		}
		w.log.Warn("a command made a file that the agent would follow; it was set aside", "file", name, "now", name+".from-command")
	}
}

// confined is a command as the tool runs it. Its parts are released in this order.
func (w *watch) confined(release ...func()) shell.Confined {
	return shell.Confined{
		Outside: w.outside,
		Taint: func() {
			w.tainted.Store(true)
			if w.counts != nil {
				w.counts()
			}
		},
		Release: sync.OnceFunc(func() {
			for _, f := range release {
				f()
			}
			w.end()
		}),
	}
}

// writing describes the files that a running call writes.
type writing struct {
	paths    []string // absolute
	foreign  bool
	approved bool // the owner saw everything that is written and approved it
}

// writes marks the files that a call is about to write, so that the mark exists even
// if the process dies. An edit of a file from outside leaves it marked, and one such
// file among several marks all.
func (t *tracker) writes(c tool.Call, names []string) error {
	if rec, err := t.record(c); err != nil || rec == nil {
		return err
	}

	var p writing
	editsForeign := false
	for _, name := range names {
		path, err := t.jail.Path(c.Project.Path(name))
		if err != nil {
			continue // the tool refuses it
		}
		rec, err := t.recordAt(c, path)
		if err != nil {
			return err
		}
		p.paths = append(p.paths, path)
		if c.Name != "write_file" && rec.Foreign(path) {
			editsForeign = true // what the edit leaves in place came from outside
		}
	}

	p.foreign = c.Tainted || editsForeign
	switch {
	case t.posture.Approval == approve.Off:
		p.approved = true
	case c.Tainted && !editsForeign: // the owner was asked, and saw every word that is written
		p.approved = true
	}
	t.writing.Store(callKey(c), p)
	if !p.foreign {
		return nil
	}
	for _, path := range p.paths {
		rec, err := t.recordAt(c, path)
		if err != nil {
			return err
		}
		if err := rec.Mark(path); err != nil {
			return err
		}
	}
	return nil
}

// wrote records the files that a call has written, with their content.
func (t *tracker) wrote(c tool.Call) error {
	value, _ := t.writing.LoadAndDelete(callKey(c))
	p, ok := value.(writing)
	if !ok {
		return nil
	}
	var err error
	for _, path := range p.paths {
		if _, serr := os.Lstat(path); serr != nil {
			continue // it was refused, or deleted
		}
		rec, rerr := t.recordAt(c, path)
		switch {
		case rerr != nil:
			err = errors.Join(err, rerr)
		case p.approved && t.followed(path):
			err = errors.Join(err, rec.Trust(path))
		case p.foreign:
			err = errors.Join(err, rec.Mark(path))
		default:
			err = errors.Join(err, rec.Wrote(path))
		}
	}
	return err
}

// followed reports whether the agent reads a file of the workspace as
// instructions.
func (t *tracker) followed(path string) bool {
	rel, err := filepath.Rel(resolved(t.jail.Workspace()), resolved(path))
	if err != nil {
		return false
	}
	rel = filepath.ToSlash(rel)
	return slices.Contains(datadir.FollowedFiles(), rel) ||
		slices.ContainsFunc(datadir.FollowedFolders(), func(dir string) bool { return rel == dir || strings.HasPrefix(rel, dir+"/") })
}
