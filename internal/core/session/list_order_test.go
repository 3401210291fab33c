package session

import (
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// The order of the list is that of the messages: what the program does with a log
// by itself does not move a conversation to the top.
func TestListOrder(t *testing.T) { storetest.Each(t, testListOrder) }

func testListOrder(t *testing.T, open storetest.Open) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	st := openStore(t, open, t.TempDir(), func(o *Options) { o.Now = func() time.Time { return now } })
	say := func(key string) {
		t.Helper()
		s := acquire(t, st, key)
		must(t, s.Append(user("one of "+key), user("two of "+key)))
		must(t, s.Release())
		now = now.Add(time.Hour)
	}
	say("old")
	say("new")

	changes := map[string]func(*Session) error{
		"a title":      func(s *Session) error { return s.SetMeta(TitleKey, "A title") },
		"a compaction": func(s *Session) error { return s.Compact() },
	}
	for name, change := range changes {
		now = now.Add(time.Hour)
		s := acquire(t, st, "old")
		must(t, change(s))
		must(t, s.Release())
		list, err := st.List(t.Context())
		must(t, err)
		if len(list) != 2 || list[0].Key != "new" {
			t.Errorf("after %s of the old conversation the list begins with %q, want the one with the newest message", name, list[0].Key)
		}
	}
	say("old")
	if list, err := st.List(t.Context()); err != nil || list[0].Key != "old" {
		t.Errorf("after a message the list begins with %q (%v), want the conversation with the message", list[0].Key, err)
	}
}
