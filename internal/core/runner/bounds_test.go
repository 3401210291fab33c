package runner_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// endless is a model that does not stop by itself.
type endless struct {
	llm.Model
	kind  llm.EventKind
	piece string
	sent  int
}

func (e *endless) Stream(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for e.sent < 1<<30 && yield(llm.Event{Kind: e.kind, Text: e.piece}, nil) {
			e.sent += len(e.piece)
		}
	}
}

// A model that does not stop is stopped. What came is kept and says that it was cut.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*endless{
		"in pieces":    {kind: llm.TextDelta, piece: "word "},
		"in one piece": {kind: llm.TextDelta, piece: strings.Repeat("é", 1<<20)},
		"only thought": {kind: llm.ReasoningDelta, piece: "hm "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, m)
			b.spec.Limits.AnswerBytes = 1000
			res, err := runner.Run(t.Context(), b.spec)
			if err != nil || res.Stop != runner.Completed || !res.Cut || !res.Streamed || res.Requests != 1 {
				t.Fatalf("%+v, %v", res, err)
			}
			const note = "[The answer was cut off here: it is longer than 1000 bytes. The setting is agents.defaults.limits.maxAnswerBytes.]"
			text, ok := strings.CutSuffix(res.Text, note)
			if kept := m.kind == llm.TextDelta; !ok || len(text) > 1002 || kept != (len(text) > 900) {
				t.Errorf("%d bytes were kept: %.80q ... %q", len(text), text, res.Text[max(0, len(res.Text)-200):])
			}
			if b.deltas != res.Text+"|" || b.recorded[0].Content.String() != res.Text {
				t.Errorf("shown %d bytes, recorded %d, answered %d", len(b.deltas), len(b.recorded[0].Content.String()), len(res.Text))
			}
			if m.sent > 2000+len(m.piece) {
				t.Errorf("%d bytes were read", m.sent)
			}
		})
	}
}

// A reply with thousands of calls runs the first hundred and says so.
func TestTooManyCallsInOneReply(t *testing.T) {
	t.Parallel()
	ran := 0
	count := tool.Func(tool.Tool{Name: "count", Description: "c"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
		ran++
		return tool.Text("counted"), nil
	})
	step := llmtest.Reply("")
	for i := range 10_000 {
		step.Calls = append(step.Calls, llm.ToolCall{ID: fmt.Sprint("c", i), Name: "count", Arguments: fmt.Sprintf(`{"text":"%d"}`, i)})
	}
	model := llmtest.NewScript(t, step, llmtest.Reply("done"))
	b := newBench(t, model, count)
	b.spec.Sequential = true
	res, err := runner.Run(t.Context(), b.spec)
	if err != nil || res.Text != "done" || ran != 100 {
		t.Fatalf("%d calls ran: %q, %v", ran, res.Text, err)
	}
	msgs := model.Last().Messages
	if said := msgs[len(msgs)-1]; said.Role != llm.User || !strings.Contains(said.Content.String(), "the first 100 were run, 9900 were not") {
		t.Errorf("the model was told %q", said.Content)
	}
	if n := len(b.recorded[0].ToolCalls); n != 100 {
		t.Errorf("%d calls are in the conversation", n)
	}
}
