package shell

import (
	"context"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// asking lets what stands around a command ask a person through its call, for
// as long as the call lasts. The time of the command stands still meanwhile.
type asking struct {
	clock clock
	end   context.CancelFunc
	call  context.Context //nolint:containedctx // the life of the call, which may end before a question does
	ask   func(ctx context.Context, q bus.Question) (string, error)

	mu   sync.Mutex
	over bool
	open sync.WaitGroup // questions
}

// newAsking replaces the Ask of a call. close must follow.
func newAsking(ctx context.Context, c *tool.Call) *asking {
	a := &asking{ask: c.Ask}
	a.call, a.end = context.WithCancel(ctx)
	if c.Ask != nil {
		c.Ask = a.askPerson
	}
	return a
}

// askPerson asks a question while the call lasts.
func (a *asking) askPerson(ctx context.Context, q bus.Question) (string, error) {
	a.mu.Lock()
	if a.over {
		a.mu.Unlock()
		return "", tool.ErrNoAnswer
	}

	a.open.Add(1)
	a.mu.Unlock()
	defer a.open.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.call, cancel)() //nolint:contextcheck // the call ends the question, whoever asks
	a.clock.pause()
	defer a.clock.resume()
	return a.ask(ctx, q)
}

// close ends questions that are still open: a command that goes on in the
// background asks nothing.
func (a *asking) close() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.end()
	a.open.Wait()
}

// clock is a time limit that can stand still.
type clock struct {
	mu     sync.Mutex
	timer  *time.Timer // nil: there is no limit
	left   time.Duration
	since  time.Time
	paused int
}

// start begins the time, after which expire is called.
func (k *clock) start(limit time.Duration, expire func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.since = limit, time.Now()
	k.timer = time.AfterFunc(limit, expire)
}

func (k *clock) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
}

func (k *clock) pause() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused++; k.paused == 1 && k.timer != nil && k.timer.Stop() {
		k.left -= time.Since(k.since)
	}
}

func (k *clock) resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused--; k.paused == 0 && k.timer != nil {
		k.since = time.Now()
		k.timer.Reset(max(k.left, 0))
	}
}
