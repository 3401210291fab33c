package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// deciding is a tool that asks before it works.
func deciding(expires time.Duration) tool.Tool {
	return textTool("decide", tool.Tool{}, func(ctx context.Context, c tool.Call, s string) (tool.Result, error) {
		if c.Ask == nil {
			return tool.Text("nobody there"), nil
		}
		answer, err := c.Ask(ctx, bus.Question{Text: s, Options: []string{"yes", "no"}, Expires: time.Now().Add(expires)})
		if errors.Is(err, tool.ErrNoAnswer) {
			return tool.Text("no answer"), nil
		}
		return tool.Text("answer: " + answer), err
	})
}

// talk sends a message of a person who can be asked; asked gets every question
// and has returned when talk does.
func (h *house) talk(msg bus.Inbound, asked func(q bus.Outbound)) (final string, err error) {
	msg.Interactive = true
	var answering sync.WaitGroup
	defer answering.Wait()
	for o, err := range h.agent.Ask(h.t.Context(), msg) {
		if err != nil {
			return "", err
		}
		switch o.Kind {
		case bus.Ask:
			answering.Go(func() { asked(o) })
		case bus.Final:
			final = o.Text
		}
	}
	return final, nil
}

func TestQuestionInATurn(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Call("decide", map[string]any{"text": "really?"}), llmtest.Reply("done"))
	h := newHouse(t, m, deciding(time.Minute))
	h.opts.Turns.Concurrency = 1 // the question must not hold the only slot
	h.start()
	m.Otherwise = nil
	final, err := h.talk(in("1", "do it"), func(q bus.Outbound) {
		if q.Question == nil || q.Question.Text != "really?" || q.Question.ID == "" {
			t.Errorf("question = %+v", q.Question)
		}
		for _, other := range []bus.Inbound{
			{Route: bus.Route{Channel: "test", ChatID: "1"}, SenderID: "stranger", Text: "yes", SessionKey: "test:1", OwnTurn: true},
			{Route: bus.Route{Channel: "test", ChatID: "2"}, SenderID: "u", Text: "yes", SessionKey: "test:1", OwnTurn: true},
		} {
			m.Add(llmtest.Reply("to the stranger"))
			go func() { _, _ = h.collect(other) }() // gets a turn of its own, later
		}
		if status := h.ask(in("1", "/status")); !strings.Contains(status, "running") && status == "" {
			t.Errorf("status while waiting = %q", status)
		}
		answer := in("1", "")
		answer.ID, answer.Interactive = "m2", true
		answer.Answer = &bus.Answer{QuestionID: q.Question.ID, Option: " no, not now "}
		if outs, err := h.collect(answer); err != nil || len(outs) != 0 {
			t.Errorf("the answer itself got %v, %v", outs, err)
		}
	})
	if err != nil || final != "done" {
		t.Fatalf("final %q, %v", final, err)
	}
	var got strings.Builder
	for _, r := range h.log("test:1") {
		fmt.Fprintf(&got, "%s:%s:%v|", r.Role, r.Content.String(), r.Command)
	}
	for _, want := range []string{"tool:answer: no: no, not now:false", "assistant:really?:true", "user:no, not now:true"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("%q is not in %s", want, got.String())
		}
	}
}

func TestQuestionWithoutAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		interactive bool
		expires     time.Duration
		want        string
	}{
		"nobody there": {false, time.Minute, "nobody there"},
		"too late":     {true, time.Millisecond, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := llmtest.NewScript(t, llmtest.Call("decide", map[string]any{"text": "?"}), llmtest.Reply("done"))
			h := newHouse(t, m, deciding(c.expires)).start()
			msg := in("1", "do it")
			msg.Interactive = c.interactive
			if got := h.ask(msg); got != "done" {
				t.Fatalf("final = %q", got)
			}
			msgs := m.Last().Messages
			if got := msgs[len(msgs)-1].Content.String(); got != c.want {
				t.Errorf("the model saw %q, want %q", got, c.want)
			}
		})
	}
}

func TestStopEndsAQuestion(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Call("decide", map[string]any{"text": "?"}))
	h := newHouse(t, m, deciding(time.Hour)).start()
	_, err := h.talk(in("1", "do it"), func(bus.Outbound) { h.ask(in("1", "/stop")) })
	if err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("err = %v", err)
	}
	m.Add(llmtest.Reply("next"))
	if got := h.ask(in("1", "and now")); got != "next" {
		t.Errorf("after the stop: %q", got)
	}
}

