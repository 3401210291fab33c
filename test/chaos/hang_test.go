//go:build unix

package chaos_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/chattest/venue"
)

// TestHangingPlatform lets one platform after the other accept calls without an
// answer. Meanwhile all messages on the other platforms are answered; its own
// are answered when it works again.
func TestHangingPlatform(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	const chats, wait = 3, 10 * time.Minute
	l := newLuck(1)
	l.mend()
	m := newModel(t, l)
	venues := venue.Five(chats)
	g := platformGateway(t, m, venues)
	g.start()
	eventually(t, g, "the bot is on all platforms", func() bool {
		for _, v := range venues {
			if !v.Ready() {
				return false
			}
		}
		return true
	})

	for hung, where := range venues {
		said := make([][][]string, len(venues))
		ask := func(v int) {
			for c := range chats {
				name := fmt.Sprintf("c%dn%d;", 100*v+c, hung)
				said[v] = append(said[v], []string{name})
				venues[v].Say(c, "please answer "+name)
			}
		}
		until := make(chan struct{})
		where.Line.Stall(until)
		ask(hung)
		eventually(t, g, where.Name+" hangs", func() bool { return where.Line.Stalled() > 0 })
		own := said[hung]
		said[hung] = nil
		for v := range venues {
			if v != hung {
				ask(v)
			}
		}
		settle(t, g, venues, said, wait)

		for c := range chats {
			if shown := whole(where.Shown(c)); strings.Contains(shown, own[c][0]) {
				t.Errorf("%s hangs, but shows %s", where.Name, shown)
			}
		}
		where.Line.Stall(nil)
		close(until)
		said[hung] = own
		settle(t, g, venues, said, wait)
	}
	g.stop()
	if bad, _ := g.complaints(); len(bad) > 0 {
		t.Errorf("log: %s", strings.Join(bad, "\n"))
	}
}

func eventually(t *testing.T, g *gateway, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); !ok(); hold(t.Context(), 20*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within ten minutes: %s\n%s", what, tail(g.out.String()))
		}
	}
}
