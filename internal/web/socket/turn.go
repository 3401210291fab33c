package socket

import (
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// reservation is what was known about a chat when a message came.
type reservation struct {
	starts   bool   // it begins a turn
	active   string // else the message whose turn goes on
	since    time.Time
	repeated bool // the client said it before
}

// reserve notes a message before it is handed over, because its answer may be
// here before the hand-over returns. Messages of a private chat get what was
// said in it. Known ones were handed over before, perhaps by a program that is no
// more; no turn comes of them.
func (h *hub) reserve(in *bus.Inbound, known bool) (r reservation) {
	h.mu.Lock()
	defer h.mu.Unlock()

	c := h.chat(in.Route.ChatID)
	id := in.Route.MessageID
	if c.private != nil {
		in.Stateless, in.History = true, slices.Clone(c.private.history)
	}

	if known || slices.Contains(c.accepted, id) {
		return reservation{active: c.turn, since: c.since, repeated: true}
	}

	if strings.EqualFold(strings.TrimSpace(in.Text), "/stop") {
		c.stop = id
	}

	if c.turn != "" {
		return reservation{active: c.turn, since: c.since}
	}

	c.turn, c.since = id, h.now()
	return reservation{starts: true, since: c.since}
}

// unreserve takes back the message that was not accepted.
func (h *hub) unreserve(in bus.Inbound, r reservation) {
	h.update(in.Route.ChatID, func(c *conversation) {
		if r.starts && c.turn == in.Route.MessageID {
			c.turn = ""
		}
		if c.stop == in.Route.MessageID {
			c.stop = ""
		}
	})
}

// accepted tells the others in the chat.
func (h *hub) accepted(from *socket, in bus.Inbound, r reservation, m *shownFiles) {
	if r.repeated {
		return
	}
	h.update(in.Route.ChatID, func(c *conversation) {
		id := in.Route.MessageID
		if c.accepted = append(c.accepted, id); len(c.accepted) > lastAccepted {
			c.accepted = slices.Delete(c.accepted, 0, 1)
		}
		if c.private != nil {
			c.private.record(bus.RoleUser, in.Text, !in.Foreign() && len(in.Media) == 0)
		}

		f := newFrame(evUser, c.id, len(in.Text)+64).must("text", in.Text).text("turn_id", visible(id)).text("client_id", from.client)
		if m != nil {
			f = m.append(f)
		}

		c.ring.add(&event{to: modern, except: from.home}, f)
		if r.starts && c.turn == id {
			c.ring.add(&event{to: modern}, runningFrame(c.id, id, c.since))
		}
	})
}

// announceRestart tells all connections that the program ends; their writers close
// them after that.
func (h *hub) announceRestart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.peers {
		if s.modern {
			s.replies = append(s.replies, newFrame(evRestarting, "", 0).end())
		}
		s.closing = true
		s.poke()
	}
}