func TestAskUser(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t,
		llmtest.Call("ask_user", map[string]any{"question": "Which colour?", "options": []string{"red", "blue"}}), llmtest.Reply("blue it is"))
	h := newHouse(t, m).start()
	outs, err := h.collect(in("1", "paint it"))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, o := range outs {
		if o.Kind == bus.Message {
			said = append(said, o.Text)
			if o.Question == nil || len(o.Question.Options) != 2 {
				t.Errorf("options = %+v", o.Question)
			}
		}
	}
	if len(said) != 1 || said[0] != "Which colour?\n1. red\n2. blue" {
		t.Errorf("said %q", said)
	}
	if got := h.ask(in("1", "2")); got != "blue it is" {
		t.Errorf("after the answer: %q", got)
	}
	if err := llmtest.CheckLegal(m.Last()); err != nil {
		t.Error(err)
	}
}

func TestGoal(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t,
		llmtest.Reply("first step done"), llmtest.Reply("second step done"),
		llmtest.Call("update_goal", map[string]any{"action": "complete", "recap": "all"}), llmtest.Reply("finished"), llmtest.Reply("plain"))
	h := newHouse(t, m).start()
	if got := h.ask(in("1", "/goal build a ship")); got != "finished" {
		t.Fatalf("final = %q", got)
	}
	reqs := m.Requests()
	if len(reqs) != 4 || !strings.Contains(reqs[2].Messages[len(reqs[2].Messages)-1].Content.String(), "still open: build a ship") {
		t.Errorf("%d requests, the third ends with %+v", len(reqs), reqs[2].Messages[len(reqs[2].Messages)-1])
	}
	names := func(i int) (all string) {
		for _, d := range m.Requests()[i].Tools {
			all += d.Name + " "
		}
		return all
	}
	if !strings.Contains(names(0), "update_goal") {
		t.Errorf("tools with a goal: %s", names(0))
	}
	if got := h.ask(in("1", "thanks")); got != "plain" {
		t.Errorf("final = %q", got)
	}
	if strings.Contains(names(4), "goal") {
		t.Errorf("tools without a goal: %s", names(4))
	}
	if got := h.ask(in("1", "/goal")); !strings.Contains(got, "no goal") {
		t.Errorf("/goal = %q", got)
	}
}

// The text of a round stays when the next one is streamed.
func TestGoalStreams(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Reply("first step done"), llmtest.Call("update_goal", map[string]any{"action": "complete", "recap": "all"}), llmtest.Reply("finished"))
	h := newHouse(t, m).start()
	msg := in("1", "/goal build a ship")
	msg.WantsStream = true
	outs, err := h.collect(msg)
	if err != nil {
		t.Fatal(err)
	}
	said, kept := map[string]string{}, map[string]bool{}
	for _, o := range outs {
		switch o.Kind {
		case bus.Delta:
			said[o.StreamID] += o.Text
		case bus.DeltaEnd:
			kept[said[o.StreamID]] = o.Resuming
		}
	}
	if d := cmp.Diff(map[string]bool{"first step done": true, "finished": false}, kept); d != "" {
		t.Errorf("texts that stay (-want +got):\n%s", d)
	}
	var goals []string
	for _, o := range outs {
		if o.Kind == bus.GoalState {
			goals = append(goals, fmt.Sprintf("%s %d", o.Goal.Status, o.Goal.Rounds))
		}
	}
	if d := cmp.Diff([]string{"active 0", "active 1", "completed 1"}, goals); d != "" {
		t.Errorf("how the goal got on (-want +got):\n%s", d)
	}
	if g := outs[len(outs)-1].Turn.Goal; g == nil || g.Objective != "build a ship" || g.Recap != "all" || g.Open() {
		t.Errorf("goal at the end = %+v", g)
	}
}

// A command that ends the goal takes its turn, so the goal begins no further round.
func TestGoalMakesWay(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{"/new": "New conversation", "/goal stop": "The goal is stopped"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			m := llmtest.NewScript(t, llmtest.Reply("first step").After(gate))
			h := newHouse(t, m).start()
			first, second := make(chan string, 1), make(chan string, 1)
			go func() { first <- h.ask(in("1", "/goal build a ship")) }()
			waitFor(t, func() bool { return len(m.Requests()) == 1 })
			go func() { second <- h.ask(in("1", command)) }()
			waitFor(t, func() bool { return strings.Contains(h.ask(in("1", "/status")), "Waiting here: 1 message") })
			close(gate)
			if got := <-first; got != "first step" {
				t.Errorf("the goal's turn: %q", got)
			}
			if got := <-second; !strings.Contains(got, want) {
				t.Errorf("%s: %q", command, got)
			}
		})
	}
}

func TestGoalHasCeilings(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t)
	h := newHouse(t, m).start()
	for range 30 {
		m.Add(llmtest.Reply("not yet"))
	}
	got := h.ask(in("1", "/goal never ends"))
	if !strings.Contains(got, "I stopped: it took 20 rounds") {
		t.Errorf("final = %q", got)
	}
	if n := len(m.Requests()); n != 21 {
		t.Errorf("%d requests", n)
	}
}

