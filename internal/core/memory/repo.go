package memory

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/gitstore"
	"github.com/nanobot-go/nanobot/internal/guard/change"
)

// RepoOptions say whose files a repository versions.
type RepoOptions struct {
	Dir       string // of the workspace's memory below the data directory; see Dir
	Workspace string
	Files     *change.Writer // of the workspace; nil records nothing about what is written
	Log       *slog.Logger
	Now       func() time.Time // time.Now if nil
}

// KindVersions is the kind of versions in what was taken over.
const KindVersions = "versions"

// TakeOverVersions begins the versions of the memory files with those that older
// versions kept in the .git folder of the workspace, and returns how many those
// are. A *gitstore.SourceError says why they were not taken; see Store.Import.
func TakeOverVersions(ctx context.Context, o HistoryOptions, foreign func(path string) bool) (int, error) {
	m, err := Open(o)
	if err != nil {
		return 0, err
	}

	got, err := m.Repo.Import(ctx, foreign)
	if err == nil && len(got.IDs) > 0 {
		var leave func()
		if leave, err = m.Dream.enter(ctx); err == nil {
			err = m.Dream.renamed(ctx, got.IDs)
			leave()
		}
	}

	return got.Versions, errors.Join(err, m.Close())
}

// OpenRepo opens the repository that keeps earlier versions of what is known:
// the files of facts and the skills. It lies beside the history, where no command
// writes. It does no I/O.
func OpenRepo(o RepoOptions) (*gitstore.Store, error) {
	if o.Files == nil {
		o.Files = change.NewWriter(o.Workspace, nil)
	}
	return gitstore.Open(gitstore.Options{
		WorkTree: o.Workspace, Writer: o.Files, Dir: filepath.Join(o.Dir, "memory.git"),
		Files: []string{"SOUL.md", "USER.md", "memory/MEMORY.md", "memory/scopes/*/MEMORY.md", "skills/**/SKILL.md"},
		Name:  "nanobot", Email: "nanobot@dream", First: "init: nanobot memory store",
		Now: o.Now, Log: o.Log,
	})
}
