package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/chain"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// Conformance replays the cases of a wire. Each runs in a synctest bubble with
// an offline server, so that waiting takes no time, times are exact, and a
// goroutine that outlives its stream fails the test. newModel makes the driver
// for the server's URL with s.Client() and Key.
func Conformance(t *testing.T, wire string, newModel func(t *testing.T, s *Server, o Setup) llm.Model) {
	t.Helper()
	cases := Cases(t, wire)
	if len(cases) == 0 {
		t.Fatalf("no cases for %q", wire)
	}

	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { c.play(t, newModel) })
		})
	}
}

func (c Case) play(t *testing.T, newModel func(t *testing.T, s *Server, o Setup) llm.Model) {
	s := NewOffline(t, c.Setup.Local)
	s.Brand = c.Setup.Brand
	m := c.Setup.decorate(t, newModel(t, s, c.Setup))
	req := llm.Request{Model: "test-model", MaxTokens: 100, Messages: []llm.Message{{Role: llm.User, Content: llm.Text("hi")}}}
	req.Tools = toolDefs([]string{"f", "g"})
	var last *llm.Response
	for i, step := range c.Steps {
		for _, raw := range step.Answers {
			a, err := parseAnswer(raw)
			if err != nil {
				t.Fatalf("step %d: answer: %v", i+1, err)
			}
			s.Add(a)
		}

		req = step.Request.apply(t, req, last)
		r := step.Request.ask(t, m, req)
		step.Want.check(t, r, s)
		last = r.Response
	}

	if n := s.Left(); n > 0 {
		t.Errorf("%d answers were not asked for", n)
	}
}

// Left counts the answers that were not asked for yet.
func (s *Server) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.answers)
}

// decorate puts the decorators of a case around a driver.
func (s Setup) decorate(t *testing.T, m llm.Model) llm.Model {
	t.Helper()
	steady := func() float64 { return 0.5 }
	for _, name := range s.Through {
		switch name {
		case "retry":
			m = chain.Retry(m, chain.RetryOptions{Rand: steady})
		case "persistent":
			m = chain.Retry(m, chain.RetryOptions{Rand: steady, Persistent: true})
		case "fallback":
			second := llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
				return func(yield func(llm.Event, error) bool) {
					const text = "from the second"
					_ = yield(llm.Event{Kind: llm.TextDelta, Text: text}, nil) && yield(llm.Event{Kind: llm.Done, Response: &llm.Response{
						Message: llm.Message{Role: llm.Assistant, Content: llm.Text(text)}, Finish: llm.FinishStop,
					}}, nil)
				}
			})

			breakers := chain.NewBreakers(chain.BreakersOptions{})
			m = chain.Fallback([]chain.Link{{Model: m, Name: "first", Breaker: breakers.At("first")}, {Model: second, Name: "second"}}, chain.FallbackOptions{})

		default:
			t.Fatalf("unknown decorator %q", name)
		}
	}

	return m
}

func toolDefs(names []string) []llm.ToolDef {
	var out []llm.ToolDef
	for _, n := range names {
		out = append(out, llm.ToolDef{Name: n, Description: "The tool " + n + ".", Schema: json.RawMessage(`{"type":"object","properties":{"p":{}}}`)})
	}
	return out
}

// apply puts what the step says over the request of the step before.
func (a Ask) apply(t *testing.T, req llm.Request, last *llm.Response) llm.Request {
	t.Helper()
	if a.Messages != nil {
		req.Messages = a.Messages
	}

	if a.Continue != nil {
		if last == nil {
			t.Fatal("nothing to continue")
		}
		req.Messages = append(append(req.Messages[:len(req.Messages):len(req.Messages)], stored(t, last.Message)), a.Continue...)
	}

	if a.Tools != nil {
		req.Tools = toolDefs(a.Tools)
	}
	if a.Model != "" {
		req.Model = a.Model
	}
	if a.MaxTokens != 0 {
		req.MaxTokens = a.MaxTokens
	}

	req.System = a.System
	req.ToolChoice = a.ToolChoice
	req.Effort = a.Effort
	req.Temperature = a.Temperature
	return req
}

