package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/takeover"
)

// configured reports whether a workspace is the one that the configuration
// names. What the oldest versions kept in the data folder itself belongs to it.
func configured(l *config.Loaded, workspace string) bool {
	own, err := workspaceOf("", l)
	return err == nil && (own == workspace || sameFolder(own, workspace))
}

// sameFolder reports whether two paths lead to one folder.
func sameFolder(one, two string) bool {
	a, err := filepath.EvalSymlinks(one)
	b, err2 := filepath.EvalSymlinks(two)
	return err == nil && err2 == nil && a == b
}

// openSessions opens the sessions of a workspace. The first time that the data
// folder sees the workspace, whatever the program was started for, it takes
// over what other programs left there; the notes of the workspace say what.
func openSessions(ctx context.Context, loaded *config.Loaded, workspace string, o Options) (*session.Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	everywhere := allOrigins(loaded, o.Log)
	primary := configured(loaded, workspace)
	store, err := session.Open(session.Options{
		DataDir:   loaded.DataDir,
		Store:     State(loaded, o.Log),
		Workspace: workspace,
		Secondary: !primary,
		Foreign:   everywhere.Foreign,
		Secrets:   o.Secrets,
		Now:       o.Now,
		Log:       o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("open sessions: %w", err)
	}

	// A few small files on this disk: it is finished rather than stopped halfway.
	into := takeover.Options{
		Config:     loaded,
		Sessions:   store,
		State:      State(loaded, o.Log),
		Everywhere: everywhere,
		Configured: primary,
		Now:        o.Now,
		Log:        o.Log,
	}
	if err := takeover.Run(context.WithoutCancel(ctx), into); err != nil {
		_ = store.Close() // nothing was done with it
		return nil, err
	}
	return store, nil
}
