package guard

import (
	"log/slog"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// OpenOrigins opens the record of the files of a workspace that came from
// outside, for the owner to look at and to change.
// id is that of the workspace. With a folder outside of it, it is the record of
// that folder.
func OpenOrigins(dataDir, workspace, id, folder string, log *slog.Logger) (*origin.Store, error) {
	return originsOf(dataDir, workspace, id, log).of(folder)
}

// origins are the records of files from outside: one for the workspace, and one
// for each folder outside of it that a conversation works in.
type origins struct {
	state     store.Store // the folder of the records
	workspace string
	folder    string // that the program was started in; "" is the workspace
	name      string // of the record of the workspace
	cache     string // of clean commands
	log       *slog.Logger

	mu    sync.Mutex
	other map[string]*origin.Store
	main  *origin.Store
}

// of is the record of the folder that a path lies in.
func (o *origins) of(dir string) (*origin.Store, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if dir == "" || diskio.Within(dir, o.workspace) || diskio.Within(dir, resolved(o.workspace)) {
		if o.main != nil {
			return o.main, nil
		}

		s, err := origin.Open(origin.Options{
			Store:  o.state,
			Name:   o.name,
			Root:   o.workspace,
			Roots:  []string{o.cache},
			Sealed: datadir.FollowedFolders(),
			Log:    o.log,
		})

		o.main = s
		return s, err
	}

	if s := o.other[dir]; s != nil {
		return s, nil
	}

	if o.other == nil || len(o.other) >= maxOpen {
		o.other = map[string]*origin.Store{}
	}

	s, err := origin.Open(origin.Options{
		Store: o.state,
		Name:  change.FolderName(dir),
		Root:  dir,
		Roots: []string{o.cache},
		Log:   o.log,
	})
	if err == nil {
		o.other[dir] = s
	}
	return s, err
}

// in is of, for later.
func (o *origins) in(dir string) func() (*origin.Store, error) {
	return func() (*origin.Store, error) { return o.of(dir) }
}

// foreign reports whether a file of the workspace, or of the folder that the
// program was started in, came from outside.
func (o *origins) foreign(path string) bool {
	dir := ""
	if o.folder != "" && diskio.Within(path, o.folder) && !diskio.Within(path, o.workspace) {
		dir = o.folder
	}
	s, err := o.of(dir)
	return err != nil || s.Foreign(path)
}

// readable returns why the record of the workspace, or of the folder that the
// program was started in, cannot be read.
func (o *origins) readable() error {
	for _, dir := range []string{"", o.folder} {
		s, err := o.of(dir)
		if err == nil {
			err = s.Readable()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// originsOf are the records of a workspace.
func originsOf(dataDir, workspace, id string, log *slog.Logger) *origins {
	return &origins{
		state:     store.Under(disk.Open(dataDir, log), string(datadir.Origin)),
		workspace: workspace,
		name:      id,
		cache:     datadir.Cache.In(dataDir, id),
		log:       log,
	}
}