// stored returns a message after a way through the session file.
func stored(t *testing.T, m llm.Message) llm.Message {
	t.Helper()
	line, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}

	var back llm.Message
	if err := json.Unmarshal(line, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// result holds what came of a step.
type result struct {
	Watched
	events string
	waits  []string
}

// ask makes the request and follows its stream.
func (a Ask) ask(t *testing.T, m llm.Model, req llm.Request) result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if d, _ := time.ParseDuration(a.After); d > 0 {
		<-time.After(d)
	}

	var r result
	watched := llm.ModelFunc(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			for ev, err := range m.Stream(ctx, req) {
				if err == nil {
					r.record(ev)
				}
				if a.Cancel && ev.Kind == llm.TextDelta {
					cancel()
				}

				if !yield(ev, err) {
					return
				}
			}
		}
	})

	r.Watched = Watch(ctx, t, watched, req)
	return r
}

func (r *result) record(ev llm.Event) {
	k := map[llm.EventKind]string{llm.TextDelta: "T", llm.ReasoningDelta: "t", llm.Waiting: "W", llm.Restarted: "R", llm.Done: "D"}[ev.Kind]
	if ev.Kind == llm.Waiting {
		r.waits = append(r.waits, ev.Text)
	} else if strings.HasSuffix(r.events, k) {
		return
	}
	r.events += k
}

func (w Want) check(tb testing.TB, r result, s *Server) {
	tb.Helper()
	if w.Text != nil && r.Text != *w.Text {
		tb.Errorf("text %.200q, want %.200q", r.Text, *w.Text)
	}

	if w.Error != nil {
		w.Error.check(tb, r.Err)
	} else if r.Err != nil {
		tb.Errorf("error: %v", r.Err)
	} else if r.Response != nil {
		w.response(tb, r)
	}

	if w.Events != "" && r.events != w.Events {
		tb.Errorf("events %s, want %s", r.events, w.Events)
	}

	if len(w.Waits) > 0 {
		if len(w.Waits) != len(r.waits) {
			tb.Errorf("waiting %q, want %q", r.waits, w.Waits)
		}
		for i := range min(len(w.Waits), len(r.waits)) {
			if !strings.Contains(r.waits[i], w.Waits[i]) {
				tb.Errorf("waiting says %q, want %q in it", r.waits[i], w.Waits[i])
			}
		}
	}

	w.requests(tb, s)
}

func (w Want) response(tb testing.TB, r result) {
	tb.Helper()
	msg := r.Response.Message
	if w.Reasoning != nil {
		got := msg.Reasoning
		if !msg.HasReasoning {
			got = "absent"
		}
		if got != *w.Reasoning {
			tb.Errorf("reasoning %q, want %q", got, *w.Reasoning)
		}
		if got != "absent" && r.Reasoning != *w.Reasoning {
			tb.Errorf("reasoning deltas %q, want %q", r.Reasoning, *w.Reasoning)
		}
	}

	if w.Finish != "" && r.Response.Finish != w.Finish {
		tb.Errorf("finish %s, want %s", r.Response.Finish, w.Finish)
	}
	if w.Runs != nil && r.Response.Finish.RunsTools() != *w.Runs {
		tb.Errorf("calls run under %s: %v, want %v", r.Response.Finish, !*w.Runs, *w.Runs)
	}
	if w.Usage != nil && r.Response.Usage != *w.Usage {
		tb.Errorf("usage %+v, want %+v", r.Response.Usage, *w.Usage)
	}
	if w.Calls != nil {
		checkCalls(tb, msg.ToolCalls, *w.Calls)
	}
}

func checkCalls(tb testing.TB, got []llm.ToolCall, want []WantCall) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Errorf("%d calls %+v, want %d", len(got), got, len(want))
		return
	}

	ids := map[string]bool{}
	for i, c := range got {
		w := want[i]
		if ids[c.ID] {
			tb.Errorf("call %d: id %q is used twice", i, c.ID)
		}

		ids[c.ID] = true
		if w.ID == "?" && len(c.ID) == 9 {
			w.ID = c.ID
		}
		if w.ID != "" && c.ID != w.ID || c.Name != w.Name {
			tb.Errorf("call %d is %q %q, want %q %q", i, c.ID, c.Name, w.ID, w.Name)
		}

		args, err := wire.ParseArguments(c.Arguments)
		reason := map[bool]string{errors.Is(err, wire.ErrArgumentsCut): "cut", errors.Is(err, wire.ErrArgumentsShape): "shape"}[true]
		if reason != w.Error || (err != nil) != (w.Error != "") {
			tb.Errorf("call %d: arguments %q: %v, want %q", i, c.Arguments, err, w.Error)
		}
		if w.Args != nil && !sameJSON(args, w.Args) {
			tb.Errorf("call %d: arguments %s, want %s", i, args, w.Args)
		}
		if w.Raw != "" && c.Arguments != w.Raw {
			tb.Errorf("call %d: raw arguments %q, want %q", i, c.Arguments, w.Raw)
		}

		for k, v := range w.Extra {
			if !sameJSON(c.Extra[k], v) {
				tb.Errorf("call %d: extra %s = %s, want %s", i, k, c.Extra[k], v)
			}
		}
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return cmp.Equal(x, y)
}

