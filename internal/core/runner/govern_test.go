package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// randomHistory makes any sequence a damaged log could hold.
func randomHistory(r *rand.Rand, n int) []llm.Message {
	var out []llm.Message
	id := func() string { return fmt.Sprintf("c%d", r.IntN(6)) }
	for range n {
		switch r.IntN(5) {
		case 0, 1:
			out = append(out, llm.Message{Role: llm.User, Content: llm.Text(fmt.Sprint("u", r.IntN(100)))})
		case 2:
			out = append(out, llm.Message{Role: llm.Assistant, Content: llm.Text([]string{"", "a", "b"}[r.IntN(3)])})
		case 3:
			m := llm.Message{Role: llm.Assistant}
			for range r.IntN(3) + 1 {
				m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: id(), Name: "t", Arguments: "{}"})
			}
			out = append(out, m)
		case 4:
			out = append(out, llm.Message{Role: llm.ToolRole, ToolCallID: id(), Name: "t", Content: llm.Text("r")})
		}
	}
	return out
}

// Invariants 1 and 5: whatever the history, the request is legal, the stored
// messages are untouched, and governing twice changes nothing.
func TestLegalProperty(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		in := randomHistory(r, r.IntN(14))
		before := fmt.Sprintf("%+v", in)
		out := runner.Legal(in)
		if err := llmtest.CheckLegal(llm.Request{Messages: out}); err != nil {
			t.Fatalf("case %d: %v\nin:  %s\nout: %+v", i, err, before, out)
		}
		if after := fmt.Sprintf("%+v", in); after != before {
			t.Fatalf("case %d: input was modified", i)
		}
		if diff := cmp.Diff(out, runner.Legal(out)); diff != "" {
			t.Fatalf("case %d: not idempotent: %s", i, diff)
		}
	}
}

func TestLegalKeepsEveryUserText(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		in := randomHistory(r, r.IntN(14))
		var want, got strings.Builder
		for _, m := range in {
			if m.Role == llm.User {
				want.WriteString(m.Content.Text)
			}
		}
		for _, m := range runner.Legal(in) {
			if m.Role == llm.User {
				got.WriteString(strings.ReplaceAll(strings.ReplaceAll(m.Content.Text, "\n\n", ""), "(continue)", ""))
			}
		}
		if got.String() != want.String() {
			t.Fatalf("user text %q became %q", want.String(), got.String())
		}
	}
}

// The prompt fits by construction: the newest turns that fit, then ever less.
func TestPromptFitsBudget(t *testing.T) {
	t.Parallel()
	var history []llm.Message
	for i := range 200 {
		history = append(history,
			llm.Message{Role: llm.User, Content: llm.Text(fmt.Sprintf("question %d %s", i, strings.Repeat("word ", 50)))},
			llm.Message{Role: llm.Assistant, Content: llm.Text(fmt.Sprintf("answer %d", i))})
	}
	history = append(history, llm.Message{Role: llm.User, Content: llm.Text("the last question")})
	m := llmtest.NewScript(t, llmtest.Reply("ok"))
	b := newBench(t, m)
	b.spec.Messages = history
	b.spec.Limits.ContextWindow = 4000
	b.spec.MaxTokens = 500
	b.run(t)
	req := m.Last()
	size := runner.EstimateHead(req.System, req.Tools)
	for _, msg := range req.Messages {
		size += runner.Estimate(msg)
	}
	if size > 4000-500 {
		t.Errorf("prompt has %d tokens", size)
	}
	if len(req.Messages) < 10 {
		t.Errorf("only %d messages kept although more fit", len(req.Messages))
	}
	if last := req.Messages[len(req.Messages)-1].Content.Text; last != "the last question" {
		t.Errorf("last = %q", last)
	}
}

func TestHugeUserMessageStillFits(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Reply("ok"))
	b := newBench(t, m)
	b.spec.Messages = []llm.Message{{Role: llm.User, Content: llm.Text("start " + strings.Repeat("blah ", 100000) + " end")}}
	b.spec.Limits.ContextWindow, b.spec.MaxTokens = 8000, 1000
	b.run(t)
	got := m.Last().Messages[0].Content.Text
	if len(got) > 40000 || !strings.HasPrefix(got, "start ") || !strings.HasSuffix(got, " end") {
		t.Errorf("%d bytes, starts %.20q", len(got), got)
	}
}

