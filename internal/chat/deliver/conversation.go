package deliver

import (
	"context"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// volatileMax is how many messages that may be dropped wait in one chat.
const volatileMax = 256

type chatKey struct{ chat, thread string }

func keyOf(r bus.Route) chatKey { return chatKey{r.ChatID, r.ThreadID} }

// conversation is a chat on its way out. A goroutine works on it while there
// is something to do. Of what waits, answers are bounded by the queue they come
// from and never dropped; the rest is joined or dropped beyond volatileMax.
type conversation struct {
	w   *sender
	key chatKey

	// Guarded by sender.mu.
	queue    []bus.Delivery
	volatile int
	busy     int  // 1 while a message is worked on
	must     bool // that message must arrive
	parked   bool // it waits for something that we cannot bring about; see sender.parked
	running  bool
	wake     chan struct{} // capacity 1: something was queued
	away     time.Time     // since when no client listens and an answer waits; zero if that is not so
	lossy    bool          // text of the running stream was dropped meanwhile
	excess   bool          // too many answers wait for clients that are away: this chat's first is given up

	listener chan struct{} // capacity 1: a client is back, or excess is set

	// Of the goroutine.
	rate    *chatRate
	slow    time.Duration // between previews, after the platform asked us to slow down
	streams []*stream     // in the order of their beginnings
	thought string        // reasoning not shown yet
}

func newChat(w *sender, key chatKey, rate *chatRate) *conversation {
	return &conversation{
		w:        w,
		key:      key,
		wake:     make(chan struct{}, 1),
		listener: make(chan struct{}, 1),
		rate:     rate,
	}
}

// add queues a message. The caller holds the sender's lock.
func (c *conversation) add(d bus.Delivery) {
	if d.Kind.Durable() {
		if d.Kind == bus.Final && c.lossy {
			c.lossy, d.Streamed = false, false
		}
		c.queue = append(c.queue, d)
		return
	}

	if !c.away.IsZero() { // only answers wait for a client
		c.lossy = c.lossy || d.Kind == bus.Delta
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

// idle reports whether nothing is lost when a chat is forgotten. The caller
// holds the sender's lock.
func (c *conversation) idle(now time.Time) bool {
	return !c.running && len(c.queue) == 0 && len(c.streams) == 0 && c.thought == "" && c.rate.chat.full(now) && c.rate.group.full(now)
}

// serve works on a chat until nothing is left to do.
func (c *conversation) serve(ctx context.Context) {
	for ctx.Err() == nil {
		due := c.nextPreview()
		d, more, ok := c.w.next(c, due != nil)
		switch {
		case ok:
			c.handle(ctx, d, more)
		case due == nil:
			return
		default:
			c.awaitPreview(ctx, due)
		}
	}
}

// handle does what a message asks for. More says that others wait behind it.
func (c *conversation) handle(ctx context.Context, d bus.Delivery, more bool) {
	switch {
	case d.Kind.Durable():
		c.deliver(ctx, d)
	case c.w.a.caps.Whole, d.Kind == bus.Gone && d.Text == "":
		_, _ = c.w.a.send(ctx, d.Outbound) // only shows progress
	case d.Kind == bus.Delta:
		c.think(ctx, d.Route)
		c.grow(ctx, d.Outbound, more)
	case d.Kind == bus.DeltaEnd:
		c.think(ctx, d.Route)
		c.closeSegment(ctx, d.Outbound)
	case d.Kind == bus.Reasoning:
		c.thought += d.Text
	case d.Kind == bus.Ended:
		c.endTurn(ctx, d.Route)
		c.w.signals.unanswered(ctx, c.key, d.Outbound)
	default:
		c.think(ctx, d.Route)
		c.mention(ctx, d.Outbound)
	}
}

// think shows the reasoning so far as one message.
func (c *conversation) think(ctx context.Context, to bus.Route) {
	text := c.thought
	if c.thought = ""; text != "" {
		c.mention(ctx, bus.Outbound{Kind: bus.Reasoning, Route: to, Text: text})
	}
}

// mention sends what only shows progress: once, with what else of the kind
// waits, and not at all when an answer is waiting already.
func (c *conversation) mention(ctx context.Context, out bus.Outbound) {
	turn := c.turnOf(ctx, out)
	if turn == nil && !c.pace(ctx, out.Route) {
		return
	}

	answered := c.join(&out, turn != nil)
	if answered && out.Kind != bus.Notice {
		return
	}
	if turn != nil {
		turn.progress(ctx, out.Text)
		return
	}

	caps := c.w.a.limits()
	for _, part := range markdown.Split(out.Text, caps.MaxChars, caps.Unit) {
		if out.Text = part; !c.w.replies.spend(&out, c.w.now(), caps.Replies.Count/2) {
			return
		}
		if _, err := c.w.a.send(ctx, out); err != nil {
			c.backoff(err)
			c.w.log.DebugContext(ctx, "progress could not be shown", "chat", out.Route.ChatID, "err", err)
			return
		}
	}
}

// join adds what waits and only shows progress, too, to a message of that kind,
// or to that of a turn. It reports whether an answer waits.
func (c *conversation) join(out *bus.Outbound, turn bool) (answered bool) {
	look := func(o *bus.Outbound) string {
		if hint := c.w.a.caps.Hint; turn && o.Kind == bus.ToolHint && hint != nil {
			return hint(o.Text)
		}
		return o.Text
	}

	out.Text = look(out)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()

	for len(c.queue) > 0 && out.Kind != bus.Reasoning {
		n := c.queue[0]
		if n.Kind != bus.Progress && n.Kind != bus.ToolHint && n.Kind != bus.Notice || n.Plain != out.Plain || n.Route.MessageID != out.Route.MessageID {
			break
		}
		out.Text += "\n" + look(&n.Outbound)
		c.queue = c.queue[1:]
		c.volatile--
	}

	for _, d := range c.queue {
		answered = answered || d.Kind == bus.Final
	}
	return answered
}
