// Package schedule runs things later: jobs of people (cron expressions,
// intervals, single moments), the heartbeat, system jobs such as Dream, and
// local triggers. It hides the file format of jobs.json, time zones and
// summer time, what happens to runs that were missed, and how each occurrence
// becomes exactly one message on the queue although the program may die at any
// moment.
//
// The file is the truth: each change is a transaction on it, so that several
// processes, and people with an editor, can change jobs while another process
// runs them. One process at a time, the owner, runs jobs.
package schedule

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Limits of jobs. Zero values mean the defaults in brackets.
type Limits struct {
	CatchUp       string         // for jobs that say nothing [once]
	CatchUpWindow time.Duration  // how late a cron occurrence may still run [6 h, at most its period]
	AtWindow      time.Duration  // how late a single moment may still run [24 h]
	Concurrent    int            // runs going on at once [4]
	Timeout       time.Duration  // of one run [15 min]
	Jobs          int            // that may exist [100]
	JobsPerChat   int            // of guests [20]
	Host          *time.Location // of cron jobs that name no zone, as in Python nanobot [time.Local]
	MinInterval   time.Duration  // between runs [10 s]
	ErrorsInRow   int            // after which a job is switched off [5]
	Quiet         Hours          // recurring jobs wait until it is over; a named moment does not
}

// System is a job of the program itself. People cannot remove it; its state
// outlives restarts.
type System struct {
	ID, Name string
	Purpose  string
	Timing   Timing
	// Run does the work. ErrSkip, wrapped or not, means there was none.
	Run func(ctx context.Context) error
}

// ErrSkip is returned by the run of a system job when there was nothing to do.
var ErrSkip = errors.New("nothing to do")

// GuestOptions are those of a guest. It leaves the program's own jobs and
// triggers alone, and ends when a process starts that runs all jobs.
type GuestOptions struct {
	// Takes reports the chats whose jobs it runs. nil: it is not a guest.
	Takes func(r bus.Route) bool
	// Leave makes the guest's agent drop a message without an answer, because
	// another process will answer it. May be nil.
	Leave func(in bus.Inbound)
}

// Observer counts how late runs began, and how they ended or why there was
// none. Its functions are for statistics, must not wait, and may be nil.
type Observer struct {
	Began func(late time.Duration)
	Ended func(status string)
}

// Options of a Scheduler. State is required; a Scheduler that is only used to look
// at jobs and change them needs nothing else.
type Options struct {
	// State holds jobs, triggers and locks, where no command reaches them; see
	// Place.
	State store.Store
	// Workspace has the list of the heartbeat, and a copy of the jobs for people
	// and other programs to read. "" is without both.
	Workspace string
	// Submit hands a run to the agent: nil means that it is durable. An id that
	// was submitted before is dropped.
	Submit func(ctx context.Context, in bus.Inbound) error
	// Language is the one that sentences for a channel are in. nil is English.
	Language func(channel string) string
	// Notify delivers a sentence of ours to a chat, durably.
	Notify func(ctx context.Context, out bus.Outbound) error
	// Stop ends the work on a message that was submitted, when a run takes too
	// long. Others in the same conversation may not suffer. May be nil.
	Stop func(ctx context.Context, in bus.Inbound)
	// Guest makes the Scheduler a guest, for a process that people open and
	// close. The zero value is none: it runs everything.
	Guest GuestOptions
	// Blocked is told once when Run waits unusually long for another process
	// that runs the jobs. May be nil.
	Blocked func(ctx context.Context, err error)
	// Deliverable says why nothing can be delivered to a chat now, such as a
	// channel that is switched off; nil: it can. May be nil.
	Deliverable func(r bus.Route) error
	// LastRoute is the chat the owner used last. It gets what cannot go where it
	// should, and what the heartbeat finds. May be nil.
	LastRoute func(ctx context.Context) (bus.Route, bool)
	Heartbeat Heartbeat
	System    []System
	// Foreign reports files of the workspace that hold words from outside. nil
	// means that there are none. They are neither followed nor taken over.
	Foreign func(path string) bool
	// Repaired is told where a damaged file with jobs was kept when the last
	// good copy took its place. nil tells the owner, if there is Notify.
	Repaired func(ctx context.Context, aside string)
	// Observer is told about runs.
	Observer Observer
	// Preview tells what a job that runs so often a month will cost; "" if that
	// is not known. May be nil.
	Preview func(ctx context.Context, perMonth float64) string
	// Watch calls changed whenever something happens in one of the folders,
	// until ctx ends. nil means the notifications of the operating system.
	Watch func(ctx context.Context, dirs []string, changed func()) error

	Limits   Limits
	Location *time.Location // of people; new cron jobs name it
	Now      func() time.Time
	Log      *slog.Logger
}

