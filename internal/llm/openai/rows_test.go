package openai_test

import (
	"context"
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
	"github.com/nanobot-go/nanobot/internal/llm/openai"
)

func request(tools ...string) llm.Request {
	req := llm.Request{Model: "m", MaxTokens: 100, Messages: []llm.Message{{Role: llm.User, Content: llm.Text("hi")}}}
	for _, name := range tools {
		req.Tools = append(req.Tools, llm.ToolDef{Name: name, Schema: json.RawMessage(`{"type":"object"}`)})
	}
	return req
}

// message wraps a message as a reply that is not streamed.
func message(finish, msg string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"finish_reason":%q,"message":%s}]}`, finish, msg)
}

// call is a message with one tool call whose arguments are raw JSON.
func call(args string) string {
	return fmt.Sprintf(`{"content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":%s}}]}`, args)
}

func piece(delta string) string {
	return `{"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

func end(finish string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, finish)
}

// outcome is what a row expects. Calls are "name arguments"; ids is "id" per
// call, "?" for a generated one of nine characters.
type outcome struct {
	text, reasoning string
	calls, ids      []string
	finish          llm.Finish
	usage           llm.Usage
	kind            llm.Kind
	status          int
	noReasoning     bool // reasoning is absent, not empty
	runs            error
}

// row is a conformance case; its name begins with its number.
type row struct {
	name   string
	answer llmtest.Answer
	row    llm.Row
	want   outcome
	check  func(t *testing.T, w llmtest.Watched)
}

func (r row) run(t *testing.T) {
	t.Helper()
	s := llmtest.NewServer(t, r.answer)
	m := model(t, s, func(o *openai.Options) { o.Row = r.row; o.Row.Name = "" })
	w := llmtest.Watch(t.Context(), t, m, request("f", "g"))
	if r.want.kind != "" {
		e, ok := errors.AsType[*llm.Error](w.Err)
		if !ok || e.Kind != r.want.kind || r.want.status != 0 && e.Status != r.want.status {
			t.Fatalf("error = %+v (%v), want kind %s", e, w.Err, r.want.kind)
		}
		if w.Text != r.want.text {
			t.Errorf("partial text %q, want %q", w.Text, r.want.text)
		}
	} else {
		compare(t, w, r.want)
	}
	if r.check != nil {
		r.check(t, w)
	}
}

func compare(t *testing.T, w llmtest.Watched, want outcome) {
	t.Helper()
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	msg := w.Response.Message
	if w.Text != want.text || msg.Reasoning != want.reasoning || w.Response.Finish != want.finish {
		t.Errorf("text %q, reasoning %q, finish %s; want %q, %q, %s", w.Text, msg.Reasoning, w.Response.Finish, want.text, want.reasoning, want.finish)
	}
	if want.noReasoning && msg.HasReasoning {
		t.Error("reasoning is present, want absent")
	}
	var calls, ids []string
	seen := map[string]bool{}
	for i, c := range msg.ToolCalls {
		args := c.Arguments
		parsed, err := llm.ParseArguments(args)
		if !errors.Is(err, want.runs) {
			t.Errorf("ParseArguments(%q): %v, want %v", args, err, want.runs)
		}
		if err == nil {
			args = string(parsed)
		}
		calls = append(calls, c.Name+" "+args)
		id := c.ID
		if i < len(want.ids) && want.ids[i] == "?" && len(id) == 9 && !seen[id] {
			id = "?"
		}
		seen[c.ID] = true
		ids = append(ids, id)
	}
	if d := cmp.Diff(want.calls, calls); d != "" {
		t.Errorf("calls differ: %s", d)
	}
	if d := cmp.Diff(want.ids, ids); want.ids != nil && d != "" {
		t.Errorf("ids differ: %s", d)
	}
	if want.usage != (llm.Usage{}) && w.Response.Usage != want.usage {
		t.Errorf("usage %+v, want %+v", w.Response.Usage, want.usage)
	}
}

func reply(body string) llmtest.Answer { return llmtest.Answer{Body: body} }

func stream(events ...string) llmtest.Answer { return llmtest.Answer{Events: events} }