// A goal goes on after the message tool and after the limit of steps, and says
// why when it cannot.
func TestGoalGoesOn(t *testing.T) {
	t.Parallel()
	complete := llmtest.Call("update_goal", map[string]any{"action": "complete", "recap": "all"})
	look := textTool("look", tool.Tool{ReadOnly: true, Trusted: true}, func(_ context.Context, _ tool.Call, text string) (tool.Result, error) {
		return tool.Text("seen " + text), nil
	})
	var looking atomic.Int64
	looks := llmtest.Func(func(llm.Request) llmtest.Step {
		return llmtest.Call("look", map[string]any{"text": fmt.Sprint(looking.Add(1))})
	})
	for name, c := range map[string]struct {
		steps  []llmtest.Step
		want   string
		status string
		rounds int
	}{
		"message tool": {
			[]llmtest.Step{llmtest.Call("message", map[string]any{"content": "half way"}), llmtest.Reply("told them"), complete, llmtest.Reply("finished")},
			"finished", "completed", 1,
		},
		"limit of steps": {
			[]llmtest.Step{looks, looks, looks, complete, llmtest.Reply("finished")},
			"finished", "completed", 1,
		},
		"limit of steps at its end": {
			append(slices.Repeat([]llmtest.Step{looks}, 39), llmtest.Reply("this is what is done")),
			"this is what is done\n\n(The goal is not finished and I stopped: it used up the steps of a turn 12 times. /goal sets it again.)", "blocked", 13,
		},
		"model error": {
			[]llmtest.Step{llmtest.Reply("first step"), llmtest.Fail(&llm.Error{Kind: llm.Auth, Message: "no"})},
			"I stopped: the model failed. /goal sets it again.)", "blocked", 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := llmtest.NewScript(t, c.steps...)
			h := newHouse(t, m, look)
			h.opts.Turns.Limits.Iterations = 3
			h.start()
			outs, err := h.collect(in("1", "/goal build a ship"))
			if err != nil {
				t.Fatal(err)
			}
			final := outs[len(outs)-1]
			if final.Kind != bus.Final || !strings.HasSuffix(final.Text, c.want) || m.Left() != 0 {
				t.Errorf("the reply is %q, %d steps are left", final.Text, m.Left())
			}
			if g := final.Turn.Goal; g == nil || g.Status != c.status || g.Rounds != c.rounds {
				t.Errorf("the goal is %+v, want %s after %d rounds", g, c.status, c.rounds)
			}
			checkLog(t, h.log("test:1"))
		})
	}
}

func TestMy(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t)
	h := newHouse(t, m)
	h.opts.Tools.My.Offer, h.opts.Tools.My.AllowSet = true, true
	h.opts.Tools.My.Shown = map[string]string{"exec": "sandboxed"}
	h.opts.Tools.My.Config = func() []string {
		return []string{"agents.defaults.providerRetryMode", "agents.defaults.temperature", "tools.exec.timeout", "tools.exec.enable"}
	}
	h.opts.Models.Presets = append(h.opts.Models.Presets, "gone")
	h.start()
	for _, c := range []struct{ args, want string }{
		{`{"action":"check","key":"model"}`, `"script"`},
		{`{"action":"check","key":"exec"}`, `"sandboxed"`},
		{`{"action":"check","key":"providers.api_key"}`, "not shown"},
		{`{"action":"check","key":"nonsense"}`, "there is no nonsense"},
		{`{"action":"set","key":"max_iterations","value":500}`, "from 1 to 100"},
		{`{"action":"set","key":"max_iterations","value":7}`, "is set"},
		{`{"action":"check","key":"max_iterations"}`, "7"},
		{`{"action":"set","key":"workspace","value":"/"}`, "read-only"},
		{`{"action":"set","key":"mood","value":{"good":true}}`, "is kept as a note of this conversation; it changes no setting"},
		{`{"action":"check","key":"mood"}`, `{"good":true}`},
		{`{"action":"set","key":"model_preset","value":"fast"}`, "next turn"},
		{`{"action":"set","key":"x.token","value":1}`, "cannot be set"},
		{`{"action":"set","key":"maxToolIterations","value":9}`, "max_iterations is set"},
		{`{"action":"check","key":"max_iterations"}`, "9"},
		{`{"action":"set","key":"provider_retry_mode","value":"persistent"}`, "nanobot config set agents.defaults.providerRetryMode"},
		{`{"action":"set","key":"temperature","value":1}`, "only the user can change"},
		{`{"action":"set","key":"exec.timeout","value":1}`, "tools.exec.timeout VALUE"},
		{`{"action":"set","key":"enable","value":1}`, "kept as a note"},
		{`{"action":"set","key":"context_window_tokens","value":200000}`, "the model's window has 100000 tokens"},
		{`{"action":"set","key":"model_preset","value":"gone"}`, "model_preset is not set: no such preset"},
	} {
		m.Add(llmtest.Call("my", c.args), llmtest.Reply("ok"))
		h.ask(in("1", "look"))
		msgs := m.Last().Messages
		if got := msgs[len(msgs)-1].Content.String(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.args, got, c.want)
		}
	}
	if got := m.Last().Model; got != "mfast" {
		t.Errorf("model after the preset was set: %q", got)
	}
}

