package openai_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

func user(s string) llm.Message { return llm.Message{Role: llm.User, Content: llm.Text(s)} }

// sent makes one request and returns its body.
func sent(t *testing.T, req llm.Request, change ...func(*openai.Options)) string {
	t.Helper()
	s := llmtest.NewServer(t)
	s.Lenient = true // vendor fields are judged here
	s.Say(llmtest.StreamReply{Text: []string{"ok"}})
	_, _ = llm.Collect(t.Context(), model(t, s, change...), req)
	return string(s.Requests()[0].Body)
}

func quirks(r wire.Quirks) func(*openai.Options) { return func(o *openai.Options) { o.Quirks = r } }

func brand(t *testing.T, name string) func(*openai.Options) {
	t.Helper()
	row, ok := catalog.Lookup(name)
	if !ok {
		t.Fatalf("no row %s", name)
	}
	return func(o *openai.Options) { o.Quirks, o.Local = row.Quirks, row.Local }
}

func TestRequestBytes(t *testing.T) {
	t.Parallel()
	temp := 0.1
	req := llm.Request{
		Model: "m", System: "be <b>brief</b>", MaxTokens: 50, Temperature: &temp, ToolChoice: "auto", SessionKey: "telegram:42",
		Tools:    []llm.ToolDef{{Name: "f", Description: "does f", Schema: json.RawMessage(`{"type":"object"}`)}},
		Messages: []llm.Message{user("hi")},
	}
	got := sent(t, req)
	want := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":50,"temperature":0.1,"tool_choice":"auto",` +
		`"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object"}}}],` +
		`"messages":[{"role":"system","content":"be <b>brief</b>"},{"role":"user","content":"hi"}]}`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("request differs: %s", d)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t)
	s.Say(llmtest.StreamReply{Text: []string{"ok"}}, llmtest.StreamReply{Text: []string{"ok"}})
	m := model(t, s, brand(t, "openrouter"), func(o *openai.Options) {
		o.Headers = map[string]httpsafe.Secret{"User-Agent": httpsafe.NewSecret("mine"), "X-Extra": httpsafe.NewSecret("e")}
		o.ExtraQuery = map[string]string{"api-version": "1"}
		o.Key = httpsafe.Secret{}
	})
	for range 2 {
		if _, err := llm.Collect(t.Context(), m, request()); err != nil {
			t.Fatal(err)
		}
	}
	h := s.Requests()[0].Header
	for k, want := range map[string]string{
		"Authorization": "Bearer no-key", "User-Agent": "mine", "X-Extra": "e", "X-Openrouter-Title": "nanobot", "Content-Type": "application/json",
	} {
		if got := h.Get(k); got != want {
			t.Errorf("%s = %q, want %q", k, got, want)
		}
	}
	if a, b := h.Get("X-Session-Affinity"), s.Requests()[1].Header.Get("X-Session-Affinity"); a == "" || a != b {
		t.Errorf("affinity %q, then %q", a, b)
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, model, effort, row string
		has, lacks               []string
	}{
		{"plain", "m", "", "custom", []string{`"max_tokens":100`, `"temperature":0.5`}, []string{"reasoning", "thinking"}},
		{"effort", "m", "high", "custom", []string{`"reasoning_effort":"high"`}, []string{"temperature"}},
		{"effort none", "m", "none", "custom", []string{`"temperature":0.5`}, []string{"reasoning_effort"}},
		{"openai", "gpt-4o", "", "openai", []string{`"max_completion_tokens":100`, `"temperature":0.5`, `"prompt_cache_key":"`, `"role":"system"`}, []string{`"max_tokens"`, "telegram"}},
		{"gpt-5", "openai/gpt-5-mini", "", "custom", []string{`"max_completion_tokens":100`}, []string{"temperature", "prompt_cache_key"}},
		{"o3", "o3-mini", "", "openai", []string{`"role":"developer"`}, []string{"temperature", `"role":"system"`}},
		{"pro3 is not o3", "mimo3-pro3", "", "custom", []string{`"temperature":0.5`, `"max_tokens"`}, nil},
		{"deepseek on", "deepseek-chat", "medium", "deepseek", []string{`"thinking":{"type":"enabled"}`, `"reasoning_effort":"medium"`}, nil},
		{"deepseek off", "deepseek-chat", "minimal", "deepseek", []string{`"thinking":{"type":"disabled"}`}, nil},
		{"dashscope", "qwen3.5-plus", "minimal", "dashscope", []string{`"enable_thinking":false`, `"reasoning_effort":"minimum"`}, nil},
		{"moonshot fixed", "kimi-k2.5", "", "moonshot", nil, []string{"temperature"}},
		{"moonshot one", "kimi-k2.7", "", "moonshot", []string{`"temperature":1,`}, nil},
		{"kimi thinks by switch", "kimi-k2.5", "high", "moonshot", []string{`"thinking":{"type":"enabled"}`}, []string{"reasoning_effort"}},
		{"kimi code always thinks", "kimi-k2.7-code", "none", "moonshot", nil, []string{`"disabled"`}},
		{"kimi-k3", "kimi-k3", "low", "moonshot", []string{`"reasoning_effort":"max"`, `"max_completion_tokens"`}, nil},
		{"mistral high", "mistral-large", "medium", "mistral", []string{`"reasoning_effort":"high"`}, nil},
		{"mistral low", "mistral-large", "low", "mistral", nil, []string{"reasoning_effort"}},
		{"magistral", "magistral-medium", "high", "mistral", nil, []string{"reasoning_effort"}},
		{"openrouter model with a switch", "qwen/qwen3.6-plus", "low", "openrouter", []string{`"reasoning":{"effort":"low"}`}, []string{"reasoning_effort", "enable_thinking"}},
		{"openrouter other model", "openai/gpt-5", "low", "openrouter", []string{`"reasoning_effort":"low"`}, nil},
		{"zhipu", "glm-4.6", "", "zhipu", []string{`"tool_stream":true`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			temp := 0.5
			req := request("f")
			req.Model, req.Effort, req.Temperature, req.System, req.SessionKey = c.model, c.effort, &temp, "s", "telegram:42"
			got := sent(t, req, brand(t, c.row))
			for _, w := range c.has {
				if !strings.Contains(got, w) {
					t.Errorf("no %s in %s", w, got)
				}
			}
			for _, w := range c.lacks {
				if strings.Contains(got, w) {
					t.Errorf("%s in %s", w, got)
				}
			}
		})
	}
}