func TestCompactionInsideATurn(t *testing.T) {
	t.Parallel()
	big := tool.Func(tool.Tool{Name: "big", Description: "d", ReadOnly: true}, func(_ context.Context, _ tool.Call, in echoIn) (tool.Result, error) {
		return tool.Result{Content: llm.Text(in.Text + strings.Repeat(" data", 2000)), Whole: true}, nil
	})
	m := llmtest.NewScript(t)
	n := 0
	m.Otherwise = func(llm.Request) llmtest.Step {
		if n++; n > 8 {
			return llmtest.Reply("ok")
		}
		return llmtest.Call("big", fmt.Sprintf(`{"text":"r%d"}`, n))
	}
	b := newBench(t, m, big)
	b.spec.Limits.ContextWindow, b.spec.MaxTokens = 12000, 1000
	b.spec.Call.State = &tool.State{}
	made := 0
	memo := func() *int { made++; return new(int) }
	tool.StateOf(b.spec.Call.State, memo)
	b.run(t)
	if tool.StateOf(b.spec.Call.State, memo); made != 2 {
		t.Error("tools still believe the model sees results that were omitted")
	}
	for i, req := range m.Requests() {
		size := runner.EstimateHead(req.System, req.Tools)
		for _, msg := range req.Messages {
			size += runner.Estimate(msg)
		}
		if size > 11000 {
			t.Errorf("request %d has %d tokens", i, size)
		}
	}
	last := m.Last().Messages
	if !strings.Contains(last[2].Content.Text, "omitted") {
		t.Errorf("the oldest result was not compacted: %.80q", last[2].Content.Text)
	}
	if !strings.HasPrefix(last[len(last)-1].Content.Text, "r8") {
		t.Errorf("the newest result was compacted: %.80q", last[len(last)-1].Content.Text)
	}
	for _, msg := range b.recorded {
		if msg.Role == llm.ToolRole && strings.Contains(msg.Content.Text, "omitted") {
			t.Error("compaction reached the stored messages")
		}
	}
}

func TestOverflowErrorShrinksAndRetries(t *testing.T) {
	t.Parallel()
	var history []llm.Message
	for i := range 100 {
		history = append(history,
			llm.Message{Role: llm.User, Content: llm.Text(fmt.Sprint("q", i, strings.Repeat(" word", 100)))},
			llm.Message{Role: llm.Assistant, Content: llm.Text("a")})
	}
	history = append(history, llm.Message{Role: llm.User, Content: llm.Text("now")})
	m := llmtest.NewScript(t)
	m.Otherwise = func(req llm.Request) llmtest.Step {
		size := 0
		for _, msg := range req.Messages {
			size += runner.Estimate(msg)
		}
		if size > 3000 {
			return llmtest.Fail(&llm.Error{Kind: llm.ContextLength, Message: "too long"})
		}
		return llmtest.Reply("fits")
	}
	b := newBench(t, m)
	b.spec.Messages = history
	res := b.run(t)
	if res.Text != "fits" || res.ContextLimit == 0 {
		t.Errorf("got %q %s, limit %d", res.Text, res.Stop, res.ContextLimit)
	}
}

func TestOverflowForeverEnds(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t)
	m.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Fail(&llm.Error{Kind: llm.ContextLength}) }
	b := newBench(t, m)
	if res := b.run(t); res.Stop != runner.ModelError || len(m.Requests()) > 6 {
		t.Errorf("%s after %d requests", res.Stop, len(m.Requests()))
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	res := newBench(t, llmtest.NewScript(t, llmtest.Reply("").Finished(llm.FinishRefusal))).run(t)
	if res.Stop != runner.Refused || res.Text == "" {
		t.Errorf("got %s %q", res.Stop, res.Text)
	}
	b := newBench(t, llmtest.NewScript(t, llmtest.Call("say", `{"text":"x"}`).Finished(llm.FinishFilter)), say(tool.Tool{}))
	if res := b.run(t); res.Stop != runner.Refused || len(res.Tools) != 0 {
		t.Errorf("a call under content_filter: %s, ran %v", res.Stop, res.Tools)
	}
}

