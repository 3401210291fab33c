package kit_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// Cursors survive a restart, are written seldom and are bounded. A crash may
// leave an old value, but forgets no chat.
func TestCursors(t *testing.T) { storetest.Each(t, testCursors) }

func testCursors(t *testing.T, open storetest.Open) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	reopen := func(account string) *kit.Cursors {
		t.Helper()
		d := chat.Deps{State: chat.OpenState(open(t, dir), "channels/a.json", nil), Now: func() time.Time { return now }}
		c, err := kit.OpenCursors(d, account)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	set := func(c *kit.Cursors, chatID, at string) {
		t.Helper()
		now = now.Add(time.Millisecond)
		if err := c.Set(chatID, at); err != nil {
			t.Fatal(err)
		}
	}

	c := reopen("bot")
	set(c, "one", "1")
	set(c, "two", "2")
	set(c, "two", "5")
	if c := reopen("bot"); c.Get("one") != "1" || c.Get("two") != "2" {
		t.Errorf("after a crash: %q, %q; want the first value of each chat", c.Get("one"), c.Get("two"))
	}
	now = now.Add(5 * time.Second)
	set(c, "one", "3")
	if c := reopen("bot"); c.Get("one") != "3" || c.Get("two") != "5" || !slices.Equal(c.Chats(), []string{"one", "two"}) {
		t.Errorf("after some seconds: %q, %q, %q", c.Get("one"), c.Get("two"), c.Chats())
	}
	set(c, "two", "4")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if c := reopen("bot"); c.Get("two") != "4" || !slices.Equal(c.Chats(), []string{"two", "one"}) {
		t.Errorf("after the end: %q, %q", c.Get("two"), c.Chats())
	}
	if c := reopen("another"); len(c.Chats()) != 0 {
		t.Errorf("another account has %q", c.Chats())
	}

	for i := range 1300 {
		set(c, "chat"+strconv.Itoa(i), "1")
	}
	if n := len(c.Chats()); n < 1000 || n > 1250 || c.Get("one") != "" || c.Get("chat1299") != "1" {
		t.Errorf("%d chats are kept, want the newest 1000 or some more", n)
	}
}
