package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// party is a chat platform in memory. It outlives gateways, as platforms do.
type party struct {
	mu     sync.Mutex
	made   int
	left   int // logouts
	submit chat.Submit
	gate   *access.Gate
	joined chan struct{} // one value per Run
	said   chan bus.Outbound

	refuse  atomic.Bool  // Send fails
	refused atomic.Int32 // how often it did
}

func newParty() *party {
	return &party{joined: make(chan struct{}, 16), said: make(chan bus.Outbound, 256)}
}

func (p *party) driver() chat.Driver {
	return chat.Driver{
		Title: "Party", New: p.factory, Options: func() any { return &partySection{} }, Login: p.login,
		Logout: func(context.Context, chat.Deps, json.RawMessage) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.left++
			return nil
		},
		Probe: func(context.Context, chat.Deps, json.RawMessage) (chat.Report, error) {
			return chat.Report{Identity: "guest", Checks: []chat.Check{{Name: "mood", Detail: "bring music"}}}, nil
		},
	}
}

type partySection struct {
	chat.Common
	Ticket string `json:"ticket" doc:"What the door asks for."`
}

// login asks for a name and finds a ticket.
func (*party) login(ctx context.Context, _ chat.Deps, _ json.RawMessage, d chat.Dialog, force bool) (chat.Result, error) {
	d.Tell(chat.Step{QR: "door:1", Note: "Scan this."})
	name, err := d.Ask(ctx, chat.Question{Text: "Name"})
	if err != nil || name == "nobody" {
		return chat.Result{}, errors.Join(err, errors.New("nobody is not invited"))
	}
	return chat.Result{Identity: name, Patch: map[string]any{"ticket": fmt.Sprintf("t-%s-%v", name, force)}, Owner: name}, nil
}

// Address finds the chat of a person by name.
func (*partygoer) Address(_ context.Context, target string) (bus.Route, error) {
	if name, ok := strings.CutPrefix(target, "@"); ok && name != "ann" {
		return bus.Route{}, fmt.Errorf("nobody is called %s", target)
	}
	return bus.Route{ChatID: strings.TrimPrefix(target, "@")}, nil
}

func (p *party) factory(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	var s partySection
	if err := chat.Decode(section, &s); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	return &partygoer{p, d}, nil
}

func (p *party) builds() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

type partygoer struct {
	p *party
	d chat.Deps
}

func (g *partygoer) Name() string  { return g.d.Name }
func (*partygoer) Caps() chat.Caps { return chat.Caps{MaxChars: 1000} }
func (g *partygoer) Send(_ context.Context, out bus.Outbound) (string, error) {
	if g.p.refuse.Load() {
		g.p.refused.Add(1)
		return "", errors.New("the door is shut")
	}
	g.p.said <- out
	return "1", nil
}

func (g *partygoer) Run(ctx context.Context, submit chat.Submit) error {
	g.p.mu.Lock()
	g.p.submit, g.p.gate = submit, g.d.Gate
	g.p.mu.Unlock()
	g.d.Ready("guest", nil)
	g.p.joined <- struct{}{}
	<-ctx.Done()
	return nil
}

// write sends a message of a person.
func (p *party) write(t *testing.T, who, id, text string, change ...func(*bus.Inbound)) error {
	t.Helper()
	p.mu.Lock()
	submit, gate := p.submit, p.gate
	p.mu.Unlock()
	pass, ok := gate.Admit(t.Context(), access.Visitor{Route: bus.Route{Channel: "party", ChatID: who}, IDs: []string{who}, Direct: true})
	if !ok {
		return errors.New("not admitted")
	}
	msg := pass.Inbound(id, text)
	msg.Untrusted = false // they typed it
	for _, f := range change {
		f(&msg)
	}
	return submit(t.Context(), msg)
}

