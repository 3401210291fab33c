package app

import (
	"log/slog"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/memory"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/session/search"
)

// OpenSearch opens the full-text index of a workspace. Nothing is read or
// written before it is used.
func OpenSearch(loaded *config.Loaded, workspace string, sessions *session.Store, log *slog.Logger) (*search.Index, error) {
	dir := sessions.Dir()
	return search.Open(search.Options{
		Path:     filepath.Join(loaded.DataDir, "index", filepath.Base(dir)+".db"),
		Sessions: dir, OldSessions: []string{filepath.Join(workspace, "sessions"), filepath.Dir(dir)},
		History:   filepath.Join(memory.Dir(loaded.DataDir, sessions), "history.jsonl"),
		Workspace: workspace, Log: log,
	})
}
