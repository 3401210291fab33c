package responses_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/responses"
)

func ask(msgs ...llm.Message) llm.Request {
	if len(msgs) == 0 {
		msgs = []llm.Message{{Role: llm.User, Content: llm.Text("hello")}}
	}
	return llm.Request{Model: "gpt-5-mini", System: "You are a test.", Messages: msgs, MaxTokens: 1000, SessionKey: "cli:1"}
}

func withTools(req llm.Request, names ...string) llm.Request {
	for _, n := range names {
		req.Tools = append(req.Tools, llm.ToolDef{Name: n, Description: "Do " + n + ".", Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
	}
	return req
}

// play answers one request with events and returns what a listener saw.
func play(t *testing.T, events ...string) llmtest.Watched {
	t.Helper()
	lines := make([]string, len(events))
	for i, ev := range events {
		lines[i] = strings.ReplaceAll(ev, "\n", " ")
	}
	s := llmtest.NewServer(t, llmtest.Answer{Events: lines})
	return llmtest.Watch(t.Context(), t, model(t, s), ask())
}

// response plays events and wants an answer.
func response(t *testing.T, events ...string) (*llm.Response, llmtest.Watched) {
	t.Helper()
	w := play(t, events...)
	if w.Err != nil {
		t.Fatalf("stream: %v", w.Err)
	}
	return w.Response, w
}

func failure(t *testing.T, w llmtest.Watched) *llm.Error {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](w.Err)
	if !ok {
		t.Fatalf("error = %v (%T), want *llm.Error", w.Err, w.Err)
	}
	return e
}

const done = `{"type":"response.completed","response":{"status":"completed","error":null,"output":[],"usage":{"input_tokens":10,"output_tokens":5}}}`

// 67: text and usage, cached and reasoning tokens included.
func Test67Text(t *testing.T) {
	t.Parallel()
	r, _ := response(t,
		`{"type":"response.created","response":{"status":"in_progress"}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1"}}`,
		`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"hel"}`,
		`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"lo"}`,
		`{"type":"response.output_text.done","item_id":"msg_1","output_index":0,"content_index":0,"text":"hello"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"hello"}]}}`,
		`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"hello"}]}],
			"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":7,"cache_write_tokens":2},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":15}}}`)
	want := &llm.Response{
		Message: llm.Message{Role: llm.Assistant, Content: llm.Text("hello"), Origin: "fake"}, Finish: llm.FinishStop,
		Usage: llm.Usage{Prompt: 10, Completion: 5, Cached: 7, CacheWrite: 2, Reasoning: 3},
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Errorf("response (-want +got):\n%s", d)
	}
}

// 68: argument pieces name the item, never the call.
func Test68ArgumentsByItem(t *testing.T) {
	t.Parallel()
	added := `{"type":"response.output_item.added","output_index":%d,"item":{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":"f%d","arguments":""}}`
	two := []llm.ToolCall{{ID: "call_0|fc_0", Name: "f0", Arguments: `{"a":1}`}, {ID: "call_1|fc_1", Name: "f1", Arguments: `{"b":2}`}}
	for _, c := range []struct {
		name   string
		events []string
		want   []llm.ToolCall
	}{
		{"interleaved", []string{
			fmt.Sprintf(added, 0, 0, 0, 0), fmt.Sprintf(added, 1, 1, 1, 1),
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":"{\"b\""}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_0","output_index":0,"delta":"{\"a\":1}"}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":":2}"}`,
			done,
		}, two},
		{"item id only", []string{
			fmt.Sprintf(added, 0, 0, 0, 0), fmt.Sprintf(added, 1, 1, 1, 1),
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"{\"b\":2}"}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_0","delta":"{\"a\":1}"}`,
			done,
		}, two},
		{"ids change between events", []string{
			fmt.Sprintf(added, 0, 0, 0, 0), fmt.Sprintf(added, 1, 1, 1, 1),
			`{"type":"response.function_call_arguments.delta","item_id":"x7","output_index":1,"delta":"{\"b\":2}"}`,
			`{"type":"response.function_call_arguments.delta","item_id":"x8","output_index":0,"delta":"{\"a\":1}"}`,
			done,
		}, two},
		{"every place is zero", []string{
			fmt.Sprintf(added, 0, 0, 0, 0),
			`{"type":"response.function_call_arguments.delta","item_id":"fc_0","output_index":0,"delta":"{\"a\":1}"}`,
			fmt.Sprintf(added, 0, 1, 1, 1),
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"{\"b\":2}"}`,
			done,
		}, two},
		{"done replaces the pieces", []string{
			fmt.Sprintf(added, 0, 0, 0, 0),
			`{"type":"response.function_call_arguments.delta","item_id":"fc_0","output_index":0,"delta":"{\"a\""}`,
			`{"type":"response.function_call_arguments.done","item_id":"fc_0","output_index":0,"arguments":"{\"a\":1}"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_0","call_id":"call_0","name":"f0","arguments":"{\"a\":1}"}}`,
			done,
		}, two[:1]},
		{"arguments as an object", []string{
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_0","call_id":"call_0","name":"f0","arguments":{"a":1}}}`,
			done,
		}, two[:1]},
		{"order of the places", []string{
			fmt.Sprintf(added, 1, 1, 1, 1), fmt.Sprintf(added, 0, 0, 0, 0),
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":"{\"b\":2}"}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_0","output_index":0,"delta":"{\"a\":1}"}`,
			done,
		}, two},
		{"nameless call", []string{
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_0","call_id":"call_0","name":"","arguments":"{}"}}`,
			done,
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, _ := response(t, c.events...)
			if d := cmp.Diff(c.want, r.Message.ToolCalls); d != "" {
				t.Errorf("calls (-want +got):\n%s", d)
			}
			if c.want != nil && r.Finish != llm.FinishToolCalls {
				t.Errorf("finish = %s, want tool_calls", r.Finish)
			}
		})
	}
}

