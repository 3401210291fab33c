package deliver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Limits that the server tells hold for what waited for the connection, too,
// and only limits can be changed.
func TestRefine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{MaxChars: 1000, MaxMedia: 0, Refines: true}}
		p.run = func(ctx context.Context) error {
			time.Sleep(10 * time.Second)
			p.deps.Refine(func(c *chat.Caps) { c.MaxChars, c.MaxMedia, c.Whole = 100, 5, true })
			p.deps.Ready("bot", nil)
			time.Sleep(10 * time.Second)
			p.deps.Refine(func(c *chat.Caps) { c.MaxChars *= 5 })
			<-ctx.Done()
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		text := strings.TrimSpace(strings.Repeat("word ", 60))
		out := final("1", "c", text)
		out.Media = []bus.Media{{Path: "small.txt", Size: 5}, {Path: "large.txt", Size: 6}}
		r.publish(out)
		time.Sleep(9 * time.Second)
		if sent := p.saw("send"); len(sent) != 0 {
			t.Fatalf("before the limits were known %v was sent", sent)
		}
		time.Sleep(9 * time.Second)
		sent := p.saw("send")
		if len(sent) < 4 {
			t.Fatalf("sent %v, want parts of 100 characters", sent)
		}
		var all strings.Builder
		for _, e := range sent {
			all.WriteString(e.Text + " ")
			if len(e.Text) > 100 {
				t.Errorf("%q is too long", e.Text)
			}
		}
		if !strings.Contains(all.String(), "large.txt") || strings.Contains(all.String(), "small.txt") {
			t.Errorf("sent %q, want a note about the large file alone", all.String())
		}
		time.Sleep(10 * time.Second)
		r.publish(final("2", "c", text))
		time.Sleep(time.Second)
		if all := p.saw("send"); len(all) != len(sent)+1 || all[len(sent)].Text != text {
			t.Errorf("with a larger limit %v was sent, want one message more", all)
		}
	})
}
