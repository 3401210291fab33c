package websocket

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
)

const (
	// privatePrefix begins the ids of private chats. A chat with such an id
	// that is not known is over.
	privatePrefix = "temp-"

	maxSaid      = 64 // messages of a private chat that the agent is told
	maxSaidBytes = 256 << 10
	maxPrivate   = 16 // private chats of one connection
)

// private is a chat that is kept nowhere but here and dies with the connection
// that opened it.
type private struct {
	owner   *socket
	history []bus.Said
	bytes   int
}

// said remembers a message, forgetting the oldest. Clean says that no words
// from outside were in it or before the model that wrote it.
func (p *private) said(role, text string, clean bool) {
	if text == "" {
		return
	}
	p.history = append(p.history, bus.Said{Role: role, Text: text, Clean: clean})
	p.bytes += len(text)
	for len(p.history) > maxSaid || p.bytes > maxSaidBytes && len(p.history) > 1 {
		p.bytes -= len(p.history[0].Text)
		p.history = p.history[1:]
	}
}

// openPrivate begins a private chat, unless the connection has too many.
func (h *hub) openPrivate(s *socket, id string) (attached, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for c := range s.places {
		if c.private != nil {
			n++
		}
	}
	if n >= maxPrivate {
		return attached{}, false
	}
	c := h.chat(id)
	c.private = &private{owner: s}
	p := &place{seq: c.ring.last, begin: c.ring.last}
	c.sockets[s], s.places[c] = p, p
	return attached{seq: c.ring.last}, true
}

// attachFor is attach for an id that a client names: a private chat must be
// its own and still there.
func (h *hub) attachFor(s *socket, id string, after int64, resume bool) (attached, bool) {
	if strings.HasPrefix(id, privatePrefix) {
		h.mu.Lock()
		c := h.chats[id]
		mine := c != nil && c.private != nil && c.private.owner == s
		h.mu.Unlock()
		if !mine {
			return attached{}, false
		}
	}
	return h.attach(s, id, after, resume)
}

// discardPrivate ends a private chat.
func (h *hub) discardPrivate(s *socket, id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.chats[id]
	if c == nil || c.private == nil || c.private.owner != s {
		return false
	}
	h.detach(s, c)
	return true
}

func (r *receiver) openPrivate() {
	id := privatePrefix + newChatID()
	a, ok := r.c.hub.openPrivate(r.socket, id)
	if !ok {
		r.problem("too_many_temporary_chats", "", nil)
		return
	}
	r.reply(newFrame(evAttached, id, 64).number("seq", a.seq).flag("temporary", true))
}

func (r *receiver) discard(e *envelope) {
	if !r.c.hub.discardPrivate(r.socket, e.ChatID) {
		r.problem("invalid chat_id", "not a temporary chat of this connection", e)
		return
	}
	r.reply(newFrame(evUpdated, e.ChatID, 32).text("scope", "discarded"))
}
