package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/origin"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/store/disk"
)

// AllOrigins are the records of every workspace of a data folder. A folder that
// is a workspace for the first time may be known to another one.
type AllOrigins struct {
	data string
	log  *slog.Logger
	open func() map[string]*origin.Store // by the folder that a record is about
}

// OpenAllOrigins looks at the records of a data folder. It reads none before
// one is needed.
func OpenAllOrigins(l *config.Loaded, log *slog.Logger) *AllOrigins {
	a := &AllOrigins{data: l.DataDir, log: log}
	a.open = sync.OnceValue(a.read)
	return a
}

// record is the record with a name; nil if nothing was recorded under it.
func (a *AllOrigins) record(name, root string) *origin.Store {
	dir := datadir.Origin.In(a.data)
	if _, err := os.Lstat(filepath.Join(dir, name+".jsonl")); err != nil {
		return nil
	}
	s, err := origin.Open(origin.Options{Dir: dir, Name: name, Root: root, Sealed: datadir.FollowedFolders(), Log: a.log})
	if err != nil {
		return nil
	}
	return s
}

func (a *AllOrigins) read() map[string]*origin.Store {
	out := map[string]*origin.Store{}
	for id, path := range session.Known(disk.Open(a.data, nil)) {
		if s := a.record(id, path); s != nil && filepath.IsAbs(path) {
			out[path] = s
		}
	}
	return out
}

// Foreign reports whether any record knows a file as from outside.
func (a *AllOrigins) Foreign(path string) bool {
	for _, s := range a.open() {
		if s.Foreign(path) {
			return true
		}
	}
	// Folders that were worked in without being workspaces have records by path.
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if s := a.record(folderRecord(dir), dir); s != nil && s.Foreign(path) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// Inherit marks in the record of a workspace what others know about its files.
func (a *AllOrigins) Inherit(to *origin.Store, workspace string) error {
	var marks []string
	for root, s := range a.open() {
		if root == workspace {
			continue
		}
		names, err := s.List()
		if err != nil {
			return err
		}
		for _, name := range names {
			path := filepath.FromSlash(strings.TrimSuffix(name, "/"))
			if !filepath.IsAbs(path) {
				path = filepath.Join(root, path)
			}
			switch {
			case diskio.Within(workspace, path):
				marks = append(marks, workspace)
			case diskio.Within(path, workspace):
				marks = append(marks, path)
			}
		}
	}
	if len(marks) == 0 {
		return nil
	}
	return to.Mark(marks...)
}

// folderRecord is the name of the record of a folder that is not a workspace.
func folderRecord(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "folder-" + hex.EncodeToString(sum[:12])
}
