package deliver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Bounds of what is shown about a message that is worked on.
const (
	presenceMax = 10 * time.Minute // then nothing is shown any more, whatever happens
	marksMax    = 20               // messages of one chat that bear a mark
)

// signals shows in the chats of one channel what happens to messages.
type signals struct {
	a *adapter

	mu      sync.Mutex
	closing bool // starts nothing any more
	chats   map[chatKey]*presence
	setting map[*mark]bool // marks that are being set
	work    sync.WaitGroup // one per presence; nothing is added once closing is set
}

// presence is a chat in which something is being worked on.
type presence struct {
	stop   context.CancelFunc // ends the goroutine, but for a mark that it sets
	idle   bool               // stopped by rest
	marked []*mark
}

// mark is a message that was marked as seen. The end of the work on it is shown
// after that: the mark would stay for ever otherwise.
type mark struct {
	to     bus.Route
	giveUp context.CancelFunc
	set    chan struct{} // closed when the mark is set, or cannot be
}

func newSignals(a *adapter) *signals {
	return &signals{a: a, chats: map[chatKey]*presence{}, setting: map[*mark]bool{}}
}

func (s *signals) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = false
}

// close stops everything that is shown; work says when it has ended.
func (s *signals) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for _, p := range s.chats {
		p.stop()
	}
	for m := range s.setting {
		m.giveUp()
	}
}

// show marks a message as seen, and shows that it is worked on until rest. A
// route without a message only keeps the latter going.
func (s *signals) show(ctx context.Context, to bus.Route) {
	if s.a.signaller == nil {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	p := s.chats[keyOf(to)]
	if s.closing || p != nil && !p.idle && to.MessageID == "" {
		return
	}

	if p == nil {
		p = &presence{}
		s.chats[keyOf(to)] = p
	} else {
		p.stop()
	}

	p.idle = false
	tell := func() {}
	if to.MessageID != "" {
		tell = s.mark(ctx, p, to)
	}

	ctx, p.stop = context.WithTimeout(ctx, presenceMax)
	s.work.Go(func() {
		tell()
		s.repeat(ctx, to)
	})
}

// mark adds a message to a chat, and returns what tells the platform. The lock
// is held.
func (s *signals) mark(ctx context.Context, p *presence, to bus.Route) (tell func()) {
	ctx, giveUp := context.WithCancel(ctx)
	m := &mark{to: to, giveUp: giveUp, set: make(chan struct{})}
	p.marked = append(p.marked, m)
	p.marked = p.marked[max(0, len(p.marked)-marksMax):]
	s.setting[m] = true
	return func() {
		_ = s.a.signal(ctx, to, chat.Seen) // cosmetic, like the others
		giveUp()
		close(m.set)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.setting, m)
	}
}

// repeat shows one chat's work until ctx ends.
func (s *signals) repeat(ctx context.Context, to bus.Route) {
	for ctx.Err() == nil {
		err := s.a.signal(ctx, to, chat.Working)
		d := s.a.caps.Typing
		if d <= 0 {
			return
		}

		if limited, ok := errors.AsType[*chat.RateLimitedError](err); ok {
			d = max(d, limited.After)
		}

		if wait.For(ctx, d) != nil {
			return
		}
	}
}

// stop ends what shows that a chat is worked on. Marks stay until done.
func (s *signals) stop(key chatKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.chats[key]; p != nil {
		p.stop()
		p.idle = true
	}
}

// done shows the end of the work on a message. What is shown about others of
// its chat stays.
func (s *signals) done(ctx context.Context, key chatKey, to bus.Route, end chat.Phase) {
	if s.a.signaller == nil {
		return
	}
	s.unmark(ctx, key, to)
	_ = s.a.signal(ctx, to, end)
}

// unanswered shows the outcome of a message that gets no answer of its own, such as
// one that joined a turn.
func (s *signals) unanswered(ctx context.Context, key chatKey, out bus.Outbound) {
	if s.unmark(ctx, key, out.Route) {
		_ = s.a.signal(ctx, out.Route, outcome(out.Turn))
	}
}

// unmark forgets a message, whose mark is set then, and reports whether it was
// known. While others wait, the chat goes on to show that it is worked on.
func (s *signals) unmark(ctx context.Context, key chatKey, to bus.Route) bool {
	s.mu.Lock()
	p := s.chats[key]
	if p == nil {
		s.mu.Unlock()
		return false
	}

	var known []*mark
	p.marked = slices.DeleteFunc(p.marked, func(m *mark) bool {
		if m.to.MessageID == to.MessageID {
			known = append(known, m)
			return true
		}
		return false
	})

	left := len(p.marked)
	if left == 0 {
		p.stop()
		delete(s.chats, key)
	}

	s.mu.Unlock()

	if left > 0 {
		s.show(ctx, bus.Route{Channel: to.Channel, ChatID: to.ChatID, ThreadID: to.ThreadID})
	}

	for _, m := range known {
		select {
		case <-m.set:
		case <-ctx.Done():
		}
	}
	return len(known) > 0
}

// outcome returns the phase that a turn ends with.
func outcome(t *bus.Turn) chat.Phase {
	switch {
	case t == nil:
		return chat.Answered
	case t.Error != "" || t.StopReason == "error":
		return chat.TurnFailed
	case t.StopReason == "stopped":
		return chat.TurnStopped
	}
	return chat.Answered
}
