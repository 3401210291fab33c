package agent_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// A schedule decides what becomes of the replies to its messages, and what is
// delivered is known in the chat it went to.
func TestScheduledReplies(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("drink water"), llmtest.Reply("all is well"), llmtest.Reply("you are welcome")))
	var mu sync.Mutex
	asked := map[string]string{}
	h.opts.Schedule.Outcome = func(_ context.Context, in bus.Inbound, out bus.Outbound) (bus.Outbound, bool) {
		mu.Lock()
		defer mu.Unlock()
		asked[in.ID] = out.Text
		out.Text = "late: " + out.Text
		return out, in.Event == "cron"
	}
	s := h.serve()
	send := func(id, event, key string) {
		t.Helper()
		msg := in("1", "[due] remind me")
		msg.ID, msg.Event, msg.SenderID, msg.SessionKey, msg.OwnTurn, msg.WantsStream = id, event, event, key, true, false
		if err := s.q.Submit(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	send("cron:a:1", "cron", "cron:a")
	if o := s.final(); o.Text != "late: drink water" || o.ID != "final:cron:a:1" {
		t.Errorf("final %q %q", o.ID, o.Text)
	}
	for !s.knows("test:1", "late: drink water") {
		runtime.Gosched() // it is noted beside the delivery
	}
	send("cron:heartbeat:2", "heartbeat", "heartbeat")
	for answered := false; !answered; runtime.Gosched() {
		mu.Lock()
		_, answered = asked["cron:heartbeat:2"]
		mu.Unlock()
	}
	s.submit("b", "thanks")
	if o := s.final(); o.ID != "final:b" || o.Text != "you are welcome" {
		t.Errorf("final %q %q, want nothing from the heartbeat", o.ID, o.Text)
	}
	var sources []string
	for _, r := range h.model.Requests() {
		sources = append(sources, r.Source)
	}
	if got := strings.Join(sources, " "); got != "cron heartbeat " {
		t.Errorf("accounted under %q, want cron, heartbeat and the user", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if asked["cron:heartbeat:2"] != "all is well" || len(asked) != 2 {
		t.Errorf("asked about %v, want the two scheduled messages", asked)
	}
}

// What a job of a guest said is known in the chat of the guest, and not where all
// chats of the owner are one conversation.
func TestGuestJobsStayOutOfTheUnifiedSession(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("obey the guest"), llmtest.Reply("drink water")))
	h.opts.Turns.Unified = true
	h.opts.Schedule.Outcome = func(_ context.Context, _ bus.Inbound, out bus.Outbound) (bus.Outbound, bool) { return out, true }
	s := h.serve()
	run := func(id, scope string) {
		t.Helper()
		msg := in("1", "[due] remind me")
		msg.ID, msg.Event, msg.SenderID, msg.SessionKey, msg.OwnTurn, msg.WantsStream = id+":1", "cron", "cron", id, true, false
		msg.Scope = scope
		if err := s.q.Submit(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		s.final()
	}
	run("cron:guest", "test:1/eve")
	for !s.knows("test:1", "obey the guest") {
		runtime.Gosched()
	}
	run("cron:owner", "")
	for !s.knows("unified:default", "drink water") {
		runtime.Gosched()
	}
	if s.knows("unified:default", "obey the guest") {
		t.Error("the owner's conversation holds what a guest had said")
	}
}

// Each run of a job begins with its message alone: neither the taint nor the
// words of earlier runs are before the model, also after a restart.
func TestRunsBeginClean(t *testing.T) {
	t.Parallel()
	for event, key := range map[string]string{"cron": "cron:a", "heartbeat": "heartbeat", "trigger": "trigger:a"} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			h, _ := reading(t)
			h.start()
			run := func(text string, clean bool) {
				t.Helper()
				before := len(h.model.Requests())
				msg := in("1", text)
				msg.ID, msg.Event, msg.SenderID, msg.SessionKey, msg.OwnTurn = event+":a:"+text, event, event, key, true
				outs, err := h.collect(msg)
				if err != nil || len(outs) == 0 || outs[len(outs)-1].Turn == nil || outs[len(outs)-1].Turn.Clean != clean {
					t.Fatalf("%q ends with %+v, want a clean turn: %v (%v)", text, outs, clean, err)
				}
				first := h.model.Requests()[before]
				if n := len(first.Messages); n != 1 || strings.Contains(first.System, "obey me") {
					t.Errorf("%q begins with %d messages, want its own alone", text, n)
				}
			}
			run("hello", true)
			run("read", false)
			run("act one", true)
			h.stop()
			h.start()
			run("read again", false)
			run("act two", true)
		})
	}
}

// knows reports whether a conversation holds a text.
func (s *served) knows(key, text string) bool {
	s.t.Helper()
	for r, err := range s.store.Records(s.t.Context(), key) {
		if err == nil && strings.Contains(r.Content.String(), text) {
			return true
		}
	}
	return false
}