func (w WantError) check(tb testing.TB, err error) {
	tb.Helper()
	if w.Canceled {
		if _, ok := errors.AsType[*llm.Error](err); ok || !errors.Is(err, context.Canceled) {
			tb.Errorf("error %v (%T), want the context's", err, err)
		}
		return
	}

	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		tb.Errorf("error %v, want kind %s", err, w.Kind)
		return
	}

	if e.Kind != w.Kind || w.Status != 0 && e.Status != w.Status || w.Code != "" && e.Code != w.Code || w.Limit != 0 && e.ContextLimit != w.Limit {
		tb.Errorf("error %+v, want %+v", e, w)
	}
	if w.Retryable != nil && e.Retryable() != *w.Retryable {
		tb.Errorf("retryable %v, want %v: %v", e.Retryable(), *w.Retryable, e)
	}
	if w.FallsBack != nil && chain.FallsBack(e) != *w.FallsBack {
		tb.Errorf("falls back %v, want %v: %v", chain.FallsBack(e), *w.FallsBack, e)
	}
	if w.RetryAfter != "" && e.RetryAfter.String() != w.RetryAfter {
		tb.Errorf("retry after %s, want %s", e.RetryAfter, w.RetryAfter)
	}

	for _, part := range w.Says {
		if !strings.Contains(e.Error(), part) {
			tb.Errorf("error %q does not say %q", e, part)
		}
	}

	for _, part := range w.Hides {
		if strings.Contains(e.Error(), part) {
			tb.Errorf("error %q shows %q", e, part)
		}
	}
}

// requests checks what the server has seen.
func (w Want) requests(tb testing.TB, s *Server) {
	tb.Helper()
	reqs := s.Requests()
	if w.Requests != nil && len(reqs) != *w.Requests {
		tb.Errorf("%d requests, want %d", len(reqs), *w.Requests)
	}

	if w.At != nil {
		var got []string
		for _, d := range s.Times() {
			got = append(got, d.String())
		}
		if d := cmp.Diff(w.At, got); d != "" {
			tb.Errorf("times of requests differ (-want +got): %s", d)
		}
	}

	if w.Paths != nil {
		var got []string
		for _, r := range reqs {
			got = append(got, path.Base(r.Path))
		}
		if d := cmp.Diff(w.Paths, got); d != "" {
			tb.Errorf("paths differ (-want +got): %s", d)
		}
	}

	if len(reqs) == 0 {
		return
	}

	newest := reqs[len(reqs)-1]
	for _, part := range w.Sent {
		if !strings.Contains(string(newest.Body), part) {
			tb.Errorf("no %s in the request %s", part, newest.Body)
		}
	}

	for _, part := range w.NotSent {
		if strings.Contains(string(newest.Body), part) {
			tb.Errorf("%s in the request %s", part, newest.Body)
		}
	}

	for k, v := range w.Header {
		if got := newest.Header.Get(k); got != v {
			tb.Errorf("header %s = %q, want %q", k, got, v)
		}
	}
}

// Serve plays the answers of the first step of a case over the network, to
// clients that are not ours: what they ask is not judged.
func (c Case) Serve(tb testing.TB) *Server {
	tb.Helper()
	s := NewServer(tb)
	s.Lenient = true
	SpeakResponses(s)

	for _, raw := range c.Steps[0].Answers {
		a, err := parseAnswer(raw)
		if err != nil {
			tb.Fatal(err)
		}
		s.Add(a)
	}

	return s
}
