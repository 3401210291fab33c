package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// stores opens what is stored for a workspace and several commands use.
type stores struct {
	*console
	home *home
}

// sessions opens the conversations of the workspace in use.
func (s *stores) sessions(ctx context.Context) (*session.Store, error) {
	loaded, ws, err := s.home.inUse()
	if err != nil {
		return nil, err
	}
	return s.sessionsOf(ctx, loaded, ws)
}

// sessionsOf opens the conversations of a workspace and prints what the user should
// know about it, such as what was imported.
func (s *stores) sessionsOf(ctx context.Context, loaded *config.Loaded, ws string) (*session.Store, error) {
	store, err := app.OpenSessions(ctx, loaded, ws, s.home.logger())
	if err != nil {
		return nil, err
	}
	for _, n := range store.Workspace().Notes {
		fmt.Fprintln(s.Err, "nanobot:", s.known(n))
	}
	return store, nil
}

// search opens the index of the workspace in use, and returns the time zone of its days.
func (s *stores) search(ctx context.Context) (*search.Index, *time.Location, error) {
	loaded, ws, err := s.home.inUse()
	if err != nil {
		return nil, nil, err
	}

	store, err := s.sessionsOf(ctx, loaded, ws)
	if err != nil {
		return nil, nil, err
	}

	index, err := app.OpenSearch(loaded, ws, store, s.home.logger())
	return index, loaded.Config.Agents.Defaults.Location(), errors.Join(err, store.Close())
}

// jobs opens the jobs and triggers of the workspace in use.
func (s *stores) jobs(ctx context.Context) (*jobs, error) {
	loaded, ws, err := s.home.inUse()
	if err != nil {
		return nil, err
	}

	limits := loaded.Config.Gateway.Cron
	quiet, err := schedule.ParseHours(limits.QuietHours)
	if err != nil {
		return nil, err
	}

	store, err := s.sessionsOf(ctx, loaded, ws)
	if err != nil {
		return nil, err
	}

	w := store.Workspace()
	if err := store.Close(); err != nil {
		return nil, err
	}

	scheduler, err := schedule.Open(schedule.Options{
		State:     schedule.Place(app.State(loaded, s.home.logger()), w.ID),
		Workspace: ws,
		Log:       s.home.logger(),
		Location:  loaded.Config.Agents.Defaults.Location(),
		Now:       s.Now,
		Repaired: func(_ context.Context, aside string) {
			s.sayErr("nanobot: the jobs file was damaged; nanobot uses the last good copy and keeps the damaged file as %s\n", aside)
		},
		Limits: schedule.Limits{
			Jobs:        limits.MaxJobs,
			MinInterval: time.Duration(limits.MinIntervalS) * time.Second,
			Quiet:       quiet,
		},
		Preview: func(ctx context.Context, perMonth float64) string {
			since := s.Now().AddDate(0, 0, -30)
			runs, err := provider.OpenLedger(loaded, s.home.logger()).Runs(ctx, ledger.Query{Since: since, Source: schedule.EventCron})
			if err != nil || len(runs) == 0 {
				return ""
			}
			return ledger.Project(runs, perMonth).Sentence().In(s.language)
		},
	})
	return &jobs{scheduler, loaded}, err
}

// withJobs makes a command of what works on the jobs.
func (s *stores) withJobs(work func(cmd *cobra.Command, args []string, j *jobs) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		j, err := s.jobs(cmd.Context())
		if err != nil {
			return err
		}
		return work(cmd, args, j)
	}
}
