package socket

import (
	"context"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
)

// call is a request whose answer is waited for.
type call struct {
	turn   chan struct{} // closed when the calls with this id before it are done
	answer chan Frame    // capacity 1
	done   bool          // has its answer; guarded by Conn.mu
}

// Call sends a request and waits for the frame that Options.Match names with
// this id. Calls with the same id are made one after the other, in the order of
// the calls. Answers that come too late go to Receive.
func (c *Conn) Call(ctx context.Context, id string, f Frame) (Frame, error) {
	k := &call{turn: make(chan struct{}), answer: make(chan Frame, 1)}
	c.begin(id, k)
	defer c.removeCall(id, k)

	select {
	case <-k.turn:
	case <-c.life.Done():
		return Frame{}, c.lost()
	case <-ctx.Done():
		return Frame{}, ctx.Err()
	}

	if err := c.Send(ctx, f); err != nil {
		return Frame{}, err
	}

	select {
	case a := <-k.answer:
		return a, nil
	case <-c.drained: // an answer may have come before the end
		select {
		case a := <-k.answer:
			return a, nil
		default:
			return Frame{}, c.lost()
		}

	case <-c.run.Done():
		return Frame{}, c.lost()
	case <-ctx.Done():
		return Frame{}, ctx.Err()
	}
}

func (c *Conn) begin(id string, k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[id] = append(c.calls[id], k)
	if len(c.calls[id]) == 1 {
		close(k.turn)
	}
	signal(c.room) // a call makes room
}

func (c *Conn) removeCall(id string, k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.calls[id], k)
	list := slices.Delete(c.calls[id], i, i+1)
	if c.calls[id] = list; len(list) == 0 {
		delete(c.calls, id)
	} else if i == 0 {
		close(list[0].turn)
	}
}

// answer gives a frame to the call that waits for it.
func (c *Conn) answer(id string, f Frame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.calls[id]
	if len(list) == 0 || list[0].done {
		return false
	}
	list[0].done = true
	list[0].answer <- f
	return true
}

// Heartbeat calls send after a first time and then every so often, at most once
// a second, instead of what it was told to call before. Platforms that answer
// heartbeats return an error from send when too many answers are missing: it
// ends the connection. The heartbeats end with the connection, not with ctx.
func (c *Conn) Heartbeat(ctx context.Context, first, every time.Duration, send func(ctx context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.life.Err() != nil {
		return
	}

	c.stop()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = cancel
	c.jobs.Go(func() {
		defer cancel()
		defer context.AfterFunc(c.life, cancel)() //nolint:contextcheck // ends with the connection
		c.beat(ctx, first, max(every, shortestBeat), send)
	})
}

func (c *Conn) beat(ctx context.Context, first, every time.Duration, send func(ctx context.Context) error) {
	defer c.contain()
	for d := first; wait.For(ctx, d) == nil; d = every {
		if err := send(ctx); err != nil && ctx.Err() == nil {
			c.fail(err)
			return
		}
	}
}
