package settings

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Bounds of what a client waits for; it asks again.
const (
	loginTold  = 30 * time.Second // until there is an address to open
	loginGiven = 20 * time.Second // until the person is through
)

// logins are those that wait for a person, by what they are for.
type logins struct {
	background

	secrets  *httpsafe.Registry
	starting sync.Mutex // one starts at a time
	mu       sync.Mutex
	all      map[string]*login
}

// login is one that waits for a person.
type login struct {
	cancel context.CancelFunc
	pasted chan string
	ready  chan struct{} // closed when there is an address to open
	done   chan struct{} // closed at the end; err is final then
	err    error

	mu    sync.Mutex
	step  loginStep
	moved chan struct{} // closed and replaced with every step
	seen  chan struct{} // moved, when a client was told the step
}

// loginStep holds what a person has to do.
type loginStep struct {
	State string `json:"state"`           // waiting or done
	URL   string `json:"url,omitempty"`   // to open in a browser
	Code  string `json:"code,omitempty"`  // to type there
	Paste bool   `json:"paste,omitempty"` // the address at which the browser ends may be sent with complete
	Note  string `json:"note,omitempty"`

	QR      string `json:"qr,omitempty"`       // to scan
	Image   string `json:"qr_image,omitempty"` // the same as a picture
	Expires string `json:"expires,omitempty"`  // of what is shown
	Ask     string `json:"ask,omitempty"`      // a question, whose answer goes with the next poll
	Hidden  bool   `json:"hidden,omitempty"`   // the answer is a secret
}

// todo reports whether the step gives a person something to do.
func (s *loginStep) todo() bool { return s.URL != "" || s.QR != "" || s.Code != "" || s.Ask != "" }

// publish stores what to do next, and wakes who waits for it.
func (l *login) publish(s loginStep) {
	l.mu.Lock()
	defer l.mu.Unlock()

	first := !l.step.todo() && s.todo()
	s.State = "waiting"
	if !s.todo() { // a remark about what was told before
		l.step.State, l.step.Note = s.State, s.Note
	} else {
		s.Note = cmp.Or(s.Note, l.step.Note)
		l.step = s
	}

	if first {
		close(l.ready)
	}

	close(l.moved)
	l.moved = make(chan struct{})
}

// next is closed when there is another step than the one that a client was told.
func (l *login) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = l.moved
	}
	return l.seen
}

// waiting returns what the person has to do.
func (l *login) waiting() loginStep {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = l.moved
	return l.step
}

// begin starts a login in place of one that may be under way, and waits for
// what the person has to do.
func (ls *logins) begin(ctx context.Context, key string, run func(ctx context.Context, l *login) error) (any, error) {
	life, err := ls.life()
	if err != nil {
		return nil, err
	}

	l, err := ls.enter(ctx, life, key, run)
	if err != nil {
		return nil, err
	}

	ctx, stop := context.WithTimeout(ctx, loginTold)
	defer stop()
	select {
	case <-l.ready:
		return l.waiting(), nil
	case <-l.done:
		return ls.outcome(key, l)
	case <-ctx.Done():
		return l.waiting(), nil
	}
}

// enter starts a login that goes on after the request.
func (ls *logins) enter(ctx, life context.Context, key string, run func(ctx context.Context, l *login) error) (*login, error) {
	ls.starting.Lock()
	defer ls.starting.Unlock()

	if err := ls.stop(ctx, key); err != nil {
		return nil, err
	}

	running, cancel := context.WithCancel(life)
	l := &login{
		cancel: cancel, pasted: make(chan string), ready: make(chan struct{}), done: make(chan struct{}),
		step: loginStep{State: "waiting"}, moved: make(chan struct{}),
	}
	ls.mu.Lock()
	ls.all[key] = l
	ls.mu.Unlock()
	ls.Go(func() {
		defer cancel()
		l.err = run(running, l)
		close(l.done)
	})
	return l, nil
}

// stop gives up a login, if there is one.
func (ls *logins) stop(ctx context.Context, key string) error {
	l := ls.get(key)
	if l == nil {
		return nil
	}

	l.cancel()
	select {
	case <-l.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}

	ls.drop(key, l)
	return nil
}

func (ls *logins) get(key string) *login {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.all[key]
}

func (ls *logins) drop(key string, l *login) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.all[key] == l {
		delete(ls.all, key)
	}
}

// outcome tells how a login ended, once.
func (ls *logins) outcome(key string, l *login) (any, error) {
	ls.drop(key, l)
	if l.err != nil {
		if _, ok := errors.AsType[*web.Error](l.err); ok {
			return nil, l.err
		}
		return nil, web.Refuse(http.StatusBadGateway, "%s", ls.secrets.Redact(l.err.Error()))
	}
	return loginStep{State: "done"}, nil
}

// proceed hands over what a person pasted and waits a while for the end.
func (ls *logins) proceed(ctx context.Context, key, pasted string) (any, error) {
	l := ls.get(key)
	if l == nil {
		return nil, web.Refuse(http.StatusNotFound, "no login is under way; start one")
	}

	ctx, stop := context.WithTimeout(ctx, loginGiven)
	defer stop()
	next := l.next()

	if pasted != "" {
		select {
		case l.pasted <- pasted:
		case <-l.done:
		case <-ctx.Done():
			return nil, web.Refuse(http.StatusConflict, "this login takes no address; finish it in the browser")
		}
	}

	select {
	case <-l.done:
		return ls.outcome(key, l)
	case <-next:
	case <-ctx.Done():
	}
	return l.waiting(), nil
}
