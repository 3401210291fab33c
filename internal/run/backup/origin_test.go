package backup

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// A restored file counts as from outside if it did when the backup was made,
// however that was known, and the records of other folders stay as they are now.
func TestRestoreKeepsOrigin(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no time that programs cannot set")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, l := oldHome(t)
	dir, err := filepath.EvalSymlinks(dir)
	must(err)
	ws := filepath.Join(dir, "workspace")
	sessions, err := session.Open(session.Options{DataDir: l.DataDir, Store: disk.Open(l.DataDir, nil), Workspace: ws, Log: slog.New(slog.DiscardHandler)})
	must(err)
	id := sessions.Workspace().ID
	must(sessions.Close())
	other := filepath.Join(dir, "other")
	plant(t, dir, map[string]string{"workspace/marked.md": "a stranger's", "other/then.md": "a stranger's", "other/later.md": "a stranger's"})
	elsewhere := func() *origin.Store {
		rec, err := origin.Open(origin.Options{Store: store.Under(disk.Open(l.DataDir, nil), "origin"), Name: "folder-1", Root: other})
		must(err)
		return rec
	}

	rec, err := guard.OpenOrigins(l.DataDir, ws, id, "", nil)
	must(err)
	must(rec.Mark(filepath.Join(ws, "marked.md")))
	must(elsewhere().Mark(filepath.Join(other, "then.md")))
	<-time.After(50 * time.Millisecond)  // what is there is clearly older than the command
	_, err = rec.Begin(origin.Running{}) // a command is running, which may have brought in what it wrote
	must(err)
	plant(t, dir, map[string]string{"workspace/running.md": "a stranger's"})
	file, m := writeBackup(t, l, false)
	if len(m.Outside) < 2 {
		t.Errorf("the backup knows %q as from outside", m.Outside)
	}

	must(os.Remove(filepath.Join(ws, "marked.md")))
	_ = rec.Example(ws) // and it is forgotten
	must(elsewhere().Mark(filepath.Join(other, "later.md")))
	_, err = openBackup(t, file).Restore(t.Context(), RestoreOptions{Config: filepath.Join(dir, "config.json"), Force: true, Now: time.Unix(1e9, 0)})
	must(err)
	rec, err = guard.OpenOrigins(l.DataDir, ws, id, "", nil)
	must(err)
	for path, r := range map[string]*origin.Store{
		filepath.Join(ws, "marked.md"): rec, filepath.Join(ws, "running.md"): rec,
		filepath.Join(other, "then.md"): elsewhere(), filepath.Join(other, "later.md"): elsewhere(),
	} {
		if _, err := os.Stat(path); err != nil || !r.Foreign(path) {
			t.Errorf("%s counts as the owner's (%v)", path, err)
		}
	}
	if rec.Foreign(filepath.Join(ws, "SOUL.md")) {
		t.Error("SOUL.md counts as from outside")
	}

	// On another machine, too.
	to := t.TempDir()
	_, err = openBackup(t, file).Restore(t.Context(), RestoreOptions{Config: filepath.Join(to, "config.json"), Workspace: filepath.Join(to, "ws"), Now: time.Unix(1e9, 0)})
	must(err)
	rec, err = guard.OpenOrigins(to, filepath.Join(to, "ws"), id, "", nil)
	must(err)
	for _, name := range []string{"marked.md", "running.md"} {
		if !rec.Foreign(filepath.Join(to, "ws", name)) {
			t.Errorf("elsewhere %s counts as the owner's", name)
		}
	}
}

// A command that ran when the backup was made has not written what a restore
// unpacks, also if nothing in the backup came from outside.
func TestRestoreEndsCommands(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, l := oldHome(t)
	dir, err := filepath.EvalSymlinks(dir)
	must(err)
	ws := filepath.Join(dir, "workspace")
	sessions, err := session.Open(session.Options{DataDir: l.DataDir, Store: disk.Open(l.DataDir, nil), Workspace: ws, Log: slog.New(slog.DiscardHandler)})
	must(err)
	id := sessions.Workspace().ID
	must(sessions.Close())
	rec, err := guard.OpenOrigins(l.DataDir, ws, id, "", nil)
	must(err)
	_, err = rec.Begin(origin.Running{Outside: func() bool { return false }})
	must(err)

	file, m := writeBackup(t, l, false)
	if len(m.Outside) > 0 {
		t.Fatalf("the backup knows %q as from outside", m.Outside)
	}
	_, err = openBackup(t, file).Restore(t.Context(), RestoreOptions{Config: filepath.Join(dir, "config.json"), Force: true, Now: time.Unix(1e9, 0)})
	must(err)
	if rec, err = guard.OpenOrigins(l.DataDir, ws, id, "", nil); err != nil {
		t.Fatal(err)
	}
	first, err := rec.Begin(origin.Running{})
	must(err)
	if !first.Alone() {
		t.Error("the command of the backup still runs")
	}
}
