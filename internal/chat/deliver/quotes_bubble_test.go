package deliver_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// What a message said is found by its id, in its own chat: what came in, what
// we sent, and what became of it by edits.
func TestQuoted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		p.caps.Quotes, p.caps.MaxMedia = true, 1000
		r := newRig(t, map[string]*platform{"a": p})
		find := func(chatID, id, want string) chat.Quoted {
			t.Helper()
			m, ok := p.deps.Quoted(route("a", chatID), id)
			if ok != (want != "") || m.Text != want {
				t.Errorf("message %s of %s: %q, %v; want %q", id, chatID, m.Text, ok, want)
			}
			return m
		}

		in := bus.Inbound{ID: "a:1", Route: route("a", "c"), SenderID: "ann", Text: "look", Media: []bus.Media{{Path: "cat.jpg"}}}
		in.Route.MessageID = "in1"
		if err := p.submit(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if m := find("c", "in1", "look"); m.SenderID != "ann" || len(m.Media) != 1 {
			t.Errorf("found %+v", m)
		}
		find("d", "in1", "")

		r.publish(final("1", "c", "a cat"))
		time.Sleep(time.Second)
		sent := p.saw("send")
		if len(sent) != 1 {
			t.Fatalf("sent %v", sent)
		}
		if m := find("c", sent[0].ID, "a cat"); m.SenderID != "" {
			t.Errorf("our own message is of %q", m.SenderID)
		}

		r.publish(delta("e", "s", "it "))
		time.Sleep(3 * time.Second)
		r.publish(delta("e", "s", "grows"))
		time.Sleep(3 * time.Second)
		find("e", p.saw("send")[1].ID, "it grows")

		for i := range 200 {
			r.publish(final(fmt.Sprint("more", i), "c", strings.Repeat("x", 5000)))
		}
		time.Sleep(time.Hour)
		find("c", "in1", "")
		all := p.saw("send")
		if m, ok := p.deps.Quoted(route("a", "c"), all[len(all)-1].ID); !ok || len(m.Text) > 4004 {
			t.Errorf("the last message: %d characters, %v", len(m.Text), ok)
		}
	})
}
