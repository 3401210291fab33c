package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// healthy is how long a channel must run for its next failure to count as the
// first.
const healthy = time.Minute

// slot is the place of one section: the channel made of it, everything that
// runs for it, and how it is.
type slot struct {
	m       *Manager
	name    string
	section json.RawMessage
	common  Common
	enabled bool
	broken  error // why there is no channel
	gate    *Gate
	log     *slog.Logger

	ch        Channel // nil: not enabled, or broken
	caps      Caps
	streamer  Streamer  // nil: no streaming by edits
	eraser    Eraser    // nil: what was sent stays
	signaller Signaller // nil: cannot show what happens
	filters   Filters
	total     *shared // rate of all chats

	cancel context.CancelFunc // ends the slot; set by start
	ended  chan struct{}      // closed when everything of it has ended
	acks   chan string        // ids of what was sent at once, on their way to the queue; full blocks the reader

	mu        sync.Mutex
	state     Status
	connected chan struct{} // closed and made anew by ready
	up        time.Time     // since when it runs
	closing   bool          // takes nothing in any more
	chats     map[chatKey]*chat
	swept     time.Time
	present   map[chatKey]*presence
	work      sync.WaitGroup // chats and presences; nothing is added once closing is set
	said      *recent[sayKey, string]
}

func newSlot(m *Manager, name string, section json.RawMessage) *slot {
	s := &slot{
		m: m, name: name, section: section, log: m.o.Log.With("channel", name), cancel: func() {},
		connected: make(chan struct{}), chats: map[chatKey]*chat{}, present: map[chatKey]*presence{},
		said: newRecent[sayKey, string](saidKept),
	}
	s.become(Stopped, "")
	return s
}

// adopt takes a channel that a factory made.
func (s *slot) adopt(ch Channel) {
	s.ch, s.caps = ch, ch.Caps()
	s.signaller, _ = ch.(Signaller)
	s.eraser, _ = ch.(Eraser)
	if on := s.common.Streaming; (on == nil || *on) && s.caps.EditEvery > 0 && !s.caps.Whole {
		s.streamer, _ = ch.(Streamer)
	}
	s.filters = s.wish()
	s.total = &shared{bucket: bucket{limit: s.caps.Rate.Total}}
}

// wish is what besides answers the section wants to be sent, or else all do.
func (s *slot) wish() Filters {
	f := s.m.o.Defaults
	for p, v := range map[*bool]*bool{
		&f.SendProgress: s.common.SendProgress, &f.SendToolHints: s.common.SendToolHints, &f.ShowReasoning: s.common.ShowReasoning,
	} {
		if v != nil {
			*p = *v
		}
	}
	return f
}

// start lets the slot run until ctx ends or cancel is called. The caller holds
// the manager's lock.
func (s *slot) start(ctx context.Context) {
	s.ended, s.acks = make(chan struct{}), make(chan string, 1024)
	if s.ch == nil {
		close(s.ended)
		return
	}
	s.mu.Lock()
	s.closing = false
	s.become(Starting, "")
	s.mu.Unlock()
	ctx, s.cancel = context.WithCancel(ctx)
	go s.run(ctx)
}

// rank is 0 for a slot that was started and 1 for a new one. The caller holds
// the manager's lock.
func (s *slot) rank() int {
	if s.ended != nil {
		return 0
	}
	return 1
}

// join waits for the end.
func (s *slot) join() {
	if s.ended != nil {
		<-s.ended
	}
}

// run is the life of a slot. At the end nothing more comes in, what is being
// sent goes out, and then the platform is left.
func (s *slot) run(ctx context.Context) {
	defer close(s.ended)
	platform, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	left := make(chan struct{})
	go func() { defer close(left); s.supervise(platform) }()
	var out, acks sync.WaitGroup
	acks.Go(func() { s.acknowledge(context.WithoutCancel(ctx)) })
	out.Go(func() { s.read(ctx) })
	<-ctx.Done()
	s.mu.Lock()
	s.closing = true
	for _, p := range s.present {
		p.stop()
	}
	s.mu.Unlock()
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		out.Wait()
		s.work.Wait()
		close(s.acks)
		acks.Wait()
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
	s.mu.Lock()
	s.become(Stopped, "")
	s.mu.Unlock()
}

// supervise runs the channel again and again, with growing pauses.
func (s *slot) supervise(ctx context.Context) {
	longest := backoffMax
	if n := s.common.RestartBackoffMaxS; n > 0 {
		longest = time.Duration(n) * time.Second
	}
	pause := min(backoffLowest, longest)
	for {
		err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		if !s.up.IsZero() && s.m.o.Now().Sub(s.up) >= healthy {
			pause = min(backoffLowest, longest)
		}
		s.up = time.Time{}
		s.mu.Unlock()
		s.trouble(err)
		if IsFatal(err) {
			<-ctx.Done() // only another configuration helps
			return
		}
		d := time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // only spreads load
		s.mu.Lock()
		s.state.Retry = s.m.o.Now().Add(d)
		s.state.Restarts++
		s.mu.Unlock()
		if httpsafe.Pause(ctx, d) != nil {
			return
		}
		pause = min(2*pause, longest)
		s.mu.Lock()
		s.become(Starting, s.state.Error)
		s.mu.Unlock()
	}
}

// once runs the channel one time.
func (s *slot) once(ctx context.Context) (err error) {
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
