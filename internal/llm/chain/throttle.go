package chain

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

const (
	// rateWindow is the minute of "requests per minute": no stretch of this
	// length, wherever it begins, sees more starts than allowed.
	rateWindow = time.Minute
	// silentWait is how long a request waits before the user hears of it.
	silentWait = 5 * time.Second
)

// Limiter holds requests back so that a server need not refuse them. One value
// stands for one endpoint, or one key, and is shared by all models that use it.
// Requests pass in the order in which they came. It is safe for concurrent use.
type Limiter struct {
	rate      Rate
	slots     *line // nil: any number in flight
	turnstile *line // held by the one request that looks at the rate; nil: no rate

	mu     sync.Mutex
	starts []*start // of the last minute, oldest first
}

// Rate holds what a limiter lets through; 0 means no limit. A model server on
// this machine usually works on one request at a time, so give it one slot: a
// second request would only slow both and time out.
type Rate struct {
	Requests int // per minute
	Tokens   int // per minute, of requests and answers; a single larger request passes alone
	InFlight int
}

// start is a request of the last minute.
type start struct {
	at     time.Time
	tokens int // a guess, until the answer says
}

// NewLimiter makes a limiter.
func NewLimiter(r Rate) *Limiter {
	l := &Limiter{rate: r}
	if r.InFlight > 0 {
		l.slots = &line{free: r.InFlight}
	}
	if r.Requests > 0 || r.Tokens > 0 {
		l.turnstile = &line{free: 1}
	}
	return l
}

// Throttle makes a model whose requests wait for the limiter. A request holds
// its slot until its stream ends. While it waits, the user hears of it by
// Waiting events; the end of ctx ends the wait at once. A nil limiter is no limit.
func Throttle(m llm.Model, l *Limiter) llm.Model {
	if l == nil || l.slots == nil && l.turnstile == nil {
		return m
	}
	return llm.ModelFunc(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			w := waiter{began: time.Now(), yield: yield}
			leave, counted, ok := l.enter(ctx, &w, wire.SizeOf(req)/4)
			if !ok {
				if err := ctx.Err(); err != nil && !w.left {
					yield(llm.Event{}, err)
				}
				return
			}

			defer leave()
			for ev, err := range m.Stream(ctx, req) {
				if err == nil && ev.Kind == llm.Done {
					l.correct(counted, ev.Response.Usage)
				}
				if !yield(ev, err) {
					return
				}
			}
		}
	})
}

// enter waits for a slot and then for the rate. Without ok there is nothing to leave.
func (l *Limiter) enter(ctx context.Context, w *waiter, tokens int) (leave func(), counted *start, ok bool) {
	leave = func() {}
	if l.slots != nil {
		if !l.slots.enter(ctx, w, "a free slot at the model server") {
			return nil, nil, false
		}
		leave = l.slots.leave
	}

	if l.turnstile != nil {
		if counted = l.pace(ctx, w, tokens); counted == nil {
			leave()
			return nil, nil, false
		}
	}
	return leave, counted, true
}

// pace waits until one more start is within the rate, and counts it. Nil means
// that ctx ended or the caller stopped reading.
func (l *Limiter) pace(ctx context.Context, w *waiter, tokens int) *start {
	what := fmt.Sprintf("the limit of %d requests per minute", l.rate.Requests)
	if l.rate.Tokens > 0 {
		what = "the limit of requests and tokens per minute"
	}

	if !l.turnstile.enter(ctx, w, what) {
		return nil
	}

	defer l.turnstile.leave()
	for {
		counted, left := l.start(time.Now(), tokens)
		if counted != nil {
			return counted
		}

		t := time.NewTimer(left)
		ok := wait(ctx, w, t.C, what)
		t.Stop()
		if !ok {
			return nil
		}
	}
}

// start counts a start now, or says how long it must wait.
func (l *Limiter) start(now time.Time, tokens int) (*start, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.starts = slices.DeleteFunc(l.starts, func(s *start) bool { return now.Sub(s.at) >= rateWindow })
	sum := tokens
	for _, s := range l.starts {
		sum += s.tokens
	}

	full := l.rate.Requests > 0 && len(l.starts) >= l.rate.Requests || l.rate.Tokens > 0 && sum > l.rate.Tokens
	if full && len(l.starts) > 0 {
		return nil, rateWindow - now.Sub(l.starts[0].at)
	}

	counted := &start{now, tokens}
	l.starts = append(l.starts, counted)
	return counted, 0
}

// correct replaces a guess by what the provider counted.
func (l *Limiter) correct(s *start, u llm.Usage) {
	if n := u.Prompt + u.Completion; s != nil && n > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.tokens = n
	}
}

// line lets so many in at a time, first come, first served.
type line struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{} // closed when its owner is in
}

// enter waits for a place; false means that ctx ended or the caller stopped
// reading.
func (q *line) enter(ctx context.Context, w *waiter, what string) bool {
	q.mu.Lock()
	if q.free > 0 && ctx.Err() == nil {
		q.free--
		q.mu.Unlock()
		return true
	}

	in := make(chan struct{})
	q.waiting = append(q.waiting, in)
	q.mu.Unlock()
	if wait(ctx, w, in, what) {
		return true
	}

	q.mu.Lock()
	i := slices.Index(q.waiting, in)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}

	q.mu.Unlock()
	if i < 0 { // the place came in the same moment: hand it on
		q.leave()
	}
	return false
}

func (q *line) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.free++
		return
	}
	close(q.waiting[0])
	q.waiting = slices.Delete(q.waiting, 0, 1)
}

// waiter is a request on its way through a limiter.
type waiter struct {
	began      time.Time
	notifiedAt time.Time // of the last notice
	yield      func(llm.Event, error) bool
	left       bool // the caller stopped reading
}

// wait waits for ready and sends a notice after silentWait and then with every
// heartbeat. false means that ctx ended or the caller stopped reading.
func wait[T any](ctx context.Context, w *waiter, ready <-chan T, what string) bool {
	for {
		due := w.began.Add(silentWait)
		if !w.notifiedAt.IsZero() {
			due = w.notifiedAt.Add(heartbeat)
		}

		t := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
			t.Stop()
			return false
		case <-ready:
			t.Stop()
			return ctx.Err() == nil
		case <-t.C:
		}

		w.notifiedAt = time.Now()
		text := fmt.Sprintf("Waiting for %s, %d s so far.", what, int(time.Since(w.began).Round(time.Second)/time.Second))
		if !w.yield(llm.Event{Kind: llm.Waiting, Text: text, Brief: true}, nil) {
			w.left = true
			return false
		}
	}
}
