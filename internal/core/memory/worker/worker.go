// Package worker hides when conversations are taken into memory: after a turn, when
// they fell silent, and when a new conversation began in their place. A Worker runs
// one job at a time and never one of a conversation with a running turn; a turn that
// begins ends the job of its session. What a process left undone is found again by
// a later one.
package worker

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/session"
)

const (
	// quiet is how long a conversation must rest before it is looked after, so
	// that a person who writes on does not meet a busy model.
	quiet = 2 * time.Second
	// jobLimit bounds the work on one conversation.
	jobLimit = 10 * time.Minute
	// retryAfter is when a job that failed for reasons of ours is tried again.
	retryAfter = time.Minute

	keptPrefix = "\x00kept:" // no session key begins so

	// What other processes left is looked for so long after the start and at
	// such intervals, conversations that fell silent so far back, and so many at
	// most. Older ones are taken in with their next message.
	scanBack   = 10 * time.Second
	scanEvery  = 45 * time.Second
	leftFor    = 7 * 24 * time.Hour
	leftAtMost = 64
	scanID     = "\x00look"
)

// job is work on memory that is due some time.
type job struct {
	id     string // session key, or keptPrefix and a name
	due    time.Time
	frame  Frame  // of the last turn; unused for kept ones
	kept   string // name of the end of a conversation that was started again
	preset string // of kept ones
	whole  bool   // the conversation fell silent: take in all of it
	resume bool   // it was silent before its last turn: take in all before that
	left   bool   // an earlier run left it; the frame is made when it is its turn
	hurry  bool   // Finish waits for it
	index  int    // in the heap, -1 outside
}

// Frame is the model that summarises a conversation, and how much it can read.
type Frame struct {
	Engine memory.Engine
	Budget int // of a prompt, in tokens
	Prompt func(s *session.Session) memory.Prompt
}

// Options of a Worker. Memory nil means that there is nothing to do.
type Options struct {
	Memory   *memory.Consolidator
	Sessions *session.Store
	// Idle is the silence after which all of a conversation is taken in; 0 is
	// never. Check is the time between two that fell silent before this run.
	Idle, Check time.Duration
	Busy        func(key string) bool // a session is worked on
	// Enter waits for a slot of the gate around model work, and Leave gives it back.
	Enter func(ctx context.Context) error
	Leave func()
	// Frame is that of work which belongs to no turn.
	Frame func(ctx context.Context, preset string) (Frame, error)
	Now   func() time.Time
	Log   *slog.Logger
}

// Worker does the work on memory that no turn waits for: one job at a time, in
// the order of their deadlines, never one of a conversation with a running
// turn. A turn that begins takes the job of its session away, or ends it.
type Worker struct {
	o    Options
	wake chan struct{} // capacity 1: something changed

	mu      sync.Mutex
	queue   jobQueue
	jobs    map[string]*job
	seen    map[string]time.Time // when conversations that were looked at had changed last
	waiting chan struct{}        // capacity 1: Finish waits for the end of a job; else nil
	running string               // id of the job at work
	cancel  context.CancelFunc
	over    chan struct{} // closed when that job is over
}

// New makes a Worker. It does nothing until Run.
func New(o Options) *Worker {
	return &Worker{o: o, wake: make(chan struct{}, 1), jobs: map[string]*job{}, seen: map[string]time.Time{}}
}

// When says when a conversation is taken in, and how much of it.
type When int

// The plans after a turn.
const (
	Soon     When = iota // it is long: what is too much, after a moment of quiet
	Resumed              // it was silent before its last turn: all before that, after a moment
	IfSilent             // all of it, when it falls silent
)

// Plan has a conversation taken in. It replaces an earlier plan.
func (w *Worker) Plan(key string, f Frame, when When) {
	j := &job{id: key, frame: f, due: w.o.Now().Add(quiet)}
	switch when {
	case Soon:
	case Resumed:
		j.resume = true
	case IfSilent:
		j.whole, j.due = true, w.o.Now().Add(w.o.Idle)
	}
	w.add(j)
}

// PlanKept has the end of a conversation taken in that was put aside under a name.
func (w *Worker) PlanKept(name, preset string) {
	w.add(&job{id: keptPrefix + name, kept: name, preset: preset, due: w.o.Now().Add(quiet)})
}

// Run works until ctx ends. What is at work then can be done again.
func (w *Worker) Run(ctx context.Context) {
	w.findKept(ctx)
	w.add(&job{id: scanID, due: w.o.Now().Add(scanBack)})
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()

	for ctx.Err() == nil {
		j, wait := w.next(ctx)
		if j != nil {
			w.work(j)
			continue
		}

		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-ctx.Done():
		}
	}
}

