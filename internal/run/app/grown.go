package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Kinds in Entry.Imported of the last look at what other programs wrote; the time is
// that of the newest file.
const (
	kindGrownJobs    = "grown_jobs"
	kindGrownHistory = "grown_history"
)

// grownNotes name what another program wrote into the workspace after the first
// start, once. Nothing of it is used by itself: the agent can write there, too.
func grownNotes(ctx context.Context, l *config.Loaded, store *session.Store, log *slog.Logger) (notes []string) {
	w := store.Workspace()
	found, err := session.Grown(ctx, store)
	if err != nil {
		log.WarnContext(ctx, "look for conversations of other programs", "err", err)
	}

	if len(found) > 0 {
		notes = append(notes, "Another program added messages to conversations in the workspace: "+
			named(found, func(u session.Unimported) string { return fmt.Sprintf("%s (%d)", text.Label(u.Key, 60), u.Messages) })+
			". nanobot does not use them; review and import them with: nanobot migrate")
	}

	once(ctx, w, kindGrownJobs, schedule.Written(w.Path), log, func() (bool, error) {
		jobs, err := WaitingJobs(ctx, l, w)
		if len(jobs) > 0 {
			notes = append(notes, "Another program added or changed jobs in the workspace: "+
				named(jobs, func(j schedule.Unimported) string { return text.Label(j.Name, 60) })+
				". nanobot does not run them; review and import them with: nanobot migrate")
		}
		return len(jobs) > 0, err
	})

	once(ctx, w, kindGrownHistory, memory.Written(w.Path), log, func() (bool, error) {
		entries, err := WaitingHistory(ctx, l, w)
		if len(entries) > 0 {
			notes = append(notes, fmt.Sprintf("Another program added to the history in the workspace (new entries: %d). nanobot does not use them; review and import them with: nanobot migrate", len(entries)))
		}
		return len(entries) > 0, err
	})
	return notes
}

// once runs look if files were written after the last look that found something,
// and notes their time if this one does.
func once(ctx context.Context, w *session.Workspace, kind string, written time.Time, log *slog.Logger, look func() (bool, error)) {
	written = written.UTC()
	if !written.After(w.Entry.Imported[kind]) {
		return
	}

	found, err := look()
	if err == nil && found {
		err = w.Update(func(e *session.Entry) error {
			if e.Imported == nil {
				e.Imported = map[string]time.Time{}
			}
			e.Imported[kind] = written
			return nil
		})
	}

	if err != nil {
		log.WarnContext(ctx, "look for what other programs wrote", "kind", kind, "err", err)
	}
}

// named lists what was found, at most five of it.
func named[T any](all []T, name func(T) string) string {
	const most = 5
	var out []string
	for _, v := range all[:min(len(all), most)] {
		out = append(out, name(v))
	}
	if n := len(all) - most; n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}

// WaitingJobs lists the jobs that another program wrote into a workspace and that
// are not imported, without changing anything.
func WaitingJobs(ctx context.Context, l *config.Loaded, w *session.Workspace) ([]schedule.Unimported, error) {
	s, err := schedule.Open(ScheduleOptions(l, w))
	if err != nil {
		return nil, err
	}
	jobs, _, err := s.Unimported(ctx)
	return jobs, err
}

// WaitingHistory lists the history entries that another program wrote into a
// workspace and that are not imported, without changing anything.
func WaitingHistory(ctx context.Context, l *config.Loaded, w *session.Workspace) ([]memory.Entry, error) {
	return memory.Waiting(ctx, memory.HistoryOptions{Store: memory.Place(State(l, nil), w.ID), Workspace: w.Path})
}
