package agent_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// writer is a model that writes a call piece by piece and then answers.
func writer(pieces []string) llm.Model {
	args := strings.Join(pieces, "")
	return llm.ModelFunc(func(_ context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			msg, finish := llm.Message{Role: llm.Assistant, Content: llm.Text("done")}, llm.FinishStop
			if req.Messages[len(req.Messages)-1].Role != llm.ToolRole {
				for _, p := range pieces {
					if req.ToolDeltas && !yield(llm.Event{Kind: llm.ToolDelta, Text: p, Tool: &llm.ToolPart{ID: "c1", Name: "work"}}, nil) {
						return
					}
				}
				msg, finish = llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c1", Name: "work", Arguments: args}}}, llm.FinishToolCalls
			}
			yield(llm.Event{Kind: llm.Done, Response: &llm.Response{Message: msg, Finish: finish}}, nil)
		}
	})
}

func withModel(h *house, m llm.Model) {
	h.opts.Models.Runtime = func(context.Context, string) (turn.Runtime, error) {
		return turn.Runtime{Model: m, Name: "m", Display: "m", MaxTokens: 1000, Window: 1_000_000}, nil
	}
}

// Those who watch a turn see its calls being written, in pieces of a moderate
// size, up to a bound and without secrets; others are not bothered.
func TestCallsAreShownAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	work := textTool("work", tool.Tool{}, func(context.Context, tool.Call, string) (tool.Result, error) { return tool.Text("ok"), nil })
	h := newHouse(t, llmtest.NewScript(t), work)
	h.opts.Secrets.Add("key", httpsafe.NewSecret("sk-very-secret-value"))
	pieces := []string{`{"text":"begin sk-very-`, `secret-value `}
	for range 20_000 {
		pieces = append(pieces, "0123456789")
	}
	pieces = append(pieces, `"}`)
	withModel(h, writer(pieces))
	h.start()

	outs, err := h.collect(in("1", "go"))
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	n, started := 0, false
	for _, o := range outs {
		switch {
		case o.Kind == bus.ToolDelta:
			n++
			shown.WriteString(o.Tool.Arguments)
			if started || o.Tool.CallID != "c1" || o.Tool.Name != "work" || o.Route.ChatID != "1" {
				t.Errorf("piece %+v %+v", o, o.Tool)
			}
		case o.Kind == bus.ToolEvent && o.Tool.Phase == "start":
			started = true
		}
	}
	got := shown.String()
	if !strings.HasPrefix(got, `{"text":"begin `) || strings.Contains(got, "secret") || len(got) < 60<<10 || len(got) > 66<<10 || n > 150 || !started {
		t.Errorf("%d pieces of %d bytes: %.80q", n, len(got), got)
	}

	quiet := in("1", "go")
	quiet.WantsStream = false
	outs, err = h.collect(quiet)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outs {
		if o.Kind == bus.ToolDelta {
			t.Errorf("nobody asked for %+v", o)
		}
	}
}

// A tool that the provider runs is shown like others, and what it found taints
// the turn and what is kept of it.
func TestHostedToolsTaint(t *testing.T) {
	t.Parallel()
	tainted := map[string]bool{}
	work := textTool("work", tool.Tool{}, func(_ context.Context, c tool.Call, s string) (tool.Result, error) {
		tainted[s] = c.Tainted
		return tool.Text("ok"), nil
	})
	h := newHouse(t, llmtest.NewScript(t), work)
	searches := true
	withModel(h, llm.ModelFunc(func(_ context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			last := req.Messages[len(req.Messages)-1]
			msg, finish := llm.Message{Role: llm.Assistant, Content: llm.Text("done")}, llm.FinishStop
			if last.Role == llm.User {
				word := strings.Fields(last.Content.String())[0]
				if searches && !yield(llm.Event{Kind: llm.HostedTool, Tool: &llm.ToolPart{ID: "h1", Name: "web_search", Phase: "end", Arguments: "weather", Result: `[{"url":"https://a.example/"}]`}}, nil) {
					return
				}
				searches = false
				msg, finish = llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: word, Name: "work", Arguments: `{"text":"` + word + `"}`}}}, llm.FinishToolCalls
			}
			yield(llm.Event{Kind: llm.Done, Response: &llm.Response{Message: msg, Finish: finish}}, nil)
		}
	}))
	h.start()
	outs, err := h.collect(in("1", "first"))
	if err != nil {
		t.Fatal(err)
	}
	told := false
	for _, o := range outs {
		told = told || o.Kind == bus.ToolEvent && o.Tool.Hosted && o.Tool.Name == "web_search" && o.Tool.Arguments == "weather" && strings.Contains(o.Tool.Detail, "a.example")
	}
	h.ask(in("1", "second"))
	h.ask(in("2", "third"))
	if !told || !tainted["first"] || !tainted["second"] || tainted["third"] {
		t.Errorf("told %v, tainted %v", told, tainted)
	}
}
