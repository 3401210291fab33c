package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// actor works through the mailbox of one session. All fields are guarded by
// Agent.mu; the goroutine itself lives as long as there is something to do.
type actor struct {
	key     string
	queue   []*item
	current *item
	cancel  context.CancelCauseFunc // of the running turn
	turnEnd chan struct{}           // closed when the running turn is over
	turn    *turn                   // the running turn, for tools that are about it
	waiting *waiting                // a question the running turn waits on
}

// submit puts a message into its mailbox, or answers it at once.
func (a *Agent) submit(it *item) error {
	if it.in.At.IsZero() {
		it.in.At = a.Now()
	}
	it.in.Scope = a.scopeOf(it.in.Scope)
	if it.in.Answer != nil {
		return a.submitAnswer(it)
	}
	if c, ok := a.command(it); ok {
		if c.row.Ends && c.fits() {
			// What came before it is ended at once, so that what comes right behind
			// it is safe.
			c.stopped = a.cut(it.key, &it.in)
		}
		if c.row.DuringTurn {
			err := a.spawn(func(base context.Context) { c.stopped.drop(ErrStopped); c.beside(base) })
			if err != nil {
				c.stopped.drop(err)
			}
			return err
		}
		c.stopped.drop(ErrStopped)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.base == nil {
		return ErrClosed
	}
	act := a.actors[it.key]
	if act == nil {
		act = &actor{key: it.key, queue: []*item{it}}
		a.actors[it.key] = act
		a.start(act)
		return nil
	}
	if act.answered(it) {
		return nil
	}
	if len(act.queue) >= mailboxCap {
		return ErrBusy
	}
	act.queue = append(act.queue, it)
	a.remind(act.waiting, it)
	return nil
}

// submitAnswer takes an answer to its question, or says that there is none.
func (a *Agent) submitAnswer(it *item) error {
	a.mu.Lock()
	act := a.actors[it.key]
	taken := a.base != nil && act.answered(it)
	var open *bus.Question
	if act != nil && act.waiting.mine(it.in) && act.waiting.q.Takes(it.in.Answer) {
		open = &act.waiting.q
	}
	a.mu.Unlock()
	if taken {
		return nil
	}
	return a.refused(it, open)
}

// BusyWith reports whether a conversation has a turn or messages that wait for one.
func (a *Agent) BusyWith(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.actors[key] != nil
}

// start hands an actor to a goroutine that just finished another one, or to a
// new one. The caller holds the lock.
func (a *Agent) start(act *actor) {
	select {
	case a.idle <- act:
	default:
		base := a.base
		a.wg.Go(func() { a.serve(base, act) })
	}
}

// lingers is how long a goroutine waits for another actor. A new one would
// have to grow its stack again, which costs more than a quick turn does.
const lingers = 100 * time.Millisecond

// serve works through actors until none comes for a while.
func (a *Agent) serve(base context.Context, act *actor) {
	wait := time.NewTimer(lingers)
	defer wait.Stop()
	for {
		a.work(base, act)
		wait.Reset(lingers)
		select {
		case act = <-a.idle:
		case <-wait.C:
			return
		case <-a.quit:
			return
		}
	}
}

// spawn runs f as a goroutine that Run waits for.
func (a *Agent) spawn(f func(ctx context.Context)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.base == nil {
		return ErrClosed
	}
	a.begin(a.base, f)
	return nil
}

func (a *Agent) begin(ctx context.Context, f func(ctx context.Context)) {
	a.wg.Go(func() { f(ctx) })
}

// work goes through the mailbox of an actor, message after message until none
// is left.
func (a *Agent) work(base context.Context, act *actor) {
	for {
		a.mu.Lock()
		if len(act.queue) == 0 {
			delete(a.actors, act.key)
			a.mu.Unlock()
			return
		}
		it := act.queue[0]
		act.queue = act.queue[1:]
		ctx, cancel := context.WithCancelCause(base)
		act.current, act.cancel, act.turnEnd = it, cancel, make(chan struct{})
		it.began = time.Now()
		it.stir()
		a.mu.Unlock()

		// The asker going away stops its turn, like /stop does.
		unlink := context.AfterFunc(it.ctx, func() { cancel(context.Cause(it.ctx)) }) //nolint:contextcheck // two lives meet here
		err := a.handle(ctx, act, it)
		unlink()
		cancel(nil)

		a.mu.Lock()
		close(act.turnEnd)
		var joined []*item
		if act.turn != nil {
			joined = act.turn.joined
		}
		act.cancel, act.turnEnd, act.turn = nil, nil, nil // current stays: its end may take long, see Pulse
		a.mu.Unlock()
		it.finish(err)
		for _, j := range joined {
			if !errors.Is(err, ErrClosed) {
				j.finish(nil)
			}
		}
	}
}

// cut cancels the running turn of a session and takes away what was queued
// behind it, which the caller drops. Somebody who is not an owner cuts only
// what they asked for themselves; by is nil if nobody in the chat wants it.
func (a *Agent) cut(key string, by *bus.Inbound) (s stopped) {
	a.mu.Lock()
	defer a.mu.Unlock()
	act := a.actors[key]
	if act == nil {
		return s
	}
	theirs := func(it *item) bool { return by == nil || by.Scope == "" || by.SenderID == it.in.SenderID }
	var kept []*item
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
		act.cancel(ErrStopped)
		s.over = act.turnEnd
	}
	return s
}

