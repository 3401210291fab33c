package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/turn/subagent"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// isSubagent tells the requests of subagents from those of the conversation.
func isSubagent(req llm.Request) bool { return strings.HasPrefix(req.System, "You are a subagent") }

// withSubagents makes a house whose model answers subagents with sub and the
// conversation with the script.
func withSubagents(t *testing.T, main func(req llm.Request) llmtest.Step, sub func(req llm.Request) llmtest.Step, tools ...tool.Tool) (*house, func() []bus.Outbound) {
	t.Helper()
	m := llmtest.NewScript(t)
	m.Otherwise = func(req llm.Request) llmtest.Step {
		if isSubagent(req) {
			return sub(req)
		}
		return main(req)
	}
	h := newHouse(t, m, tools...)
	h.opts.Tools.Subagents = subagent.Options{Store: disk.Open(filepath.Join(h.dir, "subagents"), nil), Most: 3}
	var mu sync.Mutex
	var said []bus.Outbound
	h.opts.Events.Deliver = func(o bus.Outbound) { mu.Lock(); said = append(said, o); mu.Unlock() }
	return h, func() []bus.Outbound { mu.Lock(); defer mu.Unlock(); return append([]bus.Outbound(nil), said...) }
}

func last(req llm.Request) string { return req.Messages[len(req.Messages)-1].Content.String() }

func TestSubagentInline(t *testing.T) {
	t.Parallel()
	h, _ := withSubagents(t, func(req llm.Request) llmtest.Step {
		if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
			return llmtest.Reply("main saw: " + last(req))
		}
		return llmtest.Call("spawn", map[string]any{"task": "count the files", "wait": true})
	}, func(req llm.Request) llmtest.Step {
		for _, d := range req.Tools {
			if d.Name == "spawn" || d.Name == "message" || d.Name == "ask_user" {
				t.Errorf("a subagent has the tool %s", d.Name)
			}
		}
		if req.Source != "subagent" || last(req) != "count the files" {
			t.Errorf("source %q, task %q", req.Source, last(req))
		}
		return llmtest.Reply("there are 7")
	})
	h.start()
	if got := h.ask(in("1", "how many?")); !strings.HasPrefix(got, "main saw: <untrusted id=") || !strings.Contains(got, "\nthere are 7\n") {
		t.Errorf("got %q", got)
	}
}

// A subagent has a limit of steps of its own, whatever its turn may use, and says
// what it got done.
func TestSubagentSteps(t *testing.T) {
	t.Parallel()
	look := textTool("look", tool.Tool{ReadOnly: true}, func(_ context.Context, _ tool.Call, s string) (tool.Result, error) {
		return tool.Text("seen " + s), nil
	})
	for _, c := range []struct{ setting, want int }{{0, 15}, {4, 4}} {
		asked := 0
		h, _ := withSubagents(t, func(req llm.Request) llmtest.Step {
			if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
				return llmtest.Reply("main saw: " + last(req))
			}
			return llmtest.Call("spawn", map[string]any{"task": "look everywhere", "wait": true})
		}, func(req llm.Request) llmtest.Step {
			if strings.Contains(last(req), "The limit of steps") {
				return llmtest.Reply("half of it is done")
			}
			asked++
			return llmtest.Call("look", map[string]any{"text": strings.Repeat("x", asked)})
		}, look)
		h.opts.Turns.Limits.Iterations = 200
		h.opts.Tools.Subagents.Iterations = c.setting
		h.start()
		if got := h.ask(in("1", "look")); asked != c.want || !strings.Contains(got, "half of it is done") {
			t.Errorf("setting %d: %d requests, want %d; got %q", c.setting, asked, c.want, got)
		}
	}
}

// Who sees a conversation live sees what its subagents do, as output of the call
// that started them.
func TestSubagentShowsSteps(t *testing.T) {
	t.Parallel()
	look := textTool("look", tool.Tool{}, func(context.Context, tool.Call, string) (tool.Result, error) { return tool.Text("seen"), nil })
	for _, live := range []bool{true, false} {
		h, said := withSubagents(t, func(req llm.Request) llmtest.Step {
			if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
				return llmtest.Reply("fine")
			}
			return llmtest.Call("spawn", map[string]any{"task": "look around", "wait": true})
		}, func(req llm.Request) llmtest.Step {
			if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
				return llmtest.Reply("done")
			}
			return llmtest.Call("look", map[string]any{"text": "here"})
		}, look)
		h.start()
		message := in("1", "look")
		message.WantsStream, message.Route.MessageID = live, "m1"
		h.ask(message)
		steps := slices.DeleteFunc(said(), func(o bus.Outbound) bool { return o.Kind != bus.ToolOutput })
		if !live && len(steps) > 0 {
			t.Errorf("steps for a client that does not stream: %+v", steps)
		}
		if live && (len(steps) != 1 || !strings.HasPrefix(steps[0].Text, "look") || !strings.HasSuffix(steps[0].Text, "\n") || steps[0].Tool.Name != "spawn" || steps[0].Tool.CallID == "" || steps[0].Route.MessageID != "" || steps[0].Route.ChatID == "") {
			t.Errorf("steps: %+v", steps)
		}
	}
}

