package memory

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/gitstore"
)

// RepoOptions say whose files a repository versions.
type RepoOptions struct {
	Dir       string // of the workspace's memory below the data directory; see Dir
	Workspace string
	Log       *slog.Logger
	Now       func() time.Time // time.Now if nil
}

// OpenRepo opens the repository that keeps earlier versions of what is known:
// the files of facts and the skills. It is the workspace's own if that is free
// or was made by an older version, else it lies beside the history, so that a
// repository of the user is never touched. It does no I/O.
func OpenRepo(o RepoOptions) (*gitstore.Store, error) {
	return gitstore.Open(gitstore.Options{
		WorkTree: o.Workspace, Dir: filepath.Join(o.Dir, "memory.git"),
		Files: []string{"SOUL.md", "USER.md", "memory/MEMORY.md", "memory/scopes/*/MEMORY.md", "skills/**/SKILL.md"},
		Name:  "nanobot", Email: "nanobot@dream", First: "init: nanobot memory store",
		Now: o.Now, Log: o.Log,
	})
}