// hear waits for something that is said and contains a text.
func (p *party) hear(t *testing.T, want string) bus.Outbound {
	t.Helper()
	timeout := time.After(10 * time.Minute)
	for {
		select {
		case out := <-p.said:
			if strings.Contains(out.Text, want) {
				return out
			}
		case <-timeout:
			t.Fatalf("nobody said %q", want)
		}
	}
}

// host is a gateway under test.
type host struct {
	t      *testing.T
	dir    string
	model  llm.Model
	party  *party
	tools  []tool.Tool
	now    func() time.Time
	env    []string
	quiet  bool   // it crashed often
	listen string // "" is nowhere
	g      *gateway.Gateway
	stop   context.CancelFunc
	done   chan error
}

const partyConfig = `{"agents": {"defaults": {"model": "m"}}, "gateway": {"port": 0, "heartbeat": {"enabled": false}}, "channels": {"party": {"enabled": true, "allowFrom": ["ann"]}}}`

func newHost(t *testing.T, model llm.Model) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), model: model, party: newParty()}
	t.Cleanup(func() { checkNames(t, h.dir) })
	h.configure(partyConfig)
	return h
}

// running is a host whose gateway runs, with its platform connected.
func running(t *testing.T, model llm.Model) *host {
	t.Helper()
	h := newHost(t, model).start()
	<-h.party.joined
	return h
}

// unasking is a running host whose calls need no approvals.
func unasking(t *testing.T, model llm.Model) *host {
	t.Helper()
	h := newHost(t, model)
	h.configure(strings.Replace(partyConfig, `{"agents"`, `{"tools": {"approval": {"mode": "off"}}, "agents"`, 1))
	h.start()
	<-h.party.joined
	return h
}

// reloading is a host whose gateway reads a changed configuration while a turn
// runs. The turn ends when finish is closed; the result of the reload is sent to
// reloaded.
func reloading(t *testing.T) (h *host, finish chan struct{}, reloaded chan error) {
	t.Helper()
	begun, finish := make(chan struct{}), make(chan struct{})
	model := llmtest.NewScript(t, llmtest.Func(func(llm.Request) llmtest.Step {
		close(begun)
		return llmtest.Reply("finished").After(finish)
	}))
	model.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("later") }
	h = running(t, model)
	h.must(h.party.write(t, "ann", "1", "one"))
	<-begun
	h.configure(strings.Replace(partyConfig, `"model": "m"`, `"model": "m", "maxToolIterations": 7`, 1))
	reloaded = make(chan error, 1)
	go func() { reloaded <- h.g.Reload(t.Context()) }()
	for h.g.Status().Ready {
		select {
		case err := <-reloaded:
			t.Fatalf("reloaded before the turn ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	return h, finish, reloaded
}

// stuck is a model whose first answer never comes; begun is closed when it is
// asked for.
func stuck(t *testing.T) (model *llmtest.Script, begun chan struct{}) {
	t.Helper()
	begun = make(chan struct{})
	model = llmtest.NewScript(t, llmtest.Func(func(llm.Request) llmtest.Step {
		close(begun)
		return llmtest.Block(make(chan struct{}))
	}))
	return model, begun
}

// checkNames fails a test in which something was made in the data folder that
// the table of package datadir does not list.
func checkNames(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		if _, ok := datadir.Lookup(e.Name()); !ok {
			t.Errorf("%s is in the data folder, but not in the table of package datadir", e.Name())
		}
	}
	run, _ := os.ReadDir(datadir.Run.In(dir)) // it may not be there
	for _, e := range run {
		if entry, _ := datadir.Lookup("run/" + e.Name()); entry.Name == datadir.Run {
			t.Errorf("run/%s is in the data folder, but not in the table of package datadir", e.Name())
		}
	}
}

func (h *host) configure(text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, "config.json"), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) options() gateway.Options {
	about := app.Options{Config: config.Options{Home: h.dir}, Version: "test"}
	return gateway.Options{
		Options: app.Options{
			Doctor:   func(ctx context.Context) string { return doctor.Checkup(ctx, about).Text() },
			UseModel: h.model, Env: append([]string{"NANOBOT_HOME=" + h.dir, "OLLAMA_HOST=127.0.0.1:1"}, h.env...), Config: config.Options{Home: h.dir}, Version: "test",
			Channels: map[string]chat.Driver{"party": h.party.driver()}, Tools: h.tools, Now: h.now,
		},
		Listen: cmp.Or(h.listen, "-"), NoChannels: h.quiet,
	}
}

