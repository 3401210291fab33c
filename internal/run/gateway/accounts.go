package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
)

// Accounts tries channels, logs in and sends by hand: through the gateway that
// runs with a configuration, so that no account is used twice, or by itself if
// none runs.
type Accounts struct {
	Loaded *config.Loaded
	// File is where the result of a login is written to.
	File config.Options
}

// running reports whether a gateway answers, after it was asked for something.
func running(err error) bool { return !errors.Is(err, daemon.ErrNotRunning) }

func channelPath(name, what string) string { return "/channels/" + url.PathEscape(name) + "/" + what }

// Test asks the platform of a channel whether its section works.
func (a Accounts) Test(ctx context.Context, name string) (chat.Report, error) {
	var r chat.Report
	err := Control(ctx, a.Loaded, http.MethodPost, channelPath(name, "test"), nil, &r)
	if running(err) {
		return r, err
	}
	return a.Try(ctx, name)
}

// Try is Test without the running gateway, for a section that it does not have
// yet.
func (a Accounts) Try(ctx context.Context, name string) (chat.Report, error) {
	m, err := deliver.NewManager(unconnected(a.Loaded))
	if err != nil {
		return chat.Report{}, err
	}
	return m.Probe(ctx, name)
}

// Address finds the chat that a route names.
func (a Accounts) Address(ctx context.Context, to bus.Route) (bus.Route, error) {
	if to.Channel == "" {
		return to, nil
	}
	var found bus.Route
	err := Control(ctx, a.Loaded, http.MethodPost, channelPath(to.Channel, "address"), to, &found)
	if running(err) {
		return found, err
	}
	m, err := deliver.NewManager(unconnected(a.Loaded))
	if err != nil {
		return to, err
	}
	return m.Address(ctx, to)
}

// Send keeps a message for a chat until it is delivered. It needs a gateway.
func (a Accounts) Send(ctx context.Context, out bus.Outbound) (bus.Route, error) {
	var to bus.Route
	err := Control(ctx, a.Loaded, http.MethodPost, channelPath(out.Route.Channel, "send"), out, &to)
	return to, err
}

// Restart stops a channel and starts it again. It needs a gateway.
func (a Accounts) Restart(ctx context.Context, name string) error {
	return Control(ctx, a.Loaded, http.MethodPost, channelPath(name, "restart"), nil, nil)
}

// Logout makes a channel forget its account.
func (a Accounts) Logout(ctx context.Context, name string) error {
	err := Control(ctx, a.Loaded, http.MethodPost, channelPath(name, "logout"), nil, nil)
	if running(err) {
		return err
	}
	m, err := deliver.NewManager(unconnected(a.Loaded))
	if err != nil {
		return err
	}
	return m.Logout(ctx, name)
}

// Login connects a channel to an account and writes what the login found out
// into the configuration.
func (a Accounts) Login(ctx context.Context, name string, p chat.Dialog, force bool) (chat.Result, error) {
	r, err := a.remoteLogin(ctx, name, p, force)
	if running(err) {
		return r, err
	}
	m, err := deliver.NewManager(unconnected(a.Loaded))
	if err != nil {
		return r, err
	}
	if r, err = m.Login(ctx, name, p, force); err != nil {
		return r, err
	}
	_, err = saveLogin(a.File, name, r)
	return r, err
}

// saveLogin writes what a login found out into the section, and reports whether
// that changed anything.
func saveLogin(o config.Options, name string, r chat.Result) (changed bool, err error) {
	patch := map[string]any{}
	maps.Copy(patch, r.Patch)
	path, err := config.Locate(o)
	if err != nil {
		return false, err
	}
	f, err := config.Open(path, o.Sections)
	if err != nil {
		return false, err
	}
	there, err := f.Get("channels." + strings.ReplaceAll(name, ".", `\.`))
	if err != nil {
		return false, err
	}
	var was struct{ Owners []string }
	if there != nil {
		if err := json.Unmarshal(there, &was); err != nil {
			return false, err
		}
	}
	if r.Owner != "" && !slices.Contains(was.Owners, r.Owner) {
		patch["owners"] = append(was.Owners, r.Owner)
	}
	if there != nil && len(patch) == 0 {
		return false, nil
	}
	section, patch, err := within(f, name, patch)
	if err != nil {
		return false, err
	}
	if there == nil && section == name { // the login is the first that is set up
		patch["enabled"] = true
	}
	text, err := json.Marshal(map[string]any{"channels": map[string]any{section: patch}})
	if err != nil {
		return false, err
	}
	names, err := f.Patch(text)
	if err != nil || len(names) == 0 {
		return false, err
	}
	return true, f.Save(time.Now())
}

// within is the section that a patch of a channel is written into: its own, or
// the one that holds several accounts.
func within(f *config.File, name string, patch map[string]any) (section string, _ map[string]any, err error) {
	kind, account, _ := strings.Cut(name, ".")
	merge := Channels()[kind].Merge
	if merge == nil {
		return name, patch, nil
	}
	if account != "" {
		if own, err := f.Get("channels." + strings.ReplaceAll(name, ".", `\.`)); err != nil || own != nil {
			return name, patch, err
		}
	}
	text, err := f.Get("channels." + kind)
	if err != nil {
		return name, patch, err
	}
	if merged, ok := merge(text, account, patch); ok {
		return kind, merged, nil
	}
	return name, patch, nil
}

