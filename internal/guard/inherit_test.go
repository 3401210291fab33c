package guard_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// A folder that the agent cloned is not a workspace that somebody brings along:
// the first start in it takes nothing over that a record of another workspace
// knows as from outside, says so, and does not follow it either. A folder that
// merely lies beside it is taken over.
func TestAClonedWorkspaceIsNotTakenOver(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ws := filepath.Join(home, "workspace")
	from := victims()
	put := func(dir string) {
		for name, of := range map[string]string{
			"sessions/cli_direct.jsonl": "cli_direct.jsonl", "cron/jobs.json": "jobs.json", "memory/history.jsonl": "history.jsonl",
			"triggers/triggers.json": "triggers.json", "triggers/inbox/1-tdl_evil.json": "inbox/1-tdl_evil.json", "AGENTS.md": "profile",
		} {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(from[of]), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cloned, files, own := filepath.Join(ws, "deep", "clone"), filepath.Join(ws, "files"), filepath.Join(ws, "mine")
	outside := filepath.Join(home, "project")
	put(own)
	for begun := time.Now(); ; { // files are known by the tick of the clock, too
		path := filepath.Join(home, "tick")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.ModTime().After(begun) {
			break
		}
	}
	for _, dir := range []string{cloned, files, outside} {
		put(dir)
	}
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	l, err := config.Load(config.Options{Path: filepath.Join(home, "config.json")})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := app.OpenOrigins(t.Context(), l, ws, "", log)
	if err != nil {
		t.Fatal(err)
	}
	marks := []string{filepath.Join(ws, "deep"), outside}
	err = filepath.WalkDir(files, func(path string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			marks = append(marks, path)
		}
		return err
	})
	if err = errors.Join(err, rec.Mark(marks...)); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		dir   string
		taken bool
	}{{cloned, false}, {files, false}, {outside, false}, {own, true}} {
		store, err := app.OpenSessions(t.Context(), l, c.dir, log)
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(store.Workspace().Notes, "\n")
		sessions, err := store.List(t.Context())
		if err != nil || (len(sessions) > 0) != c.taken {
			t.Errorf("%s: sessions %v, %v", c.dir, sessions, err)
		}
		s, err := schedule.Open(app.ScheduleOptions(l, store.Workspace()))
		if err != nil {
			t.Fatal(err)
		}
		if jobs, err := s.List(t.Context()); err != nil || (len(jobs) > 0) != c.taken {
			t.Errorf("%s: jobs %v, %v", c.dir, jobs, err)
		}
		history, err := os.ReadFile(datadir.Memory.In(l.DataDir, filepath.Base(store.Dir()), "history.jsonl"))
		if (err == nil && strings.Contains(string(history), ownerWords)) != c.taken {
			t.Errorf("%s: history %q, %v; %s", c.dir, history, err, notes)
		}
		found, err := os.ReadDir(schedule.Place(app.State(l, nil), store.Workspace().ID).Where("triggers/inbox"))
		if (err == nil && len(found) > 0) != c.taken {
			t.Errorf("%s: deliveries %v, %v; %s", c.dir, found, err, notes)
		}
		if told := strings.Contains(notes, "came from outside") && strings.Contains(notes, "cli_direct.jsonl") && strings.Contains(notes, "jobs.json") && strings.Contains(notes, "history.jsonl"); told == c.taken {
			t.Errorf("%s: the notes say %q", c.dir, notes)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		here, err := app.OpenOrigins(t.Context(), l, c.dir, "", log)
		if err != nil {
			t.Fatal(err)
		}
		if here.Foreign(filepath.Join(c.dir, "AGENTS.md")) == c.taken {
			t.Errorf("%s: AGENTS.md counts as from outside: %v", c.dir, !c.taken)
		}
	}
}