func replyRows() []row {
	stop, tools := llm.FinishStop, llm.FinishToolCalls
	usage := func(u string) llmtest.Answer {
		return reply(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],"usage":` + u + `}`)
	}
	return []row{
		{
			name: "1 text and usage", answer: usage(`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`),
			want: outcome{text: "ok", finish: stop, usage: llm.Usage{Prompt: 10, Completion: 5}, noReasoning: true},
		},
		{
			name: "2 arguments as string", answer: reply(message("tool_calls", call(`"{\"p\":1}"`))),
			want: outcome{calls: []string{`f {"p":1}`}, ids: []string{"call_1"}, finish: tools},
		},
		{
			name: "3 arguments as object", answer: reply(message("tool_calls", call(`{"p":1}`))),
			want: outcome{calls: []string{`f {"p":1}`}, finish: tools},
		},
		{name: "4a arguments empty", answer: reply(message("tool_calls", call(`""`))), want: outcome{calls: []string{`f {}`}, finish: tools}},
		{name: "4b arguments null", answer: reply(message("tool_calls", call(`null`))), want: outcome{calls: []string{`f {}`}, finish: tools}},
		{
			name: "4c arguments missing", answer: reply(message("tool_calls", `{"tool_calls":[{"id":"x","function":{"name":"f"}}]}`)),
			want: outcome{calls: []string{`f {}`}, finish: tools},
		},
		{
			name: "5 arguments cut", answer: reply(message("tool_calls", call(`"{\"p\":"`))),
			want: outcome{calls: []string{`f {"p":`}, finish: llm.FinishLength, runs: llm.ErrArgumentsCut},
		},
		{
			name: "6 arguments are a list", answer: reply(message("tool_calls", call(`"[1]"`))),
			want: outcome{calls: []string{`f [1]`}, finish: tools, runs: llm.ErrArgumentsShape},
		},
		{
			name: "7 encoded twice", answer: reply(message("tool_calls", call(`"\"{\\\"p\\\":1}\""`))),
			want: outcome{calls: []string{`f {"p":1}`}, finish: tools},
		},
		{
			name: "8 no ids", answer: reply(message("tool_calls", `{"tool_calls":[{"function":{"name":"f"}},{"function":{"name":"g"}}]}`)),
			want: outcome{calls: []string{`f {}`, `g {}`}, ids: []string{"?", "?"}, finish: tools},
		},
		{
			name: "9 equal ids", answer: reply(message("tool_calls", `{"tool_calls":[{"id":"a","index":0,"function":{"name":"f"}},{"id":"a","index":1,"function":{"name":"g"}}]}`)),
			want: outcome{calls: []string{`f {}`, `g {}`}, ids: []string{"a", "?"}, finish: tools},
		},
		{
			name: "10 empty name", answer: reply(message("tool_calls", `{"content":"t","tool_calls":[{"id":"a","function":{"name":"","arguments":"{}"}}]}`)),
			want: outcome{text: "t", finish: tools},
		},
		{name: "11 choices null", answer: reply(`{"choices":null,"content":"x"}`), want: outcome{text: "x", finish: stop}},
		{name: "11b output_text", answer: reply(`{"choices":[],"output_text":"x"}`), want: outcome{text: "x", finish: stop}},
		{name: "12 choices empty", answer: reply(`{"choices":[]}`), want: outcome{kind: llm.Empty}},
		{name: "13 JSON string", answer: reply(`"plain"`), want: outcome{text: "plain", finish: stop}},
		{name: "13b plain text", answer: llmtest.Answer{Body: "plain", ContentType: "text/plain"}, want: outcome{text: "plain", finish: stop}},
		{
			name: "14 content blocks", answer: reply(message("stop", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`)),
			want: outcome{text: "ab", finish: stop},
		},
		{
			name: "15 thinking block", answer: reply(message("stop", `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"type":"text","text":"a"}]}`)),
			want: outcome{text: "a", reasoning: "t", finish: stop},
		},
		{
			name: "16 calls in several choices", want: outcome{text: "one", calls: []string{`f {}`, `g {}`}, finish: tools},
			answer: reply(`{"choices":[{"index":0,"message":{"content":"one","tool_calls":[{"id":"a","function":{"name":"f"}}]},"finish_reason":"tool_calls"},
				{"index":1,"message":{"content":"two","tool_calls":[{"id":"b","function":{"name":"g"}}]},"finish_reason":"tool_calls"}]}`),
		},
		{
			name: "17 function_call", answer: reply(message("function_call", `{"content":null,"function_call":{"name":"f","arguments":"{\"p\":1}"}}`)),
			want: outcome{calls: []string{`f {"p":1}`}, ids: []string{"?"}, finish: tools},
		},
		{name: "18 refusal", answer: reply(message("stop", `{"content":null,"refusal":"no"}`)), want: outcome{text: "no", finish: llm.FinishRefusal}},
		{name: "19 filtered call", answer: reply(message("content_filter", call(`"{}"`))), want: outcome{calls: []string{"f {}"}, finish: llm.FinishFilter}},
		{
			name: "20 empty reasoning", answer: reply(message("stop", `{"content":"a","reasoning_content":""}`)), want: outcome{text: "a", finish: stop},
			check: func(t *testing.T, w llmtest.Watched) {
				if !w.Response.Message.HasReasoning {
					t.Error("empty reasoning became absent")
				}
			},
		},
		{
			name: "21a reasoning is the answer", row: llm.Row{ReasoningAsContent: true}, answer: reply(message("stop", `{"content":null,"reasoning":"r"}`)),
			want: outcome{text: "r", finish: stop, noReasoning: true},
		},
		{name: "21b reasoning is reasoning", answer: reply(message("stop", `{"content":null,"reasoning":"r"}`)), want: outcome{reasoning: "r", finish: stop}},
		{
			name: "22 call as text", answer: reply(message("stop", `{"content":"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> hi"}`)),
			want: outcome{text: "hi", calls: []string{"f {}"}, ids: []string{"?"}, finish: tools},
		},
		{
			name: "23 call in a fence", answer: reply(message("stop", "{\"content\":\"```\\n<tool_call>{\\\"name\\\":\\\"f\\\"}</tool_call>\\n```\"}")),
			want: outcome{text: "```\n<tool_call>{\"name\":\"f\"}</tool_call>\n```", finish: stop},
		},
		{
			name: "24 error in a 200", answer: reply(`{"error":{"code":502,"message":"m"}}`), want: outcome{kind: llm.ServerError, status: 502},
			check: func(t *testing.T, w llmtest.Watched) {
				if !llm.AsError(w.Err).Retryable() {
					t.Error("not retryable")
				}
			},
		},
		{
			name: "25 web page", answer: llmtest.Answer{ContentType: "text/html", Body: "<html><body>Login</body></html>"}, want: outcome{kind: llm.ServerError},
			check: func(t *testing.T, w llmtest.Watched) {
				if strings.Contains(w.Err.Error(), "<") || strings.Contains(w.Err.Error(), "Login") {
					t.Errorf("HTML is shown: %v", w.Err)
				}
			},
		},
		{
			name: "26 cached tokens twice", answer: usage(`{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":7},"cached_tokens":3}`),
			want: outcome{text: "ok", finish: stop, usage: llm.Usage{Prompt: 10, Completion: 1, Cached: 7}},
		},
		{
			name: "27 cache hits", answer: usage(`{"prompt_tokens":10,"completion_tokens":1,"prompt_cache_hit_tokens":4}`),
			want: outcome{text: "ok", finish: stop, usage: llm.Usage{Prompt: 10, Completion: 1, Cached: 4}},
		},
		{
			name: "27b reasoning and cost", answer: usage(`{"prompt_tokens":10.0,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":3},"cost":0.25}`),
			want: outcome{text: "ok", finish: stop, usage: llm.Usage{Prompt: 10, Completion: 5, Reasoning: 3, Cost: 0.25}},
		},
		{
			name: "28 length with cut call", answer: reply(message("length", call(`"{\"p\":\"x"`))),
			want: outcome{calls: []string{`f {"p":"x`}, finish: llm.FinishLength, runs: llm.ErrArgumentsCut},
		},
	}
}

