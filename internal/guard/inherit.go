package guard

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// AllOrigins are the records of every workspace of a data folder. A folder that
// is a workspace for the first time may be known to another one.
type AllOrigins struct {
	data       string
	workspaces func() map[string]string // paths by id
	log        *slog.Logger
	open       func() map[string]*origin.Store // by the folder that a record is about
}

// OpenAllOrigins looks at the records of a data folder, whose workspaces are
// listed by their ids. It reads none, and asks for no list, before one is needed.
func OpenAllOrigins(dataDir string, workspaces func() map[string]string, log *slog.Logger) *AllOrigins {
	a := &AllOrigins{data: dataDir, workspaces: workspaces, log: log}
	a.open = sync.OnceValue(a.read)
	return a
}

// record is the record with a name; nil if nothing was recorded under it. Commands
// cannot write to the sealed folders, so what changes there is not theirs.
func (a *AllOrigins) record(name, root string, sealed []string) *origin.Store {
	records := store.Under(disk.Open(a.data, a.log), string(datadir.Origin))
	if info, err := records.Stat(context.Background(), name+".jsonl"); err != nil || !info.Exists() {
		return nil
	}
	s, err := origin.Open(origin.Options{Store: records, Name: name, Root: root, Sealed: sealed, Log: a.log})
	if err != nil {
		return nil
	}
	return s
}

func (a *AllOrigins) read() map[string]*origin.Store {
	out := map[string]*origin.Store{}
	for id, path := range a.workspaces() {
		if s := a.record(id, path, datadir.FollowedFolders()); s != nil {
			out[path] = s
		}
	}
	return out
}

// above are the records by path of a folder and of those around it. Folders
// that were worked in without being workspaces have one.
func (a *AllOrigins) above(dir string) map[string]*origin.Store {
	out := map[string]*origin.Store{}
	for ; ; dir = filepath.Dir(dir) {
		if s := a.record(change.FolderName(dir), dir, nil); s != nil {
			out[dir] = s
		}
		if dir == filepath.Dir(dir) {
			return out
		}
	}
}

// Foreign reports whether any record knows a file as from outside.
func (a *AllOrigins) Foreign(path string) bool {
	for _, records := range []map[string]*origin.Store{a.open(), a.above(filepath.Dir(path))} {
		for _, s := range records {
			if s.Foreign(path) {
				return true
			}
		}
	}
	return false
}

// Inherit marks in the record of a workspace what others know about its files.
func (a *AllOrigins) Inherit(to *origin.Store, workspace string) error {
	others := maps.Clone(a.open())
	delete(others, workspace)
	var marks []string
	for _, records := range []map[string]*origin.Store{others, a.above(workspace)} {
		for root, s := range records {
			names, err := s.List()
			if err != nil {
				return err
			}
			marks = append(marks, marksIn(workspace, root, names)...)
		}
	}

	if len(marks) == 0 {
		return nil
	}
	return to.Mark(marks...)
}

// marksIn are the paths of a workspace among what is marked in the record of
// another folder; the workspace itself if a folder around it is marked.
func marksIn(workspace, root string, names []string) []string {
	var out []string
	for _, name := range names {
		path := filepath.FromSlash(strings.TrimSuffix(name, "/"))
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}

		switch {
		case diskio.Within(workspace, path):
			out = append(out, workspace)
		case diskio.Within(path, workspace):
			out = append(out, path)
		}
	}

	return out
}
