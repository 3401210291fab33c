package anthropic_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// The numbers are the rows of the conformance table.
func TestAnswers(t *testing.T) {
	t.Parallel()
	msg := func(text string, calls ...llm.ToolCall) llm.Message {
		m := assistant(text, calls...)
		m.Origin = "anthropic"
		return m
	}
	usage := func(completion int) llm.Usage {
		return llm.Usage{Prompt: 10, Completion: completion, Cached: 5, CacheWrite: 2}
	}
	whole := `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"Hello"},
		{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}`
	cases := []struct {
		name  string
		reply http.HandlerFunc
		want  llm.Response
	}{
		{"54 text and usage", hello(), llm.Response{Message: msg("Hello"), Finish: llm.FinishStop, Usage: usage(4)}},
		{
			"55 tool call in three pieces",
			stream(start, textBlock(0, "Look: "), toolBlock(1, "toolu_1", "read_file", `{"pa`, `th":"a`, `.txt"}`), stopTool, end),
			llm.Response{
				Message: msg("Look: ", call("toolu_1", "read_file", `{"path":"a.txt"}`)), Finish: llm.FinishToolCalls, Usage: usage(9),
			},
		},
		{
			"56 tool call without input",
			stream(start, toolBlock(0, "toolu_1", "now"), stopTool, end),
			llm.Response{Message: msg("", call("toolu_1", "now", "{}")), Finish: llm.FinishToolCalls, Usage: usage(9)},
		},
		{
			"two calls interleaved by index",
			stream(start,
				`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`,
				`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"g","input":{}}}`,
				`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"y\":2}"}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\":1}"}}`,
				stopTool, end),
			llm.Response{Message: msg("", call("a", "f", `{"x":1}`), call("b", "g", `{"y":2}`)), Finish: llm.FinishToolCalls, Usage: usage(9)},
		},
		{
			"59 pings, comments, unknown events and bad lines",
			func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte(": hello\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\ndata: nonsense\n\ndata: {\"type\":\"news\"}\n\n"))
				hello()(w, r)
			},
			llm.Response{Message: msg("Hello"), Finish: llm.FinishStop, Usage: usage(4)},
		},
		{
			"61 the last count wins", stream(start, textBlock(0, "x"),
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"input_tokens":0}}`, end),
			llm.Response{Message: msg("x"), Finish: llm.FinishStop, Usage: usage(9)},
		},
		{
			"62 refusal", stream(start, textBlock(0, "No"), `{"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"output_tokens":1}}`, end),
			llm.Response{Message: msg("No"), Finish: llm.FinishRefusal, Usage: usage(1)},
		},
		{
			"length", stream(start, textBlock(0, "No"), `{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, end),
			llm.Response{Message: msg("No"), Finish: llm.FinishLength, Usage: usage(1)},
		},
		{
			"stop sequence", stream(start, textBlock(0, "x"), `{"type":"message_delta","delta":{"stop_reason":"stop_sequence"}}`, end),
			llm.Response{Message: msg("x"), Finish: llm.FinishStop, Usage: usage(1)},
		},
		{
			"cut call under max_tokens", stream(start, toolBlock(0, "a", "write_file", `{"path":"x","content":"hel`),
				`{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, end),
			llm.Response{Message: msg("", call("a", "write_file", `{"path":"x","content":"hel`)), Finish: llm.FinishLength, Usage: usage(1)},
		},
		{
			"cut call under a rewritten reason", stream(start, toolBlock(0, "a", "write_file", `{"path":"x","content":"hel`), stopTool, end),
			llm.Response{Message: msg("", call("a", "write_file", `{"path":"x","content":"hel`)), Finish: llm.FinishLength, Usage: usage(9)},
		},
		{
			"call without a name is dropped", stream(start, textBlock(0, "x"), toolBlock(1, "a", ""), stopTool, end),
			llm.Response{Message: msg("x"), Finish: llm.FinishToolCalls, Usage: usage(9)},
		},
		{
			"stop reason but no message_stop", stream(start, textBlock(0, "Hello"), stopText),
			llm.Response{Message: msg("Hello"), Finish: llm.FinishStop, Usage: usage(4)},
		},
		{
			"blocks never announced", stream(start,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`, stopText, end),
			llm.Response{Message: msg("Hello"), Finish: llm.FinishStop, Usage: usage(4)},
		},
		{
			"citations are ignored", stream(start, textBlock(0, "x"),
				`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"page_location"}}}`, stopText, end),
			llm.Response{Message: msg("x"), Finish: llm.FinishStop, Usage: usage(4)},
		},
		{
			"whole JSON reply", status(200, whole, "Content-Type", "application/json"),
			llm.Response{
				Message: msg("Hello", call("toolu_1", "f", `{"a":1}`)), Finish: llm.FinishToolCalls,
				Usage: llm.Usage{Prompt: 3, Completion: 4},
			},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := mustCollect(t, newServer(t, c.reply).model(t), ask())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissingUsageIsEstimated(t *testing.T) {
	t.Parallel()
	s := newServer(t, stream(textBlock(0, "Hello there"), `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, end))
	u := mustCollect(t, s.model(t), ask()).Usage
	if !u.Estimated || u.Prompt == 0 || u.Completion == 0 {
		t.Errorf("usage = %+v, want an estimate", u)
	}
}

