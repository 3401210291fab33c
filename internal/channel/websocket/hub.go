package websocket

import (
	"container/list"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
)

const (
	maxChats  = 4096    // remembered although nobody is connected to them
	maxBytes  = 4 << 20 // of all their events
	maxPeers  = 1024    // connections at once
	maxPlaces = 4096    // chats that one connection listens to
	replyRoom = 256     // answers that wait for one connection
)

// hub knows the chats and who listens to which.
//
// Nothing is queued per connection: each has a place in the ring of every chat
// it listens to, and its writer takes what comes after. A connection that
// falls so far behind that the ring has moved on is closed; it can come back
// and ask for the rest.
type hub struct {
	now   func() time.Time
	older channel.Filters // what clients get who cannot tell it from an answer

	mu    sync.Mutex
	chats map[string]*chat
	idle  *list.List // of *chat nobody listens to, longest unused first
	bytes int        // kept in idle chats
	peers map[*socket]bool
}

// chat is one conversation.
type chat struct {
	id       string
	ring     ring
	sockets  map[*socket]*place
	idle     *list.Element
	weight   int       // of what it counts in hub.bytes
	turn     string    // message that is being worked on, "" if none
	since    time.Time // when that began
	stop     string    // message that ends the turn without its answer: /stop
	thinking bool      // the last text was reasoning
	model    string    // that worked on it last, as clients were told
	accepted []string  // ids of the last messages
	private  *private  // of a chat that is kept nowhere
}

// place is how far a connection has got in a chat.
type place struct {
	seq   int64
	floor int64 // what was gone up to here is known to be missing
	dirty bool  // in the list of the socket
}

func newHub(now func() time.Time, older channel.Filters) *hub {
	return &hub{now: now, older: older, chats: map[string]*chat{}, idle: list.New(), peers: map[*socket]bool{}}
}

// chat returns a chat that is in use from now on; the caller holds mu and
// calls rest afterwards.
func (h *hub) chat(id string) *chat {
	c := h.chats[id]
	if c == nil {
		first := h.now().UnixMicro()
		c = &chat{id: id, ring: ring{last: first, gone: first}, sockets: map[*socket]*place{}}
		h.chats[id] = c
	}
	return c
}

// rest puts a chat nobody listens to where it will be forgotten one day.
func (h *hub) rest(c *chat) {
	if c.idle != nil {
		h.bytes -= c.weight
		h.idle.Remove(c.idle)
		c.idle = nil
	}
	if len(c.sockets) > 0 {
		return
	}
	if len(c.ring.events) == 0 && c.turn == "" {
		delete(h.chats, c.id)
		return
	}
	c.weight = c.ring.bytes + 512
	h.bytes += c.weight
	c.idle = h.idle.PushBack(c)
	for h.idle.Len() > maxChats || h.bytes > maxBytes && h.idle.Len() > 1 {
		old, _ := h.idle.Remove(h.idle.Front()).(*chat)
		h.bytes -= old.weight
		delete(h.chats, old.id)
	}
}

// join takes a connection in, unless there are too many.
func (h *hub) join(s *socket) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.peers) >= maxPeers {
		return false
	}
	h.peers[s] = true
	return true
}

// leave takes a connection out of everything.
func (h *hub) leave(s *socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.peers, s)
	for c := range s.places {
		h.detach(s, c)
	}
}

func (h *hub) detach(s *socket, c *chat) {
	delete(c.sockets, s)
	delete(s.places, c)
	if len(c.sockets) == 0 {
		for _, e := range c.ring.events {
			e.release()
		}
	}
	if c.private != nil && c.private.owner == s {
		delete(h.chats, c.id)
		return
	}
	c.ring.trim(c.passed())
	h.rest(c)
}

// passed is the number all connections have got.
func (c *chat) passed() int64 {
	low := c.ring.last
	for _, p := range c.sockets {
		low = min(low, p.seq)
	}
	return low
}

// release lets the sender of an event go on.
func (e *event) release() {
	if e.written != nil {
		close(e.written)
		e.written = nil
	}
}

// attached is what a connection is told about a chat it listens to now.
type attached struct {
	seq      int64
	complete bool // nothing was missed since the number that was asked for
	turn     string
	since    time.Time
}

// attach lets a connection listen to a chat. With resume it begins after
// number after, as far as that is kept. It reports false for somebody else's
// private chat, and for one chat too many.
func (h *hub) attach(s *socket, id string, after int64, resume bool) (attached, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.chat(id)
	if c.private != nil && c.private.owner != s || c.sockets[s] == nil && len(s.places) >= maxPlaces {
		h.rest(c)
		return attached{}, false
	}
	begin, complete := c.ring.start(), true
	if resume {
		// Numbers from an earlier life of this chat are lower than all of ours:
		// then everything that is kept comes, and nobody knows what is missing.
		complete = after >= c.ring.gone && after <= c.ring.last
		if after <= c.ring.last {
			begin = after
		}
	}
	p := c.sockets[s]
	if p == nil {
		p = &place{seq: begin}
		c.sockets[s], s.places[c] = p, p
	} else if resume {
		p.seq = begin
	}
	p.floor = c.ring.gone
	h.rest(c)
	s.mark(c, p)
	return attached{seq: c.ring.last, complete: complete, turn: c.turn, since: c.since}, true
}

// forget drops what happened in a chat, as if it had never been.
func (h *hub) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.chats[id]
	if c == nil {
		return
	}
	for _, e := range c.ring.events {
		e.release()
	}
	c.ring.events, c.ring.bytes, c.ring.gone = nil, 0, c.ring.last
	for _, p := range c.sockets {
		p.seq = c.ring.last
	}
	h.rest(c)
}

// crowded reports whether a connection listens to as many chats as it may.
func (h *hub) crowded(s *socket) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(s.places) >= maxPlaces
}

// update does something to a chat and wakes who listens to it.
func (h *hub) update(id string, do func(c *chat)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.chat(id)
	do(c)
	h.spread(c)
}

// spread wakes the connections of a chat and keeps its ring in bounds. The
// caller holds mu.
func (h *hub) spread(c *chat) {
	if len(c.ring.events) > keepEvents || c.ring.bytes > keepBytes {
		c.ring.trim(c.passed())
	}
	for s, p := range c.sockets {
		s.mark(c, p)
	}
	if len(c.sockets) == 0 {
		h.rest(c)
	}
}

// send puts an Outbound into its chat. For one that must be delivered the
// channel it returns is closed when a connection has got it or nobody listens;
// nil means so already.
func (h *hub) send(out bus.Outbound, m *media) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.chats[out.Route.ChatID]
	durable := out.Kind.Durable()
	switch {
	case c == nil && (!durable || strings.HasPrefix(out.Route.ChatID, privatePrefix)):
		return nil // nobody was here since the start, or the chat was given up
	case c == nil:
		c = h.chat(out.Route.ChatID)
	}
	if durable {
		if e := c.ring.find(out.ID); e != nil { // sent again
			return e.wait(len(c.sockets) > 0)
		}
	}
	e := c.show(out, m, h)
	var wait <-chan struct{}
	if durable && e != nil {
		wait = e.wait(len(c.sockets) > 0)
	}
	h.spread(c)
	return wait
}

func (e *event) wait(listeners bool) <-chan struct{} {
	if e.seen || !listeners {
		return nil
	}
	if e.written == nil {
		e.written = make(chan struct{})
	}
	return e.written
}

// await waits for what send returned.
func await(ctx context.Context, done <-chan struct{}) error {
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
