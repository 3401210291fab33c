package socket

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	maxChats  = 4096    // remembered although no client is connected to them
	maxBytes  = 4 << 20 // of all their events
	maxPlaces = 4096    // chats that one connection listens to
	replyRoom = 256     // answers that wait for one connection

	lastWait = 20 * time.Millisecond // for a connection to take an answer when the program ends
)

// hub knows the chats and who listens to which.
//
// Nothing is queued per connection: each has a place in the ring of every chat
// it listens to, and its writer takes what comes after. A connection that
// falls so far behind that the ring has moved on is closed; it can come back
// and ask for the rest.
type hub struct {
	now   func() time.Time
	older chat.Filters        // what clients get who cannot tell it from an answer
	back  func(chatID string) // told about each chat that a connection joins

	ending <-chan struct{} // closed when the program ends; nil: never

	mu      sync.Mutex
	numbers numbers
	chats   map[string]*conversation
	idle    *list.List      // of *conversation without a listener, longest unused first
	bytes   int             // kept in idle chats
	cut     map[string]bool // chats that were forgotten in the middle of an answer
	seats   int             // connections, also those that are about to be
	peers   map[*socket]bool
	away    int // private chats that wait for their device

	pausing bool // changes of topics are held back for a moment
}

// conversation is one chat.
type conversation struct {
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
	edited   string    // message whose turn changed files
	accepted []string  // ids of the last messages
	private  *private  // of a chat that is kept nowhere
	asked    []asked   // questions that are open
	used     frame     // what the turn has used so far, without a number
	stream   streaming
}

// asked is a question that waits for its answer.
type asked struct {
	id      string
	seq     int64 // number of its event
	expires time.Time
	frame   frame // without a number
}

// streaming is the text of the running turn.
type streaming struct {
	open   bool
	turn   string // message it answers
	before int64  // number before its first piece; -1 if its beginning was not kept
}

// place is how far a connection has got in a chat.
type place struct {
	seq   int64
	begin int64 // it has got, or gets, everything after this number
	floor int64 // what was gone up to here is known to be missing
	dirty bool  // in the list of the socket
}

func newHub(now func() time.Time, older chat.Filters) *hub {
	return &hub{
		now:   now,
		older: older,

		numbers: numbers{highest: now().UnixMicro()},

		back:  func(string) {},
		chats: map[string]*conversation{},
		idle:  list.New(),
		cut:   map[string]bool{},
		peers: map[*socket]bool{},
	}
}

// chat returns a chat that is in use from now on; the caller holds mu and
// calls rest afterwards.
func (h *hub) chat(id string) *conversation {
	c := h.chats[id]
	if c == nil {
		first := h.numbers.highest
		c = &conversation{id: id, ring: ring{numbers: &h.numbers, last: first, gone: first}, sockets: map[*socket]*place{}}
		h.chats[id] = c
	}
	return c
}

// Seq is the number of the last event of a chat, if it has any.
func (c *Channel) Seq(id string) (int64, bool) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if at := c.hub.chats[id]; at != nil {
		return at.ring.last, true
	}
	return 0, false
}

// unload moves a chat without a listener to those that may be forgotten.
func (h *hub) unload(c *conversation) {
	if c.idle != nil {
		h.bytes -= c.weight
		h.idle.Remove(c.idle)
		c.idle = nil
	}

	if len(c.sockets) > 0 || c.private != nil {
		return
	}
	if len(c.ring.events) == 0 && c.turn == "" || strings.HasPrefix(c.id, watchPrefix) {
		delete(h.chats, c.id)
		return
	}
	if slices.ContainsFunc(c.asked, func(q asked) bool { return h.now().Before(q.expires) }) {
		return // until the question is closed
	}

	c.weight = c.ring.bytes + 512
	h.bytes += c.weight
	c.idle = h.idle.PushBack(c)

	for h.idle.Len() > maxChats || h.bytes > maxBytes && h.idle.Len() > 1 {
		old, _ := h.idle.Remove(h.idle.Front()).(*conversation)
		h.bytes -= old.weight
		delete(h.chats, old.id)
		if old.stream.open {
			h.cut[old.id] = true // until the answer is complete
		}
	}
}

// seat reserves room for a connection before its handshake, unless there are
// that many.
func (h *hub) seat(most int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seats >= most {
		return false
	}
	h.seats++
	return true
}

func (h *hub) unseat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seats--
}

