package deliver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// How temporary failures are met.
const (
	quickMax   = 4 * time.Second  // between the first tries, after 1 and 2 s
	pauseMax   = 5 * time.Minute  // between later ones, and for what a platform may ask
	readyWait  = 30 * time.Second // for a channel that is not connected
	deliverFor = 24 * time.Hour   // then a message is given up
)

// errRepliesUsed says that a message has had all the replies the platform allows.
var errRepliesUsed = errors.New("all replies to the last message are used")

// errGivenUp says that a message was tried for a whole day.
var errGivenUp = errors.New("not delivered within a day")

// deliver sends a message that must arrive. It returns with the message still
// in the queue only when ctx ended.
func (c *conversation) deliver(ctx context.Context, d bus.Delivery) {
	w, final := c.w, d.Kind == bus.Final
	select {
	case <-w.a.limitsKnown:
	case <-ctx.Done():
		return
	}

	if final || d.Kind == bus.Ask {
		w.signals.stop(c.key)
	}

	repeated, key := w.repeated(c.key, d.Outbound)
	from := d.Parts
	parts, err := w.a.plan(d.Outbound)
	if err != nil {
		w.health.lost(d.Outbound, err)
	}
	if repeated || d.Kind == bus.Ask && w.expired(d.Outbound) {
		parts = nil
	}

	if final && w.a.streamer != nil {
		var ok bool
		if from, ok = c.completeStream(ctx, d, parts); !ok {
			return
		}
	}

	sent := len(parts) > 0
	for i := from; i < len(parts); i++ {
		if i > d.Parts {
			w.recordParts(ctx, d.ID, i)
		}

		err := c.part(ctx, parts[i])
		if ctx.Err() != nil && err != nil {
			return
		}
		if err != nil && !c.substitute(ctx, d.Outbound, parts[i], err) {
			sent = false
			break
		}
	}

	w.delivered(ctx, d.ID)
	if sent {
		w.health.sent()
		w.remember(key, d.ID)
	}
	if final {
		w.signals.done(ctx, c.key, d.Route, outcome(d.Turn))
	}
}

// substitute deals with a part the platform will never take. True means that
// the rest of the message may follow.
func (c *conversation) substitute(ctx context.Context, whole, part bus.Outbound, err error) bool {
	c.w.health.lost(whole, err)
	notice := bus.Outbound{Kind: bus.Notice, Route: part.Route, Plain: true, Meta: part.Meta}
	switch {
	case len(part.Media) > 0 && part.Text == "":
		notice.Text = chat.NotSent(part.Media[0], phrase.In(whole.Language, "send failed"))
	case errors.Is(err, errGivenUp) || whole.Kind != bus.Final:
		return false
	default:
		notice.Text = phrase.In(whole.Language, "My answer could not be shown here. Ask me to write it differently.")
	}

	if _, err := c.w.a.send(ctx, notice); err != nil {
		c.w.log.DebugContext(ctx, "the notice about a lost message is lost too", "err", err)
		return false
	}
	return len(part.Media) > 0 && part.Text == ""
}

// part sends one part, however often it takes.
func (c *conversation) part(ctx context.Context, out bus.Outbound) error {
	return c.retry(ctx, out.Route, func() error {
		if !c.w.replies.spend(&out, c.w.now(), 0) {
			return chat.Deferred(errRepliesUsed)
		}
		_, err := c.w.a.send(ctx, out)
		return err
	})
}

// retry does something until it works, is pointless, or ctx ends.
func (c *conversation) retry(ctx context.Context, to bus.Route, do func() error) error {
	start, failures := time.Now(), 0
	for {
		if !c.pace(ctx, to) {
			return ctx.Err()
		}

		err := do()
		switch {
		case err == nil || chat.IsPermanent(err):
			return err
		case ctx.Err() != nil:
			return err
		case errors.Is(err, chat.ErrAway), chat.IsDeferred(err):
			if err := c.awaitClient(ctx, chat.IsDeferred(err)); err != nil {
				return err
			}
			start = time.Now()
			continue

		case time.Since(start) > deliverFor:
			return fmt.Errorf("%w: %w", errGivenUp, err)
		}

		if c.backoff(err); failures == 0 {
			c.w.log.WarnContext(ctx, "a message is tried again", "chat", to.ChatID, "err", c.w.redact(err.Error()))
		}

		if !c.pause(ctx, err, &failures) {
			return ctx.Err()
		}
	}
}

// awaitClient waits until a client listens to the chat, or a person writes in
// it, however long that takes. What is deferred is also tried after the next
// connection. An error means that ctx ended, or that too many answers wait.
func (c *conversation) awaitClient(ctx context.Context, deferred bool) error {
	c.w.setAway(c, true)
	defer c.w.setAway(c, false)
	defer c.w.park(c)()
	var connected <-chan struct{}
	if deferred {
		_, connected = c.w.health.running()
	}

	select {
	case <-c.listener:
	case <-connected:
	case <-ctx.Done():
		return ctx.Err()
	}

	if c.w.clearExcess(c) {
		return fmt.Errorf("%w: too many answers wait for clients", errGivenUp)
	}
	return nil
}

// pause waits as long as an error asks for before the next try; false means that ctx ended.
func (c *conversation) pause(ctx context.Context, err error, failures *int) bool {
	defer c.w.park(c)()
	c.w.health.retried()
	_, connected := c.w.health.running()
	var d time.Duration
	if limited, ok := errors.AsType[*chat.RateLimitedError](err); ok {
		return wait.For(ctx, min(max(limited.After, 0), pauseMax)) == nil
	}

	if errors.Is(err, chat.ErrNotReady) {
		d = readyWait
	} else {
		*failures++
		if d = min(time.Second<<min(*failures-1, 20), quickMax); *failures >= c.w.maxRetries {
			d = min(time.Second<<min(*failures-1, 20), pauseMax)
			if *failures == c.w.maxRetries {
				c.w.log.WarnContext(ctx, "a message cannot be delivered for now; it is kept and tried more slowly", "err", c.w.redact(err.Error()))
			}
		}
	}

	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-connected: // the platform is there again
	case <-ctx.Done():
		return false
	}
	return true
}

// backoff slows the previews of a chat down after the platform asked for it.
func (c *conversation) backoff(err error) {
	if _, ok := errors.AsType[*chat.RateLimitedError](err); ok {
		c.slow = min(2*max(c.slow, c.w.a.caps.EditEvery), time.Minute)
	}
}

// pace waits for the right to send something; false means that ctx ended.
func (c *conversation) pace(ctx context.Context, to bus.Route) bool {
	now := time.Now()
	d := max(c.w.total.reserve(now), c.rate.chat.reserve(now))
	if c.w.a.group(to) {
		d = max(d, c.rate.group.reserve(now))
	}
	if d > 0 {
		defer c.w.park(c)()
	}
	return wait.For(ctx, d) == nil
}
