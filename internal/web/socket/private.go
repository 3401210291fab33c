package socket

import (
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

const (
	// privatePrefix begins the ids of private chats. A chat with such an id
	// that is not known is over.
	privatePrefix = "temp-"

	maxSaid      = 64 // messages of a private chat that the agent is told
	maxSaidBytes = 256 << 10
	maxPrivate   = 16 // private chats of one connection
	maxAway      = 64 // private chats that wait for their device

	awayTime = 2 * time.Minute // for which they do
)

// private is a chat that is kept nowhere but here. It dies with the connection
// that opened it; that of a page waits a while for the same device.
type private struct {
	owner   *socket
	history []bus.Said
	bytes   int
	away    *time.Timer // ends the chat, while no connection listens to it
}

// of reports whether a chat is that of a connection.
func (p *private) of(s *socket) bool {
	return p.owner == s || s.device != "" && s.device == p.owner.device
}

// leavePrivate lets a chat without a connection wait, or ends it. The caller
// holds mu.
func (h *hub) leavePrivate(c *conversation) {
	if c.private.owner.device == "" || h.away >= maxAway {
		delete(h.chats, c.id)
		return
	}

	h.away++
	var end *time.Timer
	end = time.AfterFunc(awayTime, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if c.private.away == end {
			h.returned(c)
			delete(h.chats, c.id)
		}
	})

	c.private.away = end
}

// returned ends the wait of a private chat, if it waits. The caller holds mu.
func (h *hub) returned(c *conversation) {
	if c.private.away != nil {
		c.private.away.Stop()
		c.private.away = nil
		h.away--
	}
}

// record stores a message and drops the oldest. Clean says that no words
// from outside were in it or before the model that wrote it.
func (p *private) record(role, text string, clean bool) {
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

// discardPrivate ends a private chat.
func (h *hub) discardPrivate(s *socket, id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	c := h.chats[id]
	if c == nil || c.private == nil || !c.private.of(s) {
		return false
	}

	for other := range c.sockets {
		delete(other.places, c)
	}

	for _, e := range c.ring.events {
		e.release()
	}

	h.returned(c)
	delete(h.chats, id)
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
