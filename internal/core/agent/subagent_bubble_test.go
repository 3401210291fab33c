package agent_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// spawning is a conversation that gives a task away and tells what came back.
func spawning(req llm.Request) llmtest.Step {
	if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
		return llmtest.Reply("main saw: " + last(req))
	}
	return llmtest.Call("spawn", map[string]any{"task": "work", "wait": true})
}

// A subagent ends after half an hour, although turns have no limit of time.
func TestSubagentTimeIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		blocks := textTool("blocks", tool.Tool{ReadOnly: true}, func(ctx context.Context, _ tool.Call, _ string) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		})
		h, _ := withSubagents(t, spawning, func(llm.Request) llmtest.Step { return llmtest.Call("blocks", map[string]any{"text": "x"}) }, blocks)
		h.start()
		began := time.Now()
		got := h.ask(in("1", "go"))
		if took := time.Since(began); took != 30*time.Minute || !strings.Contains(got, "time budget") {
			t.Errorf("after %v: %q", took, got)
		}
		h.stop()
	})
}

// A subagent has two million tokens, or as many as a turn if that is less.
func TestSubagentTokensAreBounded(t *testing.T) {
	t.Parallel()
	for configured, want := range map[int]int{0: 2, 5_000_000: 2, 1_500_000: 1} {
		work := textTool("work", tool.Tool{ReadOnly: true}, func(_ context.Context, _ tool.Call, s string) (tool.Result, error) { return tool.Text(s), nil })
		calls := 0
		h, _ := withSubagents(t, spawning, func(llm.Request) llmtest.Step {
			calls++
			step := llmtest.Call("work", map[string]any{"text": strings.Repeat("x", calls)})
			step.Usage = llm.Usage{Prompt: 1_500_000, Completion: 1000}
			return step
		}, work)
		h.opts.Turns.Limits.Tokens = configured
		h.start()
		if got := h.ask(in("1", "go")); calls != want || !strings.Contains(got, "token budget") {
			t.Errorf("limit %d: %d calls, want %d: %q", configured, calls, want, got)
		}
		h.stop()
	}
}
