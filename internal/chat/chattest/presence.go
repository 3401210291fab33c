//nolint:thelper // the cases are tests themselves: a failure belongs to the line in the case
package chattest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	typingEvery = 20 * time.Millisecond
	typingCalm  = 20 * typingEvery // without a sign: it has stopped
)

// eager is a channel that shows very often that it works, so that a test need
// not wait for the next time. It never streams.
type eager struct {
	chat.Channel
	mu *sync.Mutex
}

func (e eager) Caps() chat.Caps {
	c := e.Channel.Caps()
	c.Typing, c.EditEvery = typingEvery, 0
	return c
}

// Send implements chat.Channel, after the signals that were given before.
func (e eager) Send(ctx context.Context, out bus.Outbound) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Channel.Send(ctx, out)
}

// Signal implements chat.Signaller. One follows the other, even if one is
// given up: a network may deliver them in another order.
func (e eager) Signal(ctx context.Context, to bus.Route, phase chat.Phase) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s, ok := e.Channel.(chat.Signaller); ok && ctx.Err() == nil {
		return s.Signal(context.WithoutCancel(ctx), to, phase)
	}
	return nil
}

// Routes implements chat.Handler.
func (e eager) Routes() map[string]http.Handler {
	if h, ok := e.Channel.(chat.Handler); ok {
		return h.Routes()
	}
	return nil
}

// typingCase is how work on a message ends.
type typingCase struct {
	text string
	outs []bus.Outbound
}

// That the agent works is shown while it does, and no longer: not after the
// answer, an error or a stop, nor while a question waits.
func testTyping(t *testing.T, h *house) {
	h.need("Typing")
	h.end()
	h.wrap = func(ch chat.Channel) chat.Channel { return eager{ch, &sync.Mutex{}} }
	h.begin()
	release := make(chan []bus.Outbound)
	h.setReply(func(bus.Inbound) []bus.Outbound { return <-release })
	in := In{Sender: h.Owner, Chat: h.Chat(h.Owner)}
	if h.Thread != "" {
		in = In{Sender: h.Owner, Chat: h.Group, Thread: h.Thread, Group: true, Mentioned: true}
	}

	for i, c := range []typingCase{
		{"answered", []bus.Outbound{{Text: "answered"}}},
		{"failed", []bus.Outbound{{Text: "failed", Turn: &bus.Turn{StopReason: "error", Error: "no model"}}}},
		{"stopped", []bus.Outbound{{Text: "stopped", Turn: &bus.Turn{StopReason: "stopped"}}}},
		{"asked", []bus.Outbound{{ID: "ask:1", Kind: bus.Ask, Question: &bus.Question{
			ID: "q7", Code: "q7", Text: "asked", Options: []string{"Yes", "No"}, Expires: time.Now().Add(time.Hour),
		}}}},
	} {
		in.ID, in.Text = fmt.Sprint(1100+i), c.text
		before, _ := h.Typing(in.Chat, in.Thread)
		h.Deliver(t, in)
		h.await("typing before it is "+c.text, func() bool { n, _ := h.Typing(in.Chat, in.Thread); return n > before+1 })
		release <- c.outs
		h.await("the text "+c.text, func() bool { return strings.Contains(strings.Join(h.texts(in.Chat), " "), c.text) })
		h.calm("typing after it was "+c.text, func() (int, bool) { return h.Typing(in.Chat, in.Thread) })
	}
}

// calm waits until something does not happen any more and is not shown.
func (h *house) calm(what string, happens func() (times int, on bool)) {
	h.t.Helper()
	last, since := -1, time.Now()
	h.await("the end of "+what, func() bool {
		n, on := happens()
		if n != last || on {
			last, since = n, time.Now()
		}
		return time.Since(since) > typingCalm
	})
}

// A person whom the platform knows by two ids is one person: let in once, with
// one memory.
func testAliases(t *testing.T, h *house) {
	h.need("Stranger", "Alias")
	chatID := h.Chat(h.Stranger)
	h.Deliver(t, In{ID: "2100", Sender: h.Stranger, Also: h.Alias(h.Stranger), Chat: chatID, Text: "let me in"})
	h.await("the code", func() bool { return len(h.texts(chatID)) == 1 })
	h.write(1, "/pairing approve "+pairingCode(h.texts(chatID)[0]))
	h.await("the approval", func() bool { return len(h.texts(h.Chat(h.Owner))) == 1 })

	for i, in := range []In{
		{Sender: h.Stranger, Also: h.Alias(h.Stranger), Text: "by both"},
		{Sender: h.Alias(h.Stranger), Text: "by the second"},
		{Sender: h.Stranger, Text: "by the first"},
	} {
		in.ID, in.Chat = fmt.Sprint(2101+i), chatID
		h.Deliver(t, in)
		h.await("the answer to "+in.Text, func() bool { return slices.Contains(h.texts(chatID), "re: "+in.Text) })
	}

	scopes := map[string]bool{}
	for _, got := range h.received() {
		scopes[got.Scope+" "+got.SessionKey+" "+got.Route.ChatID] = true
	}

	if len(scopes) != 1 {
		t.Errorf("the person has %d memories: %v", len(scopes), scopes)
	}
	if waiting, _, err := h.m.Book().List(); err != nil || len(waiting) != 0 {
		t.Errorf("waiting %+v, %v, want none", waiting, err)
	}
}
