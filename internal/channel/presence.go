package channel

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// Bounds of what is shown about a message that is worked on.
const (
	presenceMax = 10 * time.Minute // then nothing is shown any more, whatever happens
	signalWait  = 10 * time.Second // for one signal
	marksMax    = 20               // messages of one chat that bear a mark
)

// presence is a chat in which something is being worked on.
type presence struct {
	stop   context.CancelFunc // ends the goroutine
	idle   bool               // stopped by rest
	marked []bus.Route        // messages that were marked as seen
}

// show marks a message as seen, and shows that it is worked on until rest. A
// route without a message only keeps the latter going.
func (s *slot) show(ctx context.Context, to bus.Route) {
	if s.signaller == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.present[keyOf(to)]
	if s.closing || p != nil && !p.idle && to.MessageID == "" {
		return
	}
	if p == nil {
		p = &presence{}
		s.present[keyOf(to)] = p
	} else {
		p.stop()
	}
	p.idle = false
	if to.MessageID != "" {
		p.marked = append(p.marked, to)
		p.marked = p.marked[max(0, len(p.marked)-marksMax):]
	}
	ctx, p.stop = context.WithTimeout(ctx, presenceMax)
	s.work.Go(func() { s.signal(ctx, to) })
}

// signal shows one chat's work until ctx ends.
func (s *slot) signal(ctx context.Context, to bus.Route) {
	if to.MessageID != "" {
		_ = s.signalOnce(ctx, to, Seen) // cosmetic, like the others
	}
	for ctx.Err() == nil {
		err := s.signalOnce(ctx, to, Working)
		d := s.caps.Typing
		if d <= 0 {
			return
		}
		if limited, ok := errors.AsType[*RateLimitedError](err); ok {
			d = max(d, limited.After)
		}
		if httpsafe.Pause(ctx, d) != nil {
			return
		}
	}
}

func (s *slot) signalOnce(ctx context.Context, to bus.Route, phase Phase) (err error) {
	defer s.caught(&err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	return s.signaller.Signal(ctx, to, phase)
}

// rest stops showing that something is worked on. Marks stay until done.
func (s *slot) rest(key chatKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.present[key]; p != nil {
		p.stop()
		p.idle = true
	}
}

// done takes the marks of a chat away.
func (s *slot) done(ctx context.Context, key chatKey, to bus.Route) {
	if s.signaller == nil {
		return
	}
	s.mu.Lock()
	var marked []bus.Route
	if p := s.present[key]; p != nil {
		p.stop()
		marked = p.marked
		delete(s.present, key)
	}
	s.mu.Unlock()
	if !slices.ContainsFunc(marked, func(r bus.Route) bool { return r.MessageID == to.MessageID }) {
		marked = append(marked, to)
	}
	for _, r := range marked {
		_ = s.signalOnce(ctx, r, Done)
	}
}
