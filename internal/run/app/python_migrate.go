package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/takeover"
)

// Migration is what lies in a workspace and is not part of what the data folder
// holds: what another program wrote there after the first start, or a command.
// Nothing of it is used before a person takes it.
type Migration struct {
	Notes    []string // of the workspace; for the user
	Sessions []session.Unimported
	Jobs     []schedule.Unimported
	History  []memory.Entry
	Unread   []string // what could not be looked at, and why

	store   *session.Store
	jobs    *schedule.Scheduler
	history *memory.History
	state   string // of the file with the jobs
}

// OpenMigration looks for what a workspace holds beside what is taken over by
// itself. The caller closes it.
func OpenMigration(ctx context.Context, l *config.Loaded, workspace string, log *slog.Logger) (_ *Migration, err error) {
	m := &Migration{}
	if m.store, err = openSessions(ctx, l, workspace, Options{Log: log}); err != nil {
		return nil, err
	}

	w := m.store.Workspace()
	m.Notes = w.Notes
	so := ScheduleOptions(l, w)
	so.Log = log
	if m.jobs, err = schedule.Open(so); err != nil {
		return nil, errors.Join(err, m.store.Close())
	}

	m.history, err = memory.OpenHistory(memory.HistoryOptions{Store: memory.Place(State(l, log), w.ID), Workspace: w.Path, Log: log})
	if err != nil {
		return nil, errors.Join(err, m.store.Close())
	}

	if m.Sessions, err = m.store.Unimported(ctx); err != nil {
		m.Unread = append(m.Unread, err.Error())
	}
	if m.Jobs, m.state, err = m.jobs.Unimported(ctx); err != nil {
		m.Unread = append(m.Unread, err.Error())
	}
	if m.History, err = m.history.Unimported(ctx); err != nil {
		m.Unread = append(m.Unread, err.Error())
	}
	return m, nil
}

// Waiting lists the conversations of other programs that the data folder does
// not hold, without changing anything; first says that the next start imports
// them by itself.
func Waiting(ctx context.Context, l *config.Loaded, workspace string) (found []session.Unimported, first bool, err error) {
	return session.Waiting(ctx, session.Options{
		DataDir: l.DataDir, Store: State(l, nil), Workspace: workspace, Secondary: !configured(l, workspace), Foreign: allOrigins(l, slog.New(slog.DiscardHandler)).Foreign,
	})
}

// Close gives everything back.
func (m *Migration) Close() error { return errors.Join(m.store.Close(), m.history.Close()) }

// Empty reports whether there is nothing to take.
func (m *Migration) Empty() bool {
	for _, s := range m.Sessions {
		if !s.Apart {
			return false
		}
	}
	return len(m.Jobs)+len(m.History) == 0
}

// Take takes in what was found, as it was found, and says what that was. What
// was changed since is left out and reported in the error.
func (m *Migration) Take(ctx context.Context) (string, error) {
	var errs []error
	var jobs schedule.Imported
	sessions, entries := 0, 0
	for _, u := range m.Sessions {
		if u.Apart {
			continue
		}
		if err := m.store.Import(ctx, u); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", u.Key, err))
			continue
		}
		sessions++
	}

	if len(m.Jobs) > 0 {
		n, err := m.jobs.Import(ctx, m.state)
		jobs.Jobs = n
		errs = append(errs, err)
	}

	if len(m.History) > 0 {
		n, err := m.history.Import(ctx, m.History)
		entries = n
		errs = append(errs, err)
	}
	return takeover.Counted(sessions, jobs, entries, 0), errors.Join(errs...)
}
