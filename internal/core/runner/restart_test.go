package runner_test

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// broken is a model whose stream breaks once and begins again.
type broken struct{}

func (broken) Stream(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		answer := llm.Response{Message: llm.Message{Role: llm.Assistant, Content: llm.Text("It is five.")}, Finish: llm.FinishStop}
		for _, ev := range []llm.Event{
			{Kind: llm.TextDelta, Text: "It is fo"},
			{Kind: llm.Restarted},
			{Kind: llm.TextDelta, Text: "It is five."},
			{Kind: llm.Done, Response: &answer},
		} {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func TestRestartedStream(t *testing.T) {
	t.Parallel()
	b := newBench(t, broken{})
	b.spec.Hooks[0].DeltaVoid = func(context.Context) { b.deltas += "~" }
	plain := ""
	b.spec.Hooks = append(b.spec.Hooks, runner.Hooks{ // one that does not know of it
		Delta:    func(_ context.Context, _ *runner.Iteration, s string) { plain += s },
		DeltaEnd: func(_ context.Context, resuming bool) { plain += map[bool]string{true: "+", false: "|"}[resuming] },
	})
	res := b.run(t)
	if got, want := b.deltas, "It is fo~It is five.|"; got != want {
		t.Errorf("deltas = %q, want %q", got, want)
	}
	if want := "It is fo+It is five.|"; plain != want {
		t.Errorf("deltas = %q, want %q", plain, want)
	}
	if res.Text != "It is five." || !res.Streamed {
		t.Errorf("got %q, streamed %v", res.Text, res.Streamed)
	}
}

// With Whole an answer ends the run, whatever has come in meanwhile.
func TestWholeAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, llmtest.NewScript(t, llmtest.Reply("first")))
	b.queue = []llm.Message{{Role: llm.User, Content: llm.Text("and?")}}
	b.spec.Whole = true
	res := b.run(t)
	if res.Text != "first" || len(b.queue) != 1 || !slices.Equal(b.ends, []bool{false}) {
		t.Errorf("got %q, %d messages wait, ends %v; want the first answer and the message waiting", res.Text, len(b.queue), b.ends)
	}
}
