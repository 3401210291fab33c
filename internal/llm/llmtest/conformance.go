package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// Quirks say in what a driver may differ from the suite.
type Quirks struct {
	// NoThinking skips the reasoning case.
	NoThinking bool
	// MovingMarkers skips the byte-prefix case: cache markers move with the end
	// of the conversation.
	MovingMarkers bool
	// Model is the model name in the requests; "" means "test-model".
	Model string
	// Impatient makes a model that gives up after a silence; nil skips the case.
	Impatient func(t *testing.T, s *Server, silence time.Duration) llm.Model
}

// Run checks that a driver keeps the contract of llm.Model and speaks its
// protocol the way the strict Server wants it. newModel makes a driver for the
// server, with Key as its credential.
func Run(t *testing.T, newModel func(t *testing.T, s *Server) llm.Model, q Quirks) {
	t.Helper()
	if q.Model == "" {
		q.Model = "test-model"
	}

	c := suite{newModel: newModel, q: q}
	for _, sub := range []struct {
		name string
		run  func(*testing.T)
		skip bool
	}{
		{"text", c.text, false},
		{"usage that cannot be", c.impossibleUsage, false},
		{"tool calls", c.toolCalls, false},
		{"tool calls as they come", c.toolDeltas, false},
		{"thinking", c.thinking, q.NoThinking},
		{"length", c.length, false},
		{"cut arguments", c.cutArguments, false},
		{"unclosed arguments", c.unclosedArguments, false},
		{"tool loop", c.toolLoop, q.MovingMarkers},
		{"damaged history", c.damagedHistory, false},
		{"errors", c.errors, false},
		{"truncated", c.truncated, false},
		{"error in the stream", c.errorInStream, false},
		{"cancel", c.cancel, false},
		{"break", c.breakOut, false},
		{"silence", c.silence, q.Impatient == nil},
		{"concurrent", c.concurrent, false},
	} {
		t.Run(sub.name, func(t *testing.T) {
			if sub.skip {
				t.Skip("not for this driver")
			}
			t.Parallel()
			sub.run(t)
		})
	}
}

type suite struct {
	newModel func(t *testing.T, s *Server) llm.Model
	q        Quirks
}

func (c suite) request(msgs ...llm.Message) llm.Request {
	if len(msgs) == 0 {
		msgs = []llm.Message{{Role: llm.User, Content: llm.Text("hello")}}
	}
	return llm.Request{
		Model: c.q.Model, System: "You are a test.", Messages: msgs, MaxTokens: 2000,
		Tools: []llm.ToolDef{{Name: "look", Description: "Look.", Schema: json.RawMessage(`{"type":"object","properties":{"p":{"type":"string"}}}`)}},
	}
}

// Watched is a stream as a listener saw it.
type Watched struct {
	Text, Reasoning string
	Response        *llm.Response
	Err             error
	Written         []string       // arguments of the calls, as they were shown while they came
	Hosted          []llm.ToolPart // tools that the provider ran
}

// Watch consumes a stream and checks that it keeps the contract: known
// events, one Done or one error, nothing after it, and deltas that add up to
// the final text.
func Watch(ctx context.Context, tb testing.TB, m llm.Model, req llm.Request) Watched {
	tb.Helper()
	before := fmt.Sprintf("%+v", req)
	var w Watched
	ended := false
	for ev, err := range m.Stream(ctx, req) {
		if ended {
			tb.Errorf("event after the end: %+v, %v", ev, err)
		}

		if err != nil {
			w.Err, ended = err, true
			continue
		}

		switch ev.Kind {
		case llm.TextDelta:
			w.Text += ev.Text
		case llm.ReasoningDelta:
			w.Reasoning += ev.Text
		case llm.Restarted:
			w.Text = ""
			w.Reasoning = ""
			w.Written = nil
		case llm.ToolDelta:
			if !req.ToolDeltas {
				tb.Errorf("the request did not ask for %+v", ev)
			}
			w.write(tb, ev)

		case llm.HostedTool:
			w.Hosted = append(w.Hosted, *ev.Tool)
		case llm.Waiting:
		case llm.Done:
			w.Response, ended = ev.Response, true
		default:
			tb.Errorf("unknown event %+v", ev)
		}
	}

	if !ended {
		tb.Error("the stream ended without Done or error")
	}
	if w.Response != nil && w.Response.Message.Content.String() != w.Text {
		tb.Errorf("deltas say %q, the message %q", w.Text, w.Response.Message.Content.String())
	}
	if after := fmt.Sprintf("%+v", req); after != before {
		tb.Errorf("the request was modified:\n%s", cmp.Diff(before, after))
	}
	return w
}

