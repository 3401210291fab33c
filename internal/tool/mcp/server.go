package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/document"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
)

const (
	// loginEvery is how often a server that waits for a login is looked at.
	loginEvery = 15 * time.Second
	// listTimeout bounds reading all lists of a server.
	listTimeout = 30 * time.Second
	// burstTime lets a burst of changes pass before the lists are read again.
	burstTime = 200 * time.Millisecond
)

// State says how a server is doing.
type State string

// The states.
const (
	Idle         State = "idle"          // it has not been needed yet
	Connecting   State = "connecting"    // it is being started or reached
	Ready        State = "ready"         // connected and listed
	Degraded     State = "degraded"      // connected, but the last call or listing failed
	Backoff      State = "backoff"       // not connected; it will be tried again
	PendingLogin State = "pending-login" // a person must log in first
	Off          State = "disabled"      // switched off in the configuration
)

// server is one configured server and what keeps it connected. Its supervisor
// is the only one that makes and ends links.
type server struct {
	Server
	pool   *Pool
	log    *slog.Logger
	stderr *ring

	pictures document.Pictures

	wake chan struct{} // capacity 1: a caller wants it back sooner

	mu      sync.Mutex
	state   State
	since   time.Time
	reason  string // why it is not ready, in our words
	version string // of the protocol
	tried   bool   // the first attempt is over
	link    *link
	moved   chan struct{} // closed and replaced whenever state or link change
	list    listing
}

func newServer(p *Pool, c Server) *server {
	s := &server{
		Server: c, pool: p, log: p.o.Log.With("server", c.Name), stderr: &ring{}, wake: make(chan struct{}, 1),
		state: Idle, since: p.o.Now(), moved: make(chan struct{}),
	}
	if c.Disabled {
		s.state, s.tried = Off, true
	}
	if s.ToolTimeout <= 0 {
		s.ToolTimeout = defaultToolTimeout
	}
	if s.EnabledTools == nil {
		s.EnabledTools = []string{"*"}
	}
	return s
}

// set moves to another state. A link is only kept in Ready and Degraded. Only
// the supervisor calls it.
func (s *server) set(st State, reason string, l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.move(st, reason, l)
}

// move is set for those that hold the lock.
func (s *server) move(st State, reason string, l *link) {
	if s.state != st {
		s.since = s.pool.o.Now()
	}

	s.state = st
	s.reason = reason
	s.link = l
	if st != Connecting {
		s.tried = true
	}

	close(s.moved)
	s.moved = make(chan struct{})
	s.pool.o.Changed()
}

// run keeps the server connected until ctx ends.
func (s *server) run(ctx context.Context) {
	h := handshakes{}
	pauses := wait.Backoff{Least: s.pool.timing.minBackoff, Most: s.pool.timing.maxBackoff}
	for ctx.Err() == nil {
		s.set(Connecting, "", nil)
		l, err := s.dial(ctx, dialOptions{discover: h.next(), odd: s.odd()})
		if err == nil {
			h.worked()
			began := time.Now()
			err = s.serve(ctx, l)
			l.close()
			if time.Since(began) > s.pool.timing.maxBackoff {
				pauses.Reset()
			}
		}

		if ctx.Err() != nil {
			break
		}

		pause := pauses.Next()
		if errors.Is(err, errLoginNeeded) {
			s.set(PendingLogin, s.clean(err), nil)
			pause = loginEvery
			pauses.Reset()
		} else {
			s.set(Backoff, s.clean(err), nil)
			s.log.WarnContext(ctx, "mcp server is not connected", "err", s.detail(err), "retry_in", pause)
		}

		s.pause(ctx, pause)
	}

	s.set(Idle, "", nil)
}

// pause waits before the next attempt. A caller that wants the server shortens
// the wait, but not below the shortest.
func (s *server) pause(ctx context.Context, d time.Duration) {
	least := min(d, s.pool.timing.minBackoff)
	if wait.For(ctx, least) != nil {
		return
	}

	t := time.NewTimer(d - least)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.wake:
	case <-ctx.Done():
	}
}

