package deliver_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// guestbook is a platform whose clients come and go.
type guestbook struct {
	mu   sync.Mutex
	here map[string]bool
}

func (g *guestbook) set(chatID string, here bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.here[chatID] = here
}

func (g *guestbook) fail(_ string, out bus.Outbound) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if out.Kind.Durable() && !g.here[out.Route.ChatID] {
		return chat.ErrAway
	}
	return nil
}

func answer(chatID string, n int) bus.Outbound {
	return bus.Outbound{ID: fmt.Sprint(chatID, "/", n), Kind: bus.Final, Route: bus.Route{Channel: "a", ChatID: chatID}, Text: fmt.Sprint(n)}
}

// Answers to a client that is away stay in the queue, for longer than a day and
// over restarts, and reach it in their order when it is back.
func TestAnswersWaitForTheirClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := &guestbook{here: map[string]bool{}}
		p := &platform{caps: chat.Caps{Whole: true}, fail: book.fail}
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(answer("x", 1))
		r.publish(bus.Outbound{Kind: bus.Delta, Route: bus.Route{Channel: "a", ChatID: "x"}, Text: "of nobody", StreamID: "s"})
		two := answer("x", 2)
		two.Streamed = true
		r.publish(two)
		time.Sleep(72 * time.Hour)
		r.kill()
		r.publish(answer("x", 3))
		time.Sleep(72 * time.Hour)
		synctest.Wait()
		if got := p.texts("send"); got != nil {
			t.Fatalf("sent %v although no client is there", got)
		}
		if n := r.m.Status()[0].Queue; n != 3 {
			t.Errorf("%d answers wait, want 3", n)
		}

		book.set("x", true)
		p.deps.Back(bus.Route{Channel: "a", ChatID: "x"})
		synctest.Wait()
		if diff := cmp.Diff([]string{"1", "2", "3"}, p.texts("send")); diff != "" {
			t.Errorf("sent when the client was back (-want +got):\n%s", diff)
		}
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d answers are left in the queue", n)
		}
	})
}

// Clients that never come back do not fill the outbox: the oldest answers are
// given up, and other chats go on.
func TestAnswersForNobodyAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := &guestbook{here: map[string]bool{}}
		p := &platform{caps: chat.Caps{Whole: true}, fail: book.fail}
		r := newRig(t, map[string]*platform{"a": p})
		const n = 1100
		for i := range n {
			r.publish(answer(fmt.Sprint("c", i), i))
			time.Sleep(time.Millisecond)
		}
		if got := r.m.Status()[0].Queue; got != 1024 {
			t.Errorf("%d answers wait, want 1024", got)
		}
		for _, chatID := range []string{"c0", fmt.Sprint("c", n-1)} {
			book.set(chatID, true)
			p.deps.Back(bus.Route{Channel: "a", ChatID: chatID})
			synctest.Wait()
		}
		if diff := cmp.Diff([]string{fmt.Sprint(n - 1)}, p.texts("send")); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}