// write takes a piece of a call.
func (w *Watched) write(tb testing.TB, ev llm.Event) {
	tb.Helper()
	if ev.Tool == nil || ev.Tool.Name == "" || ev.Tool.Index < 0 || ev.Tool.Index > 100 {
		tb.Errorf("a piece of no call: %+v %+v", ev, ev.Tool)
		return
	}
	for len(w.Written) <= ev.Tool.Index {
		w.Written = append(w.Written, "")
	}
	w.Written[ev.Tool.Index] += ev.Text
}

// written checks that the pieces of calls add up to the calls.
func (w *Watched) written(tb testing.TB) {
	tb.Helper()
	got := slices.DeleteFunc(slices.Clone(w.Written), func(s string) bool { return s == "" })
	var want []string
	for _, c := range w.Response.Message.ToolCalls {
		want = append(want, c.Arguments)
	}
	if !slices.Equal(got, want) {
		tb.Errorf("the pieces say %q, the calls %q", got, want)
	}
}

func (c suite) must(t *testing.T, m llm.Model, req llm.Request) *llm.Response {
	t.Helper()
	w := Watch(t.Context(), t, m, req)
	if w.Err != nil {
		t.Fatalf("stream: %v", w.Err)
	}
	return w.Response
}

func (c suite) text(t *testing.T) {
	s := NewServer(t)
	s.Say(StreamReply{Text: []string{"he", "llo ", "世界"}, Usage: llm.Usage{Prompt: 10, Completion: 5, Cached: 4}})
	r := c.must(t, c.newModel(t, s), c.request())
	if got := r.Message.Content.Text; got != "hello 世界" || r.Finish != llm.FinishStop || r.Message.Role != llm.Assistant || r.Message.Origin == "" {
		t.Errorf("response = %+v", r)
	}
	if want := (llm.Usage{Prompt: 10, Completion: 5, Cached: 4}); r.Usage != want {
		t.Errorf("usage = %+v, want %+v", r.Usage, want)
	}
}

// impossibleUsage: numbers that cannot be do not overflow and do not disappear.
func (c suite) impossibleUsage(t *testing.T) {
	for _, u := range []llm.Usage{
		{Prompt: math.MaxInt, Completion: 5},
		{Prompt: 5, Completion: math.MaxInt},
		{Prompt: math.MinInt + 1, Completion: 5},
		{Prompt: 5, Completion: -7},
	} {
		s := NewServer(t)
		s.Say(StreamReply{Text: []string{"hi"}, Usage: u})
		got := c.must(t, c.newModel(t, s), c.request()).Usage
		if got.Prompt >= 0 && got.Completion >= 0 || got.Prompt > 5 || got.Completion > 5 {
			t.Errorf("reported %+v: usage = %+v, want a number below zero", u, got)
		}
	}
}

func (c suite) toolCalls(t *testing.T) {
	s := NewServer(t)
	s.Say(StreamReply{Text: []string{"looking"}, Calls: []StreamCall{
		{ID: "call_1", Name: "look", Args: []string{`{"p"`, `:"a`, `"}`}}, {ID: "call_2", Name: "look", Args: nil},
	}})
	r := c.must(t, c.newModel(t, s), c.request())
	want := []string{`call_1 look {"p":"a"}`, `call_2 look {}`}
	var got []string
	for _, tc := range r.Message.ToolCalls {
		args, err := wire.ParseArguments(tc.Arguments)
		if err != nil {
			t.Errorf("arguments of %s: %v", tc.ID, err)
		}
		got = append(got, fmt.Sprintf("%s %s %s", tc.ID, tc.Name, args))
	}

	if d := cmp.Diff(want, got); d != "" || r.Finish != llm.FinishToolCalls || r.Message.Content.Text != "looking" {
		t.Errorf("finish %s, text %q, calls differ: %s", r.Finish, r.Message.Content.Text, d)
	}
}

// toolDeltas: the pieces of calls are passed on to those who ask for them.
func (c suite) toolDeltas(t *testing.T) {
	s := NewServer(t)
	s.Say(StreamReply{Text: []string{"looking"}, Calls: []StreamCall{
		{ID: "call_1", Name: "look", Args: []string{`{"p"`, `:"a`, `"}`}}, {ID: "call_2", Name: "look", Args: []string{`{"p":`, `"b"}`}},
	}})
	req := c.request()
	req.ToolDeltas = true
	w := Watch(t.Context(), t, c.newModel(t, s), req)
	if w.Err != nil || len(w.Response.Message.ToolCalls) != 2 {
		t.Fatalf("stream: %+v", w)
	}
	w.written(t)
}

