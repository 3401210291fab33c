// Package takeover imports what the Python program, and versions before this one,
// left in a workspace, when the data folder sees the workspace for the first
// time. Each kind is imported once; files that appear later are for nanobot
// migrate. The readers of the files are python_*.go in the packages that own what
// is imported: this one knows their order and what is said about it.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/gitstore"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// KindJobs is the kind of jobs and triggers in what was imported.
const KindJobs = "jobs"

// kindOrigins is the kind of marks in what was imported.
const kindOrigins = "origins"

// Options say what is imported, and into what. All are required.
type Options struct {
	Config     *config.Loaded
	Sessions   *session.Store // of the workspace; it has imported conversations when it was opened
	State      store.Store    // of the data folder
	Everywhere *guard.AllOrigins
	// Configured says that the workspace is the one that the configuration names. What
	// the oldest versions kept in the data folder itself belongs to it.
	Configured bool
	Now        func() time.Time
	Log        *slog.Logger
}

// Run imports the jobs, the history and the versions of memory of a workspace,
// each once, and adds to the notes of the workspace what it imported and left.
// What another workspace knows as from outside is left.
func Run(ctx context.Context, o Options) error {
	w := o.Sessions.Workspace()
	if !isDir(w.Path) {
		return nil // it can still come
	}

	sessions := o.Sessions.Imported()
	var jobs schedule.Imported
	var entries int

	err := w.Once(kindOrigins, o.Now(), func() error {
		to, err := guard.OpenOrigins(o.Config.DataDir, w.Path, w.ID, "", o.Log)
		if err != nil {
			return err
		}
		return o.Everywhere.Inherit(to, w.Path)
	})
	if err != nil {
		return fmt.Errorf("mark what came from outside in %s: %w", w.Path, err)
	}

	err = w.Once(KindJobs, o.Now(), func() error {
		s, err := schedule.Open(schedule.Options{
			State:     schedule.Place(o.State, w.ID),
			Workspace: w.Path,
			Foreign:   o.Everywhere.Foreign,
			Now:       o.Now,
			Log:       o.Log,
		})
		if err != nil {
			return err
		}

		elsewhere := ""
		if o.Configured {
			elsewhere = datadir.Cron.In(o.Config.DataDir, "jobs.json")
		}

		jobs, err = s.TakeOver(ctx, elsewhere)
		return err
	})
	if err != nil {
		return fmt.Errorf("take over the jobs of %s: %w", w.Path, err)
	}

	var strange []string
	err = w.Once(memory.KindHistory, o.Now(), func() (err error) {
		for _, name := range memory.Leftovers(w.Path) {
			if o.Everywhere.Foreign(name) {
				strange = append(strange, name+": it came from outside")
			}
		}

		if len(strange) > 0 {
			return nil
		}

		entries, err = memory.TakeOver(ctx, memory.HistoryOptions{Store: memory.Place(o.State, w.ID), Workspace: w.Path, Now: o.Now, Log: o.Log})
		return err
	})
	if err != nil {
		return fmt.Errorf("take over the history of %s: %w", w.Path, err)
	}

	versions := 0
	err = w.Once(memory.KindVersions, o.Now(), func() (err error) {
		versions, err = memory.TakeOverVersions(ctx, memory.HistoryOptions{Store: memory.Place(o.State, w.ID), Workspace: w.Path, Now: o.Now, Log: o.Log}, o.Everywhere.Foreign)
		if source, ok := errors.AsType[*gitstore.SourceError](err); ok { // it will not get better
			strange, err = append(strange, source.Error()), nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("take over the versions of the memory files of %s: %w", w.Path, err)
	}

	what := Counted(sessions.Sessions, jobs, entries, versions)
	if what != "" {
		from := "Python nanobot"
		if w.Entry.Seen.IsZero() { // a version before knew the workspace
			from = "the workspace"
		}
		w.Notes = append(w.Notes, fmt.Sprintf("Imported from %s: %s. Files that appear in %s later are not imported automatically; see: nanobot migrate", from, what, w.Path))
	}

	if sessions.Sessions > 0 {
		w.Notes = append(w.Notes, fmt.Sprintf("The conversations moved from %s to %s. To go back to Python nanobot, copy them to where it looks for them with: nanobot sessions restore-workspace",
			filepath.Join(w.Path, "sessions"), datadir.Sessions.In(o.Config.DataDir)))
	}
	if what != "" && isContained(o.Config) {
		w.Notes = append(w.Notes, "The agent stays inside the workspace, its commands run in a sandbox, and risky calls need your approval, because "+o.Config.File+
			" does not say otherwise. Python nanobot has none of this; the settings are tools.restrictToWorkspace, tools.exec.sandbox and tools.approval.mode.")
	}
	if versions > 0 {
		w.Notes = append(w.Notes, fmt.Sprintf("nanobot no longer uses %s; it is unchanged, and you can delete it if you do not use it yourself.", filepath.Join(w.Path, ".git")))
	}
	if left := slices.Concat(sessions.Left, jobs.Left, strange); len(left) > 0 {
		w.Notes = append(w.Notes, fmt.Sprintf("Not imported (%d): %s", len(left), text.Cut(strings.Join(left, "; "), 500)))
	}
	return nil
}

// isContained reports whether a file is contained only because it does not say otherwise.
func isContained(l *config.Loaded) bool {
	if !l.Exists || l.Python {
		return false
	}
	contains := []string{"tools.restrictToWorkspace", "tools.exec.sandbox", "tools.exec.network", "tools.approval.mode"}
	return !slices.ContainsFunc(contains, l.IsSet)
}

// Counted lists what was imported; "" if that is nothing.
func Counted(sessions int, jobs schedule.Imported, entries, versions int) string {
	var parts []string
	for _, p := range []struct {
		n         int
		one, many string
	}{
		{sessions, "session", "sessions"},
		{jobs.Jobs, "job", "jobs"},
		{jobs.Triggers, "trigger", "triggers"},
		{jobs.Deliveries, "message for a trigger", "messages for triggers"},
		{entries, "history entry", "history entries"},
		{versions, "version of the memory files", "versions of the memory files"},
	} {
		switch {
		case p.n == 1:
			parts = append(parts, "1 "+p.one)
		case p.n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.many))
		}
	}

	return strings.Join(parts, ", ")
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