// join takes a connection in.
func (h *hub) join(s *socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.peers[s] = true
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

func (h *hub) detach(s *socket, c *conversation) {
	delete(c.sockets, s)
	delete(s.places, c)
	if len(c.sockets) == 0 {
		for _, e := range c.ring.events {
			e.release()
		}
		if c.private != nil {
			h.leavePrivate(c)
			return
		}
	}

	c.ring.trim(c.passed())
	h.unload(c)
}

// passed is the number all connections have got.
func (c *conversation) passed() int64 {
	low := c.ring.last
	if c.stream.open && c.stream.before >= 0 {
		low = c.stream.before // who joins gets all of the text
	}
	for _, p := range c.sockets {
		low = min(low, p.seq)
	}
	return low
}

// start is where a connection that knows nothing begins: where the ring says, but
// not behind the first byte of the text that is being streamed.
func (c *conversation) start() int64 {
	at := c.ring.start()
	if c.stream.open && c.stream.before >= c.ring.gone {
		at = min(at, c.stream.before)
	}
	return at
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
	seq      int64 // what follows has higher numbers
	complete bool  // nothing was missed since the number that was asked for
	turn     string
	since    time.Time
	asked    []frame // open questions from before
	used     frame   // by the turn so far
}

// attach lets a connection listen to a chat. With resume it begins after
// number after, as far as that is kept. It reports false for another client's
// private chat, and for one chat too many.
func (h *hub) attach(s *socket, id string, after int64, resume bool) (attached, bool) {
	a, ok := h.enter(s, id, after, resume)
	if ok {
		h.back(id)
	}
	return a, ok
}

func (h *hub) enter(s *socket, id string, after int64, resume bool) (attached, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if c := h.chats[id]; strings.HasPrefix(id, privatePrefix) && (c == nil || c.private == nil || !c.private.of(s)) {
		return attached{}, false // over, or not its own
	}

	c := h.chat(id)
	if c.sockets[s] == nil && len(s.places) >= maxPlaces {
		h.unload(c)
		return attached{}, false
	}

	if c.private != nil {
		h.returned(c)
	}

	start, complete := c.start(), true
	begin := start
	if resume {
		// Numbers from an earlier life of this chat are lower than all of ours:
		// then everything that is kept comes, and what is missing is not known.
		complete = after >= c.ring.gone && after <= c.ring.last
		if after <= c.ring.last {
			start, begin = after, max(after, c.ring.gone)
		}
		if complete {
			begin = 0 // it says so
		}
	}

	p := c.sockets[s]
	if p == nil {
		p = &place{seq: start, begin: begin}
		c.sockets[s], s.places[c] = p, p
	} else if resume {
		p.seq, p.begin = start, begin
	}

	p.floor = c.ring.gone
	h.unload(c)
	s.mark(c, p)
	out := attached{seq: p.seq, complete: complete, turn: c.turn, since: c.since, used: slices.Clone(c.used)}
	for _, q := range c.asked {
		if q.seq <= max(p.seq, c.ring.gone) && h.now().Before(q.expires) {
			out.asked = append(out.asked, slices.Clone(q.frame))
		}
	}
	return out, true
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
		e.arrived() // no client is to get it
	}

	c.ring.events, c.ring.bytes, c.ring.gone = nil, 0, c.ring.last
	for _, p := range c.sockets {
		p.seq = c.ring.last
	}
	h.unload(c)
}

// crowded reports whether a connection listens to as many chats as it may.
func (h *hub) crowded(s *socket) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(s.places) >= maxPlaces
}

// update does something to a chat and wakes who listens to it.
func (h *hub) update(id string, do func(c *conversation)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.chat(id)
	do(c)
	h.spread(c)
}

// spread wakes the connections of a chat and keeps its ring in bounds. The
// caller holds mu.
func (h *hub) spread(c *conversation) {
	if len(c.ring.events) > keepEvents || c.ring.bytes > keepBytes {
		c.ring.trim(c.passed())
	}
	for s, p := range c.sockets {
		s.mark(c, p)
	}
	if len(c.sockets) == 0 {
		h.unload(c)
	}
}

// send puts an Outbound into its chat. It returns the event that stands for
// what must be delivered, nil if nothing has to be.
func (h *hub) send(out bus.Outbound, m *shownFiles) *event {
	h.mu.Lock()
	defer h.mu.Unlock()

	id, durable := out.Route.ChatID, out.Kind.Durable()
	if h.chats[id] == nil && (strings.HasPrefix(id, privatePrefix) || !durable && out.Kind != bus.Delta) {
		return nil // a private chat that was given up, or something that no client will miss
	}

	c := h.chat(id)
	if durable {
		if e := c.ring.find(out.ID); e != nil { // sent again
			e.await(len(c.sockets) > 0)
			return e
		}
	}

	e := c.show(out, m, h)
	if e != nil {
		e.await(len(c.sockets) > 0)
	}

	h.spread(c)
	return e
}

// await prepares for a sender that waits for the delivery of an event.
func (e *event) await(listeners bool) {
	if e.written == nil && !e.seen && listeners {
		e.written = make(chan struct{})
	}
}

// delivered waits until a connection has got an event. Without a connection, or
// when the last one is gone, the answer is chat.ErrAway; also when the program
// ends and no connection takes the event at once.
func (h *hub) delivered(ctx context.Context, e *event) error {
	h.mu.Lock()
	written := e.written
	h.mu.Unlock()

	if written != nil {
		if err := h.awaitWritten(ctx, written); err != nil {
			return err
		}
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	if !e.seen {
		return chat.ErrAway
	}
	return nil
}

// awaitWritten waits until written is closed, for not longer than lastWait if the
// program ends.
func (h *hub) awaitWritten(ctx context.Context, written <-chan struct{}) error {
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-h.ending:
	}

	t := time.NewTimer(lastWait)
	defer t.Stop()
	select {
	case <-written:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C: // the peer does not read; see delivered
	}
	return nil
}
