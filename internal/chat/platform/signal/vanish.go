package signal

import (
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/bus"
)

const (
	vanishChats = 256
	vanishMost  = 40 // messages of one chat
)

// vanishing is what was said in chats whose messages disappear: it is kept in
// memory only, and not longer than the chat itself shows it.
type vanishing struct {
	now   func() time.Time
	mu    sync.Mutex
	chats *recent.Map[string, *vanishingChat]
}

type vanishingChat struct {
	lifetime time.Duration
	history  []bus.Said
	till     []time.Time
}

func newVanishing(now func() time.Time) *vanishing {
	return &vanishing{now: now, chats: recent.New[string, *vanishingChat](vanishChats)}
}

// prepare makes a message one of which nothing is kept.
func (v *vanishing) prepare(in *bus.Inbound, seconds int) {
	v.mu.Lock()
	defer v.mu.Unlock()

	c, _ := v.chats.Get(in.Route.ChatID)
	if c == nil {
		c = &vanishingChat{}
		v.chats.Put(in.Route.ChatID, c)
	}

	c.lifetime = time.Duration(seconds) * time.Second
	c.forget(v.now())
	in.Stateless, in.History = true, append([]bus.Said(nil), c.history...)
}

// heard remembers a message that arrived.
func (v *vanishing) heard(in bus.Inbound) {
	v.add(in.Route.ChatID, bus.Said{Role: bus.RoleUser, Text: in.Text, Clean: !in.Foreign() && len(in.Media) == 0})
}

// answered remembers an answer, if the chat is such a one.
func (v *vanishing) answered(out bus.Outbound) {
	if out.Kind == bus.Final {
		v.add(out.Route.ChatID, bus.Said{Role: bus.RoleAssistant, Text: out.Text, Clean: out.Turn != nil && out.Turn.Clean})
	}
}

func (v *vanishing) add(chat string, s bus.Said) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, _ := v.chats.Get(chat)
	if c == nil || s.Text == "" {
		return
	}
	c.history, c.till = append(c.history, s), append(c.till, v.now().Add(c.lifetime))
	c.forget(v.now())
}

func (c *vanishingChat) forget(now time.Time) {
	for len(c.history) > 0 && (len(c.history) > vanishMost || now.After(c.till[0])) {
		c.history, c.till = c.history[1:], c.till[1:]
	}
}