func TestMissingCallIDIsMade(t *testing.T) {
	t.Parallel()
	s := newServer(t, stream(start, toolBlock(0, "", "f"), toolBlock(1, "", "f"), stopTool, end))
	calls := mustCollect(t, s.model(t), ask()).Message.ToolCalls
	if len(calls) != 2 || len(calls[0].ID) != len("toolu_")+22 || calls[0].ID == calls[1].ID {
		t.Errorf("calls = %+v, want two different ids", calls)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	no := false
	errEvent := func(kind, text string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + text + `"}}`
	}
	cases := []struct {
		name  string
		reply http.HandlerFunc
		want  llm.Error // Kind, Status, Type, RetryAfter, ShouldRetry, ContextLimit are compared
		retry bool
	}{
		{"60 overloaded in the stream", stream(start, errEvent("overloaded_error", "Overloaded")), llm.Error{Kind: llm.Overloaded, Type: "overloaded_error"}, true},
		{"error after text", stream(start, textBlock(0, "x"), errEvent("api_error", "oops")), llm.Error{Kind: llm.ServerError, Type: "api_error"}, true},
		{"rate limit in the stream", stream(errEvent("rate_limit_error", "slow down")), llm.Error{Kind: llm.RateLimited, Type: "rate_limit_error"}, true},
		{
			"invalid request in the stream", stream(errEvent("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")),
			llm.Error{Kind: llm.ContextLength, Type: "invalid_request_error", ContextLimit: 200000},
			false,
		},
		{
			"62 window exceeded", stream(start, textBlock(0, "x"),
				`{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"}}`, end),
			llm.Error{Kind: llm.ContextLength},
			false,
		},
		{"cut in the middle", stream(start, textBlock(0, "Hel")), llm.Error{Kind: llm.StreamTruncated}, true},
		{"cut inside a tool call", stream(start, toolBlock(0, "a", "f", `{"x":`)), llm.Error{Kind: llm.StreamTruncated}, true},
		{"empty body", status(200, ""), llm.Error{Kind: llm.StreamTruncated}, true},
		{
			"connection dropped", func(w http.ResponseWriter, r *http.Request) {
				stream(start, textBlock(0, "x"))(w, r)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}, llm.Error{Kind: llm.StreamTruncated}, true,
		},
		{"stream of garbage", sse("x", "y", "z", end), llm.Error{Kind: llm.ServerError}, true},
		{"error with status 200", status(200, errEvent("overloaded_error", "Overloaded")), llm.Error{Kind: llm.Overloaded, Type: "overloaded_error"}, true},
		{"web page with status 200", status(200, "<html><title>Login</title></html>", "Content-Type", "text/html"), llm.Error{Kind: llm.ServerError}, true},
		{"76 rate limit", status(429, errEvent("rate_limit_error", "slow"), "Retry-After", "2"), llm.Error{Kind: llm.RateLimited, Status: 429, Type: "rate_limit_error", RetryAfter: 2 * time.Second}, true},
		{"78 no retry", status(500, errEvent("api_error", "oops"), "X-Should-Retry", "false"), llm.Error{Kind: llm.ServerError, Status: 500, Type: "api_error", ShouldRetry: &no}, false},
		{"auth", status(401, errEvent("authentication_error", "invalid x-api-key")), llm.Error{Kind: llm.Auth, Status: 401, Type: "authentication_error"}, false},
		{"billing", status(400, errEvent("invalid_request_error", "Your credit balance is too low")), llm.Error{Kind: llm.Billing, Status: 400, Type: "invalid_request_error"}, false},
		{"permission", status(403, errEvent("permission_error", "no")), llm.Error{Kind: llm.Permission, Status: 403, Type: "permission_error"}, false},
		{"model", status(404, errEvent("not_found_error", "model: x")), llm.Error{Kind: llm.NotFound, Status: 404, Type: "not_found_error"}, false},
		{"too large", status(413, errEvent("request_too_large", "too large")), llm.Error{Kind: llm.ContextLength, Status: 413, Type: "request_too_large"}, false},
		{"overloaded", status(529, errEvent("overloaded_error", "Overloaded")), llm.Error{Kind: llm.Overloaded, Status: 529, Type: "overloaded_error"}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := collect(t, newServer(t, c.reply).model(t), ask())
			e, ok := errors.AsType[*llm.Error](err)
			if !ok {
				t.Fatalf("error = %v, want *llm.Error", err)
			}
			got := llm.Error{
				Kind: e.Kind, Status: e.Status, Type: e.Type, RetryAfter: e.RetryAfter, ShouldRetry: e.ShouldRetry, ContextLimit: e.ContextLimit,
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s\n%v", diff, err)
			}
			if e.Retryable() != c.retry {
				t.Errorf("Retryable = %v, want %v", e.Retryable(), c.retry)
			}
			if e.Provider != "anthropic" || e.Error() == "" {
				t.Errorf("provider = %q, text = %q", e.Provider, e.Error())
			}
		})
	}
}

