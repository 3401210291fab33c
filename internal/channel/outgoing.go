package channel

import (
	"context"
	"errors"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// Bounds of what waits for a chat.
const (
	volatileMax = 256                   // of what may be dropped, per chat
	chatsKept   = 256                   // chats remembered before idle ones are let go
	sweepChats  = time.Minute           // at most that often
	saidKept    = 1024                  // answers remembered to find the same one sent twice
	passWait    = 20 * time.Millisecond // for what is sent at once; then its chat gets a goroutine
	sendWait    = 2 * time.Minute       // for one text
	mediaWait   = 10 * time.Minute      // for one file
)

type chatKey struct{ chat, thread string }

func keyOf(r bus.Route) chatKey { return chatKey{r.ChatID, r.ThreadID} }

// chat is one conversation on its way out. A goroutine works on it while there
// is something to do. Of what waits, answers are bounded by the queue they come
// from and never dropped; the rest is joined or dropped beyond volatileMax.
type chat struct {
	key chatKey

	// Guarded by slot.mu.
	queue    []bus.Delivery
	volatile int
	busy     int // 1 while a message is worked on
	running  bool
	wake     chan struct{} // capacity 1: something was queued

	// Of the goroutine.
	rate, group bucket
	slow        time.Duration // between previews, after the platform asked for patience
	stream      *stream
	thought     string // reasoning not shown yet
}

// read takes what goes to the channel from the queue until ctx ends.
func (s *slot) read(ctx context.Context) {
	send, done := linger(ctx)
	defer done()
	for d, err := range s.m.o.Queue.Outgoing(ctx, s.name) {
		if err != nil {
			if !errors.Is(err, bus.ErrClosed) {
				s.trouble(err)
			}
			return
		}
		if s.caps.Whole && s.passOn(send, d) {
			continue
		}
		s.push(ctx, d)
	}
}

// linger makes a context that outlives another by the time for flushing.
func linger(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(flushWait, cancel)
		context.AfterFunc(out, func() { t.Stop() })
	})
	return out, func() { stop(); cancel() }
}

// passOn sends at once to a platform that takes everything as it is. False
// means that it has to be tried again, in its turn.
func (s *slot) passOn(ctx context.Context, d bus.Delivery) bool {
	s.mu.Lock()
	waiting := s.chats[keyOf(d.Route)] != nil
	s.mu.Unlock()
	if waiting {
		return false
	}
	if d.Kind == bus.Ask && s.expired(d.Outbound) {
		s.acks <- d.ID
		return true
	}
	if d.Kind.Durable() { // the platform may wait for a slow reader, which must not hold up the others
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, passWait)
		defer cancel()
	}
	if _, err := s.try(ctx, d.Outbound); err != nil {
		return !d.Kind.Durable() // what only shows progress is not worth another try
	}
	if d.Kind.Durable() {
		s.count(&s.state.Sent)
		s.acks <- d.ID
	}
	return true
}

// acknowledge tells the queue what was sent, beside the reader: the queue may
// wait for the disk.
func (s *slot) acknowledge(ctx context.Context) {
	for id := range s.acks {
		s.delivered(ctx, id)
	}
}

func (s *slot) delivered(ctx context.Context, id string) {
	if err := s.m.o.Queue.Delivered(context.WithoutCancel(ctx), id); err != nil && !errors.Is(err, bus.ErrClosed) {
		s.log.WarnContext(ctx, "a delivery cannot be noted; it may be sent again after a restart", "id", id, "err", err)
	}
}

// wanted reports whether a channel shows this at all.
func (s *slot) wanted(out bus.Outbound) bool {
	switch out.Kind {
	case bus.Delta, bus.DeltaEnd:
		return s.streamer != nil || s.caps.Whole
	case bus.Reasoning:
		return s.caps.Whole || s.caps.Reasoning && s.filters.ShowReasoning
	case bus.Progress, bus.Notice:
		return out.Text != "" && (s.caps.Whole || s.filters.SendProgress)
	case bus.Gone:
		return out.Text != "" || s.caps.Whole
	case bus.ToolHint:
		return out.Text != "" && (s.caps.Whole || s.filters.SendToolHints)
	case bus.ToolEvent, bus.GoalState, bus.FileEdit:
		return s.caps.Whole
	}
	return true
}

// push queues something for its chat and sees to it that somebody works on it.
func (s *slot) push(ctx context.Context, d bus.Delivery) {
	switch d.Kind {
	case bus.Delta, bus.Reasoning, bus.ToolEvent:
		s.show(ctx, bus.Route{Channel: d.Route.Channel, ChatID: d.Route.ChatID, ThreadID: d.Route.ThreadID})
	}
	if !s.wanted(d.Outbound) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[keyOf(d.Route)]
	if c == nil {
		c = &chat{key: keyOf(d.Route), wake: make(chan struct{}, 1), rate: bucket{limit: s.caps.Rate.Chat}, group: bucket{limit: s.caps.Rate.Group}}
		s.chats[c.key] = c
	}
	c.add(d)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	if !c.running && !s.closing {
		c.running = true
		s.work.Go(func() { s.serve(ctx, c) })
	}
}