// 69: what only the final output holds is used; what was streamed is not doubled.
func Test69OnlyInTheEnd(t *testing.T) {
	t.Parallel()
	final := `{"type":"response.completed","response":{"status":"completed","output":[
		{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}]},
		{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"so"}]},
		{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{}"}]}}`
	for name, events := range map[string][]string{
		"nothing before": {final},
		"text before": {
			`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"delta":"s"}`,
			final,
		},
		"all before": {
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1"}}`,
			`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"hm"}`,
			`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"so"}`,
			`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{}"}}`,
			final,
		},
		"ids differ in the end": {
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"other"}}`,
			`{"type":"response.output_text.delta","item_id":"other","output_index":1,"content_index":0,"delta":"so"}`,
			`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_9","call_id":"call_1","name":"f","arguments":"{}"}}`,
			final,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := response(t, events...)
			want := []llm.ToolCall{{ID: "call_1|fc_1", Name: "f", Arguments: "{}"}}
			if d := cmp.Diff(want, r.Message.ToolCalls); d != "" || w.Text != "so" || w.Reasoning != "hm" || r.Message.Reasoning != "hm" {
				t.Errorf("text %q, reasoning %q, calls (-want +got):\n%s", w.Text, w.Reasoning, d)
			}
			if r.Finish != llm.FinishToolCalls || !r.Usage.Estimated || r.Usage.Prompt == 0 {
				t.Errorf("finish %s, usage %+v", r.Finish, r.Usage)
			}
		})
	}
}

// 70: a refusal is said once, however often the server says it.
func Test70Refusal(t *testing.T) {
	t.Parallel()
	r, w := response(t,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1"}}`,
		`{"type":"response.refusal.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"I can"}`,
		`{"type":"response.refusal.done","item_id":"msg_1","output_index":0,"content_index":0,"refusal":"I cannot"}`,
		`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","id":"msg_1","content":[{"type":"refusal","refusal":"I cannot"}]}]}}`)
	if w.Text != "I cannot" || r.Finish != llm.FinishRefusal {
		t.Errorf("text %q, finish %s", w.Text, r.Finish)
	}
	r, w = response(t, `{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","id":"msg_1","content":[{"type":"refusal","refusal":"no"}]}]}}`)
	if w.Text != "no" || r.Finish != llm.FinishRefusal {
		t.Errorf("only in the end: text %q, finish %s", w.Text, r.Finish)
	}
	r, w = response(t, `{"type":"response.refusal.done","item_id":"msg_1","output_index":0,"content_index":0,"refusal":"no"}`, done)
	if w.Text != "no" || r.Finish != llm.FinishRefusal {
		t.Errorf("only done: text %q, finish %s", w.Text, r.Finish)
	}
}