func streamRows() []row {
	stop, tools := llm.FinishStop, llm.FinishToolCalls
	tc := func(index, rest string) string {
		if index != "" {
			rest = `"index":` + index + `,` + rest
		}
		return piece(`{"tool_calls":[{` + rest + `}]}`)
	}
	fn := func(args string) string { return fmt.Sprintf(`"function":{"arguments":%s}`, args) }
	named := func(id, name, args string) string {
		return fmt.Sprintf(`"id":%q,"function":{"name":%q,"arguments":%s}`, id, name, args)
	}
	raw := func(s string) llmtest.Answer { return llmtest.Answer{ContentType: "text/event-stream", Body: s} }
	return []row{
		{
			name: "29 text", answer: stream(piece(`{"role":"assistant","content":"he"}`), piece(`{"content":"llo"}`), end("stop"),
				`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, "[DONE]"),
			want: outcome{text: "hello", finish: stop, usage: llm.Usage{Prompt: 3, Completion: 2}},
		},
		{
			name: "30 call in pieces", answer: stream(tc("0", named("a", "f", `""`)), tc("0", fn(`"{\"p\""`)), tc("0", fn(`":"`)), tc("0", fn(`"1}"`)), end("tool_calls"), "[DONE]"),
			want: outcome{calls: []string{`f {"p":1}`}, ids: []string{"a"}, finish: tools},
		},
		{
			name: "31 interleaved", answer: stream(tc("0", named("a", "f", `"{\"p"`)), tc("1", named("b", "g", `"{\"q"`)), tc("0", fn(`"\":1}"`)), tc("1", fn(`"\":2}"`)), end("tool_calls")),
			want: outcome{calls: []string{`f {"p":1}`, `g {"q":2}`}, finish: tools},
		},
		{
			name: "32 both at index 0", answer: stream(tc("0", named("a", "f", `"{\"p\":1}"`)), tc("0", named("b", "f", `"{\"p\":2}"`)), end("tool_calls")),
			want: outcome{calls: []string{`f {"p":1}`, `f {"p":2}`}, ids: []string{"a", "b"}, finish: tools},
		},
		{
			name: "32b both at index 0 without ids", answer: stream(tc("0", `"function":{"name":"f","arguments":"{\"p\":1}"}`), tc("0", `"function":{"name":"f","arguments":"{\"p\":2}"}`), end("tool_calls")),
			want: outcome{calls: []string{`f {"p":1}`, `f {"p":2}`}, ids: []string{"?", "?"}, finish: tools},
		},
		{
			name: "32c second name at index 0", answer: stream(tc("0", `"function":{"name":"f","arguments":"{}"}`), tc("0", `"function":{"name":"g","arguments":"{}"}`), end("tool_calls")),
			want: outcome{calls: []string{`f {}`, `g {}`}, finish: tools},
		},
		{
			name: "32d both at index 0, the first without arguments", answer: stream(tc("0", named("a", "f", `""`)), tc("0", named("b", "f", `"{\"p\":2}"`)), end("tool_calls")),
			want: outcome{calls: []string{`f {}`, `f {"p":2}`}, ids: []string{"a", "b"}, finish: tools},
		},
		{
			name: "35b two objects at index 0", answer: stream(tc("0", `"function":{"name":"f","arguments":{"p":1}}`), tc("0", `"function":{"name":"f","arguments":{"p":2}}`), end("tool_calls")),
			want: outcome{calls: []string{`f {"p":1}`, `f {"p":2}`}, finish: tools},
		},
		{
			name: "33 sparse indexes", answer: stream(tc("1", named("a", "f", `"{}"`)), tc("3", named("b", "g", `"{}"`)), end("tool_calls")),
			want: outcome{calls: []string{`f {}`, `g {}`}, finish: tools},
		},
		{
			name: "34 no index", answer: stream(tc("", named("a", "f", `"{\"p"`)), tc("", fn(`"\":1}"`)), end("tool_calls")),
			want: outcome{calls: []string{`f {"p":1}`}, finish: tools},
		},
		{
			name: "34b no index, two calls", answer: stream(tc("", named("a", "f", `"{\"p"`)), tc("", fn(`"\":1}"`)), tc("", named("b", "g", `"{"`)), tc("", fn(`"}"`)), end("tool_calls")),
			want: outcome{calls: []string{`f {"p":1}`, `g {}`}, finish: tools},
		},
		{name: "35 object arguments", answer: stream(tc("0", named("a", "f", `{"p":1}`)), end("tool_calls")), want: outcome{calls: []string{`f {"p":1}`}, finish: tools}},
		{
			name: "36 name repeated", answer: stream(tc("0", named("a", "f", `"{\"p"`)), tc("0", named("a", "f", `"\":"`)), tc("0", named("", "f", `"1}"`)), end("tool_calls")),
			want: outcome{calls: []string{`f {"p":1}`}, finish: tools},
		},
		{
			name: "37 function_call", answer: stream(piece(`{"function_call":{"name":"f","arguments":"{\"p"}}`), piece(`{"function_call":{"arguments":"\":1}"}}`), end("function_call")),
			want: outcome{calls: []string{`f {"p":1}`}, finish: tools},
		},
		{
			name: "38 reasoning then text", answer: stream(piece(`{"reasoning_content":"th"}`), piece(`{"reasoning_content":"ink"}`), piece(`{"content":"say","reasoning_content":null}`), end("stop")),
			want: outcome{text: "say", reasoning: "think", finish: stop},
			check: func(t *testing.T, w llmtest.Watched) {
				if w.Reasoning != "think" {
					t.Errorf("reasoning deltas %q", w.Reasoning)
				}
			},
		},
		{
			name: "40 line ends, BOM, split data", answer: raw("\xEF\xBB\xBF: hello\r\ndata:" + piece(`{"content":"a"}`) + "\r\n\r\nevent: x\rdata: {\"choices\":[{\"index\":0,\rdata: \"delta\":{\"content\":\"b\"}}]}\r\rdata: " + end("stop") + "\n\ndata:[DONE]\n\n"),
			want: outcome{text: "ab", finish: stop},
		},
		{name: "41 long line", answer: stream(piece(`{"content":"`+strings.Repeat("x", 2<<20)+`"}`), end("stop")), want: outcome{text: strings.Repeat("x", 2<<20), finish: stop}},
		{name: "42 error after text", answer: stream(piece(`{"content":"a"}`), `{"error":{"message":"m","code":"server_error"}}`), want: outcome{text: "a", kind: llm.ServerError}},
		{name: "43 error object first", answer: stream(`{"object":"error","message":"m","code":50001,"type":"internal_server_error"}`), want: outcome{kind: llm.ServerError}},
		{name: "44 finish error", answer: stream(piece(`{"content":"a"}`), end("error")), want: outcome{text: "a", kind: llm.ServerError}},
		{
			name: "44b error in the choice", answer: stream(`{"choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":429,"message":"slow"}}]}`),
			want: outcome{kind: llm.RateLimited, status: 429},
		},
		{name: "45a close without finish", answer: stream(piece(`{"content":"a"}`)), want: outcome{text: "a", kind: llm.StreamTruncated}},
		{name: "45b broken connection", answer: llmtest.Answer{Events: []string{piece(`{"content":"a"}`)}, Abort: true}, want: outcome{text: "a", kind: llm.StreamTruncated}},
		{name: "46 no DONE", answer: stream(piece(`{"content":"a"}`), end("stop")), want: outcome{text: "a", finish: stop}},
		{name: "46b broken after finish", answer: llmtest.Answer{Events: []string{piece(`{"content":"a"}`), end("stop")}, Abort: true}, want: outcome{text: "a", finish: stop}},
		{name: "46c DONE without finish", answer: stream(piece(`{"content":"a"}`), "[DONE]"), want: outcome{text: "a", finish: stop}},
		{
			name: "48 usage on every chunk", answer: stream(`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`,
				`{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`,
				`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}`, "[DONE]"),
			want: outcome{text: "ab", finish: stop, usage: llm.Usage{Prompt: 5, Completion: 3}},
		},
		{
			name: "49 deltas without content", answer: stream(`{"choices":[{"index":0,"delta":null}]}`, piece(`{}`), piece(`{"role":"assistant"}`), piece(`{"tool_calls":[],"content":null}`), piece(`{"content":"a"}`), end("stop")),
			want: outcome{text: "a", finish: stop},
		},
		{name: "50 stop with calls", answer: stream(tc("0", named("a", "f", `"{}"`)), end("stop")), want: outcome{calls: []string{"f {}"}, finish: tools}},
		{name: "52 JSON reply", answer: reply(message("stop", `{"content":"a"}`)), want: outcome{text: "a", finish: stop}},
		{
			name: "52b stream with a JSON type", answer: llmtest.Answer{ContentType: "application/json", Body: "data: " + piece(`{"content":"a"}`) + "\n\ndata: " + end("stop") + "\n\n"},
			want: outcome{text: "a", finish: stop},
		},
		{name: "undecodable events", answer: stream(`{oops`, `{"choices":`, piece(`{"content":"a"}`), end("stop")), want: outcome{text: "a", finish: stop}},
		{name: "only undecodable events", answer: stream(`{`, `{`, `{`, `{`, `{`), want: outcome{kind: llm.ServerError}},
		{
			name: "unexpected types", answer: stream(`{"id":7,"created":"x","choices":[{"index":"0","delta":{"content":"a","role":1,"tool_calls":"none"},"finish_reason":7}]}`, end("stop")),
			want: outcome{text: "a", finish: stop},
		},
		{name: "other candidates", answer: stream(`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`, end("stop")), want: outcome{text: "a", finish: stop}},
		{
			name: "all tokens thought away", answer: stream(piece(`{"reasoning":"long"}`), end("stop"), `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":100}}`),
			want: outcome{reasoning: "long", finish: llm.FinishLength},
		},
		{
			name: "call as text in pieces", answer: stream(piece(`{"content":"Let me see. <tool"}`), piece(`{"content":"_call>{\"name\":\"f\","}`), piece(`{"content":"\"arguments\":{\"p\":1}}</tool_call>"}`), end("stop")),
			want: outcome{text: "Let me see. ", calls: []string{`f {"p":1}`}, finish: tools},
		},
		{name: "empty stream", answer: stream("[DONE]"), want: outcome{kind: llm.Empty}},
	}
}

func TestRows(t *testing.T) {
	t.Parallel()
	for _, r := range append(replyRows(), streamRows()...) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.run(t)
		})
	}
}

// TestRow39 keeps a stream alive with comments for longer than the idle time.
func TestRow39(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Answer{Handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range 15 {
			_, _ = w.Write([]byte(": OPENROUTER PROCESSING\n\n"))
			_ = rc.Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", piece(`{"content":"a"}`), end("stop"))
	}})
	m := model(t, s, func(o *openai.Options) { o.IdleTimeout = 200 * time.Millisecond })
	if w := llmtest.Watch(t.Context(), t, m, request()); w.Err != nil || w.Text != "a" {
		t.Errorf("text %q, error %v", w.Text, w.Err)
	}
}

// TestRow47: silence after text is a timeout; the retry layer starts over.
func TestRow47(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t,
		llmtest.Answer{Events: []string{piece(`{"content":"half"}`)}, Hold: make(chan struct{})},
		stream(piece(`{"content":"whole"}`), end("stop"), "[DONE]"))
	m := llm.Retry(model(t, s, func(o *openai.Options) { o.IdleTimeout = 50 * time.Millisecond }), llm.RetryOptions{Rand: func() float64 { return 0 }})
	var kinds []llm.EventKind
	text := ""
	for ev, err := range m.Stream(t.Context(), request()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == llm.Restarted {
			text = ""
		}
		text += map[bool]string{true: ev.Text}[ev.Kind == llm.TextDelta]
		kinds = append(kinds, ev.Kind)
	}
	want := []llm.EventKind{llm.TextDelta, llm.Waiting, llm.Restarted, llm.TextDelta, llm.Done}
	if d := cmp.Diff(want, kinds); d != "" || text != "whole" {
		t.Errorf("text %q, events differ: %s", text, d)
	}
}