// TestRow84: a refused parameter is left out at once, and from then on.
func TestRow84(t *testing.T) {
	t.Parallel()
	refuse := func(name, message string) llmtest.Answer {
		param := "null"
		if name == "stream" {
			param = `"stream"` // the word alone is too common to be found in a text
		}
		return llmtest.Answer{Status: 400, Body: `{"error":{"message":` + string(text.AppendJSON(nil, message)) + `,"param":` + param + `}}`}
	}
	for _, c := range []struct {
		name, text  string
		gone, there string
	}{
		{"stream_options", "Unrecognized request argument supplied: stream_options", `"stream_options"`, ""},
		{"stream", "Unsupported parameter: stream (use false)", `"stream"`, ""},
		{"temperature", "Unsupported value: 'temperature' does not support 0.5 with this model", `"temperature"`, ""},
		{"max_tokens", "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.", `"max_tokens"`, `"max_completion_tokens"`},
		{"tool_choice", "tool_choice is not supported", `"tool_choice"`, ""},
		{"reasoning_content", "property 'reasoning_content' is unsupported", `"reasoning_content"`, ""},
		{"missing reasoning", "Missing `reasoning_content` field in the assistant message at index 3", "", `"content":"b","reasoning_content":""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t, refuse(c.name, c.text))
			if c.name == "stream" {
				s.Add(reply(message("stop", `{"content":"ok"}`)), reply(message("stop", `{"content":"ok"}`)))
			} else {
				s.Say(llmtest.StreamReply{Text: []string{"ok"}}, llmtest.StreamReply{Text: []string{"ok"}})
			}
			if c.name == "stream" {
				s.Lenient = true
			}
			temp := 0.5
			req := request("f")
			req.Temperature, req.ToolChoice = &temp, "auto"
			req.Messages = []llm.Message{user("a"), {Role: llm.Assistant, Content: llm.Text("x"), Reasoning: "r", HasReasoning: true}, user("b"), {Role: llm.Assistant, Content: llm.Text("b")}, user("c")}
			m := model(t, s)
			for range 2 {
				if w := llmtest.Watch(t.Context(), t, m, req); w.Err != nil || w.Text != "ok" {
					t.Fatalf("text %q, error %v", w.Text, w.Err)
				}
			}
			reqs := s.Requests()
			if len(reqs) != 3 {
				t.Fatalf("%d requests, want 3: refused, repeated, remembered", len(reqs))
			}
			for i, r := range reqs[1:] {
				if c.gone != "" && strings.Contains(string(r.Body), c.gone+":") {
					t.Errorf("request %d still has %s", i+2, c.gone)
				}
				if c.there != "" && !strings.Contains(string(r.Body), c.there) {
					t.Errorf("request %d has no %s: %s", i+2, c.there, r.Body)
				}
			}
		})
	}
}

func TestRefusalOfNecessaryParameterIsReported(t *testing.T) {
	t.Parallel()
	no := llmtest.Answer{Status: 400, Body: `{"error":{"message":"stream_options is not supported"}}`}
	s := llmtest.NewServer(t, no, no)
	w := llmtest.Watch(t.Context(), t, model(t, s), request())
	if e, ok := errors.AsType[*llm.Error](w.Err); !ok || e.Kind != llm.UnsupportedParam || len(s.Requests()) != 2 {
		t.Errorf("error %v after %d requests, want unsupported_param after 2", w.Err, len(s.Requests()))
	}
}

func TestExtraBody(t *testing.T) {
	t.Parallel()
	extra := func(s string) func(*openai.Options) {
		return func(o *openai.Options) { o.ExtraBody = json.RawMessage(s) }
	}
	got := sent(t, request("f"), extra(`{"tools":[{"type":"web"}],"stream_options":{"x":1},"max_tokens":7,"zz":{"b":[1]},"model":"other"}`))
	want := `{"model":"other","stream":true,"stream_options":{"include_usage":true,"x":1},"max_tokens":7,"zz":{"b":[1]},` +
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"web"}],"messages":[{"role":"user","content":"hi"}]}`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("request differs: %s", d)
	}
	if got := sent(t, request(), extra(`{"tools":[{"type":"web"}]}`)); strings.Count(got, `{"type":"web"}`) != 1 {
		t.Errorf("tools without ours: %s", got)
	}
	if _, err := openai.New(openai.Options{BaseURL: "http://x", ExtraBody: json.RawMessage(`[1]`)}); err == nil {
		t.Error("a list was accepted as extraBody")
	}
	if _, err := openai.New(openai.Options{BaseURL: "localhost:11434"}); err == nil {
		t.Error("a base URL without a scheme was accepted")
	}
}

func TestCacheMarkers(t *testing.T) {
	t.Parallel()
	req := request("a", "b", "mcp_x")
	req.Model, req.System = "anthropic/claude-sonnet-4.5", "sys"
	req.Messages = []llm.Message{
		user("1"),
		{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "x", Name: "a", Arguments: "{}"}}},
		{Role: llm.ToolRole, ToolCallID: "x", Name: "a", Content: llm.Text("r")},
		{Role: llm.Assistant, Content: llm.Text("2")},
		{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{{Type: "text", Text: "t"}, {Type: "image_url", ImageURL: "data:x", Path: "/p"}}}},
	}
	got := sent(t, req, brand(t, "openrouter"))
	const mark = `"cache_control":{"type":"ephemeral"}`
	for _, w := range []string{
		`{"role":"system","content":[{"type":"text","text":"sys",` + mark + `}]}`,
		`"name":"b","parameters":{"type":"object"}},` + mark + `}`,
		`"content":[{"type":"text","text":"r",` + mark + `}]`,
		`{"type":"image_url","image_url":{"url":"data:x"},` + mark + `}`,
	} {
		if !strings.Contains(got, w) {
			t.Errorf("no %s in %s", w, got)
		}
	}
	if n := strings.Count(got, mark); n != 4 {
		t.Errorf("%d markers, want 4", n)
	}
	req.Model = "openai/gpt-4o"
	if got := sent(t, req, brand(t, "openrouter")); strings.Contains(got, "cache_control") {
		t.Error("markers for a model that takes none")
	}
}