// What the my tool reports as set has its effect on the next turn.
func TestMySetHasEffect(t *testing.T) {
	t.Parallel()
	long := textTool("long", tool.Tool{ReadOnly: true}, func(context.Context, tool.Call, string) (tool.Result, error) {
		return tool.Text(strings.Repeat("word ", 1000)), nil
	})
	m := llmtest.NewScript(t)
	h := newHouse(t, m, long)
	h.opts.Tools.My.Offer, h.opts.Tools.My.AllowSet, h.opts.Tools.Results = true, true, t.TempDir()
	h.start()
	set := func(key string, n int) {
		t.Helper()
		m.Add(llmtest.Call("my", fmt.Sprintf(`{"action":"set","key":%q,"value":%d}`, key, n)), llmtest.Reply("ok"))
		h.ask(in("1", "set"))
		msgs := m.Last().Messages
		if got := msgs[len(msgs)-1].Content.String(); !strings.Contains(got, key+" is set") {
			t.Fatalf("%s: %q", key, got)
		}
	}
	budget := func() int {
		t.Helper()
		c, err := h.agent.Context(t.Context(), "test:1")
		if err != nil {
			t.Fatal(err)
		}
		return c.Budget
	}

	set("max_tool_result_chars", 1000)
	m.Add(llmtest.Call("long", `{"text":"x"}`), llmtest.Reply("ok"))
	h.ask(in("1", "read"))
	msgs := m.Last().Messages
	if got := len(msgs[len(msgs)-1].Content.String()); got > 2500 {
		t.Errorf("a result of 5,000 characters has %d after the limit was set", got)
	}

	before := budget()
	set("context_window_tokens", 30000)
	if after := budget(); after >= 30000 || after >= before {
		t.Errorf("the budget was %d and is %d after the window was set to 30,000", before, after)
	}

	set("max_iterations", 2)
	for range 3 {
		m.Add(llmtest.Call("long", `{"text":"x"}`))
	}
	n := len(m.Requests())
	m.Add(llmtest.Reply("that is all"))
	h.ask(in("1", "loop"))
	if got := len(m.Requests()) - n; got > 3 {
		t.Errorf("%d requests in a turn of 2 iterations", got)
	}
}

// A question shows the call it is about without credentials, and what the turn has
// read from outside.
func TestQuestionAboutACall(t *testing.T) {
	t.Parallel()
	const key = "sk-very-secret-value"
	page := textTool("page", tool.Tool{}, func(context.Context, tool.Call, string) (tool.Result, error) {
		return tool.Result{Content: llm.Text("news"), Untrusted: true}, nil
	})
	risky := textTool("risky", tool.Tool{}, func(ctx context.Context, c tool.Call, _ string) (tool.Result, error) {
		_, err := c.Ask(ctx, bus.Question{
			Text: "send " + key, Options: []string{"yes", "no"}, Expires: time.Now().Add(time.Minute),
			Detail: &bus.Detail{Command: "curl " + key, Diff: "+" + key, Arguments: []byte(`{"a":"` + key + `"}`)},
		})
		return tool.Text("fine"), err
	})
	m := llmtest.NewScript(t, llmtest.Call("page", map[string]any{"text": "x"}), llmtest.Call("risky", map[string]any{"text": "x"}), llmtest.Reply("done"))
	h := newHouse(t, m, page, risky)
	h.opts.Secrets.Add("key", httpsafe.NewSecret(key))
	h.start()
	if _, err := h.talk(in("1", "do it"), func(q bus.Outbound) {
		shown, err := json.Marshal(q.Question)
		d := q.Question.Detail
		if err != nil || strings.Contains(string(shown), key) || !strings.HasPrefix(d.Command, "curl ") || len(d.Outside) != 1 {
			t.Errorf("%s, %v", shown, err)
		}
		answer := in("1", "")
		answer.ID, answer.Interactive, answer.Answer = "m2", true, &bus.Answer{QuestionID: q.Question.ID, Option: "yes"}
		if _, err := h.collect(answer); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