// 71: incomplete answers say why.
func Test71Incomplete(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]llm.Finish{"max_output_tokens": llm.FinishLength, "content_filter": llm.FinishFilter} {
		r, w := response(t,
			`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"delta":"half"}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"c","name":"f"}}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":"{\"a\":"}`,
			`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"`+reason+`"},"output":[]}}`)
		if r.Finish != want || w.Text != "half" || len(r.Message.ToolCalls) != 1 || r.Message.ToolCalls[0].Arguments != `{"a":` {
			t.Errorf("%s: finish %s, text %q, calls %v", reason, r.Finish, w.Text, r.Message.ToolCalls)
		}
	}
	r, _ := response(t, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`)
	if r.Finish != llm.FinishLength {
		t.Errorf("nothing said: finish %s", r.Finish)
	}
}

// 72: failures keep the code and its class.
func Test72Failed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, event string
		kind        llm.Kind
		code        string
		retry       bool
	}{
		{"failed", `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`, llm.ServerError, "server_error", true},
		{"rate", `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 3s."}}}`, llm.RateLimited, "rate_limit_exceeded", true},
		{"prompt", `{"type":"response.failed","response":{"status":"failed","error":{"code":"invalid_prompt","message":"no"}}}`, llm.InvalidRequest, "invalid_prompt", false},
		{"length", `{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"too much"}}}`, llm.ContextLength, "context_length_exceeded", false},
		{"flat error", `{"type":"error","code":"server_error","message":"boom","param":null}`, llm.ServerError, "server_error", true},
		{"nested error", `{"type":"error","error":{"type":"server_error","code":"server_error","message":"boom"}}`, llm.ServerError, "server_error", true},
		{"gateway error", `{"error":{"message":"busy","code":"overloaded"}}`, llm.Overloaded, "overloaded", true},
		{"no reason", `{"type":"response.failed","response":{"status":"failed","error":null}}`, llm.ServerError, "server_error", true},
		{"cancelled", `{"type":"response.completed","response":{"status":"cancelled"}}`, llm.ServerError, "server_error", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := play(t, `{"type":"response.output_text.delta","output_index":0,"delta":"half"}`, c.event)
			e := failure(t, w)
			if e.Kind != c.kind || e.Code != c.code || e.Retryable() != c.retry || e.Provider != "fake" || w.Text != "half" {
				t.Errorf("error = %+v after %q", e, w.Text)
			}
			if c.name == "rate" && e.RetryAfter != 3*time.Second {
				t.Errorf("retry after %s", e.RetryAfter)
			}
		})
	}
}

// 73: parts of a summary stand on lines of their own.
func Test73Summary(t *testing.T) {
	t.Parallel()
	delta := func(i int, s string) string {
		return fmt.Sprintf(`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":%d,"delta":%q}`, i, s)
	}
	for _, c := range []struct {
		name   string
		events []string
		want   string
	}{
		{"joined", []string{delta(0, "one"), delta(1, "two")}, "one\ntwo"},
		{"space at the end", []string{delta(0, "one\n"), delta(1, "two")}, "one\ntwo"},
		{"space at the start", []string{delta(0, "one"), delta(1, " two")}, "one two"},
		{"one part", []string{delta(0, "one"), delta(0, "two")}, "onetwo"},
		{"repeated by done", []string{
			delta(0, "on"),
			`{"type":"response.reasoning_summary_text.done","item_id":"rs_1","output_index":0,"summary_index":0,"text":"one"}`,
			`{"type":"response.reasoning_summary_part.done","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"one"}}`,
			`{"type":"response.reasoning_summary_part.done","item_id":"rs_1","output_index":0,"summary_index":1,"part":{"type":"summary_text","text":"two"}}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"text":"one"},{"text":"two"},{"text":"three"}]}}`,
		}, "one\ntwo\nthree"},
		{"raw thinking", []string{
			`{"type":"response.reasoning_text.delta","item_id":"rs_1","output_index":0,"content_index":0,"delta":"th"}`,
			`{"type":"response.reasoning_text.done","item_id":"rs_1","output_index":0,"content_index":0,"text":"think"}`,
		}, "think"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, w := response(t, append(c.events, done)...)
			if w.Reasoning != c.want || r.Message.Reasoning != c.want || !r.Message.HasReasoning {
				t.Errorf("reasoning %q / %q, want %q", w.Reasoning, r.Message.Reasoning, c.want)
			}
		})
	}
}

// 74: a server that does not know the protocol; the circuit has a test of its own.
func Test74NotSupported(t *testing.T) {
	t.Parallel()
	for body, status := range map[string]int{
		`{"error":{"message":"responses not supported"}}`:                                             404,
		`{"error":{"message":"Unrecognized request argument supplied: instructions","type":"x"}}`:     400,
		`{"detail":[{"loc":["body","input"],"msg":"previous_response is missing","type":"missing"}]}`: 422,
	} {
		s := llmtest.NewServer(t)
		chat := &protocol{}
		m := responses.WithChat(model(t, s), chat, responses.ChatOptions{})
		for n := range 5 {
			if n < 3 {
				s.Add(llmtest.Answer{Status: status, Body: body})
			}
			if _, err := llm.Collect(t.Context(), m, ask()); err != nil {
				t.Errorf("%s: call %d: %v", body, n, err)
			}
		}
		if n := len(s.Requests()); n != 3 || chat.count() != 5 {
			t.Errorf("%s: %d requests and %d chat calls, want 3 and 5", body, n, chat.count())
		}
	}
}

