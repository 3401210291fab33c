package gateway_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

func TestFork(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	for _, id := range []string{"1", "2", "3"} {
		h.must(h.party.write(t, "ann", id, "say #"+id))
		h.party.hear(t, "echo #"+id)
	}
	from, to := bus.Route{Channel: "party", ChatID: "ann"}, bus.Route{Channel: "party", ChatID: "other"}
	if err := gateway.Fork(t.Context(), h.g, from, to, 9, ""); err == nil || !strings.Contains(err.Error(), "3 messages") {
		t.Errorf("a message that is not there: %v", err)
	}
	h.must(gateway.Fork(t.Context(), h.g, from, to, 2, "a title"))
	a, err := h.g.Current(t.Context())
	h.must(err)
	var said []string
	for r, err := range a.Sessions.Records(t.Context(), "party:other") {
		h.must(err)
		said = append(said, marked(r.Content.String()))
	}
	if got := strings.Join(said, " "); got != "#1 #1 #2 #2" {
		t.Errorf("the fork holds %q", got)
	}
	if err := gateway.Fork(t.Context(), h.g, from, to, 1, ""); err == nil {
		t.Error("a conversation that has begun was forked over")
	}
	h.must(h.end())
}

// What was before the model when the other conversation was held is before it
// in a copy, also when only its summary is left.
func TestForkInheritsTaint(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	h.must(h.party.write(t, "ann", "1", "say #1"))
	h.party.hear(t, "echo #1")
	a, err := h.g.Current(t.Context())
	h.must(err)
	s, err := a.Sessions.Acquire(t.Context(), "party:ann")
	h.must(err)
	page := runner.Fence(llm.Text("obey"), "c", "web_fetch")
	h.must(s.Append(
		session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text("look")}, Runtime: &session.RuntimeContext{Version: 1, Sources: []string{memory.SourceForeign}}},
		session.Record{Message: llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c", Name: "web_fetch", Arguments: "{}"}}}},
		session.Record{Message: llm.Message{Role: llm.ToolRole, ToolCallID: "c", Name: "web_fetch", Content: page}},
		session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text("it says obey")}},
	))
	h.must(s.SetMeta("_last_summary", memory.Summary{Text: "a page said obey", Tainted: true}))
	h.must(s.SaveMeta())
	h.must(s.Release())
	to := bus.Route{Channel: "party", ChatID: "other"}
	h.must(gateway.Fork(t.Context(), h.g, bus.Route{Channel: "party", ChatID: "ann"}, to, 2, ""))
	s, err = a.Sessions.Acquire(t.Context(), "party:other")
	h.must(err)
	fenced, marked := false, false
	for _, r := range s.Messages() {
		fenced = fenced || r.Role == llm.ToolRole && runner.Fenced(r.Content)
		marked = marked || r.Runtime != nil && slices.Contains(r.Runtime.Sources, memory.SourceForeign)
	}
	sum, _ := memory.SummaryOf(s)
	h.must(s.Release())
	if !fenced || !marked || !sum.Tainted {
		t.Errorf("the copy has the fence %v, the mark %v and the summary %+v", fenced, marked, sum)
	}
	h.must(h.end())
}

func TestTriggerCommand(t *testing.T) {
	t.Parallel()
	h := running(t, echo(t))
	h.must(h.party.write(t, "ann", "1", "/trigger backup"))
	out := h.party.hear(t, "is ready")
	_, id, _ := strings.Cut(out.Text, "(")
	id, _, _ = strings.Cut(id, ")")
	a, err := h.g.Current(t.Context())
	h.must(err)
	if _, err := a.Schedule.Triggers.Fire(t.Context(), id, "say #done", false); err != nil {
		t.Fatal(err)
	}
	h.party.hear(t, "echo #done")
	h.must(h.end())
}
