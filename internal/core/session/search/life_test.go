package search_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/llm"
)

const childEnv = "NANOBOT_SEARCH_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		panic(child(dir)) // it is killed before that
	}
	m.Run()
}

// child builds an index again and again until it is killed.
func child(dir string) error {
	x, err := search.Open(search.Options{Path: filepath.Join(dir, "x.db"), Store: disk.Open(dir, nil), Sessions: "sessions"})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "ready")
	for {
		if err := x.Update(context.Background()); err != nil {
			return err
		}
		now, err := os.ReadFile(filepath.Join(dir, "sessions", "a.jsonl"))
		if err != nil {
			return err
		}
		// Another file, so that everything is indexed again.
		if err := os.WriteFile(filepath.Join(dir, "b.jsonl"), now, 0o600); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, "b.jsonl"), filepath.Join(dir, "sessions", "a.jsonl")); err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, "round")
	}
}

func count(t *testing.T, x *search.Index, words string) int {
	t.Helper()
	return find(t, x, search.Query{Text: words, Limit: 100}).Total
}

func TestIncremental(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		w.say("cli:direct", record(llm.User, fmt.Sprint("apple ", i)))
		if got := count(t, w.index, "apple"); got != i+1 {
			t.Fatalf("after message %d: %d hits", i, got)
		}
	}
	w.write("ws/memory/MEMORY.md", "an apple note\n")
	if got := count(t, w.index, "apple"); got != 6 {
		t.Errorf("with a note: %d hits, want 6", got)
	}
	w.write("ws/memory/MEMORY.md", "a pear note\n")
	if a, p := count(t, w.index, "apple"), count(t, w.index, "pear"); a != 5 || p != 1 {
		t.Errorf("changed note: apple %d, pear %d, want 5 and 1", a, p)
	}
	if err := os.Remove(filepath.Join(w.dir, "ws", "memory", "MEMORY.md")); err != nil {
		t.Fatal(err)
	}
	if got := count(t, w.index, "pear"); got != 0 {
		t.Errorf("removed note: %d hits", got)
	}
	w.with("cli:direct", func(s *session.Session) error { return s.Clear() })
	w.say("cli:direct", record(llm.User, "apple anew"))
	res := find(t, w.index, search.Query{Text: "apple", Limit: 20})
	archived := 0
	for _, h := range res.Hits {
		if h.Source == "archive" && h.Session == "cli:direct" {
			archived++
		}
	}
	if res.Total != 6 || archived != 5 {
		t.Errorf("after a new beginning: %d hits, %d archived, want 6 and 5", res.Total, archived)
	}
}

// What lies before the live part goes to the archive, the rest stays: nothing
// is lost or found twice.
func TestCompactedLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 20 {
		w.say("cli:direct", record(llm.User, fmt.Sprint("plum ", i)), record(llm.Assistant, fmt.Sprint("plum answer ", i)))
	}
	if got := count(t, w.index, "plum"); got != 40 {
		t.Fatalf("%d hits, want 40", got)
	}
	w.with("cli:direct", func(s *session.Session) error {
		if err := s.SetReplay(20); err != nil {
			return err
		}
		return s.Compact()
	})
	if _, err := os.Stat(filepath.Join(w.store.Dir(), "archive")); err != nil {
		t.Fatalf("nothing was archived: %v", err)
	}
	if got := count(t, w.index, "plum"); got != 40 {
		t.Errorf("after the move: %d hits, want 40", got)
	}
}

func TestOldSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("ws/sessions/telegram_7.jsonl", `{"_type":"metadata","created_at":"2025-01-01T00:00:00","metadata":{}}
{"role":"user","content":"quince jam","timestamp":"2025-01-01T10:00:00"}
`)
	res := find(t, w.index, search.Query{Text: "quince"})
	if len(res.Hits) != 1 || res.Hits[0].Session != "telegram:7" || res.Hits[0].Time.Year() != 2025 {
		t.Errorf("got %+v", res.Hits)
	}
}

