package socket

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// A temporary chat of a page waits for its device, and for no other.
func TestTemporaryChatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(time.Now, chat.Filters{})
		connect := func(device string) *socket {
			s := &socket{person: person{client: "page", device: device, proven: true}, wake: make(chan struct{}, 1), places: map[*conversation]*place{}}
			h.join(s)
			return s
		}
		kept := func() (chats, away int) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(h.chats), h.away
		}
		const id = privatePrefix + "1"
		first := connect("phone")
		if _, ok := h.openPrivate(first, id); !ok {
			t.Fatal("no temporary chat")
		}
		h.update(id, func(c *conversation) { c.private.record(bus.RoleUser, "one", true) })
		h.leave(first)
		h.send(bus.Outbound{Kind: bus.Message, Route: bus.Route{ChatID: id}, ID: "m", Text: "while it was away"}, nil)

		time.Sleep(awayTime - time.Second)
		if _, ok := h.attach(connect("laptop"), id, 0, true); ok {
			t.Error("another device has it")
		}
		if _, ok := h.attach(connect(""), id, 0, true); ok {
			t.Error("a program has it")
		}
		second := connect("phone")
		if a, ok := h.attach(second, id, h.chats[id].ring.last-1, true); !ok || !a.complete {
			t.Fatalf("its device came back: %v %+v", ok, a)
		}
		time.Sleep(2 * awayTime)
		synctest.Wait()
		if c := h.chats[id]; c == nil || len(c.private.history) != 1 || h.away != 0 {
			t.Fatalf("what is left of it: %+v, %d wait", c, h.away)
		}

		h.leave(second)
		time.Sleep(awayTime + time.Second)
		synctest.Wait()
		if _, ok := h.attach(connect("phone"), id, 0, true); ok || h.chats[id] != nil || h.away != 0 {
			t.Errorf("still there after its time: %v, %d wait", ok, h.away)
		}

		program := connect("")
		h.openPrivate(program, id)
		h.leave(program)
		if h.chats[id] != nil {
			t.Error("a program's chat outlives its connection")
		}
		for range maxAway + 1 {
			s := connect("phone")
			h.openPrivate(s, privatePrefix+newChatID())
			h.leave(s)
		}
		if chats, away := kept(); chats != maxAway || away != maxAway {
			t.Errorf("%d chats are kept, %d wait, want %d", chats, away, maxAway)
		}
		time.Sleep(awayTime + time.Second)
		synctest.Wait()
	})
}