// Scheduler keeps jobs and, between the beginning and the end of Run, runs
// them. All methods are safe for concurrent use.
type Scheduler struct {
	Options
	// Triggers are the triggers of the workspace. Run delivers what waits for
	// them, too.
	Triggers *Triggers

	store     *jobStore
	planner   *planner
	notifier  *notifier
	heartbeat *heartbeat
	runs      *runs
	wake      chan struct{}             // capacity 1: the plan may have changed
	lastIdle  idleCheck                 // belongs to the goroutine of Run
	lastCheck atomic.Pointer[time.Time] // when Run looked at the jobs last; nil: it does not run
	serving   atomic.Bool               // a guest between the beginning and the end of Run
}

// Open prepares a Scheduler. It starts nothing and reads nothing.
func Open(o Options) (*Scheduler, error) {
	if o.State == nil {
		return nil, errors.New("schedule: a store for the jobs is required")
	}

	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Limits.Host == nil {
		o.Limits.Host = time.Local
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Watch == nil {
		o.Watch = o.State.Watch
	}
	if o.Observer.Began == nil {
		o.Observer.Began = func(time.Duration) {}
	}
	if o.Observer.Ended == nil {
		o.Observer.Ended = func(string) {}
	}

	l := &o.Limits
	setDefault(&l.CatchUp, catchUpOnce)
	if l.CatchUp == "none" { // the word of the configuration
		l.CatchUp = catchUpSkip
	}

	setDefault(&l.CatchUpWindow, 6*time.Hour)
	setDefault(&l.AtWindow, 24*time.Hour)
	setDefault(&l.Concurrent, 4)
	setDefault(&l.Timeout, 15*time.Minute)
	setDefault(&l.Jobs, 100)
	setDefault(&l.JobsPerChat, 20)
	setDefault(&l.MinInterval, 10*time.Second)
	setDefault(&l.ErrorsInRow, 5)
	return assemble(o), nil
}

// assemble makes a Scheduler of complete options.
func assemble(o Options) *Scheduler {
	s := &Scheduler{Options: o, wake: make(chan struct{}, 1)}
	s.store = newStore(o.State, o.Workspace, o.Log, o.Now)
	s.planner = &planner{o: &s.Options}
	s.notifier = &notifier{o: &s.Options, store: s.store, planner: s.planner}
	s.heartbeat = &heartbeat{o: &s.Options}
	s.runs = &runs{
		o:         &s.Options,
		store:     s.store,
		planner:   s.planner,
		notifier:  s.notifier,
		heartbeat: s.heartbeat,
		poke:      s.poke,
		running:   map[string]*run{},
		handed:    map[string]bool{},
	}

	s.Triggers = &Triggers{o: &s.Options, notifier: s.notifier, poke: s.poke, retry: map[string]time.Time{}}

	switch {
	case s.Repaired != nil:
	case s.Notify != nil:
		s.Repaired = s.notifier.notifyRepaired
	default:
		s.Repaired = func(context.Context, string) {} // the log has it
	}

	s.store.repaired = s.Repaired
	return s
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// LastCheck returns when Run checked the jobs last, which it does every minute
// at least; zero while it does not run them.
func (s *Scheduler) LastCheck() time.Time {
	if at := s.lastCheck.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// poke makes Run look at the jobs again soon.
func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