// start runs a gateway until end is called.
func (h *host) start() *host {
	h.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	g, err := gateway.New(ctx, h.options())
	if err != nil {
		h.t.Fatal(err)
	}
	h.g, h.stop, h.done = g, stop, make(chan error, 1)
	up := make(chan struct{})
	go func() { h.done <- g.Run(ctx, func() { close(up) }) }()
	<-up
	h.t.Cleanup(func() { h.stop() })
	return h
}

func (h *host) end() error {
	h.t.Helper()
	h.stop()
	select {
	case err := <-h.done:
		return err
	case <-time.After(10 * time.Minute):
		h.t.Fatal("the gateway does not end")
		return nil
	}
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// echo answers with the marked word of the question.
func echo(t *testing.T) *llmtest.Script {
	t.Helper()
	s := llmtest.NewScript(t)
	s.Otherwise = func(req llm.Request) llmtest.Step {
		return llmtest.Reply("echo " + marked(req.Messages[len(req.Messages)-1].Content.String()))
	}
	return s
}

// marked is the word with a number sign in a text.
func marked(text string) string {
	for word := range strings.FieldsSeq(text) {
		if strings.HasPrefix(word, "#") {
			return word
		}
	}
	return "nothing"
}

func TestGatewayAnswers(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	h.must(h.party.write(t, "ann", "1", "say #one"))
	h.party.hear(t, "echo #one")
	h.must(h.party.write(t, "ann", "1", "say #one")) // the platform repeats itself
	h.must(h.party.write(t, "ann", "2", "say #two"))
	if out := h.party.hear(t, "echo"); !strings.Contains(out.Text, "#two") {
		t.Errorf("a repeated message was answered again: %q", out.Text)
	}
	if err := h.party.write(t, "eve", "3", "let me in"); err == nil {
		t.Error("a stranger was admitted")
	}
	h.party.hear(t, "pairing approve")
	s := h.g.Status()
	if !s.Ready || s.Queue.Inbound != 0 || len(s.Channels) != 1 || s.Channels[0].State != deliver.Running || s.Channels[0].Denied == 0 {
		t.Errorf("status = %+v", s)
	}
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
	req.RemoteAddr = "127.0.0.1:1"
	h.g.Handler().ServeHTTP(w, req)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"ready"`) {
		t.Errorf("readyz: %d %s", w.Code, w.Body)
	}
	h.must(h.end())
}

// A turn that the end of the gateway interrupts is taken up by the next one.
func TestGatewayTakesUpTurns(t *testing.T) {
	t.Parallel()
	model, begun := stuck(t)
	h := newHost(t, model)
	h.configure(hurried)
	h.start()
	<-h.party.joined
	h.must(h.party.write(t, "ann", "1", "say #one"))
	<-begun
	h.must(h.end())
	h.model = echo(t)
	h.start()
	if out := h.party.hear(t, "echo"); out.Route.ChatID != "ann" {
		t.Errorf("answer went to %+v", out.Route)
	}
	h.must(h.end())
}

func TestSecondGateway(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t)).start()
	if _, err := gateway.New(t.Context(), h.options()); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second gateway: %v", err)
	}
	h.must(h.end())
}

func TestReload(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	h.must(h.party.write(t, "ann", "1", "say #one"))
	h.party.hear(t, "echo #one")

	// What cannot be used changes nothing, and the owner hears of it.
	h.configure(`{"agents": {`)
	if err := h.g.Reload(t.Context()); err == nil {
		t.Error("a broken file was taken")
	}
	h.party.hear(t, "is not valid")
	h.must(h.party.write(t, "ann", "2", "say #two"))
	h.party.hear(t, "echo #two")
	if s := h.g.Status(); len(s.Problems) == 0 || h.party.builds() != 1 {
		t.Errorf("problems %v, %d builds", s.Problems, h.party.builds())
	}

	// A change of the agent leaves channels alone.
	h.configure(strings.Replace(partyConfig, `"model": "m"`, `"model": "m", "maxToolIterations": 7`, 1))
	h.must(h.g.Reload(t.Context()))
	h.must(h.party.write(t, "ann", "3", "say #three"))
	h.party.hear(t, "echo #three")
	if n := h.party.builds(); n != 1 {
		t.Errorf("the channel was made %d times", n)
	}
	if s := h.g.Status(); len(s.Problems) > 0 {
		t.Errorf("problems are left: %v", s.Problems)
	}

	// A change of a channel makes that one anew.
	h.configure(strings.Replace(partyConfig, `["ann"]`, `["ann", "bob"]`, 1))
	h.must(h.g.Reload(t.Context()))
	<-h.party.joined
	h.must(h.party.write(t, "bob", "4", "say #four"))
	h.party.hear(t, "echo #four")

	// A section that is wrong is left out and told; the rest goes on.
	h.configure(strings.Replace(partyConfig, `"channels": {`, `"channels": {"telegram": {"enabled": true, "token": "${NO_SUCH}"}, `, 1))
	h.must(h.g.Reload(t.Context()))
	h.party.hear(t, "NO_SUCH")
	h.must(h.end())
}

// A configuration that arrives while a turn runs waits for it.
func TestReloadDuringTurn(t *testing.T) {
	t.Parallel()
	h, finish, reloaded := reloading(t)
	h.must(h.party.write(t, "ann", "2", "two"))
	close(finish)
	h.must(<-reloaded)
	h.party.hear(t, "finished")
	h.party.hear(t, "later")
	h.must(h.end())
}

// A turn that does not end in time is taken up by the agent that follows.
func TestReloadTakesUpTurns(t *testing.T) {
	t.Parallel()
	model, begun := stuck(t)
	model.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("later") }
	h := newHost(t, model)
	h.configure(hurried)
	h.start()
	<-h.party.joined
	h.must(h.party.write(t, "ann", "1", "one"))
	<-begun
	h.configure(strings.Replace(hurried, `"model": "m"`, `"model": "m", "maxToolIterations": 7`, 1))
	h.must(h.g.Reload(t.Context()))
	h.party.hear(t, "later")
	h.must(h.end())
}

func TestRestartIsAnnounced(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	h.must(h.party.write(t, "ann", "1", "/restart"))
	select {
	case err := <-h.done:
		if !errors.Is(err, gateway.ErrRestart) {
			t.Fatalf("ended with %v", err)
		}
	case <-time.After(10 * time.Minute):
		t.Fatal("it does not restart")
	}
	h.party.hear(t, "Restarting")
	h.start()
	if out := h.party.hear(t, "Restarted in"); out.Route.ChatID != "ann" {
		t.Errorf("told %+v", out.Route)
	}
	h.must(h.end())
}

// A channel that cannot work does not keep the others from it.
func TestBrokenChannel(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(strings.Replace(partyConfig, `"channels": {`, `"channels": {"telegram": {"enabled": true, "tokn": "x"}, "nosuch": {"enabled": true}, `, 1))
	h.start()
	<-h.party.joined
	h.must(h.party.write(t, "ann", "1", "say #one"))
	h.party.hear(t, "echo #one")
	for _, c := range h.g.Status().Channels {
		if c.Name != "party" && (c.State != deliver.Failed || c.Error == "") {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
	h.must(h.end())
}