// 75: a rate limit is not a reason to change the protocol.
func Test75RateLimit(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Answer{Status: 429, Body: `{"error":{"code":"rate_limit_exceeded","message":"responses are limited"}}`})
	chat := &protocol{}
	w := llmtest.Watch(t.Context(), t, responses.WithChat(model(t, s), chat, responses.ChatOptions{}), ask())
	if e := failure(t, w); e.Kind != llm.RateLimited || !e.Retryable() || chat.count() != 0 {
		t.Errorf("error = %+v, %d chat calls", e, chat.count())
	}
}

// Everything but a terminal event leaves the answer truncated.
func TestNoTerminalEvent(t *testing.T) {
	t.Parallel()
	item := `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}"}}`
	for _, events := range [][]string{{item}, {item, "[DONE]"}, {`{"type":"response.created","response":{"status":"in_progress"}}`}} {
		if e := failure(t, play(t, events...)); e.Kind != llm.StreamTruncated {
			t.Errorf("%v: error = %+v, want stream_truncated", events, e)
		}
	}
}

// Tools that the server runs are told about, once each; unknown events pass by.
func TestHostedTools(t *testing.T) {
	t.Parallel()
	ws := `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q","sources":[{"type":"url","url":"https://a.example/"},{"url":""}]}}`
	r, w := response(t,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"web_search_call","id":"ws_1"}}`,
		`{"type":"response.web_search_call.searching","item_id":"ws_1","output_index":0}`,
		`{"type":"response.output_item.done","output_index":0,"item":`+ws+`}`,
		`{"type":"response.output_text.annotation.added","item_id":"msg_1","output_index":1,"annotation":{"type":"url_citation"}}`,
		`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"delta":"found"}`,
		`{"type":"something.new","delta":{"x":1},"item":[1],"output_index":"x"}`,
		`{"type":"response.completed","response":{"status":"completed","output":[`+ws+`,{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"found"}]}]}}`)
	if w.Text != "found" || len(r.Message.ToolCalls) != 0 || r.Finish != llm.FinishStop {
		t.Errorf("response = %+v", r)
	}
	want := []llm.ToolPart{
		{ID: "ws_1", Name: "web_search", Phase: "start"},
		{ID: "ws_1", Name: "web_search", Phase: "end", Arguments: "q", Result: `[{"url":"https://a.example/"}]`},
	}
	if d := cmp.Diff(want, w.Hosted); d != "" {
		t.Errorf("hosted tools: %s", d)
	}
}

func TestTwoMessagesAreApart(t *testing.T) {
	t.Parallel()
	_, w := response(t,
		`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"delta":"one"}`,
		`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":1,"delta":"."}`,
		`{"type":"response.output_text.delta","item_id":"msg_2","output_index":1,"delta":"two"}`, done)
	if w.Text != "one.\n\ntwo" {
		t.Errorf("text %q", w.Text)
	}
}

// Servers that do not stream, and such that send no answer at all.
func TestBodies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		a    llmtest.Answer
		text string
		kind llm.Kind
	}{
		{"whole", llmtest.Answer{Body: `{"object":"response","status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}]}`}, "ok", ""},
		{"output_text", llmtest.Answer{Body: `{"object":"response","status":"completed","output_text":"ok"}`}, "ok", ""},
		{"untyped stream", llmtest.Answer{Body: "data: {\"type\":\"response.output_text.delta\",\"delta\":\"ok\"}\n\nevent: response.completed\ndata: {\"response\":{\"status\":\"completed\"}}\n\n", ContentType: "text/plain"}, "ok", ""},
		{"error in 200", llmtest.Answer{Body: `{"error":{"code":502,"message":"m"}}`}, "", llm.ServerError},
		{"failed in 200", llmtest.Answer{Body: `{"object":"response","status":"failed","error":{"code":"server_error","message":"m"}}`}, "", llm.ServerError},
		{"page", llmtest.Answer{Body: "<html><title>Login</title></html>", ContentType: "text/html"}, "", llm.ServerError},
		{"empty", llmtest.Answer{Body: " "}, "", llm.Empty},
		{"empty answer", llmtest.Answer{Events: []string{done}}, "", llm.Empty},
		{"garbage", llmtest.Answer{Events: []string{"x", "y", "z", "{"}}, "", llm.ServerError},
		{"some garbage", llmtest.Answer{Events: []string{"x", `{"type":"response.output_text.delta","delta":"ok"}`, done}}, "ok", ""},
		{"truncated gzip", llmtest.Answer{Header: http.Header{"Content-Encoding": {"gzip"}}, ContentType: "text/event-stream", Body: "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"}, "", llm.StreamTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t, c.a)
			w := llmtest.Watch(t.Context(), t, model(t, s), ask())
			if c.kind == "" {
				if w.Err != nil || w.Text != c.text {
					t.Errorf("text %q, error %v", w.Text, w.Err)
				}
				return
			}
			if e := failure(t, w); e.Kind != c.kind || strings.Contains(e.Message, "<") {
				t.Errorf("error = %+v, want %s", e, c.kind)
			}
		})
	}
}
