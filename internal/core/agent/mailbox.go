package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
)

// mailboxes are the messages of all sessions, with the goroutines that work
// through them: one session is never worked on twice at once.
type mailboxes struct {
	// handle answers one message.
	handle func(ctx context.Context, act *actor, it *envelope) error

	mu     sync.Mutex
	base   context.Context //nolint:containedctx // the context of Run, which owns all turns
	cancel context.CancelCauseFunc
	idle   chan *actor   // unbuffered: taken by a goroutine that waits, or not at all
	quit   chan struct{} // closed when no more messages come
	actors map[string]*actor
	wg     sync.WaitGroup
}

func newMailboxes(handle func(ctx context.Context, act *actor, it *envelope) error) *mailboxes {
	return &mailboxes{handle: handle, idle: make(chan *actor), quit: make(chan struct{}), actors: map[string]*actor{}}
}

// actor works through the mailbox of one session. All fields are guarded by
// mailboxes.mu; the goroutine itself lives as long as there is something to do.
type actor struct {
	key     string
	queue   []*envelope
	current *envelope
	cancel  context.CancelCauseFunc // of the running turn
	turnEnd chan struct{}           // closed when the running turn is over
	waiting *waiting                // a question the running turn waits on
}

// open accepts messages from now on.
func (m *mailboxes) open(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base == nil && m.cancel == nil {
		m.base, m.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	}
}

// close refuses new messages, lets running turns finish for a grace time,
// cancels the rest and waits for them.
func (m *mailboxes) close(grace time.Duration) {
	m.mu.Lock()
	m.base = nil // refuse new messages
	close(m.quit)
	m.mu.Unlock()
	idle := make(chan struct{})
	go func() { m.wg.Wait(); close(idle) }()
	wait := time.NewTimer(grace)
	defer wait.Stop()

	select {
	case <-idle:
	case <-wait.C:
		m.cancel(turn.ErrClosed)
		<-idle
	}

	m.cancel(turn.ErrClosed)
}

// enqueue adds a message to the mailbox of its session, and starts a goroutine for
// a mailbox that has none.
func (m *mailboxes) enqueue(it *envelope) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.base == nil {
		return turn.ErrClosed
	}

	act := m.actors[it.key]
	if act == nil {
		act = &actor{key: it.key, queue: []*envelope{it}}
		m.actors[it.key] = act
		m.start(act)
		return nil
	}

	if act.answered(it) {
		return nil
	}
	if len(act.queue) >= mailboxCap {
		return ErrBusy
	}

	act.queue = append(act.queue, it)
	m.remind(act.waiting, it)
	return nil
}

// answer gives an answer to the question it is for. Open is the question that
// waits for the same person when the answer is none of its options.
func (m *mailboxes) answer(it *envelope) (taken bool, open *bus.Question) {
	m.mu.Lock()
	defer m.mu.Unlock()
	act := m.actors[it.key]
	taken = m.base != nil && act.answered(it)
	if act != nil && act.waiting.mine(it.in) && act.waiting.q.IsAnsweredBy(it.in.Answer) {
		open = &act.waiting.q
	}
	return taken, open
}

// waiting returns how many messages wait in a session.
func (m *mailboxes) waiting(key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if act := m.actors[key]; act != nil {
		return len(act.queue)
	}
	return 0
}

// queued returns the messages that wait in a session.
func (m *mailboxes) queued(act *actor) []*envelope {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(act.queue)
}

// holds reports whether a session has a turn or messages that wait for one.
func (m *mailboxes) holds(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.actors[key] != nil
}

// start hands an actor to a goroutine that just finished another one, or to a
// new one. The caller holds the lock.
func (m *mailboxes) start(act *actor) {
	select {
	case m.idle <- act:
	default:
		base := m.base
		m.wg.Go(func() { m.serve(base, act) })
	}
}

// lingers is how long a goroutine waits for another actor. A new one would
// have to grow its stack again, which costs more than a quick turn does.
const lingers = 100 * time.Millisecond

// serve works through actors until none comes for a while.
func (m *mailboxes) serve(base context.Context, act *actor) {
	wait := time.NewTimer(lingers)
	defer wait.Stop()
	for {
		m.work(base, act)
		wait.Reset(lingers)
		select {
		case act = <-m.idle:
		case <-wait.C:
			return
		case <-m.quit:
			return
		}
	}
}

// spawn runs f as a goroutine that Run waits for.
func (m *mailboxes) spawn(f func(ctx context.Context)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base == nil {
		return turn.ErrClosed
	}
	m.begin(m.base, f)
	return nil
}

func (m *mailboxes) begin(ctx context.Context, f func(ctx context.Context)) {
	m.wg.Go(func() { f(ctx) })
}

