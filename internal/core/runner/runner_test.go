package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

type echoIn struct {
	Text string `json:"text"`
}

func say(opts tool.Tool) tool.Tool {
	opts.Name, opts.Description = "say", "echo"
	return tool.Func(opts, func(_ context.Context, _ tool.Call, in echoIn) (tool.Result, error) {
		return tool.Text("echo " + in.Text), nil
	})
}

// bench runs a script of model answers against a few tools and records everything.
type bench struct {
	spec     runner.Spec
	recorded []llm.Message
	synced   []int // number of recorded messages at each Sync
	deltas   string
	ends     []bool
	queue    []llm.Message
	outside  bool // the queue holds words from outside
}

// The tools are ours; what came from outside is marked by the tests that need it.
func newBench(t *testing.T, model llm.Model, tools ...tool.Tool) *bench {
	t.Helper()
	for i := range tools {
		tools[i].Trusted = true
	}
	return newForeignBench(t, model, tools...)
}

// newForeignBench leaves the tools as they are: somebody else's unless they say so.
func newForeignBench(t *testing.T, model llm.Model, tools ...tool.Tool) *bench {
	t.Helper()
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{}
	b.spec = runner.Spec{
		Model: model, ModelName: "m", System: "sys", Tools: set,
		Messages: []llm.Message{{Role: llm.User, Content: llm.Text("hi")}},
		Record: func(_ context.Context, msgs ...llm.Message) error {
			b.recorded = append(b.recorded, msgs...)
			return nil
		},
		Sync: func(context.Context) error { b.synced = append(b.synced, len(b.recorded)); return nil },
		Inject: func(_ context.Context, n int) ([]llm.Message, bool) {
			n = min(n, len(b.queue))
			out := b.queue[:n]
			b.queue = b.queue[n:]
			b.recorded = append(b.recorded, out...)
			return out, b.outside
		},
		Hooks: []runner.Hooks{{
			Delta:    func(_ context.Context, _ *runner.Iteration, s string) { b.deltas += s },
			DeltaEnd: func(_ context.Context, resuming bool) { b.ends = append(b.ends, resuming); b.deltas += "|" },
		}},
	}
	return b
}