// Invariant 11: think text is never visible, for any chunking, and the deltas equal the answer.
func TestThinkIsNeverShown(t *testing.T) {
	t.Parallel()
	for chunk := range 12 {
		step := llmtest.Reply("<think>secret plan</think>visible answer")
		step.Chunk = chunk
		var thought string
		b := newBench(t, llmtest.NewScript(t, step))
		b.spec.Hooks = append(b.spec.Hooks, runner.Hooks{Reasoning: func(_ context.Context, _ *runner.Iteration, s string) { thought += s }})
		res := b.run(t)
		if b.deltas != "visible answer|" || res.Text != "visible answer" || thought != "secret plan" {
			t.Errorf("chunk %d: deltas %q text %q thought %q", chunk, b.deltas, res.Text, thought)
		}
	}
}

// Invariant 16: order of hooks, and isolation from ones that panic.
func TestHooks(t *testing.T) {
	t.Parallel()
	var got []string
	note := func(s string) { got = append(got, s) }
	spy := runner.Hooks{
		BeforeRun:       func(context.Context) { note("before_run") },
		BeforeIteration: func(context.Context, *runner.Iteration) { note("before_iteration") },
		Delta:           func(context.Context, *runner.Iteration, string) {},
		DeltaEnd:        func(_ context.Context, r bool) { note(fmt.Sprint("end ", r)) },
		BeforeTools:     func(context.Context, *runner.Iteration) { note("before_tools") },
		BeforeTool:      func(context.Context, tool.Call) error { note("before_tool"); return nil },
		AfterTool:       func(context.Context, tool.Call, tool.Result, time.Duration) { note("after_tool") },
		AfterIteration:  func(context.Context, *runner.Iteration) { note("after_iteration") },
		Finalize:        func(_ context.Context, _ *runner.Iteration, s string) string { note("finalize"); return s + "!" },
		AfterRun:        func(context.Context, *runner.Result) { note("after_run") },
	}
	bad := runner.Hooks{
		BeforeRun:       func(context.Context) { panic(1) },
		BeforeIteration: func(_ context.Context, it *runner.Iteration) { it.Messages()[0].Role = "broken"; panic(2) },
		Delta:           func(context.Context, *runner.Iteration, string) { panic(3) },
		DeltaEnd:        func(context.Context, bool) { panic(4) },
		AfterIteration:  func(context.Context, *runner.Iteration) { panic(5) },
		Finalize:        func(context.Context, *runner.Iteration, string) string { panic(6) },
		AfterRun:        func(context.Context, *runner.Result) { panic(7) },
	}
	b := newBench(t, llmtest.NewScript(t, llmtest.Call("say", `{"text":"x"}`).Saying("hm"), llmtest.Reply("done")), say(tool.Tool{}))
	b.spec.Hooks = []runner.Hooks{bad, spy, bad}
	res := b.run(t)
	want := []string{
		"before_run", "before_iteration", "end true", "before_tools", "before_tool", "after_tool", "after_iteration",
		"before_iteration", "finalize", "end false", "after_iteration", "after_run",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if res.Text != "done!" {
		t.Errorf("text = %q", res.Text)
	}
}

func TestVeto(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]func(context.Context, tool.Call) error{
		"refused":  func(context.Context, tool.Call) error { return errors.New("not today") },
		"panicked": func(context.Context, tool.Call) error { panic("x") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := false
			tl := tool.Func(tool.Tool{Name: "do", Description: "d"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
				ran = true
				return tool.Text(""), nil
			})
			b := newBench(t, llmtest.NewScript(t, llmtest.Call("do", `{"text":"x"}`), llmtest.Reply("ok")), tl)
			b.spec.Hooks = append(b.spec.Hooks, runner.Hooks{BeforeTool: hook})
			b.run(t)
			if ran || !b.recorded[1].IsError {
				t.Errorf("ran=%v result=%+v", ran, b.recorded[1])
			}
		})
	}
}

func TestReusedCallIDs(t *testing.T) {
	t.Parallel()
	same := func() llmtest.Step {
		s := llmtest.Call("say", `{"text":"x"}`)
		s.Calls[0].ID = "call_1"
		return s
	}
	second := same()
	second.Calls[0].Arguments = `{"text":"y"}`
	b := newBench(t, llmtest.NewScript(t, same(), second, llmtest.Reply("ok")), say(tool.Tool{}))
	b.run(t)
	if a, c := b.recorded[0].ToolCalls[0].ID, b.recorded[2].ToolCalls[0].ID; a == c {
		t.Errorf("both calls have id %q", a)
	}
	if b.recorded[3].ToolCallID != b.recorded[2].ToolCalls[0].ID {
		t.Error("result and call ids differ")
	}
}