// TestRow51: what a vendor attaches to a call is stored and sent back verbatim.
func TestRow51(t *testing.T) {
	t.Parallel()
	extra := `{"google":{"thought_signature":"c2ln"}}`
	s := llmtest.NewServer(t,
		stream(piece(`{"tool_calls":[{"index":0,"id":"a","extra_content":`+extra+`,"function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}`), end("tool_calls"), "[DONE]"),
		stream(piece(`{"content":"ok"}`), end("stop"), "[DONE]"))
	m := model(t, s)
	req := request("f", "g")
	req.Model = "gemini-3-pro"
	first, err := llm.Collect(t.Context(), m, req)
	if err != nil {
		t.Fatal(err)
	}
	stored, _ := json.Marshal(first.Message)
	var back llm.Message
	if err := json.Unmarshal(stored, &back); err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, back,
		llm.Message{Role: llm.ToolRole, ToolCallID: "a", Name: "f", Content: llm.Text("1")}, llm.Message{Role: llm.ToolRole, ToolCallID: "b", Name: "g", Content: llm.Text("2")})
	if _, err := llm.Collect(t.Context(), m, req); err != nil {
		t.Fatal(err)
	}
	body := string(s.Requests()[1].Body)
	if strings.Count(body, extra) != 1 || strings.Contains(body, "skip_thought") {
		t.Errorf("second request does not carry the signature once: %s", body)
	}
}

// TestRow53 is in the conformance suite ("cancel"); here the context ends
// before the headers arrive.
func TestRow53(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Answer{Gate: make(chan struct{})})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	w := llmtest.Watch(ctx, t, model(t, s), request())
	if !errors.Is(w.Err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the context's", w.Err)
	}
	s.AwaitGone(1)
}
