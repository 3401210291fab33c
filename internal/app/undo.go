package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/tool/undo"
)

// OpenUndo opens the record of file changes that belongs to a workspace, for a
// person at the command line: unlike the agent, they reach every folder except
// protected ones. The workspace must exist. done gives everything back.
func OpenUndo(ctx context.Context, loaded *config.Loaded, workspace string, log *slog.Logger) (store *undo.Store, done func() error, err error) {
	sessions, err := OpenSessions(ctx, loaded, workspace, log)
	if err != nil {
		return nil, nil, err
	}
	a := &App{Config: loaded, Workspace: workspace}
	deny, denyWrite := a.protectedPaths()
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: workspace, Protected: deny, ProtectedNames: a.protectedNames(), ProtectedWrite: denyWrite})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open the workspace: %w", err), sessions.Close())
	}
	store, err = undo.Open(undo.Options{
		Dir: undoDir(loaded, sessions.Dir()), Jail: jail, Exclude: append(deny, denyWrite...), Log: log,
	})
	if err != nil {
		return nil, nil, errors.Join(err, jail.Close(), sessions.Close())
	}
	return store, func() error { return errors.Join(store.Close(), jail.Close(), sessions.Close()) }, nil
}

// undoDir is where the changes of a workspace are kept: beside its sessions,
// under the same id.
func undoDir(loaded *config.Loaded, sessions string) string {
	return datadir.Undo.In(loaded.DataDir, filepath.Base(sessions))
}
