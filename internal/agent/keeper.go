package agent

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/memory"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/text"
)

const (
	// quiet is how long a conversation must rest before it is looked after, so
	// that somebody who writes on is not answered by a busy model.
	quiet = 2 * time.Second
	// jobLimit bounds the work on one conversation.
	jobLimit = 10 * time.Minute
	// retryAfter is when a job that failed for reasons of ours is tried again.
	retryAfter = time.Minute

	keptPrefix = "\x00kept:" // no session key begins so

	// Conversations that fell silent while nanobot was not running are looked
	// for so long after the start, so far back, and so many at most. What is
	// older is taken in when somebody writes there again.
	lookBack   = 10 * time.Second
	leftFor    = 7 * 24 * time.Hour
	leftAtMost = 64
	lookID     = "\x00look"
)

// job is work on memory that is due some time.
type job struct {
	id     string // session key, or keptPrefix and a name
	due    time.Time
	frame  frame  // of the last turn; unused for kept ones
	kept   string // name of the end of a conversation that began anew
	preset string // of kept ones
	whole  bool   // the conversation fell silent: take in all of it
	resume bool   // it was silent before its last turn: take in all before that
	left   bool   // an earlier run left it; the frame is made when it is its turn
	index  int    // in the heap, -1 outside
}

// keeper does the work on memory that nobody waits for: one job at a time, in
// the order of their deadlines, never one of a conversation with a running
// turn. A turn that begins takes the job of its session away, or ends it.
type keeper struct {
	deps *deps
	wake chan struct{} // capacity 1: something changed

	mu      sync.Mutex
	queue   jobQueue
	jobs    map[string]*job
	running string // id of the job at work
	cancel  context.CancelFunc
	over    chan struct{} // closed when that job is over
}

func newKeeper(d *deps) *keeper {
	return &keeper{deps: d, wake: make(chan struct{}, 1), jobs: map[string]*job{}}
}

// run works until ctx ends. What is at work then can be done again.
func (k *keeper) run(ctx context.Context) {
	k.findKept(ctx)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		j, wait := k.next(ctx)
		if j != nil {
			k.work(j)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-k.wake:
		case <-ctx.Done():
		}
	}
}

// findKept takes up what an earlier run left.
func (k *keeper) findKept(ctx context.Context) {
	names, err := k.deps.opts.Memory.Consolidator.Kept()
	if err != nil {
		k.deps.log.WarnContext(ctx, "look for conversations to take in", "err", err)
	}
	for _, name := range names {
		k.add(&job{id: keptPrefix + name, kept: name, due: k.deps.now().Add(quiet)})
	}
	if k.deps.opts.Memory.IdleCompact > 0 {
		k.add(&job{id: lookID, due: k.deps.now().Add(lookBack)})
	}
}

// findLeft plans the conversations that an earlier run left without taking them
// in: each when it has been silent for long enough, and some time after the one
// before, so that a start does not cost a burst of model calls.
func (k *keeper) findLeft(ctx context.Context) error {
	now := k.deps.now()
	found, err := k.deps.opts.Sessions.Recent(ctx, now.Add(-leftFor), leftAtMost)
	if err != nil {
		return err
	}
	next := now
	for _, s := range slices.Backward(found) { // who is silent for longest comes first
		if !compacts(s.Key) || k.deps.mailboxes.holds(s.Key) {
			continue
		}
		due := s.Changed.Add(k.deps.opts.Memory.IdleCompact)
		if last := now.Add(k.deps.opts.Memory.IdleCompact); due.After(last) {
			due = last // the clock was turned back
		}
		if due.Before(next) {
			due = next
		}
		if k.addLeft(&job{id: s.Key, whole: true, left: true, due: due}) {
			next = due.Add(k.deps.opts.Memory.IdleCheck)
		}
	}
	return nil
}

// compacts reports whether a conversation is taken in when it falls silent.
// Jobs run in silence; a summary of each run would cost more than it is worth.
func compacts(key string) bool {
	return !strings.HasPrefix(key, "cron:") && key != "heartbeat" && !strings.HasPrefix(key, "dream:")
}

// addLeft adds a job unless there is one for the same conversation.
func (k *keeper) addLeft(j *job) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.jobs[j.id] != nil || k.running == j.id {
		return false
	}
	k.jobs[j.id] = j
	heap.Push(&k.queue, j)
	return true
}

