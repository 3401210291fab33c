package subject

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
)

// start reads the counts as a new process does.
func start(t *testing.T, dir string) *Unread {
	t.Helper()
	u := NewUnread(disk.Open(dir, nil), slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

func counts(t *testing.T, u *Unread, want map[string]int) {
	t.Helper()
	if got := u.all(t.Context()); !maps.Equal(got, want) {
		t.Errorf("counts are %v, want %v", got, want)
	}
}

// Counts are the same after a process died at any moment: before anything was counted,
// between two lines, within a line, and between the two writes that begin the log again.
func TestUnreadAfterAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx := t.Context()
	before := start(t, dir)
	counts(t, before, map[string]int{})

	before.Add(ctx, "telegram:7")
	before.Add(ctx, "telegram:7")
	before.Add(ctx, "slack:a")
	before.seen(ctx, "slack:a")
	before.Add(ctx, "slack:b")
	want := map[string]int{"telegram:7": 2, "slack:b": 1}
	counts(t, start(t, dir), want)

	log, err := os.OpenFile(filepath.Join(dir, unreadLog), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.WriteString(`{"key":"slack:b","n":9`); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, dir)
	counts(t, again, want)
	again.Add(ctx, "slack:b")
	want["slack:b"] = 2
	counts(t, start(t, dir), want)

	// The counts were written, and the log still has everything from before.
	doc := fmt.Appendf(nil, `{"telegram:7":2,"slack:b":2}`)
	if _, err := disk.Open(dir, nil).Put(ctx, unreadName, doc, store.Any, false); err != nil {
		t.Fatal(err)
	}
	counts(t, start(t, dir), want)
}

// The counts of the program before, which had no log, are read.
func TestUnreadFromADocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, unreadName), []byte(`{"telegram:7":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	u := start(t, dir)
	u.Add(t.Context(), "telegram:7")
	counts(t, start(t, dir), map[string]int{"telegram:7": 4})
}

// What an answer writes does not grow with what waits to be read, and neither file
// grows without end.
func TestUnreadStaysSmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u := start(t, dir)
	for i := range 6 * maxUnread {
		u.Add(t.Context(), fmt.Sprintf("websocket:%04d", i%(2*maxUnread)))
	}
	for name, most := range map[string]int64{unreadName: 32 * maxUnread, unreadLog: unreadBytes + 100} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > most {
			t.Errorf("%s has %d bytes, want at most %d", name, info.Size(), most)
		}
	}
	want := u.all(t.Context())
	if len(want) != maxUnread || want["websocket:0000"] != 3 {
		t.Fatalf("%d conversations are counted, the first one %d times", len(want), want["websocket:0000"])
	}
	counts(t, start(t, dir), want)
}

// Damaged files cost the counts in them and nothing else.
func TestUnreadDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		unreadName: "null",
		unreadLog:  "no JSON\n{\"key\":\"\",\"n\":1}\n{\"key\":\"a\",\"n\":2}\n{\"key\":\"b\",\"n\":-1}\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u := start(t, dir)
	counts(t, u, map[string]int{"a": 2})
	u.Add(t.Context(), "b")
	counts(t, start(t, dir), map[string]int{"a": 2, "b": 1})
}