func (c suite) thinking(t *testing.T) {
	s := NewServer(t)
	s.Say(StreamReply{Think: []string{"let me ", "see"}, Text: []string{"done"}})
	w := Watch(t.Context(), t, c.newModel(t, s), c.request())
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	if w.Reasoning != "let me see" || w.Text != "done" {
		t.Errorf("reasoning %q, text %q", w.Reasoning, w.Text)
	}
}

func (c suite) length(t *testing.T) {
	s := NewServer(t)
	s.Say(StreamReply{Text: []string{"and then"}, Finish: llm.FinishLength})
	if r := c.must(t, c.newModel(t, s), c.request()); r.Finish != llm.FinishLength {
		t.Errorf("finish = %s, want length", r.Finish)
	}
}

// cutArguments: a call whose JSON is cut is delivered with its raw text, never
// completed, and the finish reason forbids to run it.
func (c suite) cutArguments(t *testing.T) {
	s := NewServer(t)
	s.Say(StreamReply{Calls: []StreamCall{{ID: "call_1", Name: "look", Args: []string{`{"p":"a`}}}, Finish: llm.FinishToolCalls})
	r := c.must(t, c.newModel(t, s), c.request())
	if len(r.Message.ToolCalls) != 1 || r.Finish.RunsTools() {
		t.Fatalf("calls %+v, finish %s", r.Message.ToolCalls, r.Finish)
	}
	if _, err := wire.ParseArguments(r.Message.ToolCalls[0].Arguments); !errors.Is(err, wire.ErrArgumentsCut) {
		t.Errorf("arguments %q: %v, want cut", r.Message.ToolCalls[0].Arguments, err)
	}
}

// unclosedArguments: a call that lacks only its last brackets is completed when
// the answer says that it ended with calls, and runs.
func (c suite) unclosedArguments(t *testing.T) {
	s := NewServer(t)
	s.Say(StreamReply{Calls: []StreamCall{{ID: "call_1", Name: "look", Args: []string{`{"p":"a"`}}}, Finish: llm.FinishToolCalls})
	r := c.must(t, c.newModel(t, s), c.request())
	if len(r.Message.ToolCalls) != 1 || !r.Finish.RunsTools() || r.Message.ToolCalls[0].Arguments != `{"p":"a"}` {
		t.Fatalf("calls %+v, finish %s", r.Message.ToolCalls, r.Finish)
	}
}

// toolLoop plays a conversation over one model: the strict server accepts
// every request, one connection is enough, and each request begins with the
// bytes of the one before.
func (c suite) toolLoop(t *testing.T) {
	s := NewServer(t)
	m := c.newModel(t, s)
	msgs := []llm.Message{{Role: llm.User, Content: llm.Text("find " + strings.Repeat("the very long thing ", 300))}}
	for i := range 6 {
		s.Say(StreamReply{Text: []string{"step"}, Calls: []StreamCall{{ID: fmt.Sprintf("call_%d", i), Name: "look", Args: []string{`{"p":"a"}`}}}})
		r := c.must(t, m, c.request(msgs...))
		msgs = append(msgs, r.Message, llm.Message{Role: llm.ToolRole, ToolCallID: r.Message.ToolCalls[0].ID, Name: "look", Content: llm.Text("nothing here")})
	}

	if n := s.Connections(); n != 1 {
		t.Errorf("%d connections for sequential requests, want 1", n)
	}

	reqs := s.Requests()
	for i := 1; i < len(reqs); i++ {
		a, b := reqs[i-1].Body, reqs[i].Body
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		if n*100 < len(a)*99 {
			t.Errorf("request %d repeats %d of %d bytes of the one before", i, n, len(a))
		}
	}
}