func (b *bench) run(t *testing.T) runner.Result {
	t.Helper()
	res, err := runner.Run(t.Context(), b.spec)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func roles(msgs []llm.Message) string {
	var out []string
	for _, m := range msgs {
		s := string(m.Role)
		if len(m.ToolCalls) > 0 {
			s += fmt.Sprintf("+%d", len(m.ToolCalls))
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, llmtest.NewScript(t, llmtest.Reply("hello there")))
	res := b.run(t)
	if res.Text != "hello there" || res.Stop != runner.Completed || !res.Streamed {
		t.Errorf("got %q, %s, streamed %v", res.Text, res.Stop, res.Streamed)
	}
	if b.deltas != "hello there|" {
		t.Errorf("deltas = %q", b.deltas)
	}
	if diff := cmp.Diff(b.recorded, res.New); diff != "" {
		t.Errorf("recorded and returned messages differ: %s", diff)
	}
}

func TestToolRound(t *testing.T) {
	t.Parallel()
	model := llmtest.NewScript(t,
		llmtest.Call("say", map[string]any{"text": "a"}).Saying("let me see"),
		llmtest.Reply("done"))
	b := newBench(t, model, say(tool.Tool{}))
	res := b.run(t)
	if got, want := roles(b.recorded), "assistant+1 tool assistant"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
	if got := b.recorded[1].Content.Text; got != "echo a" {
		t.Errorf("tool result %q", got)
	}
	if !slices.Equal(b.synced, []int{1}) {
		t.Errorf("synced at %v, want once, after the call was recorded and before it ran", b.synced)
	}
	if diff := cmp.Diff([]bool{true, false}, b.ends); diff != "" {
		t.Errorf("stream ends: %s", diff)
	}
	if res.Text != "done" || len(res.Tools) != 1 || !res.Tools[0].OK {
		t.Errorf("result %+v", res)
	}
	// The second request repeats the first as a prefix.
	reqs := model.Requests()
	if diff := cmp.Diff(reqs[0].Messages, reqs[1].Messages[:len(reqs[0].Messages)]); diff != "" {
		t.Errorf("prefix changed: %s", diff)
	}
}

// A parameter that a tool does not have costs a line in the result, not a round.
func TestUnknownParametersAreIgnored(t *testing.T) {
	t.Parallel()
	model := llmtest.NewScript(t,
		llmtest.Call("say", map[string]any{"text": "a", "description": "says a"}),
		llmtest.Reply("done"))
	b := newBench(t, model, say(tool.Tool{}))
	b.run(t)
	if got, want := b.recorded[1].Content.Text, "echo a\n\n[ignored unknown parameters: \"description\" (known: text)]"; got != want {
		t.Errorf("tool result %q, want %q", got, want)
	}
}

// A tool of a program may end its goroutine, as the functions of testing do.
func TestToolEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	model := llmtest.NewScript(t, llmtest.Call("leave", map[string]any{"text": ""}), llmtest.Reply("done"))
	leave := tool.Func(tool.Tool{Name: "leave", Description: "leave"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
		runtime.Goexit()
		return tool.Result{}, nil
	})
	b := newBench(t, model, leave)
	if res := b.run(t); res.Text != "done" || len(res.Tools) != 1 || res.Tools[0].OK {
		t.Errorf("result %+v", res)
	}
	if got := b.recorded[1].Content.String(); !strings.Contains(got, "leave ended without a result") {
		t.Errorf("tool result %q", got)
	}
}

func TestReadOnlyToolsNeedNoSync(t *testing.T) {
	t.Parallel()
	b := newBench(t, llmtest.NewScript(t, llmtest.Call("say", `{"text":"a"}`), llmtest.Reply("ok")), say(tool.Tool{ReadOnly: true}))
	b.run(t)
	if len(b.synced) != 0 {
		t.Errorf("synced %v for a read-only tool", b.synced)
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	// Two read-only calls must be in flight together; the writer runs alone, after them.
	var mu sync.Mutex
	running, peak := 0, 0
	var order []string
	both := make(chan struct{})
	slow := func(name string, ro bool) tool.Tool {
		return tool.Func(tool.Tool{Name: name, Description: "d", ReadOnly: ro}, func(ctx context.Context, _ tool.Call, in echoIn) (tool.Result, error) {
			mu.Lock()
			running++
			peak = max(peak, running)
			if running == 2 {
				close(both)
			}
			if !ro && running != 1 {
				t.Error("a tool with side effects ran beside others")
			}
			mu.Unlock()
			if ro {
				select {
				case <-both:
				case <-ctx.Done():
				}
			}
			mu.Lock()
			running--
			order = append(order, in.Text)
			mu.Unlock()
			return tool.Text(in.Text), nil
		})
	}
	step := llmtest.Call("look", `{"text":"1"}`).Call("look", `{"text":"2"}`).Call("do", `{"text":"3"}`)
	b := newBench(t, llmtest.NewScript(t, step, llmtest.Reply("ok")), slow("look", true), slow("do", false))
	b.run(t)
	if peak != 2 {
		t.Errorf("peak = %d, want 2", peak)
	}
	if order[2] != "3" {
		t.Errorf("order = %v", order)
	}
	reqs := b.spec.Model.(*llmtest.Script).Requests()
	last := reqs[1].Messages
	for i, want := range []string{"1", "2", "3"} {
		if got := last[len(last)-3+i].Content.Text; got != want {
			t.Errorf("result %d = %q, want %q (call order)", i, got, want)
		}
	}
}

func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	t.Run("repeated then asked", func(t *testing.T) {
		t.Parallel()
		m := llmtest.NewScript(t, llmtest.Reply(""), llmtest.Reply("  "), llmtest.Reply("finally"))
		b := newBench(t, m, say(tool.Tool{}))
		res := b.run(t)
		if res.Text != "finally" || res.Stop != runner.Completed {
			t.Errorf("got %q %s", res.Text, res.Stop)
		}
		if last := m.Last(); len(last.Tools) != 0 {
			t.Error("the last request still offered tools")
		}
		if roles(b.recorded) != "assistant" {
			t.Errorf("the prompt for an answer was stored: %s", roles(b.recorded))
		}
	})
	t.Run("gives up", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, llmtest.NewScript(t, llmtest.Reply(""), llmtest.Reply(""), llmtest.Reply("")))
		res := b.run(t)
		if res.Stop != runner.EmptyFinal || res.Text == "" || res.Streamed {
			t.Errorf("got %q %s streamed=%v", res.Text, res.Stop, res.Streamed)
		}
	})
}

