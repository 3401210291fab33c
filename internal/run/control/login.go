package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// loginEvent is a line of the answer while a login goes on.
type loginEvent struct {
	Step   *chat.Step     `json:"step,omitempty"`
	Ask    *chat.Question `json:"ask,omitempty"`
	Result *chat.Result   `json:"result,omitempty"`
	Error  string         `json:"error,omitempty"`
	None   bool           `json:"none,omitempty"` // deliver.ErrNoLogin
}

// loginStart begins a login.
type loginStart struct {
	Force bool `json:"force"`
}

// loginAnswer is what the person typed.
type loginAnswer struct {
	Text string `json:"text"`
}

// Login connects a channel of the gateway to an account, with the person here.
func (c Client) Login(ctx context.Context, name string, d chat.Dialog, force bool) (chat.Result, error) {
	body, err := c.start(ctx, http.MethodPost, ofChannel(name, "login"), loginStart{Force: force})
	if err != nil {
		return chat.Result{}, err
	}

	defer body.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		var e loginEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return chat.Result{}, err
		}

		switch {
		case e.Step != nil:
			d.Tell(*e.Step)
		case e.Ask != nil:
			text, err := d.Ask(ctx, *e.Ask)
			if err != nil {
				return chat.Result{}, err // the gateway gives up when we hang up
			}
			if err := c.call(ctx, http.MethodPost, ofChannel(name, "answer"), loginAnswer{Text: text}, nil); err != nil {
				return chat.Result{}, err
			}

		case e.None:
			return chat.Result{}, deliver.ErrNoLogin
		case e.Error != "":
			return chat.Result{}, errors.New(e.Error)
		case e.Result != nil:
			return *e.Result, nil
		}
	}

	return chat.Result{}, errors.Join(errors.New("the gateway ended before the login did"), lines.Err())
}

// logins are those that go on in the gateway.
type logins struct {
	channels Channels
	redact   func(string) string

	mu      sync.Mutex
	dialogs map[string]*remoteDialog // by channel
}

// begin goes on as long as the client listens. Its answer is one line per step.
func (l *logins) begin(w http.ResponseWriter, r *http.Request) {
	var in loginStart
	if err := decode(r, &in); err != nil {
		answer(w, nil, err)
		return
	}

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	d := &remoteDialog{
		out:     json.NewEncoder(w),
		flush:   http.NewResponseController(w),
		answers: make(chan string),
		cancel:  cancel,
		closed:  make(chan struct{}),
	}
	defer close(d.closed)
	name := r.PathValue("name")
	former := l.enter(name, d)
	defer l.leave(name, d)

	if former != nil { // its person has left, or changed their mind
		former.cancel()
		<-former.closed
	}

	result, err := l.channels.Login(ctx, name, d, in.Force)
	if err != nil {
		d.send(loginEvent{Error: l.redact(err.Error()), None: errors.Is(err, deliver.ErrNoLogin)})
		return
	}
	d.send(loginEvent{Result: &result})
}

// enter makes a dialog the one of a channel and returns the one before.
func (l *logins) enter(name string, d *remoteDialog) (former *remoteDialog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	former = l.dialogs[name]
	l.dialogs[name] = d
	return former
}

func (l *logins) leave(name string, d *remoteDialog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dialogs[name] == d {
		delete(l.dialogs, name)
	}
}

// answer hands over what a person typed.
func (l *logins) answer(w http.ResponseWriter, r *http.Request) {
	var in loginAnswer
	err := decode(r, &in)
	l.mu.Lock()
	d := l.dialogs[r.PathValue("name")]
	l.mu.Unlock()
	if err == nil && d == nil {
		err = errors.New("no login is under way")
	}

	if err == nil {
		select {
		case d.answers <- in.Text:
		case <-r.Context().Done():
			err = r.Context().Err()
		}
	}

	answer(w, struct{}{}, err)
}

// remoteDialog is a person at the other end of a request.
type remoteDialog struct {
	mu      sync.Mutex
	out     *json.Encoder
	flush   *http.ResponseController
	answers chan string
	cancel  context.CancelFunc
	closed  chan struct{}
}

func (d *remoteDialog) send(e loginEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.out.Encode(e) == nil {
		_ = d.flush.Flush() // the context ends when the client is gone
	}
}

// Tell implements chat.Dialog.
func (d *remoteDialog) Tell(s chat.Step) { d.send(loginEvent{Step: &s}) }

// Ask implements chat.Dialog.
func (d *remoteDialog) Ask(ctx context.Context, q chat.Question) (string, error) {
	d.send(loginEvent{Ask: &q})
	select {
	case text := <-d.answers:
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
