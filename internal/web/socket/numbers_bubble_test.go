package socket

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// processes are gateways that work with the same state, one after the other.
type processes struct {
	t    *testing.T
	file string // of the state
	now  time.Time
	last int64 // number that an event of the chat had
}

// live runs a process that says five things in a chat, each a number of events after
// the one before, and ends it: in order, or so that it writes nothing more.
func (p *processes) live(apart int64, killed bool) {
	p.t.Helper()
	d := deps(p.t, func() time.Time { return p.now })
	d.State = chat.OpenState(disk.Open(filepath.Dir(p.file), nil), filepath.Base(p.file), nil)
	c := build(p.t, d, Options{}, `{}`)
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, func(context.Context, bus.Inbound) error { return nil }) }()
	synctest.Wait()

	for i := range 5 {
		if at := c.hub.chats["c"]; at != nil {
			at.ring.last += apart - 1
		}
		c.hub.send(final("", "c", "", "x"), nil)
		number, _ := c.Seq("c")
		if number <= p.last {
			p.t.Fatalf("event %d has the number %d, but there was %d before", i, number, p.last)
		}
		p.last = number
		synctest.Wait() // more numbers are reserved, if they are needed
	}
	if p.last > 1<<53 {
		p.t.Errorf("%d is more than a page can count to", p.last)
	}

	kept, err := os.ReadFile(p.file)
	if err != nil {
		p.t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		p.t.Error(err)
	}
	if killed {
		if err := os.WriteFile(p.file, kept, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// Numbers go on after a restart, so that an old one never means something new:
// also with a clock that was set back, also after a kill.
func TestNumbersRiseOverRestarts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	synctest.Test(t, func(t *testing.T) {
		p := &processes{t: t, file: file, now: time.Unix(1_800_000_000, 0)}
		p.live(1, false)
		p.now = p.now.Add(-24 * time.Hour)
		p.live(1, true)
		p.now = p.now.Add(-24 * time.Hour)
		p.live(reservedNumbers/2, true) // together more than are reserved at once
		p.live(1, false)
		p.now = p.now.Add(72 * time.Hour)
		p.live(1, true)
	})
}

// A chat that was forgotten while the program runs goes on with its numbers.
func TestNumbersOfForgottenChat(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	h := newHub(func() time.Time { return now }, chat.Filters{})
	said := func() int64 {
		h.send(final("", "c", "", "x"), nil)
		return h.chats["c"].ring.last
	}
	before := said()
	delete(h.chats, "c")
	now = now.Add(-time.Hour)
	if after := said(); after <= before {
		t.Errorf("the number after %d is %d", before, after)
	}
}

// Events cost no write: one is good for very many of them.
func TestNumbersAreReservedRarely(t *testing.T) {
	t.Parallel()
	h := newHub(time.Now, chat.Filters{})
	h.numbers.low = make(chan struct{}, 1)
	h.numbers.reserved = h.numbers.highest + reservedNumbers
	for range reservedNumbers/2 - 1 {
		h.numbers.use(h.numbers.highest + 1)
	}
	if len(h.numbers.low) > 0 {
		t.Error("more numbers are asked for before half of them are used")
	}
	h.numbers.use(h.numbers.highest + 1)
	if len(h.numbers.low) == 0 {
		t.Error("no more numbers are asked for")
	}
}