// add queues a message. The caller holds the lock.
func (c *chat) add(d bus.Delivery) {
	if d.Kind.Durable() {
		c.queue = append(c.queue, d)
		return
	}
	if n := len(c.queue); n > 0 && (d.Kind == bus.Delta || d.Kind == bus.Reasoning) {
		if last := &c.queue[n-1]; last.Kind == d.Kind && last.StreamID == d.StreamID {
			last.Text += d.Text
			return
		}
	}
	if c.volatile >= volatileMax && d.Kind != bus.Delta && d.Kind != bus.DeltaEnd {
		return
	}
	c.volatile++
	c.queue = append(c.queue, d)
}

// next takes the first message of a chat. False ends the goroutine, unless
// keep is set, which it is while a preview is due.
func (s *slot) next(c *chat, keep bool) (d bus.Delivery, more, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.busy = 0
	if len(c.queue) == 0 {
		if !keep {
			c.running = false
			if c.idle(time.Now()) {
				delete(s.chats, c.key)
			}
			s.sweepChats()
		}
		return d, false, false
	}
	d = c.queue[0]
	c.queue[0] = bus.Delivery{}
	c.queue = c.queue[1:]
	if !d.Kind.Durable() {
		c.volatile--
	}
	c.busy = 1
	return d, len(c.queue) > 0, true
}

// idle reports whether nothing is lost when a chat is forgotten.
func (c *chat) idle(now time.Time) bool {
	return !c.running && len(c.queue) == 0 && c.stream == nil && c.thought == "" && c.rate.full(now) && c.group.full(now)
}

// sweepChats forgets idle chats. The caller holds the lock.
func (s *slot) sweepChats() {
	now := time.Now()
	if len(s.chats) <= chatsKept || now.Sub(s.swept) < sweepChats {
		return
	}
	s.swept = now
	for k, c := range s.chats {
		if c.idle(now) {
			delete(s.chats, k)
		}
	}
}

// serve works on a chat until nothing is left to do.
func (s *slot) serve(ctx context.Context, c *chat) {
	for ctx.Err() == nil {
		due := c.stream.due()
		d, more, ok := s.next(c, due)
		switch {
		case ok:
			s.handle(ctx, c, d, more)
		case !due:
			return
		default:
			s.awaitPreview(ctx, c)
		}
	}
}

// handle does what a message asks for. More says that others wait behind it.
func (s *slot) handle(ctx context.Context, c *chat, d bus.Delivery, more bool) {
	switch {
	case d.Kind.Durable():
		s.deliver(ctx, c, d)
	case s.caps.Whole:
		_, _ = s.try(ctx, d.Outbound) // only shows progress
	case d.Kind == bus.Delta:
		s.think(ctx, c, d.Route)
		s.grow(ctx, c, d.Outbound, more)
	case d.Kind == bus.DeltaEnd:
		s.think(ctx, c, d.Route)
		s.endStream(ctx, c, d.Outbound)
	case d.Kind == bus.Reasoning:
		c.thought += d.Text
	default:
		s.think(ctx, c, d.Route)
		s.mention(ctx, c, d.Outbound)
	}
}

// think shows the reasoning so far as one message.
func (s *slot) think(ctx context.Context, c *chat, to bus.Route) {
	text := c.thought
	if c.thought = ""; text != "" {
		s.mention(ctx, c, bus.Outbound{Kind: bus.Reasoning, Route: to, Text: text})
	}
}

// mention sends what only shows progress: once, with what else of the kind
// waits, and not at all when an answer is waiting already.
func (s *slot) mention(ctx context.Context, c *chat, out bus.Outbound) {
	if !s.pace(ctx, c, out.Route) {
		return
	}
	s.mu.Lock()
	for len(c.queue) > 0 && out.Kind != bus.Reasoning {
		n := c.queue[0]
		if n.Kind != bus.Progress && n.Kind != bus.ToolHint && n.Kind != bus.Notice || n.Plain != out.Plain {
			break
		}
		out.Text += "\n" + n.Text
		c.queue = c.queue[1:]
		c.volatile--
	}
	answered := false
	for _, d := range c.queue {
		answered = answered || d.Kind == bus.Final
	}
	s.mu.Unlock()
	if answered && out.Kind != bus.Notice {
		return
	}
	for _, part := range Split(out.Text, s.caps.MaxChars, s.caps.Unit) {
		out.Text = part
		if _, err := s.try(ctx, out); err != nil {
			s.patience(c, err)
			s.log.DebugContext(ctx, "progress could not be shown", "chat", out.Route.ChatID, "err", err)
			return
		}
	}
}
