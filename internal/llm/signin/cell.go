package signin

import (
	"context"
	"errors"
	"sync"
	"time"
)

// cell holds a value that must be renewed now and then. Callers that find it
// no good share one renewal.
type cell[T any] struct {
	mu   sync.Mutex
	val  T
	call *renewal[T]
}

type renewal[T any] struct {
	done chan struct{} // closed when val and err are final
	val  T
	err  error
}

// grace is how long a renewal goes on after its caller gave up: the provider
// may have used up the old token already, and only the answer has the new one.
const grace = 5 * time.Second

var errAbandoned = errors.New("the renewal was given up")

// get returns a value that is good, renewing it if needed.
func (c *cell[T]) get(ctx context.Context, good func(T) bool, renew func(context.Context) (T, error)) (T, error) {
	for {
		c.mu.Lock()
		if good(c.val) {
			defer c.mu.Unlock()
			return c.val, nil
		}
		r := c.call
		if r == nil {
			r = &renewal[T]{done: make(chan struct{}), err: errAbandoned}
			c.call = r
			c.mu.Unlock()
			c.lead(ctx, r, renew)
			return r.val, r.err
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			var zero T
			return zero, ctx.Err()
		case <-r.done:
		}
		// What ended only because another caller gave up says nothing about us.
		given := errors.Is(r.err, errAbandoned) || errors.Is(r.err, context.Canceled)
		if r.err != nil && !given {
			return r.val, r.err
		}
	}
}

func (c *cell[T]) lead(ctx context.Context, r *renewal[T], renew func(context.Context) (T, error)) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	defer stop()
	defer func() {
		c.mu.Lock()
		c.call = nil
		if r.err == nil {
			c.val = r.val
		}
		c.mu.Unlock()
		close(r.done)
	}()
	r.val, r.err = renew(work)
}

// peek is the value, good or not.
func (c *cell[T]) peek() T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.val
}

func (c *cell[T]) put(v T) {
	c.mu.Lock()
	c.val = v
	c.mu.Unlock()
}

func (c *cell[T]) clear() {
	var zero T
	c.put(zero)
}