func TestErrorsHideTheKey(t *testing.T) {
	t.Parallel()
	s := newServer(t, status(401, `{"type":"error","error":{"type":"authentication_error","message":"bad key sk-test-key"}}`))
	_, err := collect(t, s.model(t), ask())
	if err == nil || strings.Contains(err.Error(), "sk-test-key") {
		t.Errorf("error = %v, want one without the key", err)
	}
}

// 57 and 58: thinking goes back first and unmodified, but only to its origin.
func TestThinkingRoundTrip(t *testing.T) {
	t.Parallel()
	redacted := `{"type":"redacted_thinking","data":"b64=="}`
	first := stream(start, thinkBlock(0, "sig+/1", "Let me ", "<think> \"é\""),
		`{"type":"content_block_start","index":1,"content_block":`+redacted+`}`, `{"type":"content_block_stop","index":1}`,
		textBlock(2, "I look."), toolBlock(3, "toolu_1", "f", `{"a":1}`), stopTool, end)
	s := newServer(t, first, hello(), hello())
	m := s.model(t)
	req := ask(user("go"))
	resp := mustCollect(t, m, req)
	if got, want := resp.Message.Reasoning, `Let me <think> "é"`; got != want || !resp.Message.HasReasoning {
		t.Errorf("reasoning = %q, want %q", got, want)
	}
	req.Messages = append(req.Messages, throughJSON(t, resp.Message), result("toolu_1", "ok"))
	mustCollect(t, m, req)
	want := []string{
		`{"type":"thinking","signature":"sig+/1","thinking":"Let me <think> \"é\""}`, redacted,
		`{"type":"text","text":"I look."}`, `{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}`,
	}
	if got := contentOf(t, s.Bodies[1], 1); !cmp.Equal(got, want) {
		t.Errorf("replayed turn (-want +got):\n%s", cmp.Diff(want, got))
	}
	other := s.model(t, func(o *anthropic.Options) { o.Name = "minimax" })
	mustCollect(t, other, req)
	if got := contentOf(t, s.Bodies[2], 1); !cmp.Equal(got, want[2:]) {
		t.Errorf("turn sent to another provider (-want +got):\n%s", cmp.Diff(want[2:], got))
	}
}