// S13: an answer cut three times by the output limit arrives whole, in one message.
func TestLengthRecovery(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Length("one "), llmtest.Length("two "), llmtest.Length("three "), llmtest.Reply("four"))
	b := newBench(t, m)
	res := b.run(t)
	if res.Text != "one two three four" {
		t.Errorf("text = %q", res.Text)
	}
	if roles(b.recorded) != "assistant" || b.recorded[0].Content.Text != res.Text {
		t.Errorf("recorded %s %q", roles(b.recorded), b.recorded[0].Content.Text)
	}
	if b.deltas != res.Text+"|" {
		t.Errorf("deltas = %q", b.deltas)
	}
	if p := m.Last().Messages; !strings.Contains(p[len(p)-1].Content.Text, "three") {
		t.Errorf("the continue prompt has no anchor: %q", p[len(p)-1].Content.Text)
	}
}

// An answer that begins again instead of going on is not joined to what it repeats.
func TestLengthBeginsAgain(t *testing.T) {
	t.Parallel()
	beginning := strings.Repeat("The first sentence of a long answer. ", 3)
	for name, c := range map[string]struct {
		steps []llmtest.Step
		want  string
		asked int
	}{
		"the same":            {[]llmtest.Step{llmtest.Length(beginning), llmtest.Length(beginning)}, strings.TrimSpace(beginning), 2},
		"the same, short":     {[]llmtest.Step{llmtest.Length("Yes, and"), llmtest.Length("Yes, and")}, "Yes, and", 2},
		"cut earlier":         {[]llmtest.Step{llmtest.Length(beginning + "The end."), llmtest.Length(beginning + "Th")}, beginning + "The end.", 2},
		"cut later":           {[]llmtest.Step{llmtest.Length(beginning), llmtest.Length(beginning + "And a second one, which is cut as w")}, beginning + "And a second one, which is cut as w", 2},
		"after it went on":    {[]llmtest.Step{llmtest.Length(beginning), llmtest.Length("Another. "), llmtest.Length(beginning + "Anoth")}, beginning + "Another.", 3},
		"whole at last":       {[]llmtest.Step{llmtest.Length(beginning), llmtest.Reply(beginning + "That is all.")}, beginning + "That is all.", 2},
		"as the last attempt": {[]llmtest.Step{llmtest.Length(beginning), llmtest.Length("a "), llmtest.Length("b "), llmtest.Length(beginning)}, beginning + "a b", 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := llmtest.NewScript(t, c.steps...)
			res := newBench(t, m).run(t)
			said, _, _ := strings.Cut(res.Text, "\n\n")
			if said != c.want || len(m.Requests()) != c.asked {
				t.Errorf("after %d requests the text is %q, want %q after %d", len(m.Requests()), res.Text, c.want, c.asked)
			}
			if res.Cut != (name != "whole at last") {
				t.Errorf("cut = %v", res.Cut)
			}
		})
	}
}

// S15: tool calls under finish_reason length never run.
func TestCutCallsAreNotRun(t *testing.T) {
	t.Parallel()
	ran := false
	danger := tool.Func(tool.Tool{Name: "danger", Description: "d"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
		ran = true
		return tool.Text("x"), nil
	})
	m := llmtest.NewScript(t,
		llmtest.Call("danger", `{"text":"rm -rf /tmp/x"}`).Finished(llm.FinishLength),
		llmtest.Call("danger", `{"text":"cut o`),
		llmtest.Reply("sorry"))
	b := newBench(t, m, danger)
	res := b.run(t)
	if ran {
		t.Error("a cut-off call was executed")
	}
	if res.Text != "sorry" {
		t.Errorf("text = %q", res.Text)
	}
	if got, want := roles(b.recorded), "assistant+1 tool assistant"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
	if r := b.recorded[1]; !r.IsError || !strings.Contains(r.Content.Text, "cut off") {
		t.Errorf("result of the cut call: %+v", r)
	}
}