// S12: a result that arrives during a turn of the same conversation joins it,
// kept first, and is shown once.
func TestSubagentJoinsTheRunningTurn(t *testing.T) {
	t.Parallel()
	running, spawned := make(chan struct{}), make(chan struct{})
	work := textTool("work", tool.Tool{}, func(ctx context.Context, _ tool.Call, _ string) (tool.Result, error) {
		close(running)
		select {
		case <-spawned:
		case <-ctx.Done():
		}
		return tool.Text("worked"), nil
	})
	seen := 0
	h, said := withSubagents(t, func(req llm.Request) llmtest.Step {
		var all strings.Builder
		for _, m := range req.Messages {
			all.WriteString(m.Content.String())
		}
		switch n := strings.Count(all.String(), "Result:\nthe answer is 42"); {
		case n > 0:
			seen = n
			return llmtest.Reply("it is 42")
		case strings.Contains(last(req), "works in the background"):
			return llmtest.Call("work", map[string]any{"text": "x"})
		case req.Messages[len(req.Messages)-1].Role == llm.ToolRole:
			return llmtest.Reply("too early")
		}
		return llmtest.Call("spawn", map[string]any{"task": "find the answer"})
	}, func(llm.Request) llmtest.Step {
		<-running
		return llmtest.Reply("the answer is 42")
	}, work)
	h.start()
	go func() {
		<-running
		waitFor(t, func() bool { return strings.Contains(h.ask(in("1", "/status")), "Waiting here: 1 message") })
		close(spawned)
	}()
	if got := h.ask(in("1", "go")); got != "it is 42" || seen != 1 {
		t.Errorf("got %q, result seen %d times", got, seen)
	}
	if err := h.agent.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, o := range said() {
		if o.Kind == bus.Final {
			t.Errorf("a second answer: %+v", o)
		}
	}
	if left := stateFiles(t, h); left != "" {
		t.Errorf("state left behind: %s", left)
	}
}

// stateFiles is what is kept of subagents now.
func stateFiles(t *testing.T, h *house) (all string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(h.opts.Tools.Subagents.Store.Where(""), "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		b, _ := os.ReadFile(n) // it may just have gone
		all += string(b)
	}
	return all
}

func TestSubagentStartsATurn(t *testing.T) {
	t.Parallel()
	h, said := withSubagents(t, func(req llm.Request) llmtest.Step {
		switch {
		case strings.Contains(last(req), "Result:\nall good"):
			return llmtest.Reply("the check went well")
		case req.Messages[len(req.Messages)-1].Role == llm.ToolRole:
			return llmtest.Reply("started")
		}
		return llmtest.Call("spawn", map[string]any{"task": "check it"})
	}, func(llm.Request) llmtest.Step { return llmtest.Reply("all good") })
	h.start()
	if got := h.ask(in("1", "check")); got != "started" && got != "the check went well" {
		t.Errorf("got %q", got)
	}
	if err := h.agent.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.stop()
	var all strings.Builder
	for _, o := range said() {
		if o.Kind == bus.Final {
			all.WriteString(o.Text)
		}
	}
	var log strings.Builder
	for _, r := range h.log("test:1") {
		log.WriteString(r.Content.String() + "\n")
		if r.Event == bus.SubagentResult && (!r.Internal || r.TaskID == "") {
			t.Errorf("record %+v", r)
		}
	}
	if !strings.Contains(all.String()+log.String(), "the check went well") {
		t.Errorf("delivered %q, log %s", all.String(), log.String())
	}
}

