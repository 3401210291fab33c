package gateway_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// person answers the questions of a login.
type person struct {
	answer string
	told   []string
}

func (p *person) Tell(s chat.Step) { p.told = append(p.told, s.QR+" "+s.Note) }

func (p *person) Ask(context.Context, chat.Question) (string, error) {
	if p.answer == "" {
		return "", errors.New("no terminal")
	}
	return p.answer, nil
}

func (h *host) accounts() gateway.Accounts {
	h.t.Helper()
	o := h.options()
	o.Config.Env = o.Env
	o.Config.Sections = gateway.Sections(o.Channels)
	l, err := config.Load(o.Config)
	h.must(err)
	return gateway.Accounts{Loaded: l, File: o.Config}
}

// A login through the running gateway writes what it found out into the
// configuration, makes the person an owner and starts the channel again.
func TestLoginThroughGateway(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	a := h.accounts()
	if _, err := a.Login(t.Context(), "party", &person{answer: "nobody"}, false); err == nil || !strings.Contains(err.Error(), "not invited") {
		t.Errorf("a login that fails: %v", err)
	}
	<-h.party.joined // it goes on with what it had
	if _, err := a.Login(t.Context(), "party", &person{}, false); err == nil || !strings.Contains(err.Error(), "no terminal") {
		t.Errorf("a login whose person left: %v", err)
	}
	<-h.party.joined

	who := &person{answer: "bob"}
	r, err := a.Login(t.Context(), "party", who, true)
	h.must(err)
	if r.Identity != "bob" || len(who.told) != 1 || who.told[0] != "door:1 Scan this." {
		t.Errorf("login: %+v, told %q", r, who.told)
	}
	text, err := os.ReadFile(filepath.Join(h.dir, "config.json"))
	h.must(err)
	for _, want := range []string{`"ticket": "t-bob-true"`, `"owners": [`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the file lacks %s: %s", want, text)
		}
	}
	<-h.party.joined // with the old section
	<-h.party.joined // with the new one
	h.must(h.party.write(t, "bob", "7", "say #seven"))
	h.party.hear(t, "echo #seven")
	h.must(h.end())
}

// A login can be the first that is set up of a channel.
func TestLoginAddsChannel(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	a := h.accounts()
	if _, err := a.Login(t.Context(), "party.work", &person{answer: "nobody"}, false); err == nil {
		t.Error("a login that was refused reported no error")
	}
	_, err := a.Login(t.Context(), "party.friends", &person{answer: "bob"}, false)
	h.must(err)
	all := h.accounts().Loaded.Config.Channels.Each
	if added := all["party.friends"]; !added.Enabled || !slices.Contains(added.Owners, "bob") || !strings.Contains(string(added.Raw.JSON()), "t-bob") {
		t.Errorf("added: %+v", added)
	}
	if _, ok := all["party.work"]; ok {
		t.Error("a login that failed added a channel")
	}
	<-h.party.joined
	h.must(h.end())
}

func TestChannelsByHand(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	a := h.accounts()
	report, err := a.Test(t.Context(), "party")
	if err != nil || report.Identity != "guest" || len(report.Checks) != 1 || report.Checks[0].OK {
		t.Errorf("test: %+v, %v", report, err)
	}
	to, err := control.To(a.Loaded).Send(t.Context(), bus.Outbound{Route: bus.Route{Channel: "party", ChatID: "@ann"}, Text: "dinner is ready"})
	if err != nil || to.ChatID != "ann" {
		t.Errorf("send: %+v, %v", to, err)
	}
	if out := h.party.hear(t, "dinner"); out.Route.ChatID != "ann" {
		t.Errorf("it went to %+v", out.Route)
	}
	for _, wrong := range []bus.Outbound{
		{Route: bus.Route{Channel: "party", ChatID: "@eve"}, Text: "hi"},
		{Route: bus.Route{Channel: "party", ChatID: "ann"}},
		{Route: bus.Route{Channel: "funeral", ChatID: "ann"}, Text: "hi"},
	} {
		if _, err := control.To(a.Loaded).Send(t.Context(), wrong); err == nil {
			t.Errorf("%+v was sent", wrong)
		}
	}
	if found, err := a.Address(t.Context(), bus.Route{Channel: "party", ChatID: "@ann", ThreadID: "5"}); err != nil || found.ChatID != "ann" || found.ThreadID != "5" {
		t.Errorf("address: %+v, %v", found, err)
	}
	h.must(control.To(a.Loaded).RestartChannel(t.Context(), "party"))
	<-h.party.joined
	if err := control.To(a.Loaded).RestartChannel(t.Context(), "funeral"); err == nil || !strings.Contains(err.Error(), "known channels") {
		t.Errorf("restart: %v", err)
	}
	h.must(a.Logout(t.Context(), "party"))
	<-h.party.joined
	if h.party.left != 1 {
		t.Errorf("%d logouts", h.party.left)
	}
	if err := a.Logout(t.Context(), "telegram"); err == nil {
		t.Error("a channel that is not configured was logged out")
	}
	h.must(h.end())
	if err := control.To(a.Loaded).RestartChannel(t.Context(), "party"); !errors.Is(err, daemon.ErrNotRunning) {
		t.Errorf("restart without a gateway: %v", err)
	}
}

// The model's message tool takes names, too, and hears of wrong ones at once.
func TestMessageToName(t *testing.T) {
	t.Parallel()
	model := llmtest.NewScript(t,
		llmtest.Call("message", `{"content": "for ann", "channel": "party", "chat_id": "@ann"}`),
		llmtest.Call("message", `{"content": "for eve", "channel": "party", "chat_id": "@eve"}`),
		llmtest.Func(func(req llm.Request) llmtest.Step {
			last := req.Messages[len(req.Messages)-1].Content.String()
			if !strings.Contains(last, "nobody is called @eve") {
				t.Errorf("the model reads %s", last)
			}
			return llmtest.Reply("done")
		}))
	h := unasking(t, model)
	h.must(h.party.write(t, "ann", "1", "write to them"))
	if out := h.party.hear(t, "for ann"); out.Route.ChatID != "ann" {
		t.Errorf("it went to %+v", out.Route)
	}
	h.party.hear(t, "done")
	h.must(h.end())
}
