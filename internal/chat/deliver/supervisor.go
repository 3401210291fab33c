package deliver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// healthyAfter is how long a channel must run for its next failure to count as
// the first.
const healthyAfter = time.Minute

// supervisor runs the channel of one section: it starts it, restarts it when it
// fails, takes what it receives, and stops it.
type supervisor struct {
	m       *Manager
	name    string
	section json.RawMessage
	common  chat.Common
	usual   string // language of the platform
	enabled bool
	broken  error // why there is no channel
	gate    *access.Gate
	log     *slog.Logger
	health  *health

	ch      chat.Channel // nil: not enabled, or broken
	caps    chat.Caps
	out     *sender  // nil: there was never a channel
	signals *signals // nil: like out

	cancel  context.CancelFunc // ends the supervisor; set by start
	ended   chan struct{}      // closed when everything of it has ended
	closing atomic.Bool        // takes nothing in any more

	wants string        // the account of another section that this one waits for; the manager's lock guards it
	freed chan struct{} // capacity 1: that account is free
}

func newSupervisor(m *Manager, name string, section json.RawMessage) *supervisor {
	log := m.o.Log.With("channel", name)
	return &supervisor{
		m:       m,
		name:    name,
		section: section,
		log:     log,
		cancel:  func() {},
		health:  newHealth(&m.o, log),
		freed:   make(chan struct{}, 1),
	}
}

// attach takes a channel that a factory made.
func (s *supervisor) attach(ch chat.Channel) {
	streaming := s.common.Streaming == nil || *s.common.Streaming
	a := newAdapter(ch, streaming, s.gate, s.log)
	if _, ok := ch.(chat.Streamer); !ok && a.caps.EditEvery > 0 && !a.caps.Whole {
		s.log.Warn("the channel cannot stream its answers: it has a time between edits, but not both methods, Edit and Erase")
	}
	s.ch, s.caps, s.signals = ch, a.caps, newSignals(a)
	s.out = newSender(s.name, &s.m.o, a, s.health, s.signals, s.filters())
}

// filters returns what besides answers is sent: what the section says, or else what
// holds for all channels.
func (s *supervisor) filters() chat.Filters {
	f := s.m.o.Defaults
	if s.m.o.Drivers[platform(s.name)].Quiet {
		f.SendProgress, f.SendToolHints = false, false
	}

	for p, v := range map[*bool]*bool{
		&f.SendProgress:  s.common.SendProgress,
		&f.SendToolHints: s.common.SendToolHints,
		&f.ShowReasoning: s.common.ShowReasoning,
	} {
		if v != nil {
			*p = *v
		}
	}

	return f
}

// fail records that the channel cannot be used as it is configured.
func (s *supervisor) fail(err error) {
	s.broken = err
	s.health.failed(err)
}

// status returns what is known about the channel.
func (s *supervisor) status() Status {
	st := s.health.snapshot()
	st.Name, st.Enabled = s.name, s.enabled
	if s.out != nil {
		st.Queue = s.out.waiting()
	}
	if s.gate != nil {
		st.Denied, st.Refused = s.gate.Refused()
	}
	if s.ch != nil && s.caps.Clients != nil {
		st.Clients = s.caps.Clients()
	}
	return st
}

// start runs the channel until ctx ends or cancel is called. The caller holds
// the manager's lock.
func (s *supervisor) start(ctx context.Context) {
	s.ended = make(chan struct{})
	if s.ch == nil {
		close(s.ended)
		return
	}

	s.closing.Store(false)
	s.out.open()
	s.signals.open()
	s.health.setState(Starting, "")
	ctx, s.cancel = context.WithCancel(ctx)
	go s.run(ctx)
}

// rank is 0 for a channel that was started and 1 for a new one. The caller holds
// the manager's lock.
func (s *supervisor) rank() int {
	if s.ended != nil {
		return 0
	}
	return 1
}

// join waits for the end.
func (s *supervisor) join() {
	if s.ended != nil {
		<-s.ended
	}
}

// run is the life of a channel. At the end nothing more comes in, what is being
// sent goes out, and then the platform is left.
func (s *supervisor) run(ctx context.Context) {
	defer close(s.ended)

	platform, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	left, sent := make(chan struct{}), make(chan struct{})
	go func() { defer close(left); s.supervise(platform) }()
	go func() { defer close(sent); s.out.run(ctx) }()
	<-ctx.Done()

	s.closing.Store(true)
	s.out.close()
	s.signals.close()
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		<-sent
		s.signals.work.Wait()
	}()

	t := time.NewTimer(flushWait + time.Second) // calls end within flushWait, if they listen
	defer t.Stop()
	select {
	case <-quiet:
	case <-t.C:
		s.log.ErrorContext(ctx, "a channel does not stop sending; it is left alone")
	}

	leave()
	t.Reset(stopWait)
	select {
	case <-left:
	case <-t.C:
		s.log.ErrorContext(ctx, "a channel does not stop; it is left alone")
	}

	s.health.setState(Stopped, "")
}

// supervise runs the channel again and again, with growing pauses.
func (s *supervisor) supervise(ctx context.Context) {
	longest := s.common.LongestPause()
	pauses := wait.Backoff{Least: backoffLowest, Spread: 0.2}
	for {
		err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}

		if s.health.recordEnd() {
			pauses.Reset()
		}

		s.health.failed(err)
		if chat.IsFatal(err) {
			if !s.again(ctx) {
				return
			}
			continue
		}

		pauses.Most = longest
		if !s.health.everUp() { // a person may be waiting at a terminal
			pauses.Most = min(firstBackoff, longest)
		}

		d := pauses.Next()
		s.health.recordRestartTime(s.m.o.Now().Add(d))
		if wait.For(ctx, d) != nil {
			return
		}
		s.health.recordRestart()
	}
}

// again waits after a failure that only another configuration can mend, and
// reports whether that happened elsewhere: another section left the account.
func (s *supervisor) again(ctx context.Context) bool {
	s.m.mu.Lock()
	s.m.unclaim(s.name, "")
	s.m.mu.Unlock()

	select {
	case <-s.freed:
		s.health.setState(Starting, "")
		return true
	case <-ctx.Done():
		return false
	}
}

// once runs the channel one time.
func (s *supervisor) once(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.ErrorContext(ctx, "a channel panicked", "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", r)
		}
	}()

	err = s.ch.Run(ctx, func(msg context.Context, in bus.Inbound) error { return s.submit(msg, ctx, in) })
	if err == nil {
		err = errors.New("the channel ended by itself")
	}
	return err
}
