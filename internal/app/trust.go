package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/origin"
)

// originsOf are the records of a workspace.
func originsOf(l *config.Loaded, workspace, id string, log *slog.Logger) *origins {
	return &origins{
		dir:       datadir.Origin.In(l.DataDir),
		workspace: workspace,
		name:      id,
		cache:     datadir.Cache.In(l.DataDir, id),
		log:       log,
	}
}

// OpenOrigins opens the record of the files of a workspace that came from
// outside, for the owner to look at and to change.
func OpenOrigins(ctx context.Context, l *config.Loaded, workspace string, log *slog.Logger) (*origin.Store, error) {
	store, err := OpenSessions(ctx, l, workspace, log)
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // only its name is needed
	return originsOf(l, workspace, filepath.Base(store.Dir()), log).of("")
}

// noteForeign tells the owner which of the files that the agent follows are left
// out because a command or a tainted turn wrote them.
func (a *App) noteForeign() {
	var names []string
	for _, name := range datadir.FollowedFiles() {
		if a.foreign(filepath.Join(a.Workspace, name)) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%s came from outside and is not followed. Look at it; then, if it is yours: nanobot trust %s",
			strings.Join(names, ", "), strings.Join(names, " ")))
	}
}