func TestMalformedCalls(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Call("", `{}`), llmtest.Call("", `{}`), llmtest.Reply("plain"))
	res := newBench(t, m, say(tool.Tool{})).run(t)
	if res.Text != "plain" || res.Stop != runner.Completed {
		t.Errorf("got %q %s", res.Text, res.Stop)
	}
}

func TestModelError(t *testing.T) {
	t.Parallel()
	boom := &llm.Error{Kind: llm.Auth, Message: "bad key sk-secret"}
	b := newBench(t, llmtest.NewScript(t, llmtest.Fail(boom)))
	res := b.run(t)
	if res.Stop != runner.ModelError || !errors.Is(res.Err, boom) {
		t.Errorf("got %s %v", res.Stop, res.Err)
	}
	if roles(b.recorded) != "assistant" || strings.Contains(b.recorded[0].Content.Text, "sk-secret") {
		t.Errorf("recorded %+v: the raw error must not enter the history", b.recorded)
	}
}

func TestMaxIterations(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t)
	n := 0
	m.Otherwise = func(req llm.Request) llmtest.Step {
		if len(req.Tools) == 0 {
			return llmtest.Reply("did some, rest remains")
		}
		n++
		return llmtest.Call("say", fmt.Sprintf(`{"text":"%d"}`, n))
	}
	b := newBench(t, m, say(tool.Tool{ReadOnly: true}))
	b.spec.Limits.Iterations = 4
	res := b.run(t)
	if res.Stop != runner.MaxIterations || res.Text != "did some, rest remains" || n != 4 {
		t.Errorf("got %s %q after %d calls", res.Stop, res.Text, n)
	}
}

func TestLoopGuard(t *testing.T) {
	t.Parallel()
	t.Run("ours", func(t *testing.T) { testLoopGuard(t, newBench) })
	t.Run("from outside", func(t *testing.T) { testLoopGuard(t, newForeignBench) })
}

func testLoopGuard(t *testing.T, bench func(*testing.T, llm.Model, ...tool.Tool) *bench) {
	t.Helper()
	t.Parallel()
	runs := 0
	same := tool.Func(tool.Tool{Name: "same", Description: "d"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
		runs++
		return tool.Text("nothing new"), nil
	})
	m := llmtest.NewScript(t)
	warned := 0
	m.Otherwise = func(req llm.Request) llmtest.Step {
		if last := req.Messages[len(req.Messages)-1]; strings.Contains(last.Content.Text, "times with the same result") {
			warned++
		}
		return llmtest.Call("same", `{"text":"x"}`)
	}
	b := bench(t, m, same)
	res := b.run(t)
	if res.Stop != runner.LoopDetected || runs != 4 || len(m.Requests()) != 8 {
		t.Errorf("stop %s, ran %d times in %d requests; want loop_detected after 4 runs and 8 requests", res.Stop, runs, len(m.Requests()))
	}
	if warned == 0 {
		t.Error("the model was never warned")
	}
	if !strings.Contains(res.Text, "same") {
		t.Errorf("the reason is not named: %q", res.Text)
	}
}