func TestReasoningGoesHome(t *testing.T) {
	t.Parallel()
	msgs := func(origin string) []llm.Message {
		return []llm.Message{user("a"), {
			Role: llm.Assistant, Content: llm.Text("b"), Reasoning: "why", HasReasoning: true, ReasoningDetails: json.RawMessage(`[{"type":"reasoning.text","text":"why"}]`), Origin: origin,
			ToolCalls: []llm.ToolCall{{ID: "x", Name: "f", Arguments: "{}", Extra: map[string]json.RawMessage{"extra_content": json.RawMessage(`{"google":{}}`)}}},
		}, {Role: llm.ToolRole, ToolCallID: "x", Content: llm.Text("r")}}
	}
	for _, c := range []struct {
		name, origin, model string
		row                 wire.Quirks
		effort              string
		has, lacks          []string
	}{
		{"same", "fake", "m", wire.Quirks{}, "", []string{`"reasoning_content":"why"`, `"reasoning_details":[{`, `extra_content`, `"content":"b"`}, nil},
		{"unknown origin", "", "m", wire.Quirks{}, "", []string{`"reasoning_content":"why"`, `extra_content`}, []string{"reasoning_details"}},
		{"other", "elsewhere", "m", wire.Quirks{}, "", nil, []string{"reasoning_content", "reasoning_details", "extra_content"}},
		{"not wanted", "fake", "m", wire.Quirks{NoReasoningBack: true}, "", []string{"reasoning_details"}, []string{"reasoning_content"}},
		{"backfill", "elsewhere", "m", wire.Quirks{ReasoningBackfill: true}, "high", []string{`"reasoning_content":""`}, nil},
		{"no backfill when off", "elsewhere", "m", wire.Quirks{ReasoningBackfill: true}, "none", nil, []string{"reasoning_content"}},
		{"deepseek-reasoner", "elsewhere", "deepseek-reasoner", wire.Quirks{}, "", []string{`"reasoning_content":""`}, nil},
		{"gemini from elsewhere", "elsewhere", "google/gemini-3-pro", wire.Quirks{}, "", []string{"skip_thought_signature_validator"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := request("f")
			req.Model, req.Messages, req.Effort = c.model, msgs(c.origin), c.effort
			got := sent(t, req, quirks(c.row))
			for _, w := range c.has {
				if !strings.Contains(got, w) {
					t.Errorf("no %s in %s", w, got)
				}
			}
			for _, w := range c.lacks {
				if strings.Contains(got, w) {
					t.Errorf("%s in %s", w, got)
				}
			}
		})
	}
}

