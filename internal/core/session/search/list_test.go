package search

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
)

// Of many logs only the last to change are looked at every time; the others,
// and logs that come and go, must be noticed all the same.
func TestManyLogs(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	dir := filepath.Join(place, "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	x, err := Open(Options{Path: filepath.Join(t.TempDir(), "x.db"), Store: disk.Open(place, nil), Sessions: "logs"})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(-time.Hour)
	name := func(i int) string { return fmt.Sprintf("log%03d.jsonl", i) }
	write := func(i int, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name(i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err = f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range hotLogs + 8 {
		write(i, "x")
		if err := os.Chtimes(filepath.Join(dir, name(i)), begin, begin.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	sizes := func() map[string]int64 {
		t.Helper()
		files, err := x.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int64{}
		for _, s := range files {
			out[s.label[2:]] = s.info.Size
		}
		return out
	}
	age := func(by time.Duration) {
		seen := x.dirs["s/"]
		seen.looked = seen.looked.Add(by)
		x.dirs["s/"] = seen
	}
	if got := sizes(); len(got) != hotLogs+8 {
		t.Fatalf("%d logs, want %d", len(got), hotLogs+8)
	}
	age(time.Hour) // as if it had been just now, however slow this test is
	write(hotLogs+7, "yy")
	write(0, "yy")
	got := sizes()
	if got[name(hotLogs+7)] != 3 {
		t.Errorf("the last log has %d bytes, want 3", got[name(hotLogs+7)])
	}
	if got[name(0)] != 1 {
		t.Error("a log that was silent was looked at at once: this test tests nothing")
	}
	age(-2 * time.Hour)
	if got := sizes(); got[name(0)] != 3 {
		t.Errorf("the first log has %d bytes after a while, want 3", got[name(0)])
	}
	age(time.Hour)
	if err := os.Remove(filepath.Join(dir, name(3))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(dir, begin, begin); err != nil { // however coarse the clock of the disk is
		t.Fatal(err)
	}
	if _, there := sizes()[name(3)]; there {
		t.Error("a log that is gone is still listed")
	}
}

// Half a line of a crash, which stays until the next write, does not make every
// query look at the log again.
func TestTornLog(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	x, err := Open(Options{Path: filepath.Join(t.TempDir(), "x.db"), Store: disk.Open(place, nil), Sessions: "logs"})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := os.Mkdir(filepath.Join(place, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(place, "logs", "a.jsonl"), []byte("{\"role\":\"user\",\"content\":\"lemon\"}\n{\"role\":\"us"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := x.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := x.list(t.Context())
	if err != nil || len(files) != 1 || !x.current(t.Context(), files) {
		t.Errorf("%v, %v: the index is not up to date", files, err)
	}
}