// Finish does now what is planned for the next moments and what other processes
// left, until ctx ends. Begun is called with the number of jobs if there are any.
// It returns how many are left; another process takes them up. Run must be
// going on.
func (w *Worker) Finish(ctx context.Context, begun func(n int)) (left int) {
	w.scan(ctx)
	w.mu.Lock()
	w.waiting = make(chan struct{}, 1)

	for _, j := range w.jobs {
		if j.id != scanID && (!j.whole || !j.due.After(w.o.Now())) {
			j.hurry, j.due = true, w.o.Now()
		}
	}

	heap.Init(&w.queue)
	w.mu.Unlock()
	w.nudge()

	for n := w.hurried(); ; n = w.hurried() {
		if n > 0 && begun != nil {
			begun(n)
			begun = nil
		}

		if n == 0 {
			return w.unfinished()
		}

		select {
		case <-w.waiting:
		case <-ctx.Done():
			return max(n, w.unfinished())
		}
	}
}

// hurried counts the jobs that Finish waits for.
func (w *Worker) hurried() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for _, j := range w.jobs {
		if j.hurry {
			n++
		}
	}

	if w.running != "" && w.running != scanID {
		n++
	}
	return n
}

// unfinished counts the jobs that wait for another try.
func (w *Worker) unfinished() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if j.kept != "" || j.id != scanID && !j.whole {
			n++
		}
	}
	return n
}

// scan looks for what other processes left.
func (w *Worker) scan(ctx context.Context) {
	w.findKept(ctx)
	if w.o.Idle <= 0 {
		return
	}
	if err := w.findLeft(ctx); err != nil && ctx.Err() == nil {
		w.o.Log.WarnContext(ctx, "cannot look for silent conversations", "err", err)
	}
}

// findKept takes up what an earlier run left.
func (w *Worker) findKept(ctx context.Context) {
	names, err := w.o.Memory.Kept()
	if err != nil {
		w.o.Log.WarnContext(ctx, "cannot look for conversations to take in", "err", err)
	}
	for _, name := range names {
		w.addLeft(&job{id: keptPrefix + name, kept: name, due: w.o.Now().Add(quiet)})
	}
}

// findLeft plans the conversations that an earlier run left without taking them
// in: each when it has been silent for long enough, and some time after the one
// before, so that a start does not cost a burst of model calls.
func (w *Worker) findLeft(ctx context.Context) error {
	now := w.o.Now()
	found, err := w.o.Sessions.Recent(ctx, now.Add(-leftFor), leftAtMost)
	if err != nil {
		return err
	}

	next := now
	for _, s := range slices.Backward(found) { // who is silent for longest comes first
		if !Compacts(s.Key) || w.o.Busy(s.Key) || w.known(s) {
			continue
		}

		due := s.Changed.Add(w.o.Idle)
		if last := now.Add(w.o.Idle); due.After(last) {
			due = last // the clock was turned back
		}
		if due.Before(next) {
			due = next
		}
		if w.addLeft(&job{id: s.Key, whole: true, left: true, due: due}) {
			next = due.Add(w.o.Check)
		}
	}

	return nil
}

// known reports whether a conversation is as it was when it was looked at before.
func (w *Worker) known(s session.Seen) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) > 2*leftAtMost {
		clear(w.seen)
	}
	before, ok := w.seen[s.Key]
	w.seen[s.Key] = s.Changed
	return ok && before.Equal(s.Changed)
}

// Compacts reports whether a conversation is taken in when it falls silent.
// Jobs run in silence; a summary of each run would cost more than it is worth.
func Compacts(key string) bool {
	return !session.Unattended(key)
}

// addLeft adds a job unless there is one for the same conversation.
func (w *Worker) addLeft(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[j.id] != nil || w.running == j.id {
		return false
	}
	w.jobs[j.id] = j
	heap.Push(&w.queue, j)
	return true
}

// add puts a job in place of the one with the same id.
func (w *Worker) add(j *job) {
	w.mu.Lock()
	if old := w.jobs[j.id]; old != nil {
		heap.Remove(&w.queue, old.index)
	}
	w.jobs[j.id] = j
	heap.Push(&w.queue, j)
	w.mu.Unlock()
	w.nudge()
}