// stopped is what cut ended.
type stopped struct {
	queue   []*item
	over    <-chan struct{} // closes when the turn is over; nil if none ran
	refused bool            // the turn is somebody else's
}

func (s stopped) drop(err error) {
	for _, it := range s.queue {
		it.finish(err)
	}
}

// Stop ends the running turn of a session, drops the messages queued before
// now, waits a short while for everything to come to rest and says what happened.
func (a *Agent) Stop(ctx context.Context, key string) string {
	s := a.cut(key, nil)
	s.drop(ErrStopped)
	return a.settle(ctx, key, s)
}

// StopMessage ends the work on one message, whether it has a turn or waits for
// one. In a conversation that people take part in nothing else is stopped.
func (a *Agent) StopMessage(ctx context.Context, in bus.Inbound) {
	a.abandon(in, ErrStopped)
	key := a.keyOf(in)
	if key == in.Event || strings.HasPrefix(key, in.Event+":") { // it has the conversation to itself
		a.Stop(ctx, key)
	}
}

// abandon ends the work on one message for a reason.
func (a *Agent) abandon(in bus.Inbound, why error) {
	a.mu.Lock()
	act := a.actors[a.keyOf(in)]
	var waiting []*item
	if act != nil {
		i := slices.IndexFunc(act.queue, func(it *item) bool { return it.in.ID == in.ID })
		switch {
		case act.current != nil && act.current.in.ID == in.ID && act.cancel != nil:
			act.cancel(why)
		case i >= 0:
			waiting = append(waiting, act.queue[i])
			act.queue = slices.Delete(act.queue, i, i+1)
		}
	}
	a.mu.Unlock()
	stopped{queue: waiting}.drop(why)
}