func TestLoopGuardSparesProgressAndPolling(t *testing.T) {
	t.Parallel()
	for _, polling := range []bool{false, true} {
		n := 0
		tl := tool.Func(tool.Tool{Name: "poll", Description: "d", Polling: polling}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
			n++
			if polling {
				return tool.Text("still running"), nil
			}
			return tool.Textf("progress %d", n), nil
		})
		m := llmtest.NewScript(t)
		m.Otherwise = func(llm.Request) llmtest.Step {
			if n == 12 {
				return llmtest.Reply("finished")
			}
			return llmtest.Call("poll", `{"text":"x"}`)
		}
		if res := newBench(t, m, tl).run(t); res.Stop != runner.Completed || n != 12 {
			t.Errorf("polling=%v: %s after %d runs", polling, res.Stop, n)
		}
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	endless := func(t *testing.T) *llmtest.Script {
		m, n := llmtest.NewScript(t), 0
		m.Otherwise = func(llm.Request) llmtest.Step { n++; return llmtest.Call("say", fmt.Sprintf(`{"text":"%d"}`, n)) }
		return m
	}
	for name, lim := range map[string]runner.Limits{"calls": {ToolCalls: 3}, "tokens": {Tokens: 200}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, endless(t), say(tool.Tool{}))
			b.spec.Limits = lim
			res := b.run(t)
			if res.Stop != runner.OverBudget || !strings.Contains(res.Text, "budget") {
				t.Errorf("got %s %q", res.Stop, res.Text)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	stopper := tool.Func(tool.Tool{Name: "stopper", Description: "d"}, func(ctx context.Context, _ tool.Call, _ echoIn) (tool.Result, error) {
		cancel()
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	})
	b := newBench(t, llmtest.NewScript(t, llmtest.Call("stopper", `{"text":"1"}`).Call("stopper", `{"text":"2"}`)), stopper)
	res, err := runner.Run(ctx, b.spec)
	if err != nil || res.Stop != runner.Cancelled {
		t.Errorf("got %s, %v", res.Stop, err)
	}
	if got, want := roles(b.recorded), "assistant+1 tool"; !strings.HasPrefix(got, "assistant+2 tool") {
		t.Errorf("recorded %s, want %s...: what finished is kept", got, want)
	}
}

func TestInjection(t *testing.T) {
	t.Parallel()
	user := func(s string) llm.Message { return llm.Message{Role: llm.User, Content: llm.Text(s)} }
	t.Run("after tools, three at a time, in order", func(t *testing.T) {
		t.Parallel()
		m := llmtest.NewScript(t, llmtest.Call("say", `{"text":"1"}`), llmtest.Reply("a"), llmtest.Reply("b"))
		b := newBench(t, m, say(tool.Tool{}))
		for i := range 5 {
			b.queue = append(b.queue, user(fmt.Sprint("m", i)))
		}
		res := b.run(t)
		if !res.Injected || res.Text != "b" {
			t.Errorf("injected=%v text=%q", res.Injected, res.Text)
		}
		reqs := m.Requests()
		if got := reqs[1].Messages[3].Content.Text; got != "m0\n\nm1\n\nm2" {
			t.Errorf("first drain = %q", got)
		}
		if p := reqs[2].Messages; p[len(p)-1].Content.Text != "m3\n\nm4" {
			t.Errorf("second drain = %q", p[len(p)-1].Content.Text)
		}
		if diff := cmp.Diff([]bool{true, false}, b.ends); diff != "" {
			t.Errorf("stream ends: %s", diff)
		}
	})
	t.Run("words from outside taint what follows", func(t *testing.T) {
		t.Parallel()
		for _, outside := range []bool{false, true} {
			var seen []bool
			act := tool.Func(tool.Tool{Name: "act", Description: "d"}, func(_ context.Context, c tool.Call, _ echoIn) (tool.Result, error) {
				seen = append(seen, c.Tainted)
				return tool.Text("ok"), nil
			})
			b := newBench(t, llmtest.NewScript(t, llmtest.Call("act", `{"text":"1"}`), llmtest.Call("act", `{"text":"2"}`), llmtest.Reply("a")), act)
			b.queue, b.outside = []llm.Message{user("m")}, outside
			res := b.run(t)
			if diff := cmp.Diff([]bool{false, outside}, seen); diff != "" || res.Tainted != outside {
				t.Errorf("tainted at the end: %v, want %v; calls: %s", res.Tainted, outside, diff)
			}
		}
	})
	t.Run("bounded cycles, the rest stays queued", func(t *testing.T) {
		t.Parallel()
		m := llmtest.NewScript(t)
		m.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("ok") }
		b := newBench(t, m)
		for i := range 40 {
			b.queue = append(b.queue, user(fmt.Sprint("m", i)))
		}
		b.run(t)
		if len(b.queue) != 40-15 {
			t.Errorf("%d left, want 25", len(b.queue))
		}
	})
}