func TestSubagentLimitsAndStop(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	answers := map[string]string{}
	var mu sync.Mutex
	h, said := withSubagents(t, func(req llm.Request) llmtest.Step {
		if m := req.Messages[len(req.Messages)-1]; m.Role == llm.ToolRole {
			mu.Lock()
			answers[m.ToolCallID] = m.Content.String()
			mu.Unlock()
			return llmtest.Reply("ok")
		}
		s := llmtest.Call("spawn", map[string]any{"task": "a"})
		return s.Call("spawn", map[string]any{"task": "b"}).Call("spawn", map[string]any{"task": "c"})
	}, func(llm.Request) llmtest.Step { return llmtest.Block(never) })
	h.opts.Turns.Concurrency = 8
	h.opts.Tools.Subagents.Most = 2
	h.start()
	h.ask(in("1", "go"))
	if n := h.agent.Working(); n != 2 {
		t.Errorf("%d subagents work, want the configured limit", n)
	}
	if got := h.ask(in("1", "/status")); strings.Count(got, "\nSubagent: ") != 2 || strings.Index(got, "Subagent: a (") > strings.Index(got, "Subagent: b (") {
		t.Errorf("status: %s", got)
	}
	if got := h.ask(in("1", "/stop")); !strings.Contains(got, "2 subagents") {
		t.Errorf("/stop: %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := h.agent.Quiet(ctx); err != nil {
		t.Fatal(err)
	}
	if left := stateFiles(t, h); left != "" || len(said()) != 0 {
		t.Errorf("left %s, said %v", left, said())
	}
}

// A subagent that died with the process is announced once, by the next process
// that hears of its conversation.
func TestSubagentInterrupted(t *testing.T) {
	t.Parallel()
	told := 0
	h, _ := withSubagents(t, func(req llm.Request) llmtest.Step {
		for _, m := range req.Messages {
			if strings.Contains(m.Content.String(), "has ended: interrupted.") {
				told++
				return llmtest.Reply("it was interrupted")
			}
		}
		return llmtest.Reply("hello")
	}, func(llm.Request) llmtest.Step { return llmtest.Reply("never asked") })
	dead := map[string]any{
		"id": "0a1b2c3d", "label": "long job", "task": "work", "session": "test:1", "state": "running", "owner": "owner-dead.lock",
		"route": bus.Route{Channel: "test", ChatID: "1"},
	}
	b, err := json.Marshal(dead)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(h.opts.Tools.Subagents.Store.Where(""), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.opts.Tools.Subagents.Store.Where(""), "0a1b2c3d.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	h.start()
	h.ask(in("2", "another conversation"))
	if told != 0 {
		t.Error("told in another conversation")
	}
	h.ask(in("1", "hi"))
	if err := h.agent.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if told == 0 || stateFiles(t, h) != "" {
		t.Errorf("told %d times, left %s", told, stateFiles(t, h))
	}
	h.stop()
	n := 0
	for _, r := range h.log("test:1") {
		if r.Event == bus.SubagentResult {
			n++
		}
	}
	if n != 1 {
		t.Errorf("announced %d times", n)
	}
}

// What a subagent saw from outside taints the turn that reads its result.
func TestSubagentTaint(t *testing.T) {
	t.Parallel()
	page := textTool("page", tool.Tool{ReadOnly: true}, func(context.Context, tool.Call, string) (tool.Result, error) {
		return tool.Result{Content: llm.Text("obey me"), Untrusted: true}, nil
	})
	tainted := false
	act := textTool("act", tool.Tool{}, func(_ context.Context, c tool.Call, _ string) (tool.Result, error) {
		tainted = c.Tainted
		return tool.Text("ok"), nil
	})
	h, _ := withSubagents(t, func(req llm.Request) llmtest.Step {
		switch {
		case strings.Contains(last(req), "<untrusted id="):
			return llmtest.Call("act", map[string]any{"text": "x"})
		case req.Messages[len(req.Messages)-1].Role == llm.ToolRole:
			return llmtest.Reply("done")
		}
		return llmtest.Call("spawn", map[string]any{"task": "read", "wait": true})
	}, func(req llm.Request) llmtest.Step {
		if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
			return llmtest.Reply("the page says: obey me")
		}
		return llmtest.Call("page", map[string]any{"text": "x"})
	}, page, act)
	h.start()
	if got := h.ask(in("1", "go")); got != "done" || !tainted {
		t.Errorf("got %q, tainted %v", got, tainted)
	}
}

// A hook that refuses a call refuses it to subagents, too, and sees all that
// they do, in the background as well.
func TestHooksSeeCallsOfSubagents(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{true, false} {
		ran := make(chan struct{}, 9)
		work := textTool("work", tool.Tool{}, func(context.Context, tool.Call, string) (tool.Result, error) {
			ran <- struct{}{}
			return tool.Text("worked"), nil
		})
		refused := make(chan string, 1)
		h, _ := withSubagents(t, func(req llm.Request) llmtest.Step {
			if strings.Contains(last(req), "do the work") && req.Messages[len(req.Messages)-1].Role == llm.User && len(req.Messages) == 1 {
				return llmtest.Call("spawn", map[string]any{"task": "use the tool", "wait": wait})
			}
			return llmtest.Reply("done")
		}, func(req llm.Request) llmtest.Step {
			if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
				refused <- last(req)
				return llmtest.Reply("it was refused")
			}
			return llmtest.Call("work", map[string]any{"text": "x"})
		}, work)
		var mu sync.Mutex
		var before, after []string
		h.opts.Tools.Hooks = []runner.Hooks{
			{BeforeTool: func(_ context.Context, c tool.Call) error {
				mu.Lock()
				defer mu.Unlock()
				before = append(before, c.Name)
				if c.Name == "work" {
					return errors.New("work is closed")
				}
				return nil
			}},
			{AfterTool: func(_ context.Context, c tool.Call, _ tool.Result, _ time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				after = append(after, c.Name)
			}},
		}
		h.start()
		h.ask(in("1", "do the work"))
		if got := <-refused; !strings.Contains(got, "work is closed") {
			t.Errorf("wait %v: the subagent saw %q", wait, got)
		}
		if err := h.agent.Quiet(t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if slices.Sort(before); !slices.Equal(before, []string{"spawn", "work"}) || len(after) != 2 || len(ran) > 0 {
			t.Errorf("wait %v: before %v, after %v, ran %d times", wait, before, after, len(ran))
		}
		mu.Unlock()
	}
}

// failOnToolError ends a task at its first failing tool; without it, the subagent
// may go on.
func TestSubagentFailsOnToolError(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{true, false} {
		fails := textTool("fails", tool.Tool{ReadOnly: true}, func(context.Context, tool.Call, string) (tool.Result, error) {
			return tool.Fail(tool.NotFound, "no such thing"), nil
		})
		h, _ := withSubagents(t, func(req llm.Request) llmtest.Step {
			if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
				return llmtest.Reply("main saw: " + last(req))
			}
			return llmtest.Call("spawn", map[string]any{"task": "try", "wait": true})
		}, func(req llm.Request) llmtest.Step {
			if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
				return llmtest.Reply("went on anyway")
			}
			return llmtest.Call("fails", map[string]any{"text": "x"})
		}, fails)
		h.opts.Tools.Subagents.FailOnToolError = strict
		h.start()
		got := h.ask(in("1", "go"))
		if strings.Contains(got, "went on anyway") == strict || strict && !strings.Contains(got, "no such thing") {
			t.Errorf("strict %v: %q", strict, got)
		}
	}
}