// settle does the rest of Stop.
func (a *Agent) settle(ctx context.Context, key string, s stopped) string {
	dropped, over := len(s.queue), s.over
	if s.refused {
		if dropped > 0 {
			return plural(dropped, "waiting message") + " of yours dropped. What runs was asked for by somebody else, who can stop it."
		}
		return "What runs was asked for by somebody else. They or an owner can stop it."
	}
	if a.Ended != nil {
		a.Ended(key, true)
	}
	helpers := a.subagents.Stop(key)
	if over == nil && dropped == 0 && helpers == 0 {
		return "Nothing is running."
	}
	reply := "Stopped."
	if helpers > 0 {
		reply = fmt.Sprintf("Stopped, with %s.", plural(helpers, "subagent"))
	}
	if over != nil {
		wait := time.NewTimer(stopWait)
		defer wait.Stop()
		select {
		case <-over:
		case <-wait.C:
			reply = "Stopping; a tool has not come to rest yet."
		case <-ctx.Done():
		}
	}
	if dropped > 0 {
		reply += fmt.Sprintf(" %s dropped.", plural(dropped, "waiting message"))
	}
	return reply
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// takeInjections removes up to n messages from the front of the mailbox that
// may join the running turn. Commands, messages that want a turn of their own
// and those whose sender would not see the reply stop the taking, so the order
// of arrival holds.
func (a *Agent) takeInjections(act *actor, n int) []*item {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []*item
	for len(out) < n && len(act.queue) > 0 {
		it := act.queue[0]
		elsewhere := it.post != nil && !it.in.Route.SameChat(act.current.in.Route)
		other := it.in.Scope != act.current.in.Scope || it.in.Identity != act.current.in.Identity // may not see what this turn sees, or do what it may
		if elsewhere || other || it.in.OwnTurn || it.in.Shell || looksLikeCommand(it.in.Text) {
			break
		}
		act.queue = act.queue[1:]
		out = append(out, it)
	}
	return out
}

// inject converts waiting messages into user messages of the running turn.
// Each is kept in the session before the model sees it.
func (t *turn) inject(ctx context.Context, n int) (out []llm.Message, outside bool) {
	items := t.takeInjections(t.act, n)
	for _, it := range items {
		if it.in.ID != "" && t.sess.SeenInbound(it.in.ID) {
			t.join(it)
			continue
		}
		rec, msg := t.userMessage(ctx, it.in)
		if err := t.sess.Append(rec); err != nil {
			t.Log.ErrorContext(ctx, "keep injected message", "session", t.key, "err", err)
			it.finish(fmt.Errorf("keep the message: %w", err))
			continue
		}
		it.emit(bus.Outbound{Kind: bus.Notice, Route: it.in.Route, Text: "added to the running turn"})
		t.join(it)
		out, outside = append(out, msg), outside || fromOutside(&rec)
	}
	if len(out) > 0 {
		if err := t.sess.Sync(ctx); err != nil {
			t.Log.ErrorContext(ctx, "sync injected messages", "session", t.key, "err", err)
		}
	}
	return out, outside
}

// active counts the turns that run now.
func (a *Agent) active() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, act := range a.actors {
		if act.current != nil {
			n++
		}
	}
	return n
}

// conversationOf returns the cached view of a session, making room by
// forgetting the longest unused one that no actor works on.
func (a *Agent) conversationOf(key string) *conversation {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.live[key]
	if c == nil {
		if len(a.live) >= liveCap {
			a.forgetOldest()
		}
		c = newConversation()
		a.live[key] = c
	}
	c.used = a.Now()
	a.shrink(key)
	return c
}

// shrink lets go of the messages of the longest unused conversation when there
// are too many in memory. They are read again when they are needed. One at a
// time is enough, because a turn adds few. The caller holds the lock.
func (a *Agent) shrink(current string) {
	var oldest string
	total := 0
	for k, c := range a.live {
		total += c.size
		if k != current && c.size > 0 && a.actors[k] == nil && (oldest == "" || c.used.Before(a.live[oldest].used)) {
			oldest = k
		}
	}
	if total > liveSize && oldest != "" {
		a.unload(oldest)
	}
}

// unload lets go of the messages of a conversation. The caller holds the lock.
func (a *Agent) unload(key string) {
	old := a.live[key]
	a.live[key] = &conversation{used: old.used, state: old.state}
}

// Unload lets go of the messages of all conversations that nobody works on.
// They are read again when they are needed.
func (a *Agent) Unload() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k := range a.live {
		if a.actors[k] == nil {
			a.unload(k)
		}
	}
}

func (a *Agent) forgetOldest() {
	var oldest string
	for k, c := range a.live {
		if a.actors[k] == nil && (oldest == "" || c.used.Before(a.live[oldest].used)) {
			oldest = k
		}
	}
	delete(a.live, oldest)
	delete(a.stats, oldest)
}

func (a *Agent) forget(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.live, key)
	delete(a.stats, key)
}
