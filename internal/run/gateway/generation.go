package gateway

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// state is the agent and the configuration in use.
type state struct {
	mu     sync.Mutex
	inUse  snapshot
	moved  chan struct{}  // closed when the next agent was attached
	booted *config.Loaded // the configuration at the start
	quiet  atomic.Bool    // it crashed often: chat platforms stay off for a while
}

// newState has no agent yet. Rejected says why the configuration stands in for the
// newest one; nil if it does not.
func newState(l *config.Loaded, rejected error, quiet bool) *state {
	s := &state{inUse: snapshot{config: l}, moved: make(chan struct{}), booted: l}
	if rejected != nil {
		s.inUse.rejected = rejected.Error()
	}
	s.quiet.Store(quiet)
	return s
}

// snapshot is what is in use at one moment.
type snapshot struct {
	agent    *generation    // nil while a reload replaces it
	config   *config.Loaded // the one in use
	rejected string         // why the newest one is not; "" if it is
}

func (s *state) snapshot() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse
}

func (s *state) config() *config.Loaded { return s.snapshot().config }

// use records the configuration in use, nil if it stays the same, and why the
// newest one was rejected.
func (s *state) use(l *config.Loaded, rejected string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l != nil {
		s.inUse.config = l
	}
	s.inUse.rejected = rejected
}

// detach takes the agent out of use and returns it. Callers of current wait until
// attach.
func (s *state) detach() *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.inUse.agent
	s.inUse.agent = nil
	return old
}

// attach puts an agent and its configuration into use and wakes those who wait.
func (s *state) attach(next *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse.agent = next
	s.inUse.config = next.app.Config
	close(s.moved)
	s.moved = make(chan struct{})
}

// current returns the agent in use; it waits while a reload replaces it.
func (s *state) current(ctx context.Context) (*app.App, error) {
	for {
		s.mu.Lock()
		gen, moved := s.inUse.agent, s.moved
		s.mu.Unlock()
		if gen != nil {
			return gen.app, nil
		}

		select {
		case <-moved:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// keyOf is the conversation that a message belongs to.
func (s *state) keyOf(in bus.Inbound) string {
	if gen := s.snapshot().agent; gen != nil {
		return gen.app.Agent.KeyOf(in)
	}
	return cmp.Or(in.SessionKey, in.Route.SessionKey())
}

// agentRetry is how long the gateway waits when no agent can be built.
const agentRetry = 2 * time.Second

// rebuildTimer tells after a while that there is no agent; nil if there is one.
func (s *state) rebuildTimer() <-chan time.Time {
	if s.snapshot().agent != nil {
		return nil
	}
	return time.After(agentRetry)
}

// generation is an agent between two configurations.
type generation struct {
	app    *app.App
	intake context.CancelFunc // no more messages from the queue
	stop   context.CancelFunc
	work   sync.WaitGroup
	idle   atomic.Pointer[string] // why the schedule could not begin the last time
}

// start makes the agent work through the queue. It returns what makes its
// schedule run, which no turn waits for.
func (g *generation) start(ctx context.Context, m *mail) (runSchedule func()) {
	running, stop := context.WithCancel(ctx)
	intake, stopIntake := context.WithCancel(running)
	g.stop, g.intake = stop, stopIntake
	g.app.Agent.Open(running)
	g.work.Go(func() { _ = g.app.Run(running) }) // ends with its context only
	g.work.Go(func() {
		if err := g.app.Agent.Serve(intake, m); err != nil && intake.Err() == nil {
			m.log.ErrorContext(ctx, "messages are not taken from the queue any more", "err", err)
		}
	})
	return func() {
		g.work.Go(func() { g.runSchedule(intake, m) })
	}
}

// scheduleRetry is when the schedule is tried again after it could not begin.
// Who mends its file need not do more.
const scheduleRetry = 30 * time.Second

// runSchedule runs the schedule until ctx ends.
func (g *generation) runSchedule(ctx context.Context, m *mail) {
	told := ""
	for {
		err := g.app.Schedule.Run(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}

		if text := err.Error(); text != told {
			told = text
			g.idle.Store(&text)
			m.log.ErrorContext(ctx, "the schedule does not run", "err", err)
			m.notifyOwner(ctx, phrase.Later("Scheduled jobs do not run: %v.", err))
		}

		if wait.For(ctx, scheduleRetry) != nil {
			return
		}
	}
}

// shutdown lets running turns end within their grace time and gives everything
// back. What was not finished is still in the queue.
func (g *generation) shutdown() error {
	if g.stop != nil {
		g.intake()
		g.stop()
		g.work.Wait()
	}
	return g.app.Close()
}

// leaveWait is how long turns may take to end after they were cancelled.
const leaveWait = 3 * time.Second

// shutdownWithin is shutdown, but once hurry is closed it waits only the grace
// time and a little more. A tool that does not listen is left behind then; its
// message is still in the queue.
func (g *generation) shutdownWithin(hurry <-chan struct{}) error {
	done := make(chan error, 1)
	go func() { done <- g.shutdown() }()
	select {
	case err := <-done:
		return err
	case <-hurry:
	}

	t := time.NewTimer(time.Duration(g.app.Config.Config.Gateway.ShutdownTimeoutS)*time.Second + leaveWait)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return errors.New("a turn did not stop in time; the next start continues it")
	}
}