// damagedHistory sends what a crash, a stop or another vendor may leave behind.
func (c suite) damagedHistory(t *testing.T) {
	user := func(s string) llm.Message { return llm.Message{Role: llm.User, Content: llm.Text(s)} }
	call := func(id, name, args string) llm.ToolCall { return llm.ToolCall{ID: id, Name: name, Arguments: args} }
	says := func(text string, calls ...llm.ToolCall) llm.Message {
		return llm.Message{Role: llm.Assistant, Content: llm.Text(text), ToolCalls: calls}
	}
	result := func(id string) llm.Message {
		return llm.Message{Role: llm.ToolRole, ToolCallID: id, Name: "look", Content: llm.Text("r")}
	}
	image := llm.Block{Type: "image_url", ImageURL: "data:image/png;base64,AAAA", Path: "/tmp/a.png"}
	for name, msgs := range map[string][]llm.Message{
		"orphan result":      {user("a"), result("x"), says("b"), user("c")},
		"unanswered call":    {user("a"), says("", call("1", "look", "{}"), call("2", "look", "{}")), result("1"), user("c")},
		"call at the end":    {user("a"), says("b", call("1", "look", "{}"))},
		"equal ids":          {user("a"), says("", call("1", "look", "{}"), call("1", "look", "{}")), result("1"), result("1")},
		"no ids":             {user("a"), says("", call("", "look", "{}"), call("", "look", "{}")), result(""), result("")},
		"empty name":         {user("a"), says("", call("1", "", "{}")), result("1"), user("b")},
		"odd ids":            {user("a"), says("", call("call_1|fc_2", "look", "{}")), result("call_1|fc_2"), says("", call("call_1|fc_2", "look", "{}")), result("call_1|fc_2")},
		"cut arguments":      {user("a"), says("", call("1", "look", `{"p":"a`)), result("1")},
		"list arguments":     {user("a"), says("", call("1", "look", `[1]`)), result("1")},
		"user twice":         {user("a"), user("b")},
		"user with image":    {user("a"), {Role: llm.User, Content: llm.Content{Blocks: []llm.Block{{Type: "text", Text: "b"}, image}}}},
		"assistant twice":    {user("a"), says("b"), says("c"), user("d")},
		"assistant first":    {says("hi"), user("a")},
		"assistant last":     {user("a"), says("b")},
		"only assistant":     {says("b")},
		"empty texts":        {user(""), says(""), user("a")},
		"empty blocks":       {{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{{Type: "text"}}}}},
		"image in a result":  {user("a"), says("", call("1", "look", "{}")), {Role: llm.ToolRole, ToolCallID: "1", Name: "look", Content: llm.Content{Blocks: []llm.Block{image}}}},
		"foreign thinking":   {user("a"), {Role: llm.Assistant, Content: llm.Text("b"), Origin: "elsewhere", Reasoning: "r", HasReasoning: true, ReasoningDetails: json.RawMessage(`[{"x":1}]`)}, user("c")},
		"invalid UTF-8":      {user("a\xff\xfe")},
		"empty result":       {user("a"), says("", call("1", "look", "{}")), {Role: llm.ToolRole, ToolCallID: "1", Name: "look"}},
		"injected user":      {user("a"), says("", call("1", "look", "{}")), result("1"), user("b")},
		"result not in pair": {user("a"), says("", call("1", "look", "{}")), user("b"), result("1"), user("c")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewServer(t)
			s.Say(StreamReply{Text: []string{"ok"}})
			c.must(t, c.newModel(t, s), c.request(msgs...))
		})
	}
}

func (c suite) errors(t *testing.T) {
	body := func(kind, text string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, text)
	}
	for _, e := range []struct {
		name  string
		a     Answer
		kind  llm.Kind
		retry bool
	}{
		{"auth", Answer{Status: 401, Body: body("authentication_error", "bad key "+Key)}, llm.Auth, false},
		{"permission", Answer{Status: 403, Body: body("permission_error", "no")}, llm.Permission, false},
		{"not found", Answer{Status: 404, Body: body("not_found_error", "no such model")}, llm.NotFound, false},
		{"rate limit", Answer{Status: 429, Body: body("rate_limit_error", "slow down"), Header: http.Header{"Retry-After": {"7"}}}, llm.RateLimited, true},
		{"billing", Answer{Status: 402, Body: body("billing_error", "pay")}, llm.Billing, false},
		{"server", Answer{Status: 500, Body: body("api_error", "oops")}, llm.ServerError, true},
		{"overloaded", Answer{Status: 529, Body: body("overloaded_error", "busy")}, llm.Overloaded, true},
		{"context", Answer{Status: 400, Body: body("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")}, llm.ContextLength, false},
		{"page", Answer{Status: 502, ContentType: "text/html", Body: "<html><title>Bad Gateway</title><body>secret</body></html>"}, llm.ServerError, true},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := NewServer(t, e.a)
			w := Watch(t.Context(), t, c.newModel(t, s), c.request())
			got, ok := errors.AsType[*llm.Error](w.Err)
			if !ok {
				t.Fatalf("error = %v (%T), want *llm.Error", w.Err, w.Err)
			}
			if got.Kind != e.kind || got.Retryable() != e.retry || got.Status != e.a.Status || got.Provider == "" {
				t.Errorf("error = %+v, want kind %s", got, e.kind)
			}
			if strings.Contains(got.Error(), Key) || strings.Contains(got.Error(), "secret") {
				t.Errorf("error shows too much: %s", got)
			}
			if e.name == "rate limit" && got.RetryAfter != 7*time.Second {
				t.Errorf("retry after %s, want 7s", got.RetryAfter)
			}
			if e.name == "context" && got.ContextLimit != 200000 {
				t.Errorf("context limit %d, want 200000", got.ContextLimit)
			}
		})
	}
}