// add puts a job in place of the one with the same id.
func (k *keeper) add(j *job) {
	k.mu.Lock()
	if old := k.jobs[j.id]; old != nil {
		heap.Remove(&k.queue, old.index)
	}
	k.jobs[j.id] = j
	heap.Push(&k.queue, j)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// pause takes the job of a session away. One that is at work is ended and
// waited for, so that a session never has two model calls at once.
func (k *keeper) pause(ctx context.Context, key string) {
	k.mu.Lock()
	if j := k.jobs[key]; j != nil {
		heap.Remove(&k.queue, j.index)
		delete(k.jobs, key)
	}
	var over chan struct{}
	if k.running == key && k.cancel != nil {
		k.cancel()
		over = k.over
	}
	k.mu.Unlock()
	if over != nil {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
}

// started is a job at work.
type started struct {
	*job
	ctx context.Context //nolint:containedctx // of this one job
}

// next takes the first job whose time has come, or says how long to wait.
func (k *keeper) next(ctx context.Context) (*started, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) == 0 {
		return nil, time.Hour
	}
	if wait := k.queue[0].due.Sub(k.deps.now()); wait > 0 {
		return nil, wait
	}
	j, _ := heap.Pop(&k.queue).(*job) // only jobs are in it
	delete(k.jobs, j.id)
	s := &started{job: j}
	s.ctx, k.cancel = context.WithTimeout(ctx, jobLimit)
	k.running, k.over = j.id, make(chan struct{})
	return s, 0
}

func (k *keeper) work(s *started) {
	again, err := k.do(s.ctx, s.job)
	cancelled := errors.Is(context.Cause(s.ctx), context.Canceled)
	k.mu.Lock()
	k.cancel()
	close(k.over)
	k.running, k.cancel, k.over = "", nil, nil
	k.mu.Unlock()
	if err != nil && !cancelled {
		k.deps.log.WarnContext(s.ctx, "work on memory", "session", s.id, "err", err)
		again = k.deps.now().Add(retryAfter)
		if s.kept == "" && !s.whole {
			again = time.Time{} // the next turn looks again
		}
	}
	if cancelled || again.IsZero() {
		return
	}
	s.due = again
	k.add(s.job)
}

// do works on one conversation and says when to come again, zero for never.
func (k *keeper) do(ctx context.Context, j *job) (again time.Time, err error) {
	if j.id == lookID {
		return time.Time{}, k.findLeft(ctx)
	}
	if j.left && k.deps.mailboxes.holds(j.id) {
		return time.Time{}, nil // its turn plans what comes after it
	}
	if err := k.deps.gate.enter(ctx); err != nil {
		return time.Time{}, err
	}
	defer k.deps.gate.leave()
	if j.kept != "" {
		return k.archive(ctx, j)
	}
	if j.whole && k.deps.opts.Memory.IdleCompact > 0 {
		if wait, err := k.stillBusy(ctx, j); err != nil || wait > 0 {
			return k.deps.now().Add(wait), err
		}
	}
	if j.left {
		rt, err := k.deps.opts.Models.Runtime(ctx, "")
		if err != nil {
			return time.Time{}, err
		}
		j.frame = k.deps.frameOf(rt)
	}
	_, err = k.deps.opts.Memory.Consolidator.Run(ctx, memory.Task{
		With:   func(ctx context.Context, fn func(*session.Session) error) error { return k.with(ctx, j.id, fn) },
		Engine: j.frame.engine(), Budget: j.frame.budget, Trigger: k.deps.opts.Memory.Consolidator.BackgroundTrigger(),
		Whole: j.whole || j.resume, KeepTurn: j.resume,
		Prompt: func(s *session.Session) (memory.Prompt, error) {
			c := newConversation()
			c.follow(s)
			return j.frame.prompt(c), nil
		},
	})
	if err != nil || j.whole || k.deps.opts.Memory.IdleCompact <= 0 {
		return time.Time{}, err
	}
	// What is left is taken in when the conversation falls silent.
	j.whole, j.resume = true, false
	return k.deps.now().Add(k.deps.opts.Memory.IdleCompact), nil
}

// stillBusy says how long a conversation lacks until it counts as silent:
// another process may have used it.
func (k *keeper) stillBusy(ctx context.Context, j *job) (wait time.Duration, err error) {
	err = k.with(ctx, j.id, func(s *session.Session) error {
		if u := s.Updated(); !u.IsZero() {
			// Times of sessions are kept to the microsecond.
			wait = k.deps.opts.Memory.IdleCompact - k.deps.now().Sub(u) - time.Millisecond
		}
		return nil
	})
	return wait, err
}

// with gives access to a session between its turns.
func (k *keeper) with(ctx context.Context, key string, fn func(*session.Session) error) error {
	s, err := k.deps.opts.Sessions.Acquire(ctx, key)
	if err != nil {
		return err
	}
	if s.OpenTurn() == nil {
		err = fn(s)
	}
	return errors.Join(err, s.Release())
}

func (k *keeper) archive(ctx context.Context, j *job) (time.Time, error) {
	rt, err := k.deps.opts.Models.Runtime(ctx, j.preset)
	if err != nil && j.preset != "" {
		rt, err = k.deps.opts.Models.Runtime(ctx, "")
	}
	if err != nil {
		return time.Time{}, err
	}
	f := k.deps.frameOf(rt)
	return k.deps.opts.Memory.Consolidator.Archive(ctx, j.kept, f.engine())
}

// afterTurn plans what memory has to do with the session now.
func (t *turn) afterTurn(used int, said string) {
	if !t.remembers() || t.frame.rt.Model == nil || strings.HasPrefix(t.key, "dream:") {
		return
	}
	f := t.frame
	j := &job{id: t.key, frame: f, due: t.deps.now().Add(quiet)}
	used += int(float64(text.Tokens(said)) * f.scale)
	switch {
	case f.budget > 0 && float64(used) > float64(f.budget)*t.deps.opts.Memory.Consolidator.BackgroundTrigger() || t.conv.owed:
	case !compacts(t.key):
		return
	case t.rested:
		j.resume = true
	case t.deps.opts.Memory.IdleCompact > 0:
		j.whole, j.due = true, t.deps.now().Add(t.deps.opts.Memory.IdleCompact)
	default:
		return
	}
	if j.whole || j.resume {
		j.frame.base, j.frame.system, j.frame.tools = "", "", nil // made from a transcript; many may wait
	}
	t.deps.memory.add(j)
}

// jobQueue is a heap of jobs, the next one due first.
type jobQueue []*job

func (q *jobQueue) Len() int           { return len(*q) }
func (q *jobQueue) Less(i, j int) bool { return (*q)[i].due.Before((*q)[j].due) }
func (q *jobQueue) Swap(i, j int) {
	s := *q
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push implements heap.Interface.
func (q *jobQueue) Push(x any) {
	j, _ := x.(*job) // only jobs are pushed
	j.index = len(*q)
	*q = append(*q, j)
}

// Pop implements heap.Interface.
func (q *jobQueue) Pop() any {
	old := *q
	j := old[len(old)-1]
	*q = old[:len(old)-1]
	j.index = -1
	return j
}