func TestReasoningDetailsAreJoined(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, stream(
		piece(`{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","index":0,"signature":null}]}`),
		piece(`{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","index":0,"signature":"sig"}]}`),
		piece(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"zz","index":1}]}`), piece(`{"content":"x"}`), end("stop"), "[DONE]"))
	w := llmtest.Watch(t.Context(), t, model(t, s), request())
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	want := `[{"index":0,"signature":"sig","text":"ab","type":"reasoning.text"},{"data":"zz","index":1,"type":"reasoning.encrypted"}]`
	if got := string(w.Response.Message.ReasoningDetails); got != want || w.Response.Message.Reasoning != "ab" {
		t.Errorf("details %s, want %s", got, want)
	}
}

func TestMessageShapes(t *testing.T) {
	t.Parallel()
	call := func(id, args string) llm.ToolCall { return llm.ToolCall{ID: id, Name: "f", Arguments: args} }
	for _, c := range []struct {
		name string
		row  wire.Quirks
		msgs []llm.Message
		want string
	}{
		{"joined users", wire.Quirks{}, []llm.Message{user("a"), user("b")}, `[{"role":"user","content":"a\n\nb"}]`},
		{"empty user", wire.Quirks{}, []llm.Message{user("")}, `[{"role":"user","content":"(empty)"}]`},
		{
			"flat",
			wire.Quirks{FlatContent: true},
			[]llm.Message{{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{{Type: "text", Text: "a"}, {Type: "image_url", ImageURL: "data:x", Path: "/secret"}}}}},
			`[{"role":"user","content":"a\n` + llm.ImageNote + `"}]`,
		},
		{
			"calls without text",
			wire.Quirks{},
			[]llm.Message{user("a"), {Role: llm.Assistant, ToolCalls: []llm.ToolCall{call("1", `{"p":1,}`)}}, {Role: llm.ToolRole, ToolCallID: "1", Name: "f", Content: llm.Text("r")}},
			`[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"p\":1}"}}]},{"role":"tool","tool_call_id":"1","name":"f","content":"r"}]`,
		},
		{
			"short ids",
			wire.Quirks{ShortIDs: true},
			[]llm.Message{user("a"), {Role: llm.Assistant, ToolCalls: []llm.ToolCall{call("call_1", "{}"), call("abcDEF123", "{}")}}, {Role: llm.ToolRole, ToolCallID: "call_1", Content: llm.Text("r")}, {Role: llm.ToolRole, ToolCallID: "abcDEF123", Content: llm.Text("s")}},
			`[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"d2d32a15f","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"abcDEF123","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"d2d32a15f","content":"r"},{"role":"tool","tool_call_id":"abcDEF123","content":"s"}]`,
		},
		{
			"image of a result",
			wire.Quirks{},
			[]llm.Message{user("a"), {Role: llm.Assistant, ToolCalls: []llm.ToolCall{call("1", "{}")}}, {Role: llm.ToolRole, ToolCallID: "1", Name: "f", Content: llm.Content{Blocks: []llm.Block{{Type: "image_url", ImageURL: "data:x"}}}}, user("b")},
			`[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","name":"f","content":"(the image follows)"},` +
				`{"role":"user","content":[{"type":"text","text":"Image from the result of f:"},{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"b"}]}]`,
		},
		{
			"assistant first",
			wire.Quirks{},
			[]llm.Message{{Role: llm.Assistant, Content: llm.Text("x")}, user("a")},
			`[{"role":"user","content":"(The conversation goes on.)"},{"role":"assistant","content":"x"},{"role":"user","content":"a"}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := request("f")
			req.Messages = c.msgs
			_, got, _ := strings.Cut(sent(t, req, quirks(c.row)), `"messages":`)
			if d := cmp.Diff(c.want+"}", got); d != "" {
				t.Errorf("messages differ: %s", d)
			}
		})
	}
}

func TestSimpleSchema(t *testing.T) {
	t.Parallel()
	req := request()
	req.Tools = []llm.ToolDef{{Name: "f", Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"},"v":{"type":["integer","null"],"format":"int32"}}}},
		"properties":{"a":{"anyOf":[{"type":"null"},{"type":"string","minLength":2}],"description":"d"},"b":{"$ref":"#/$defs/n"},"c":{"type":"array"},"d":{"const":"x"}},"required":["a","zz"]}`)}}
	got := sent(t, req, quirks(wire.Quirks{KeepSchemaSimple: true}))
	want := `"parameters":{"properties":{"a":{"description":"d","nullable":true,"type":"string"},"b":{"properties":{"next":{"type":"object"},"v":{"nullable":true,"type":"integer"}},"type":"object"},` +
		`"c":{"items":{"type":"string"},"type":"array"},"d":{"enum":["x"]}},"required":["a"],"type":"object"}`
	if !strings.Contains(got, want) {
		t.Errorf("schema: %s\nwant %s", got, want)
	}
}