func (c suite) truncated(t *testing.T) {
	for _, abort := range []bool{false, true} {
		s := NewServer(t, Answer{Reply: &StreamReply{Text: []string{"half"}, Cut: true}, Abort: abort})
		w := Watch(t.Context(), t, c.newModel(t, s), c.request())
		if e := (*llm.Error)(nil); !errors.As(w.Err, &e) || e.Kind != llm.StreamTruncated {
			t.Errorf("abort %v: error = %v, want stream_truncated", abort, w.Err)
		}
		if w.Text != "half" {
			t.Errorf("abort %v: text %q before the cut, want %q", abort, w.Text, "half")
		}
	}
}

func (c suite) errorInStream(t *testing.T) {
	s := NewServer(t)
	s.Say(StreamReply{Text: []string{"half"}, Fail: "overloaded_error"})
	w := Watch(t.Context(), t, c.newModel(t, s), c.request())
	if e := (*llm.Error)(nil); !errors.As(w.Err, &e) || e.Kind != llm.Overloaded || w.Text != "half" {
		t.Errorf("text %q, error %v, want overloaded", w.Text, w.Err)
	}
}

func (c suite) cancel(t *testing.T) {
	s := NewServer(t)
	s.Say(StreamReply{Text: []string{"begin"}, Hold: make(chan struct{})})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var last error
	for ev, err := range c.newModel(t, s).Stream(ctx, c.request()) {
		if ev.Kind == llm.TextDelta {
			stop()
		}
		last = err
	}

	if !errors.Is(last, context.Canceled) {
		t.Errorf("error = %v, want canceled", last)
	}
	if e := (*llm.Error)(nil); errors.As(last, &e) {
		t.Errorf("cancellation became an *llm.Error: %v", e)
	}

	s.AwaitGone(1)
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func (c suite) breakOut(t *testing.T) {
	s := NewServer(t)
	s.Say(StreamReply{Text: []string{"begin"}, Hold: make(chan struct{})})
	for range c.newModel(t, s).Stream(t.Context(), c.request()) {
		break
	}
	s.AwaitGone(1)
}

// The first word may take longer than the timeout where the machine is busy:
// then there is more of it.
func (c suite) silence(t *testing.T) {
	for silence := 50 * time.Millisecond; ; silence *= 2 {
		s := NewServer(t)
		s.Say(StreamReply{Text: []string{"begin"}, Hold: make(chan struct{})})
		w := Watch(t.Context(), t, c.q.Impatient(t, s, silence), c.request())
		if e := (*llm.Error)(nil); !errors.As(w.Err, &e) || e.Kind != llm.Timeout || e.Provider == "" {
			t.Errorf("error = %v, want timeout", w.Err)
		}

		if w.Text == "" && silence < 10*time.Second {
			continue
		}

		if w.Text != "begin" {
			t.Errorf("text = %q before the silence", w.Text)
		}

		s.AwaitGone(1)
		return
	}
}

func (c suite) concurrent(t *testing.T) {
	s := NewServer(t)
	m := c.newModel(t, s)
	const n = 8
	for range n {
		s.Say(StreamReply{Text: []string{"a", "b", "c"}})
	}

	got := make(chan string, n)
	for range n {
		go func() {
			r, err := llm.Collect(t.Context(), m, c.request())
			if err != nil {
				got <- err.Error()
				return
			}
			got <- r.Message.Content.Text
		}()
	}

	for range n {
		if text := <-got; text != "abc" {
			t.Errorf("text = %q, want abc", text)
		}
	}
}
