package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// A run that a chat began and could not end is taken up by the gateway that
// comes: the model is asked again, and there is one result.
func TestChatHandsOverToGateway(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	never := make(chan struct{})
	model := llmtest.NewScript(t, llmtest.Func(func(llm.Request) llmtest.Step {
		close(begun)
		return llmtest.Block(never)
	}), llmtest.Reply("time for tea"))
	h := newHost(t, model)
	terminal := bus.Route{Channel: "cli", ChatID: "direct"}
	said := make(chan bus.Outbound, 64)
	chat, err := app.New(t.Context(), app.Options{
		UseModel: model, Env: []string{"NANOBOT_HOME=" + h.dir, "OLLAMA_HOST=127.0.0.1:1"}, Config: config.Options{Home: h.dir},
		Reminders: terminal.SameChat, Deliver: func(out bus.Outbound) { said <- out },
	})
	h.must(err)
	added, err := chat.Schedule.Add(t.Context(), schedule.Draft{Message: "tea", Timing: schedule.Once(time.Now()), Route: terminal, Keep: true})
	h.must(err)
	running, stop := context.WithCancel(t.Context())
	served, kept := make(chan struct{}), make(chan struct{})
	begin := func() { chat.Agent.Open(running) }
	go func() { defer close(served); _ = chat.Run(running) }()
	keep, stopKeeping := context.WithCancel(t.Context())
	go func() { defer close(kept); chat.KeepTime(keep, begin) }()
	<-begun
	stopKeeping()
	<-kept
	j, err := chat.Schedule.Get(t.Context(), added.Job.ID)
	h.must(err)
	if j.State.Pending == nil || j.State.LastStatus != "" {
		t.Errorf("state %+v after the chat, want a run that is not over", j.State)
	}
	stop()
	<-served
	h.must(chat.Close())

	h.start()
	<-h.party.joined
	jobs, err := schedule.Open(schedule.Options{State: chat.Schedule.State})
	h.must(err)
	for j.State.Pending != nil {
		<-time.After(5 * time.Millisecond)
		j, err = jobs.Get(t.Context(), added.Job.ID)
		h.must(err)
	}
	h.must(h.end())
	if st := j.State; st.LastStatus != "ok" || len(st.RunHistory) != 1 {
		t.Errorf("state %+v, want one run that went well", st)
	}
	if n := len(model.Requests()); n != 2 {
		t.Errorf("the model was asked %d times, want 2", n)
	} else if last := model.Requests()[1]; !strings.Contains(last.Messages[len(last.Messages)-1].Content.String(), "restarted while") {
		t.Error("the gateway began anew instead of taking the run up")
	}
	close(said)
	for out := range said {
		if out.Kind == bus.Final {
			t.Errorf("the chat said %q about a run it did not end", out.Text)
		}
	}
}

// A chat whose reminders cannot run says so where the person sees it, once.
func TestChatTellsDamage(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	jobs := filepath.Join(h.dir, "workspace", "cron", "jobs.json")
	h.must(os.MkdirAll(filepath.Dir(jobs), 0o700))
	h.must(os.WriteFile(jobs, []byte(`{"version": 1, "jobs": [{`), 0o600))
	said := make(chan bus.Outbound, 64)
	chat, err := app.New(t.Context(), app.Options{
		UseModel: h.model, Env: []string{"NANOBOT_HOME=" + h.dir, "OLLAMA_HOST=127.0.0.1:1"}, Config: config.Options{Home: h.dir},
		Reminders: bus.Route{Channel: "cli", ChatID: "direct"}.SameChat, Deliver: func(out bus.Outbound) { said <- out },
	})
	h.must(err)
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() { defer close(kept); chat.KeepTime(ctx, func() {}) }()
	if out := <-said; !strings.Contains(out.Text, "Reminders of this chat do not run: ") || !strings.Contains(out.Text, "jobs.json cannot be read") {
		t.Errorf("the chat says %q", out.Text)
	}
	stop()
	<-kept
	h.must(chat.Close())
}

// A gateway tells the owner and goes on without jobs.
func TestGatewayTellsDamage(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	jobs := filepath.Join(h.dir, "workspace", "cron", "jobs.json")
	h.must(os.MkdirAll(filepath.Dir(jobs), 0o700))
	h.must(os.WriteFile(jobs, []byte(`{"version": 1, "jobs": [{`), 0o600))
	h.must(os.MkdirAll(filepath.Join(h.dir, "run"), 0o700))
	h.must(os.WriteFile(filepath.Join(h.dir, "run", "owner-chat.json"), []byte(`{"channel": "party", "chat_id": "ann"}`), 0o600))
	h.start()
	<-h.party.joined
	h.party.hear(t, "Scheduled jobs do not run: ")
	s := h.g.Status()
	if !s.Ready || !strings.Contains(strings.Join(s.Problems, "\n"), "scheduled jobs do not run") {
		t.Errorf("status: ready %v, %q", s.Ready, s.Problems)
	}
	if got := h.read("/readyz"); !strings.Contains(got, `"status":"ready"`) || !strings.Contains(got, `{"name":"schedule","ok":false,"detail":"scheduled jobs do not run: `) {
		t.Errorf("readyz: %s", got)
	}
	h.must(h.end())
}
