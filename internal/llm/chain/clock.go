package chain

import (
	"context"
	"time"
)

// attemptClock ends a context when an attempt takes too long. Its methods are
// called by the goroutine that reads the stream.
type attemptClock struct {
	limit   time.Duration
	timer   *time.Timer // nil: no limit
	began   time.Time
	flowing bool
	cancel  context.CancelCauseFunc
}

// startClock gives the context of an attempt; its cause is errOutOfTime when
// the time is over. A limit of 0 is none.
func startClock(ctx context.Context, limit time.Duration) (context.Context, *attemptClock) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &attemptClock{limit: limit, cancel: cancel, began: time.Now()}
	if limit > 0 {
		c.timer = time.AfterFunc(limit, func() { cancel(errOutOfTime) })
	}
	return ctx, c
}

// flows gives an attempt that has begun to answer twice its time.
func (c *attemptClock) flows() {
	if c.timer == nil || c.flowing {
		return
	}
	c.flowing = true
	c.limit *= 2
	c.reset(c.limit - time.Since(c.began))
}

// again begins a new attempt. A wait has just been announced, or announced once
// more; the next sign of life is due within a heartbeat and one attempt.
func (c *attemptClock) again(wait time.Duration) {
	if c.timer == nil {
		return
	}
	if c.flowing {
		c.flowing = false
		c.limit /= 2
	}
	c.began = time.Now().Add(wait)
	c.reset(wait + c.limit)
}

// reset moves the end, unless it has come already.
func (c *attemptClock) reset(d time.Duration) {
	if c.timer.Stop() {
		c.timer.Reset(d)
	}
}

func (c *attemptClock) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.cancel(nil)
}
