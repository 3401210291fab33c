package control_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
)

// house answers every call with what it was asked.
type house struct{ did []string }

func (h *house) do(what string) error {
	h.did = append(h.did, what)
	if strings.HasSuffix(what, " bad") {
		return errors.New("the key sk-test-1 was refused")
	}
	return nil
}

type itself struct{ *house }

func (h itself) Status(context.Context) control.Status { return control.Status{PID: 7} }
func (h itself) Reload(context.Context) error          { return h.do("reload") }
func (h itself) Restart()                              { _ = h.do("restart") }

type channels struct{ *house }

func (h channels) Probe(_ context.Context, name string) (chat.Report, error) {
	return chat.Report{Identity: "@" + name}, h.do("probe " + name)
}
func (h channels) Restart(_ context.Context, name string) error { return h.do("restart " + name) }
func (h channels) Logout(_ context.Context, name string) error  { return h.do("logout " + name) }

func (h channels) Address(_ context.Context, to bus.Route) (bus.Route, error) {
	return bus.Route{Channel: to.Channel, ChatID: "id of " + to.ChatID}, h.do("address " + to.Channel)
}

func (h channels) Send(_ context.Context, out bus.Outbound) (bus.Route, error) {
	return out.Route, h.do("send " + out.Text)
}

func (h channels) Login(ctx context.Context, name string, d chat.Dialog, _ bool) (chat.Result, error) {
	if name == "none" {
		return chat.Result{}, deliver.ErrNoLogin
	}
	d.Tell(chat.Step{Note: "scan this"})
	text, err := d.Ask(ctx, chat.Question{Text: "code"})
	if err != nil {
		return chat.Result{}, err
	}
	return chat.Result{Owner: text}, h.do("login " + name)
}

type pages struct{ *house }

func (h pages) Link(want control.WantedLink) (control.Link, error) {
	return control.Link{Base: want.Base}, nil
}
func (h pages) Devices(context.Context) (control.Devices, error) { return control.Devices{}, nil }
func (h pages) Decide(_ context.Context, d control.Decision) error {
	return h.do("decide " + d.Digits + d.Revoke)
}

type person struct{ told []string }

func (p *person) Tell(s chat.Step)                                   { p.told = append(p.told, s.Note) }
func (p *person) Ask(context.Context, chat.Question) (string, error) { return "ann", nil }

// Every call reaches what answers it, with what was asked, and comes back; errors
// come without credentials.
func TestCalls(t *testing.T) {
	t.Parallel()
	l := &config.Loaded{DataDir: filepath.Join(t.TempDir(), "data")}
	c := control.To(l)
	if _, err := c.Status(t.Context()); !errors.Is(err, daemon.ErrNotRunning) {
		t.Errorf("without a gateway: %v", err)
	}
	h := &house{}
	serve(t, l.DataDir, control.Server{
		Gateway: itself{h}, Channels: channels{h}, Pages: pages{h},
		Redact: func(s string) string { return strings.ReplaceAll(s, "sk-test-1", "(key)") },
	})
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx := t.Context()

	s, err := c.Status(ctx)
	if ok("status", err); s.PID != 7 {
		t.Errorf("the status is %+v", s)
	}
	ok("reload", c.Reload(ctx))
	ok("restart", c.Restart(ctx))
	r, err := c.Probe(ctx, "slack.work")
	if ok("probe", err); r.Identity != "@slack.work" {
		t.Errorf("the report is %+v", r)
	}
	ok("restart of a channel", c.RestartChannel(ctx, "party"))
	ok("logout", c.Logout(ctx, "party"))
	to, err := c.Address(ctx, bus.Route{Channel: "party", ChatID: "ann"})
	if ok("address", err); to.ChatID != "id of ann" {
		t.Errorf("the chat is %+v", to)
	}
	_, err = c.Send(ctx, bus.Outbound{Route: bus.Route{Channel: "party", ChatID: "ann"}, Text: "hi"})
	ok("send", err)
	link, err := c.Link(ctx, control.WantedLink{Base: "https://bot.example/"})
	if ok("link", err); link.Base != "https://bot.example/" {
		t.Errorf("the link is %+v", link)
	}
	ok("decide", c.Decide(ctx, control.Decision{Digits: "123456", Allow: true}))

	p := &person{}
	result, err := c.Login(ctx, "party", p, false)
	if ok("login", err); result.Owner != "ann" || len(p.told) != 1 || p.told[0] != "scan this" {
		t.Errorf("the login found %+v, the person was told %q", result, p.told)
	}
	if _, err := c.Login(ctx, "none", p, false); !errors.Is(err, deliver.ErrNoLogin) {
		t.Errorf("a channel without a login: %v", err)
	}
	for what, err := range map[string]error{
		"logout": c.Logout(ctx, "bad"),
		"login":  func() error { _, err := c.Login(ctx, "bad", p, false); return err }(),
	} {
		if err == nil || err.Error() != "the key (key) was refused" {
			t.Errorf("%s with a failure: %v", what, err)
		}
	}

	got := strings.Join(h.did[:8], ", ")
	if want := "reload, restart, probe slack.work, restart party, logout party, address party, send hi, decide 123456"; got != want {
		t.Errorf("the gateway did %q, want %q", got, want)
	}
}

// serve answers calls until the test ends.
func serve(t *testing.T, dataDir string, s control.Server) {
	t.Helper()
	l, err := control.Listen(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s.Handler()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}