// nudge makes Run look at the queue.
func (w *Worker) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Pause takes the job of a session away. One that is at work is ended and
// waited for, so that a session never has two model calls at once.
func (w *Worker) Pause(ctx context.Context, key string) {
	w.mu.Lock()
	if j := w.jobs[key]; j != nil {
		heap.Remove(&w.queue, j.index)
		delete(w.jobs, key)
	}

	var over chan struct{}
	if w.running == key && w.cancel != nil {
		w.cancel()
		over = w.over
	}

	w.mu.Unlock()
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
func (w *Worker) next(ctx context.Context) (*started, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if len(w.queue) == 0 {
		return nil, time.Hour
	}
	if wait := w.queue[0].due.Sub(w.o.Now()); wait > 0 {
		return nil, wait
	}

	j, _ := heap.Pop(&w.queue).(*job) // only jobs are in it
	delete(w.jobs, j.id)
	j.hurry = false
	s := &started{job: j}
	s.ctx, w.cancel = context.WithTimeout(ctx, jobLimit)
	w.running, w.over = j.id, make(chan struct{})
	return s, 0
}

func (w *Worker) work(s *started) {
	defer w.jobDone()
	again, err := w.do(s.ctx, s.job)
	cancelled := errors.Is(context.Cause(s.ctx), context.Canceled)
	w.mu.Lock()
	w.cancel()
	close(w.over)
	w.running = ""
	w.cancel = nil
	w.over = nil
	w.mu.Unlock()

	if err != nil && !cancelled {
		w.o.Log.WarnContext(s.ctx, "cannot work on memory", "session", s.id, "err", err)
		again = w.o.Now().Add(retryAfter)
		if s.kept == "" && !s.whole {
			again = time.Time{} // the next turn looks again
		}
	}

	if cancelled || again.IsZero() {
		return
	}

	s.due = again
	w.add(s.job)
}

// jobDone wakes Finish after a job.
func (w *Worker) jobDone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.waiting <- struct{}{}:
	default: // Finish does not wait, or the next scan comes anyway
	}
}

// do works on one conversation and says when to come again, zero for never.
func (w *Worker) do(ctx context.Context, j *job) (again time.Time, err error) {
	if j.id == scanID {
		w.scan(ctx)
		return w.o.Now().Add(scanEvery), nil
	}
	if j.left && w.o.Busy(j.id) {
		return time.Time{}, nil // its turn plans what comes after it
	}
	if err := w.o.Enter(ctx); err != nil {
		return time.Time{}, err
	}

	defer w.o.Leave()
	if j.kept != "" {
		return w.archive(ctx, j)
	}

	if j.whole && w.o.Idle > 0 {
		if wait, err := w.stillBusy(ctx, j); err != nil || wait > 0 {
			return w.o.Now().Add(wait), err
		}
	}

	if j.left {
		if j.frame, err = w.o.Frame(ctx, ""); err != nil {
			return time.Time{}, err
		}
	}

	_, err = w.o.Memory.Run(ctx, memory.Task{
		With:   func(ctx context.Context, fn func(*session.Session) error) error { return w.with(ctx, j.id, fn) },
		Engine: j.frame.Engine, Budget: j.frame.Budget, Trigger: w.o.Memory.BackgroundTrigger(),
		Whole: j.whole || j.resume, KeepTurn: j.resume,
		Prompt: func(s *session.Session) (memory.Prompt, error) { return j.frame.Prompt(s), nil },
	})
	if err != nil || j.whole || w.o.Idle <= 0 {
		return time.Time{}, err
	}

	// What is left is taken in when the conversation falls silent.
	j.whole, j.resume = true, false
	return w.o.Now().Add(w.o.Idle), nil
}

// stillBusy says how long a conversation lacks until it counts as silent:
// another process may have used it.
func (w *Worker) stillBusy(ctx context.Context, j *job) (wait time.Duration, err error) {
	err = w.with(ctx, j.id, func(s *session.Session) error {
		if u := s.Updated(); !u.IsZero() {
			// Times of sessions are kept to the microsecond.
			wait = w.o.Idle - w.o.Now().Sub(u) - time.Millisecond
		}
		return nil
	})
	return wait, err
}

// with gives access to a session between its turns.
func (w *Worker) with(ctx context.Context, key string, fn func(*session.Session) error) error {
	s, err := w.o.Sessions.Acquire(ctx, key)
	if err != nil {
		return err
	}
	if s.OpenTurn() == nil {
		err = fn(s)
	}
	return errors.Join(err, s.Release())
}

func (w *Worker) archive(ctx context.Context, j *job) (time.Time, error) {
	f, err := w.o.Frame(ctx, j.preset)
	if err != nil {
		return time.Time{}, err
	}
	return w.o.Memory.Archive(ctx, j.kept, f.Engine)
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