func TestRebuild(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
	}{
		{"deleted", func(t *testing.T, path string) {
			for _, s := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(path + s); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
		}},
		{"not a database", func(t *testing.T, path string) {
			if err := os.WriteFile(path, bytes.Repeat([]byte("garbage "), 2000), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"pages overwritten", func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := 4096; i < len(data); i++ {
				data[i] = 0xa5
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"cut short", func(t *testing.T, path string) {
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
		}},
		{"other version", func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte{0, 0, 0, 99}, 60); err != nil { // user_version
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i := range 30 {
				w.say("cli:direct", record(llm.User, fmt.Sprint("melon ", i)))
			}
			if got := count(t, w.index, "melon"); got != 30 {
				t.Fatalf("%d hits, want 30", got)
			}
			if err := w.index.Close(); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, w.options().Path)
			w.say("cli:direct", record(llm.User, "melon again"))
			if got := count(t, w.open(), "melon"); got != 31 {
				t.Errorf("%d hits, want 31", got)
			}
		})
	}
}

// An index that is dropped while others have it open is found again by them.
func TestReplacedWhileOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.say("cli:direct", record(llm.User, "fig one"))
	other := w.open()
	for _, x := range []*search.Index{w.index, other} {
		if got := count(t, x, "fig"); got != 1 {
			t.Fatalf("%d hits, want 1", got)
		}
	}
	for _, s := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(w.options().Path + s); err != nil && !os.IsNotExist(err) {
			t.Skipf("an open file cannot be removed here: %v", err)
		}
	}
	w.say("cli:direct", record(llm.User, "fig two"))
	for _, x := range []*search.Index{w.index, other} {
		if got := count(t, x, "fig"); got != 2 {
			t.Errorf("%d hits, want 2", got)
		}
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.say("cli:direct", record(llm.User, "I live at 12 Hidden Lane"), record(llm.Assistant, "Noted: 12 hidden lane."), record(llm.User, "a lane, hidden"))
	w.write("data/history.jsonl", `{"cursor":1,"timestamp":"2026-02-01 10:00","content":"Lives at 12 Hidden Lane","session_key":"cli:direct","scope":"x"}`+"\n")
	w.write("data/index/x.db.forgotten", "0123") // of a process that died
	gone, err := w.index.Forget(t.Context(), "12 HIDDEN lane")
	if err != nil || len(gone) != 3 {
		t.Fatalf("forgot %d (%v), want 3: %+v", len(gone), err, gone)
	}
	check := func(x *search.Index) {
		t.Helper()
		if got := find(t, x, search.Query{Text: "hidden", Everyone: true}); got.Total != 1 {
			t.Errorf("%d hits left, want 1: %+v", got.Total, got.Hits)
		}
	}
	check(w.index)
	if data, err := os.ReadFile(w.options().Path + ".forgotten"); err != nil || bytes.Contains(bytes.ToLower(data), []byte("hidden")) {
		t.Errorf("what is kept about it: %q, %v", data, err)
	}
	// It does not come back with a new index, nor from the archive.
	w.with("cli:direct", func(s *session.Session) error { return s.Clear() })
	if err := w.index.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.options().Path); err != nil {
		t.Fatal(err)
	}
	check(w.open())
	if _, err := w.open().Forget(t.Context(), " ?"); !errors.Is(err, search.ErrEmpty) {
		t.Errorf("error %v, want ErrEmpty", err)
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	xs := []*search.Index{w.index, w.open(), w.open()}
	for i := range 20 {
		w.say("cli:direct", record(llm.User, fmt.Sprint("olive ", i)))
		for _, x := range xs {
			wg.Go(func() {
				if _, err := x.Search(t.Context(), search.Query{Text: "olive", Wait: true}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for _, x := range xs {
		if got := count(t, x, "olive"); got != 20 {
			t.Errorf("%d hits, want 20", got)
		}
	}
}

// A process that is killed at any moment leaves an index that others use.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sessions"), 0o700); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	const n = 300
	for i := range n {
		fmt.Fprintf(&log, `{"role":"user","content":"lemon number %d and some more words","ts":%d}`+"\n", i, 1770000000000+i*1000)
	}
	if err := os.WriteFile(filepath.Join(dir, "sessions", "a.jsonl"), []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Let it go on for a different number of steps each time.
		if _, err := out.Read(make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		for range round {
			if _, err := out.Read(make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		x, err := search.Open(search.Options{Path: filepath.Join(dir, "x.db"), Store: disk.Open(dir, nil), Sessions: "sessions"})
		if err != nil {
			t.Fatal(err)
		}
		res := find(t, x, search.Query{Text: "lemon", Limit: 1})
		if res.Total != n {
			t.Errorf("round %d: %d hits, want %d", round, res.Total, n)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