// serve lists what a connected server offers and follows its changes until the
// connection is lost.
func (s *server) serve(ctx context.Context, l *link) error {
	s.mu.Lock()
	s.version = l.session.InitializeResult().ProtocolVersion
	s.mu.Unlock()
	if err := s.relist(ctx, l); err != nil {
		return fmt.Errorf("list tools of the MCP server: %w", err)
	}

	s.pool.refresh() // before it is reported as ready
	s.set(Ready, "", l)
	s.log.InfoContext(ctx, "mcp server connected", "transport", s.Type, "protocol", l.session.InitializeResult().ProtocolVersion, "offers", s.list.counts())

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.wire.lost:
			if l.proc != nil {
				if err := l.proc.tooMuch(); err != nil {
					return err
				}
				return errors.New("the server ended")
			}
			return fmt.Errorf("the connection was lost: %w", l.wire.reason)

		case <-l.wire.changed:
			if wait.For(ctx, burstTime) != nil {
				return ctx.Err()
			}

			if err := s.relist(ctx, l); err != nil {
				s.log.WarnContext(ctx, "mcp server changed its lists but cannot be asked", "err", s.detail(err))
				s.set(Degraded, s.clean(err), l)
				continue
			}

			s.pool.refresh()
			s.set(Ready, "", l)
		}
	}
}

func (s *server) relist(ctx context.Context, l *link) error {
	ctx, cancel := l.under(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, listTimeout)
	defer stop()
	list, err := s.readLists(ctx, l.session)
	if err != nil {
		return err
	}

	s.mu.Lock()
	s.list = list
	s.mu.Unlock()
	return nil
}

// connected waits for a link, at most d. The supervisor is asked to hurry.
func (s *server) connected(ctx context.Context, d time.Duration) (*link, error) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		s.mu.Lock()
		l := s.link
		st := s.state
		reason := s.reason
		moved := s.moved
		s.mu.Unlock()

		switch {
		case l != nil:
			return l, nil
		case st == PendingLogin:
			return nil, errLoginNeeded
		case st == Backoff:
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}

		select {
		case <-moved:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-t.C:
			if reason == "" {
				reason = "it has not answered yet"
			}
			return nil, errors.New(reason)
		}
	}
}

// mark records how the last use of a link went, if it is still the one in use.
func (s *server) mark(l *link, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.link != l || (s.state == Ready) == (reason == ""):
	case reason == "":
		s.move(Ready, "", l)
	default:
		s.move(Degraded, reason, l)
	}
}

// drop takes a broken link out of use before its supervisor notices, and makes
// it notice.
func (s *server) drop(l *link) {
	s.mu.Lock()
	if s.link == l {
		s.move(Connecting, "the connection was lost", nil)
	}
	s.mu.Unlock()
	l.wire.close()
}

// odd logs lines on the output of a stdio server that are not messages. Only
// the first few: a server that logs there does so all the time.
func (s *server) odd() func(string) {
	n := 0
	return func(line string) {
		if n++; n <= 3 {
			s.log.Warn("mcp server printed a line that is not a message; skipped. The server must log to stderr", "line", s.redact(text.Label(line, 200)))
		}
	}
}

// clean returns an error in a form that may be shown to the model and to people:
// one line, no credentials, nothing the server wrote at length.
func (s *server) clean(err error) string {
	if err == nil {
		return ""
	}
	return s.redact(text.Label(httpsafe.WithoutURL(err).Error(), 300))
}

// detail adds what the server logged last, for the operator.
func (s *server) detail(err error) string {
	out := s.clean(err)
	if last := text.Label(s.stderr.last(), 300); last != "" {
		out += "; its last words: " + s.redact(last)
	}
	return out
}

// redact removes the server's own credentials and what the pool knows of.
func (s *server) redact(text string) string {
	for name, m := range map[string]map[string]httpsafe.Secret{"env": s.Env, "headers": s.Headers} {
		for k, v := range m {
			if len(v.Reveal()) >= 8 {
				text = strings.ReplaceAll(text, v.Reveal(), "[redacted:"+name+"."+k+"]")
			}
		}
	}

	if secret := s.Client.Secret.Reveal(); len(secret) >= 8 {
		text = strings.ReplaceAll(text, secret, "[redacted:clientSecret]")
	}
	if s.URL != "" {
		text = strings.ReplaceAll(text, s.URL, "the server")
	}
	if s.pool.o.Redact != nil {
		text = s.pool.o.Redact(text)
	}
	return text
}

// handshakes chooses how to greet a server. Newer servers have no session and
// are asked first what they can; older ones may fall silent or end when they
// are asked something they do not know.
type handshakes struct {
	tries int
	good  time.Duration
	known bool
	last  time.Duration
}

func (h *handshakes) next() time.Duration {
	h.tries++
	switch {
	case h.known:
		h.last = h.good
	case h.tries == 1:
		h.last = 2 * time.Second
	case h.tries%2 == 0:
		h.last = 0
	default:
		h.last = 10 * time.Second // it may have been slow to start
	}

	return h.last
}

func (h *handshakes) worked() { h.good, h.known = h.last, true }