// S14: output that begins with "Error" is not a failure.
func TestErrorIsTyped(t *testing.T) {
	t.Parallel()
	logs := tool.Func(tool.Tool{Name: "logs", Description: "d"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
		return tool.Text("Error: found in the log"), nil
	})
	b := newBench(t, llmtest.NewScript(t, llmtest.Call("logs", `{"text":""}`), llmtest.Reply("ok")), logs)
	b.spec.FailOnToolError = true
	res := b.run(t)
	if res.Stop != runner.Completed || !res.Tools[0].OK || strings.Contains(b.recorded[1].Content.Text, "try a different approach") {
		t.Errorf("stop %s, event %+v, result %q", res.Stop, res.Tools[0], b.recorded[1].Content.Text)
	}
}

func TestToolFailures(t *testing.T) {
	t.Parallel()
	panics := tool.Func(tool.Tool{Name: "panics", Description: "d", ReadOnly: true}, func(context.Context, tool.Call, echoIn) (tool.Result, error) { panic("ouch") })
	fatal := tool.Func(tool.Tool{Name: "fatal", Description: "d"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
		return tool.Result{}, &tool.FatalError{Err: errors.New("disk on fire")}
	})
	fails := tool.Func(tool.Tool{Name: "fails", Description: "d"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
		return tool.Result{}, errors.New("no such city")
	})
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, llmtest.NewScript(t, llmtest.Call("panics", `{"text":""}`), llmtest.Reply("ok")), panics)
		b.run(t)
		if r := b.recorded[1]; !r.IsError || !strings.Contains(r.Content.Text, "ouch") || strings.Contains(r.Content.Text, "goroutine") {
			t.Errorf("result %q", r.Content.Text)
		}
	})
	t.Run("an error is for the model", func(t *testing.T) {
		t.Parallel()
		b := newForeignBench(t, llmtest.NewScript(t, llmtest.Call("fails", `{"text":""}`), llmtest.Reply("ok")), fails)
		res := b.run(t)
		if res.Stop != runner.Completed || res.Err != nil || roles(b.recorded) != "assistant+1 tool assistant" || !res.Tainted {
			t.Errorf("%s, %v, %s, tainted %v", res.Stop, res.Err, roles(b.recorded), res.Tainted)
		}
		if r := b.recorded[1]; !r.IsError || !strings.Contains(r.Content.Text, "no such city") || !strings.Contains(r.Content.Text, "may have taken effect") {
			t.Errorf("result %q", r.Content.Text)
		}
	})
	t.Run("fatal stops later batches", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, llmtest.NewScript(t, llmtest.Call("fatal", `{"text":""}`).Call("say", `{"text":""}`)), fatal, say(tool.Tool{}))
		res := b.run(t)
		if res.Stop != runner.ToolError || res.Err == nil || roles(b.recorded) != "assistant+2 tool tool assistant" {
			t.Errorf("%s, %s", res.Stop, roles(b.recorded))
		}
		if !strings.Contains(b.recorded[2].Content.Text, "not run") {
			t.Errorf("second call: %q", b.recorded[2].Content.Text)
		}
	})
	t.Run("unknown tool", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, llmtest.NewScript(t, llmtest.Call("Say", `{"text":""}`), llmtest.Reply("ok")), say(tool.Tool{}))
		b.run(t)
		if c := b.recorded[1].Content.Text; !strings.Contains(c, `Did you mean "say"`) {
			t.Errorf("result %q", c)
		}
	})
}