// Blocks in another order than thinking, text, calls are replayed in theirs.
func TestInterleavedThinkingKeepsItsOrder(t *testing.T) {
	t.Parallel()
	s := newServer(t, stream(start,
		thinkBlock(0, "s1", "one"), textBlock(1, "First. "), thinkBlock(2, "s2", "two"), toolBlock(3, "a", "f"),
		thinkBlock(4, "s3", "three"), textBlock(5, "Second."), toolBlock(6, "b", "g"), stopTool, end), hello())
	m := s.model(t)
	req := ask(user("go"))
	resp := mustCollect(t, m, req)
	if got, want := resp.Message.Content.Text, "First. Second."; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	if got, want := resp.Message.Reasoning, "one\n\ntwo\n\nthree"; got != want {
		t.Errorf("reasoning = %q, want %q", got, want)
	}
	req.Messages = append(req.Messages, throughJSON(t, resp.Message), result("a", "1"), result("b", "2"))
	mustCollect(t, m, req)
	want := []string{
		`{"type":"thinking","signature":"s1","thinking":"one"}`, `{"type":"text","text":"First. "}`,
		`{"type":"thinking","signature":"s2","thinking":"two"}`, `{"type":"tool_use","id":"a","name":"f","input":{}}`,
		`{"type":"thinking","signature":"s3","thinking":"three"}`, `{"type":"text","text":"Second."}`,
		`{"type":"tool_use","id":"b","name":"g","input":{}}`,
	}
	if got := contentOf(t, s.Bodies[1], 1); !cmp.Equal(got, want) {
		t.Errorf("replayed turn (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// Thinking that was cut before its signature cannot go back.
func TestUnsignedThinkingIsNotReplayed(t *testing.T) {
	t.Parallel()
	s := newServer(t, stream(start, thinkBlock(0, "", "hm"), textBlock(1, "x"), stopText, end), hello())
	m := s.model(t)
	req := ask(user("go"))
	resp := mustCollect(t, m, req)
	req.Messages = append(req.Messages, throughJSON(t, resp.Message), user("on"))
	mustCollect(t, m, req)
	if got, want := contentOf(t, s.Bodies[1], 1), []string{`{"type":"text","text":"x"}`}; !cmp.Equal(got, want) {
		t.Errorf("replayed turn = %v, want %v", got, want)
	}
}

// 62: a paused answer is sent back as it is and goes on.
func TestPausedTurnContinues(t *testing.T) {
	t.Parallel()
	const paused = `{"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{"output_tokens":4}}`
	s := newServer(t,
		stream(start, thinkBlock(0, "s1", "hm"), textBlock(1, "One, "),
			`{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}`,
			paused, end),
		stream(start, textBlock(0, "two"), stopText, end))
	resp := mustCollect(t, s.model(t), ask())
	if got, want := resp.Message.Content.Text, "One, two"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	if got, want := resp.Usage, (llm.Usage{Prompt: 20, Completion: 8, Cached: 10, CacheWrite: 4}); got != want {
		t.Errorf("usage = %+v, want the sum %+v", got, want)
	}
	want := []string{
		`{"type":"thinking","signature":"s1","thinking":"hm"}`, `{"type":"text","text":"One, "}`,
		`{"id":"srv_1","input":{"query":"x"},"name":"web_search","type":"server_tool_use"}`,
	}
	if got := contentOf(t, s.Bodies[1], 1); !cmp.Equal(got, want) {
		t.Errorf("continued turn (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// The indexes of a continued answer begin again.
func TestPausedTurnCountsAfresh(t *testing.T) {
	t.Parallel()
	s := newServer(t,
		stream(start, textBlock(0, "one, "), textBlock(1, "two, "), `{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}`, end),
		stream(start, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"three"}}`, stopText, end))
	if got, want := mustCollect(t, s.model(t), ask()).Message.Content.Text, "one, two, three"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
}

func TestPausesAreBounded(t *testing.T) {
	t.Parallel()
	var replies []http.HandlerFunc
	for range 6 {
		replies = append(replies, stream(start, textBlock(0, "x"), `{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}`, end))
	}
	s := newServer(t, replies...)
	resp := mustCollect(t, s.model(t), ask())
	if resp.Message.Content.Text != "xxxxxx" || resp.Finish != llm.FinishStop {
		t.Errorf("text = %q, finish = %q; want six x and stop", resp.Message.Content.Text, resp.Finish)
	}
}

// throughJSON stores a message and reads it back, as a session does.
func throughJSON(t *testing.T, m llm.Message) llm.Message {
	t.Helper()
	data, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var back llm.Message
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// contentOf lists the raw content blocks of a turn of a request.
func contentOf(t *testing.T, body string, turn int) []string {
	t.Helper()
	var w struct {
		Messages []struct {
			Content []json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal([]byte(body), &w); err != nil {
		t.Fatal(err)
	}
	if turn >= len(w.Messages) {
		t.Fatalf("%d turns, want more than %d", len(w.Messages), turn)
	}
	var out []string
	for _, c := range w.Messages[turn].Content {
		out = append(out, string(c))
	}
	return out
}

// Tools that the server runs are told about with what they were asked and found.
func TestHostedTools(t *testing.T) {
	t.Parallel()
	s := newServer(t, stream(start,
		`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"weather\"}"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"type":"web_search_result","url":"https://a.example/","title":"A"}]}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"web_search_tool_result","tool_use_id":"srv_2","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}}`,
		textBlock(3, "sunny"), stopText, end))
	w := llmtest.Watch(t.Context(), t, s.model(t), ask())
	want := []llm.ToolPart{
		{ID: "srv_1", Name: "web_search", Phase: "start"},
		{ID: "srv_1", Name: "web_search", Phase: "end", Arguments: "weather", Result: `[{"url":"https://a.example/","title":"A"}]`},
		{ID: "srv_2", Name: "web_search", Phase: "error"},
	}
	if d := cmp.Diff(want, w.Hosted); d != "" || w.Text != "sunny" {
		t.Errorf("text %q, hosted tools: %s", w.Text, d)
	}
}