// work goes through the mailbox of an actor, message after message until none
// is left.
func (m *mailboxes) work(base context.Context, act *actor) {
	for {
		m.mu.Lock()
		if len(act.queue) == 0 {
			delete(m.actors, act.key)
			m.mu.Unlock()
			return
		}

		it := act.queue[0]
		act.queue = act.queue[1:]
		ctx, cancel := context.WithCancelCause(base)
		act.current = it
		act.cancel = cancel
		act.turnEnd = make(chan struct{})
		it.began = time.Now()
		it.touch()
		m.mu.Unlock()

		// The asker going away stops its turn, like /stop does.
		unlink := context.AfterFunc(it.ctx, func() { cancel(context.Cause(it.ctx)) }) //nolint:contextcheck // two lives meet here
		err := m.handle(ctx, act, it)
		unlink()
		cancel(nil)

		m.mu.Lock()
		close(act.turnEnd)
		act.cancel, act.turnEnd = nil, nil // current stays: its end may take long, see Pulse
		m.mu.Unlock()
		it.Done(err)

		for _, j := range it.joined {
			if !errors.Is(err, turn.ErrClosed) {
				j.Done(nil)
			}
		}
	}
}

// cut cancels the running turn of a session and takes away what was queued
// behind it, which the caller drops. A person who is not an owner cuts only
// what they asked for themselves; by is nil if no person in the chat asked for it.
func (m *mailboxes) cut(key string, by *bus.Inbound) (s stopped) {
	m.mu.Lock()
	defer m.mu.Unlock()

	act := m.actors[key]
	if act == nil {
		return s
	}

	theirs := func(it *envelope) bool { return by == nil || by.Scope == "" || by.SenderID == it.in.SenderID }
	var kept []*envelope
	for _, it := range act.queue {
		if theirs(it) {
			s.queue = append(s.queue, it)
		} else {
			kept = append(kept, it)
		}
	}

	act.queue = kept
	if act.cancel == nil {
		return s
	}

	if s.refused = !theirs(act.current); !s.refused {
		act.cancel(turn.ErrStopped)
		s.over = act.turnEnd
	}
	return s
}

// stopped is what cut ended.
type stopped struct {
	queue   []*envelope
	over    <-chan struct{} // closes when the turn is over; nil if none ran
	refused bool            // the turn belongs to another message
}

func (s stopped) drop(err error) {
	for _, it := range s.queue {
		it.Done(err)
	}
}

// abandon ends the work on one message of a session for a reason.
func (m *mailboxes) abandon(key, id string, why error) {
	m.mu.Lock()
	act := m.actors[key]
	var waiting []*envelope
	if act != nil {
		i := slices.IndexFunc(act.queue, func(it *envelope) bool { return it.in.ID == id })
		switch {
		case act.current != nil && act.current.in.ID == id && act.cancel != nil:
			act.cancel(why)
		case i >= 0:
			waiting = append(waiting, act.queue[i])
			act.queue = slices.Delete(act.queue, i, i+1)
		}
	}

	m.mu.Unlock()
	stopped{queue: waiting}.drop(why)
}

// dequeueInjections removes up to n messages from the front of the mailbox that
// may join the running turn. Commands, messages that want a turn of their own
// and those whose sender would not see the reply stop the taking, so the order
// of arrival holds.
func (m *mailboxes) dequeueInjections(act *actor, n int) []*envelope {
	m.mu.Lock()
	defer m.mu.Unlock()

	var out []*envelope
	for len(out) < n && len(act.queue) > 0 {
		it := act.queue[0]
		elsewhere := it.replyTo != nil && !it.in.Route.SameChat(act.current.in.Route)
		other := it.in.Scope != act.current.in.Scope || it.in.Identity != act.current.in.Identity // may not see what this turn sees, or do what it may
		if elsewhere || other || it.in.OwnTurn || it.in.Shell || looksLikeCommand(it.in.Text) {
			break
		}
		act.queue = act.queue[1:]
		out = append(out, it)
	}

	return out
}

// active counts the turns that run now.
func (m *mailboxes) active() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, act := range m.actors {
		if act.current != nil {
			n++
		}
	}
	return n
}

// remind says that a message did not answer the question that is open. The
// caller holds the lock.
func (m *mailboxes) remind(w *waiting, it *envelope) {
	if !w.mine(it.in) {
		return
	}

	text := phrase.In(it.in.Language, textOpen, w.q.Code)
	m.begin(m.base, func(context.Context) {
		select {
		case <-it.done: // nil for a message of a queue
		default:
			it.Emit(bus.Outbound{Kind: bus.Notice, Route: it.in.Route, Text: text})
		}
	})
}

// touch notes that the running turn of a session moves.
func (m *mailboxes) touch(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if act := m.actors[key]; act != nil && act.current != nil {
		act.current.touch()
	}
}
