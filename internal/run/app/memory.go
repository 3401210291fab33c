package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// remember opens the history and makes what takes conversations into it. The
// demo model has nothing to say about them, and a recording must hold nothing
// but its turns: both get none.
func (a *App) remember(o Options) (*memory.Consolidator, error) {
	var err error
	a.History, err = memory.OpenHistory(memory.HistoryOptions{
		Store: memory.Place(State(a.Config, a.log), a.Sessions.Workspace().ID), Workspace: a.Workspace, Now: o.Now, Log: o.Log,
	})
	if err != nil || a.models.Info().Demo || o.Record != "" {
		return nil, err
	}
	return memory.NewConsolidator(memory.ConsolidatorOptions{
		History: a.History, Ratio: a.Config.Config.Agents.Defaults.ConsolidationRatio, Redact: a.secrets.Redact, Took: a.figures.Compacted, Now: o.Now, Log: o.Log,
	})
}

// idleCompact is the silence after which a conversation is taken in.
func idleCompact(def config.AgentDefaults) time.Duration {
	return time.Duration(def.IdleCompactAfterMinutes) * time.Minute
}

// idleCheck is the pause between conversations that are taken in late.
func idleCheck(def config.AgentDefaults) time.Duration {
	return time.Duration(def.IdleCompactCheckIntervalSeconds) * time.Second
}

// OpenMemory opens what is remembered in a workspace, with its search index,
// for looking at it and changing it. files writes files of the workspace. Done
// gives both back.
func OpenMemory(loaded *config.Loaded, workspace string, sessions *session.Store, files *change.Writer, log *slog.Logger) (m *memory.Memory, done func() error, err error) {
	index, err := OpenSearch(loaded, workspace, sessions, log)
	if err != nil {
		return nil, nil, err
	}

	m, err = memory.Open(memory.HistoryOptions{
		Store:     memory.Place(State(loaded, log), sessions.Workspace().ID),
		Workspace: workspace,
		Files:     files,
		Log:       log,
	})
	if err != nil {
		return nil, nil, errors.Join(err, index.Close())
	}

	m.Index = func(ctx context.Context, text string) (int, error) {
		gone, err := index.Forget(ctx, text)
		if errors.Is(err, search.ErrEmpty) {
			return 0, nil // no word of it is in the index
		}
		return len(gone), err
	}
	return m, func() error { return errors.Join(m.Close(), index.Close()) }, nil
}