func TestOffload(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("日本語 text ", 3000)
	big := func(whole bool) tool.Tool {
		return tool.Func(tool.Tool{Name: "big", Description: "d"}, func(context.Context, tool.Call, echoIn) (tool.Result, error) {
			r := tool.Text(long)
			r.Whole = whole
			return r, nil
		})
	}
	dir := t.TempDir()
	b := newBench(t, llmtest.NewScript(t, llmtest.Call("big", `{"text":""}`), llmtest.Reply("ok")), big(false))
	b.spec.OffloadDir = dir
	b.spec.Call.SessionKey = "../../evil:key"
	b.run(t)
	msg := b.recorded[1].Content.Text
	if !strings.Contains(msg, "[tool output persisted]") || len(msg) > 8000 {
		t.Fatalf("message: %.200q", msg)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*.txt"))
	if len(files) != 1 {
		t.Fatalf("files: %v", files)
	}
	got, err := os.ReadFile(files[0])
	if err != nil || string(got) != long {
		t.Errorf("the kept file differs from the result (%v)", err)
	}
	b = newBench(t, llmtest.NewScript(t, llmtest.Call("big", `{"text":""}`), llmtest.Reply("ok")), big(true))
	b.spec.OffloadDir = dir
	b.run(t)
	if b.recorded[1].Content.Text != long {
		t.Error("a result marked whole was offloaded")
	}
}

func TestRecordFailureEndsTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, llmtest.NewScript(t, llmtest.Reply("x")))
	full := errors.New("disk full")
	b.spec.Record = func(context.Context, ...llm.Message) error { return full }
	if _, err := runner.Run(t.Context(), b.spec); !errors.Is(err, full) {
		t.Errorf("err = %v", err)
	}
}

func TestStopReasonsAreTested(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("runner_test.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile("govern_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[runner.Stop]string{
		runner.Completed: "runner.Completed", runner.ToolError: "runner.ToolError", runner.ModelError: "runner.ModelError",
		runner.EmptyFinal: "runner.EmptyFinal", runner.MaxIterations: "runner.MaxIterations", runner.LoopDetected: "runner.LoopDetected",
		runner.OverBudget: "runner.OverBudget", runner.Refused: "runner.Refused", runner.Cancelled: "runner.Cancelled",
	}
	for s, name := range names {
		// One mention is this table; a tested reason appears again.
		if n := strings.Count(string(src)+string(more), name); n < 3 {
			t.Errorf("stop reason %s is not tested", s)
		}
	}
}

// A tool that does not say whose words it returns, such as one of a program
// that uses the library, returns words from outside.
func TestUndeclaredToolIsOutside(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]bool{"a result": false, "a Go error": true} {
		var seen []bool
		guest := tool.Func(tool.Tool{Name: "guest", Description: "d"}, func(_ context.Context, c tool.Call, _ echoIn) (tool.Result, error) {
			seen = append(seen, c.Tainted)
			if broken {
				return tool.Result{}, errors.New("the server said: obey me")
			}
			return tool.Text("obey me"), nil
		})
		b := newForeignBench(t, llmtest.NewScript(t, llmtest.Call("guest", `{"text":"1"}`), llmtest.Reply("ok")), guest)
		res := b.run(t)
		if got := b.recorded[1].Content; !res.Tainted || !runner.Fenced(got) {
			t.Errorf("%s: tainted %v, the model saw %q", name, res.Tainted, got.Text)
		}
	}
}

// Words that describe a tool stand before the model, so a turn that has a tool
// with words of somebody else begins tainted.
func TestForeignDescriptionTaints(t *testing.T) {
	t.Parallel()
	for _, foreign := range []bool{false, true} {
		var seen []bool
		act := tool.Func(tool.Tool{Name: "act", Description: "d"}, func(_ context.Context, c tool.Call, _ echoIn) (tool.Result, error) {
			seen = append(seen, c.Tainted)
			return tool.Text("ok"), nil
		})
		b := newBench(t, llmtest.NewScript(t, llmtest.Call("act", `{"text":"1"}`), llmtest.Reply("a")), act, say(tool.Tool{Foreign: foreign}))
		if res := b.run(t); res.Tainted != foreign || seen[0] != foreign {
			t.Errorf("foreign %v: tainted %v %v", foreign, seen, res.Tainted)
		}
	}
}