// The end of a stream that stays open does not hold the answer back.
func TestServerThatNeverCloses(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Answer{Events: []string{piece(`{"content":"a"}`), end("stop"), "[DONE]"}, Hold: make(chan struct{})})
	if w := llmtest.Watch(t.Context(), t, model(t, s), request()); w.Err != nil || w.Text != "a" {
		t.Errorf("text %q, error %v", w.Text, w.Err)
	}
	s.AwaitGone(1)
}

// Nor does one that sends no end mark.
func TestServerThatNeverEnds(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Answer{Events: []string{
		piece(`{"content":"a"}`), end("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`,
	}, Hold: make(chan struct{})})
	if w := llmtest.Watch(t.Context(), t, model(t, s), request()); w.Err != nil || w.Text != "a" {
		t.Errorf("text %q, error %v", w.Text, w.Err)
	}
	s.AwaitGone(1)
}

func TestEstimatedUsage(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, stream(piece(`{"content":"abcd"}`), end("stop"), "[DONE]"))
	w := llmtest.Watch(t.Context(), t, model(t, s), request())
	if u := w.Response.Usage; !u.Estimated || u.Completion != 1 || u.Prompt == 0 {
		t.Errorf("usage %+v, want an estimate", u)
	}
}

func TestRedirectToOtherHostIsRefused(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Answer{Handler: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.invalid/", http.StatusTemporaryRedirect)
	}})
	w := llmtest.Watch(t.Context(), t, model(t, s), request())
	if w.Err == nil || strings.Contains(w.Err.Error(), llmtest.Key) {
		t.Errorf("error = %v", w.Err)
	}
}