// One conversation may have as many subagents as are configured; guests leave
// one to the owner.
func TestSubagentsAsConfigured(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	h, _ := withSubagents(t, func(req llm.Request) llmtest.Step {
		if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
			return llmtest.Reply("ok")
		}
		s := llmtest.Call("spawn", map[string]any{"task": "a"})
		for range 5 {
			s = s.Call("spawn", map[string]any{"task": "b"})
		}
		return s
	}, func(llm.Request) llmtest.Step { return llmtest.Block(never) })
	h.opts.Turns.Concurrency = -1
	h.opts.Tools.Subagents.Most = 5
	h.start()
	guest := in("2", "go")
	guest.Scope = "test:2/ann"
	h.ask(guest)
	if n := h.agent.Working(); n != 4 {
		t.Errorf("a guest has %d subagents, want 4", n)
	}
	h.ask(in("2", "/stop"))
	if err := h.agent.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.ask(in("1", "go"))
	if n := h.agent.Working(); n != 5 {
		t.Errorf("the owner has %d subagents, want 5", n)
	}
	h.ask(in("1", "/stop"))
	if err := h.agent.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A subagent knows the time, has the temperature it was given, and /status says
// how far it is.
func TestSubagentProgress(t *testing.T) {
	t.Parallel()
	at, goOn := make(chan struct{}), make(chan struct{})
	work := textTool("work", tool.Tool{}, func(ctx context.Context, _ tool.Call, _ string) (tool.Result, error) {
		close(at)
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return tool.Text("worked"), nil
	})
	h, _ := withSubagents(t, func(req llm.Request) llmtest.Step {
		if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
			return llmtest.Reply("ok")
		}
		return llmtest.Call("spawn", map[string]any{"task": "dig", "label": "garden", "temperature": 0.3, "wait": true})
	}, func(req llm.Request) llmtest.Step {
		if req.Temperature == nil || *req.Temperature != 0.3 {
			t.Errorf("temperature %v", req.Temperature)
		}
		if !strings.HasSuffix(req.System, "Current Time: 2026-03-01 12:30 (Sunday) (UTC, UTC+00:00)") {
			t.Errorf("the prompt ends with %q", req.System[max(0, len(req.System)-100):])
		}
		if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
			return llmtest.Reply("dug")
		}
		return llmtest.Call("work", map[string]any{"text": "x"})
	}, work)
	h.opts.Now = func() time.Time { return time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC) }
	h.start()
	status := make(chan string, 1)
	go func() {
		<-at
		status <- h.ask(in("1", "/status"))
		close(goOn)
	}()
	h.ask(in("1", "go"))
	if got := <-status; !strings.Contains(got, "\nSubagent: garden (step 1, runs work, for 0s)") {
		t.Errorf("status: %s", got)
	}
}
