package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// Texts are taken out of every log, also of archives, without moving anything in
// them; another store that has the session in memory sees it.
func TestScrub(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, storetest.Disk, dir)
	const key, blank = "sk-ant-api03-secret", "[redacted:key]*****"
	for _, name := range []string{"k", strings.Repeat("long", 60)} {
		s := acquire(t, st, name)
		must(t, s.BeginTurn("t", user("use "+key+" please")))
		must(t, s.Clear())
		must(t, s.BeginTurn("t", user("first")))
		must(t, s.Append(user("again "+key+" and "+key)))
		must(t, s.EndTurn())
		must(t, s.Release())
	}

	logs, err := Logs(t.Context(), filepath.Join(dir, "data"))
	if err != nil || len(logs) != 4 {
		t.Fatalf("Logs = %q, %v", logs, err)
	}
	if _, err := Scrub(t.Context(), logs[0], map[string]string{"a": "bc"}); err == nil {
		t.Error("a text of another length was accepted")
	}
	for _, path := range logs {
		before, err := os.Stat(path)
		must(t, err)
		changed, err := Scrub(t.Context(), path, map[string]string{key: blank})
		if err != nil || !changed {
			t.Errorf("Scrub(%s) = %v, %v", path, changed, err)
		}
		after, err := os.Stat(path)
		must(t, err)
		if before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) || os.SameFile(before, after) {
			t.Errorf("%s: %d bytes of %s, then %d of %s", path, before.Size(), before.ModTime(), after.Size(), after.ModTime())
		}
		data, err := os.ReadFile(path)
		must(t, err)
		if strings.Contains(string(data), key) || !strings.Contains(string(data), blank) {
			t.Errorf("%s holds %s", path, data)
		}
		if changed, err := Scrub(t.Context(), path, map[string]string{key: blank}); err != nil || changed {
			t.Errorf("again: %v, %v", changed, err)
		}
	}
	want := []string{"user:first", "user:again " + blank + " and " + blank}
	for _, store := range []*Store{st, openStore(t, storetest.Disk, dir)} {
		s := acquire(t, store, "k")
		if diff := cmp.Diff(want, gist(s.Messages())); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
		must(t, s.Append(user("more")))
		want = append(want, "user:more")
		must(t, s.Release())
	}
	if list, err := st.List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("List = %v, %v", list, err)
	}
}

// A conversation that is in use is left alone.
func TestScrubWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, storetest.Disk, dir)
	s := acquire(t, st, "k")
	must(t, s.BeginTurn("t", user("secret")))
	logs, err := Logs(t.Context(), filepath.Join(dir, "data"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("Logs = %q, %v", logs, err)
	}
	if err := s.slot.free(); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockLog(t.Context(), logs[0])
	must(t, err)
	if _, err := st.state.Lock(t.Context(), s.slot.name); err == nil {
		t.Error("the lock of the session was not the one that Scrub takes")
	}
	must(t, unlock())
	s.slot.free, err = st.state.Lock(t.Context(), s.slot.name)
	must(t, err)
	must(t, s.Release())
}
