package session

import (
	"errors"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

func TestUnattended(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"cron:1": true, "trigger:a": true, "dream:2026-05-01": true, "heartbeat": true,
		"cron": false, "cronjob:1": false, "heartbeat:1": false, "cli:cron:1": false, "unified:default": false, "": false,
	} {
		if got := Unattended(key); got != want {
			t.Errorf("Unattended(%q) = %v", key, got)
		}
	}
}

// A name means the conversation that has it as its key before the one of the terminal.
func TestFind(t *testing.T) { storetest.Each(t, testFind) }

func testFind(t *testing.T, open storetest.Open) {
	t.Parallel()
	st := openStore(t, open, t.TempDir())
	for _, key := range []string{"work", "cli:work", "cli:direct"} {
		s := acquire(t, st, key)
		must(t, s.Append(user("hi"), answer("yes")))
		must(t, s.Release())
	}
	for name, want := range map[string]string{"work": "work", "cli:work": "cli:work", "direct": "cli:direct", "cli:direct": "cli:direct"} {
		if got, err := st.Find(t.Context(), name); got != want || err != nil {
			t.Errorf("Find(%q) = %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"other": "cli:other", "telegram:1": "telegram:1"} {
		if got, err := st.Find(t.Context(), name); got != want || !errors.Is(err, ErrNotFound) {
			t.Errorf("Find(%q) = %q, %v", name, got, err)
		}
	}
}