// loginEvent is a line of the answer while a login goes on.
type loginEvent struct {
	Step   *chat.Step     `json:"step,omitempty"`
	Ask    *chat.Question `json:"ask,omitempty"`
	Result *chat.Result   `json:"result,omitempty"`
	Error  string         `json:"error,omitempty"`
	None   bool           `json:"none,omitempty"` // deliver.ErrNoLogin
}

// remoteLogin lets the gateway log in, with the person here.
func (a Accounts) remoteLogin(ctx context.Context, name string, p chat.Dialog, force bool) (chat.Result, error) {
	body, err := startControl(ctx, a.Loaded, http.MethodPost, channelPath(name, "login"), map[string]bool{"force": force})
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
			p.Tell(*e.Step)
		case e.Ask != nil:
			answer, err := p.Ask(ctx, *e.Ask)
			if err != nil {
				return chat.Result{}, err // the gateway gives up when we hang up
			}
			if err := Control(ctx, a.Loaded, http.MethodPost, channelPath(name, "answer"), map[string]string{"text": answer}, nil); err != nil {
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

// accounts answers these requests inside the gateway.
type accounts struct {
	channels *deliver.Manager
	address  func(ctx context.Context, r bus.Route) (bus.Route, error)
	say      func(ctx context.Context, out bus.Outbound) error
	file     func() config.Options
	reload   func(ctx context.Context) error
	redact   func(string) string

	mu      sync.Mutex
	dialogs map[string]*remoteDialog // by channel
}

// routes adds the requests to those of the control socket.
func (a *accounts) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /channels/{name}/test", func(w http.ResponseWriter, r *http.Request) {
		report, err := a.channels.Probe(r.Context(), r.PathValue("name"))
		answer(w, report, a.hidden(err))
	})
	mux.HandleFunc("POST /channels/{name}/restart", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, a.hidden(a.channels.Restart(r.Context(), r.PathValue("name"))))
	})
	mux.HandleFunc("POST /channels/{name}/logout", func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, a.hidden(a.channels.Logout(r.Context(), r.PathValue("name"))))
	})
	mux.HandleFunc("POST /channels/{name}/address", func(w http.ResponseWriter, r *http.Request) {
		var to bus.Route
		err := decodeControl(r, &to)
		if err == nil {
			to.Channel = r.PathValue("name")
			to, err = a.channels.Address(r.Context(), to)
		}
		answer(w, to, a.hidden(err))
	})
	mux.HandleFunc("POST /channels/{name}/send", func(w http.ResponseWriter, r *http.Request) {
		var out bus.Outbound
		err := decodeControl(r, &out)
		if err == nil {
			out.Kind, out.Route.Channel = bus.Message, r.PathValue("name")
			if out.Route, err = a.address(r.Context(), out.Route); err == nil {
				err = a.say(r.Context(), out)
			}
		}
		answer(w, out.Route, a.hidden(err))
	})
	mux.HandleFunc("POST /channels/{name}/login", a.login)
	mux.HandleFunc("POST /channels/{name}/answer", a.answer)
}

func decodeControl(r *http.Request, into any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, 16<<20)).Decode(into); err != nil {
		return fmt.Errorf("the request cannot be read: %w", err)
	}
	return nil
}

func (a *accounts) hidden(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(a.redact(err.Error()))
}

// login goes on as long as the client listens. Its answer is one line per step.
func (a *accounts) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Force bool }
	if err := decodeControl(r, &in); err != nil {
		answer(w, nil, err)
		return
	}
	name := r.PathValue("name")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	d := &remoteDialog{out: json.NewEncoder(w), flush: http.NewResponseController(w), answers: make(chan string), cancel: cancel, ended: make(chan struct{})}
	defer close(d.ended)
	a.mu.Lock()
	if a.dialogs == nil {
		a.dialogs = map[string]*remoteDialog{}
	}
	former := a.dialogs[name]
	a.dialogs[name] = d
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.dialogs[name] == d {
			delete(a.dialogs, name)
		}
	}()
	if former != nil { // its person has left, or changed their mind
		former.cancel()
		<-former.ended
	}

	result, err := a.Login(ctx, name, d, in.Force)
	if err != nil {
		d.send(loginEvent{Error: a.redact(err.Error()), None: errors.Is(err, deliver.ErrNoLogin)})
		return
	}
	d.send(loginEvent{Result: &result})
}

// Login logs in and writes what that found out into the configuration.
func (a *accounts) Login(ctx context.Context, name string, d chat.Dialog, force bool) (chat.Result, error) {
	result, err := a.channels.Login(ctx, name, d, force)
	if err != nil {
		return result, err
	}
	changed, err := saveLogin(a.file(), name, result)
	if err == nil && changed {
		err = a.reload(context.WithoutCancel(ctx))
	}
	return result, err
}

// answer hands over what a person typed.
func (a *accounts) answer(w http.ResponseWriter, r *http.Request) {
	var in struct{ Text string }
	err := decodeControl(r, &in)
	a.mu.Lock()
	d := a.dialogs[r.PathValue("name")]
	a.mu.Unlock()
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
	ended   chan struct{}
}

func (d *remoteDialog) send(e loginEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.out.Encode(e) == nil {
		_ = d.flush.Flush() // the context ends when nobody listens
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
