package responses_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/responses"
)

func user(s string) llm.Message { return llm.Message{Role: llm.User, Content: llm.Text(s)} }

func call(id, name string) llm.ToolCall {
	return llm.ToolCall{ID: id, Name: name, Arguments: `{"p":1}`}
}

func says(text string, calls ...llm.ToolCall) llm.Message {
	return llm.Message{Role: llm.Assistant, Content: llm.Text(text), ToolCalls: calls, Origin: "fake"}
}

func result(id, text string) llm.Message {
	return llm.Message{Role: llm.ToolRole, ToolCallID: id, Name: "f", Content: llm.Text(text)}
}

// sent returns the body a request becomes.
func sent(t *testing.T, req llm.Request, change ...func(*responses.Options)) string {
	t.Helper()
	s := llmtest.NewServer(t)
	s.Say(llmtest.StreamReply{Text: []string{"ok"}})
	m := model(t, s, change...)
	if _, err := llm.Collect(t.Context(), m, req); err != nil {
		t.Fatal(err)
	}
	return string(s.Requests()[0].Body)
}

// input returns the input items of a body.
func input(t *testing.T, body string) []string {
	t.Helper()
	var w struct{ Input []json.RawMessage }
	if err := json.Unmarshal([]byte(body), &w); err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(w.Input))
	for i, raw := range w.Input {
		out[i] = string(raw)
	}
	return out
}

func TestBody(t *testing.T) {
	t.Parallel()
	half := 0.5
	base := func() llm.Request {
		return llm.Request{Model: "gpt-4.1", System: "sys", Messages: []llm.Message{user("hi")}, MaxTokens: 3, Temperature: &half, SessionKey: "cli:1"}
	}
	const in = `"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`
	tool := `"tools":[{"type":"function","name":"f","description":"Do f.","parameters":{"type":"object","properties":{}},"strict":false}],`
	for _, c := range []struct {
		name   string
		change func(*llm.Request)
		opts   func(*responses.Options)
		want   string
	}{
		{"plain", nil, nil, `{"model":"gpt-4.1","instructions":"sys","store":false,"stream":true,"max_output_tokens":16,"temperature":0.5,` + in},
		{"no system", func(r *llm.Request) { r.System, r.MaxTokens, r.Temperature = "", 0, nil }, nil, `{"model":"gpt-4.1","store":false,"stream":true,` + in},
		{"reasoner", func(r *llm.Request) { r.Model = "gpt-5" }, nil, `{"model":"gpt-5","instructions":"sys","store":false,"stream":true,"max_output_tokens":16,"include":["reasoning.encrypted_content"],` + in},
		{"effort", func(r *llm.Request) { r.Effort = "minimum" }, nil, `{"model":"gpt-4.1","instructions":"sys","store":false,"stream":true,"max_output_tokens":16,"reasoning":{"effort":"minimal"},"include":["reasoning.encrypted_content"],` + in},
		{"effort none", func(r *llm.Request) { r.Effort = "none" }, nil, `{"model":"gpt-4.1","instructions":"sys","store":false,"stream":true,"max_output_tokens":16,"temperature":0.5,` + in},
		{
			"effort none, told", func(r *llm.Request) { r.Effort = "none" }, func(o *responses.Options) { o.PlainReasoning = true },
			`{"model":"gpt-4.1","instructions":"sys","store":false,"stream":true,"max_output_tokens":16,"temperature":0.5,"reasoning":{"effort":"none"},` + in,
		},
		{
			"all turns", func(r *llm.Request) { r.Model = "gpt-5.6-sol" }, nil,
			`{"model":"gpt-5.6-sol","instructions":"sys","store":false,"stream":true,"max_output_tokens":16,"reasoning":{"context":"all_turns"},"include":["reasoning.encrypted_content"],` + in,
		},
		{"cache key", nil, func(o *responses.Options) { o.Quirks.CacheKey = true }, `{"model":"gpt-4.1","instructions":"sys","store":false,"stream":true,"max_output_tokens":16,"temperature":0.5,"prompt_cache_key":"4f6440fc490d5a6dffb35961df649316",` + in},
		{
			"tool", func(r *llm.Request) { *r = withTools(*r, "f"); r.ToolChoice = "f" }, nil,
			`{"model":"gpt-4.1","instructions":"sys","store":false,"stream":true,"max_output_tokens":16,"temperature":0.5,"tool_choice":{"type":"function","name":"f"},` + tool + in,
		},
		{
			"codex", func(r *llm.Request) { *r = withTools(*r, "f"); r.Effort = "high" }, func(o *responses.Options) { o.Codex = true },
			`{"model":"gpt-4.1","instructions":"sys","store":false,"stream":true,"text":{"verbosity":"medium"},"reasoning":{"effort":"high","summary":"auto"},"include":["reasoning.encrypted_content"],` +
				`"prompt_cache_key":"4f6440fc490d5a6dffb35961df649316","parallel_tool_calls":true,"tool_choice":"auto",` + tool + in,
		},
		{
			"codex without instructions", func(r *llm.Request) { r.System, r.SessionKey = "", "" }, func(o *responses.Options) { o.Codex = true },
			`{"model":"gpt-4.1","instructions":"Answer the user.","store":false,"stream":true,"text":{"verbosity":"medium"},"reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"],` + in,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := base()
			if c.change != nil {
				c.change(&req)
			}
			opts := c.opts
			if opts == nil {
				opts = func(*responses.Options) {}
			}
			got := sent(t, req, opts)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("body (-want +got):\n%s", d)
			}
		})
	}
}

func TestExtraBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, extra string
		key, want   string
	}{
		{"new key", `{"service_tier":"priority"}`, "service_tier", `"priority"`},
		{"replaced", `{"max_output_tokens":99}`, "max_output_tokens", `99`},
		{"merged", `{"reasoning":{"summary":"auto"}}`, "reasoning", `{"effort":"low","summary":"auto"}`},
		{"include", `{"include":["reasoning.encrypted_content","web_search_call.action.sources"]}`, "include", `["reasoning.encrypted_content","web_search_call.action.sources"]`},
		{"tools", `{"tools":[{"type":"file_search"}]}`, "tools", `[f web_search file_search]`},
		{"hosted search", `{"tools":[{"type":"web_search"},{"type":"web_search_preview"}]}`, "tools", `[f web_search!]`},
		{"input stays", `{"input":[]}`, "input", `[{"role":"user","content":[{"type":"input_text","text":"hello"}]}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := withTools(ask(), "f", "web_search")
			req.Effort = "low"
			body := sent(t, req, func(o *responses.Options) { o.ExtraBody = json.RawMessage(c.extra) })
			var m map[string]json.RawMessage
			if err := json.Unmarshal([]byte(body), &m); err != nil {
				t.Fatal(err)
			}
			got := string(m[c.key])
			if c.key == "tools" {
				var list []struct{ Type, Name string }
				_ = json.Unmarshal(m["tools"], &list)
				var names []string
				for _, l := range list {
					switch {
					case l.Name != "":
						names = append(names, l.Name)
					case l.Type == "web_search":
						names = append(names, "web_search!")
					default:
						names = append(names, l.Type)
					}
				}
				got = fmt.Sprint(names)
			}
			if got != c.want {
				t.Errorf("%s = %s, want %s", c.key, got, c.want)
			}
			if !strings.HasSuffix(body, `"input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]}]}`) {
				t.Errorf("the input is not at the end: %s", body)
			}
		})
	}
	if _, err := responses.New(responses.Options{BaseURL: "https://x.example", ExtraBody: json.RawMessage(`[1]`)}); err == nil {
		t.Error("a list was taken for extraBody")
	}
}

func TestInput(t *testing.T) {
	t.Parallel()
	image := llm.Block{Type: "image_url", ImageURL: "data:image/png;base64,AAAA", Path: "/tmp/a.png"}
	long := strings.Repeat("x", 70)
	plain := func(o *responses.Options) { o.PlainReasoning = true }
	codex := func(o *responses.Options) { o.Codex = true }
	for _, c := range []struct {
		name string
		opts func(*responses.Options)
		msgs []llm.Message
		want []string
	}{
		{"images", nil, []llm.Message{{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{{Type: "text", Text: "see"}, image, {Type: "text"}, {Type: "input_file", Raw: json.RawMessage(`{"type":"input_file","file_id":"f"}`)}}}}}, []string{
			`{"role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"auto"},{"type":"input_file","file_id":"f"}]}`,
		}},
		{"turn", nil, []llm.Message{user("q"), says("look", call("call_1|fc_1", "f"), call("call_2|fc_2", "g")), result("call_1|fc_1", "one"), result("call_2|fc_2", "two")}, []string{
			`{"role":"user","content":[{"type":"input_text","text":"q"}]}`,
			`{"type":"message","role":"assistant","status":"completed","id":"msg_1","content":[{"type":"output_text","text":"look"}]}`,
			`{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{\"p\":1}"}`,
			`{"type":"function_call","id":"fc_2","call_id":"call_2","name":"g","arguments":"{\"p\":1}"}`,
			`{"type":"function_call_output","call_id":"call_1","output":"one"}`,
			`{"type":"function_call_output","call_id":"call_2","output":"two"}`,
		}},
		{"codex has no ids", codex, []llm.Message{user("q"), says("look", call("call_1|fc_1", "f")), result("call_1|fc_1", "one")}, []string{
			`{"role":"user","content":[{"type":"input_text","text":"q"}]}`,
			`{"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"look"}]}`,
			`{"type":"function_call","call_id":"call_1","name":"f","arguments":"{\"p\":1}"}`,
			`{"type":"function_call_output","call_id":"call_1","output":"one"}`,
		}},
		{"foreign ids", nil, []llm.Message{
			user("q"),
			{Role: llm.Assistant, Origin: "other", ToolCalls: []llm.ToolCall{call("call_1|fc_1", "f"), call("toolu_2", "f"), call(long, "f"), call("a b/c", "f")}},
			result("call_1|fc_1", "1"), result("toolu_2", "2"), result(long, "3"), result("a b/c", "4"),
		}, []string{
			`{"role":"user","content":[{"type":"input_text","text":"q"}]}`,
			`{"type":"function_call","call_id":"call_1","name":"f","arguments":"{\"p\":1}"}`,
			`{"type":"function_call","call_id":"toolu_2","name":"f","arguments":"{\"p\":1}"}`,
			`{"type":"function_call","call_id":"call_c71bd109227e23434ecf71fd0a344a20","name":"f","arguments":"{\"p\":1}"}`,
			`{"type":"function_call","call_id":"a_b_c","name":"f","arguments":"{\"p\":1}"}`,
			`{"type":"function_call_output","call_id":"call_1","output":"1"}`,
			`{"type":"function_call_output","call_id":"toolu_2","output":"2"}`,
			`{"type":"function_call_output","call_id":"call_c71bd109227e23434ecf71fd0a344a20","output":"3"}`,
			`{"type":"function_call_output","call_id":"a_b_c","output":"4"}`,
		}},
		{"ids used again", nil, []llm.Message{
			user("q"), says("", call("c|fc_1", "f")), result("c|fc_1", "1"), says("", call("c|fc_1", "f")), result("c|fc_1", "2"),
		}, []string{
			`{"role":"user","content":[{"type":"input_text","text":"q"}]}`,
			`{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{\"p\":1}"}`,
			`{"type":"function_call_output","call_id":"c","output":"1"}`,
			`{"type":"function_call","id":"fc_1_2","call_id":"c_2","name":"f","arguments":"{\"p\":1}"}`,
			`{"type":"function_call_output","call_id":"c_2","output":"2"}`,
		}},
		{"result with an image", nil, []llm.Message{
			user("q"), says("", call("c", "f")), {Role: llm.ToolRole, ToolCallID: "c", Name: "f", Content: llm.Content{Blocks: []llm.Block{{Type: "text", Text: "shot"}, image}}},
		}, []string{
			`{"role":"user","content":[{"type":"input_text","text":"q"}]}`,
			`{"type":"function_call","call_id":"c","name":"f","arguments":"{\"p\":1}"}`,
			`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"shot"},{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"auto"}]}`,
		}},
		{"result of text blocks", nil, []llm.Message{
			user("q"), says("", call("c", "f")), {Role: llm.ToolRole, ToolCallID: "c", Name: "f", Content: llm.Content{Blocks: []llm.Block{{Type: "text", Text: "a"}, {Type: "x", Raw: json.RawMessage(`{"type":"x"}`)}}}},
		}, []string{
			`{"role":"user","content":[{"type":"input_text","text":"q"}]}`,
			`{"type":"function_call","call_id":"c","name":"f","arguments":"{\"p\":1}"}`,
			`{"type":"function_call_output","call_id":"c","output":"a\n{\"type\":\"x\"}"}`,
		}},
		{"nobody answered", nil, []llm.Message{user("q"), says("a"), says("b", call("c", "f"))}, []string{`{"role":"user","content":[{"type":"input_text","text":"q"}]}`}},
		{"only the assistant", nil, []llm.Message{says("a")}, []string{`{"role":"user","content":[{"type":"input_text","text":"a"}]}`}},
		{"reasoning as text", plain, []llm.Message{user("q"), {Role: llm.Assistant, Content: llm.Text("a"), Reasoning: "hm", HasReasoning: true, Origin: "fake"}, user("r")}, []string{
			`{"role":"user","content":[{"type":"input_text","text":"q"}]}`,
			`{"type":"reasoning","content":[{"type":"output_text","text":"hm"}]}`,
			`{"type":"message","role":"assistant","status":"completed","id":"msg_1","content":[{"type":"output_text","text":"a"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"r"}]}`,
		}},
		{"foreign reasoning", plain, []llm.Message{user("q"), {Role: llm.Assistant, Content: llm.Text("a"), Reasoning: "hm", HasReasoning: true, Origin: "other"}, user("r")}, []string{
			`{"role":"user","content":[{"type":"input_text","text":"q"}]}`,
			`{"type":"message","role":"assistant","status":"completed","id":"msg_1","content":[{"type":"output_text","text":"a"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"r"}]}`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opts := c.opts
			if opts == nil {
				opts = func(*responses.Options) {}
			}
			if d := cmp.Diff(c.want, input(t, sent(t, ask(c.msgs...), opts))); d != "" {
				t.Errorf("input (-want +got):\n%s", d)
			}
		})
	}
}

// Encrypted reasoning goes back, at its place, to the model it came from and
// nowhere else.
func TestReasoningGoesBack(t *testing.T) {
	t.Parallel()
	events := []string{
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAA"}}`,
		`{"type":"response.output_item.done","output_index":1,"item":{"type":"web_search_call","id":"ws_1","status":"completed"}}`,
		`{"type":"response.output_item.done","output_index":2,"item":{"type":"message","id":"msg_x","content":[{"type":"output_text","text":"so"}]}}`,
		`{"type":"response.output_item.done","output_index":3,"item":{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"BBB"}}`,
		`{"type":"response.output_item.done","output_index":4,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}}`,
		`{"type":"response.output_item.done","output_index":5,"item":{"type":"reasoning","id":"rs_3","summary":[]}}`, // not encrypted: of no use
		`{"type":"response.output_item.done","output_index":6,"item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"f","arguments":"{}"}}`,
		`{"type":"response.output_item.done","output_index":7,"item":{"type":"reasoning","id":"rs_4","summary":[],"encrypted_content":"DDD"}}`, // led to nothing
		done,
	}
	r, _ := response(t, events...)
	stored, err := json.Marshal(r.Message) // as a session file keeps it
	if err != nil {
		t.Fatal(err)
	}
	var m llm.Message
	if err := json.Unmarshal(stored, &m); err != nil {
		t.Fatal(err)
	}
	history := []llm.Message{user("q"), m, result("c1|fc_1", "1"), result("c2|fc_2", "2")}
	visible := []string{
		`{"role":"user","content":[{"type":"input_text","text":"q"}]}`,
		`{"type":"message","role":"assistant","status":"completed","id":"msg_1","content":[{"type":"output_text","text":"so"}]}`,
		`{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}`,
		`{"type":"function_call","id":"fc_2","call_id":"c2","name":"f","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"c1","output":"1"}`,
		`{"type":"function_call_output","call_id":"c2","output":"2"}`,
	}
	all := []string{
		visible[0],
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAA"}`,
		`{"type":"web_search_call","id":"ws_1","status":"completed"}`,
		visible[1],
		`{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"BBB"}`,
		visible[2], visible[3], visible[4], visible[5],
	}
	if d := cmp.Diff(all, input(t, sent(t, ask(history...)))); d != "" {
		t.Errorf("same model (-want +got):\n%s", d)
	}
	other := ask(history...)
	other.Model = "gpt-5-nano"
	if d := cmp.Diff(visible, input(t, sent(t, other))); d != "" {
		t.Errorf("another model (-want +got):\n%s", d)
	}
	if body := sent(t, ask(history...), func(o *responses.Options) { o.Name = "elsewhere" }); strings.Contains(body, "AAA") || strings.Contains(body, "fc_1") {
		t.Errorf("another provider got what was not its own: %s", body)
	}
	if body := sent(t, ask(history...), func(o *responses.Options) { o.Codex = true }); !strings.Contains(body, `{"encrypted_content":"AAA","summary":[],"type":"reasoning"}`) {
		t.Errorf("codex must get reasoning without ids: %s", body)
	}
	twice := append(history[:4:4], history[1:]...)
	if body := sent(t, ask(twice...)); !strings.Contains(body, `"id":"rs_1_2"`) || !strings.Contains(body, `"call_id":"c1_2"`) {
		t.Errorf("ids are not unique: %s", body)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts func(*responses.Options)
		want map[string]string
	}{
		{"bearer", func(*responses.Options) {}, map[string]string{"Authorization": "Bearer " + llmtest.Key, "Accept": "text/event-stream", "User-Agent": "nanobot", "Openai-Beta": ""}},
		{"azure", func(o *responses.Options) { o.KeyHeader = "api-key"; o.Version = "1.2" }, map[string]string{"Authorization": "", "Api-Key": llmtest.Key, "User-Agent": "nanobot/1.2"}},
		{"codex", func(o *responses.Options) { o.Codex = true }, map[string]string{"Openai-Beta": "responses=experimental", "Originator": "nanobot", "X-Session-Affinity": ""}},
		{"own", func(o *responses.Options) {
			o.Headers = map[string]httpsafe.Secret{"User-Agent": httpsafe.NewSecret("mine"), "X-A": httpsafe.NewSecret("b")}
		}, map[string]string{"User-Agent": "mine", "X-A": "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t)
			s.Say(llmtest.StreamReply{Text: []string{"ok"}})
			if _, err := llm.Collect(t.Context(), model(t, s, c.opts), ask()); err != nil {
				t.Fatal(err)
			}
			h := s.Requests()[0].Header
			for k, want := range c.want {
				if got := h.Get(k); got != want {
					t.Errorf("%s = %q, want %q", k, got, want)
				}
			}
			if s.Requests()[0].Path != "/v1/responses" {
				t.Errorf("path %s", s.Requests()[0].Path)
			}
		})
	}
}

// What a server refuses is left out and remembered for the model.
func TestNegotiation(t *testing.T) {
	t.Parallel()
	image := llm.Block{Type: "image_url", ImageURL: "data:image/png;base64,AAAA"}
	opaque := says("so", call("c1|fc_1", "f"))
	opaque.Thinking = []json.RawMessage{json.RawMessage(`{"type":"openai_responses","model":"gpt-5-mini","at":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAA"}}`)}
	req := withTools(ask(user("q"), opaque, llm.Message{Role: llm.ToolRole, ToolCallID: "c1|fc_1", Name: "f", Content: llm.Content{Blocks: []llm.Block{image}}}), "f")
	req.Effort, req.ToolChoice = "high", "auto"
	refuse := func(param, text string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":%q}}`, text, param)
	}
	for _, c := range []struct {
		name, body string
		gone       string
	}{
		{"by param", refuse("max_output_tokens", "Unsupported parameter"), `"max_output_tokens"`},
		{"by text", `{"error":{"message":"Unknown parameter: 'max_output_tokens'."}}`, `"max_output_tokens"`},
		{"detail", `{"detail":"Unsupported parameter: max_output_tokens"}`, `"max_output_tokens"`},
		{"include", refuse("include", "Encrypted content is not supported with this model."), `"include"`},
		{"include by text", `{"error":{"message":"Encrypted content is not supported with this model."}}`, `"include"`},
		{"effort", refuse("reasoning.effort", "Unsupported value: 'high' is not supported with this model."), `"effort"`},
		{"reasoning", `{"error":{"message":"Unsupported parameter: reasoning"}}`, `"reasoning":{`},
		{"cache key", `{"error":{"message":"unknown field prompt_cache_key"}}`, `"prompt_cache_key"`},
		{"tool choice", refuse("tool_choice", "is not supported"), `"tool_choice"`},
		{"strict", refuse("tools[0].strict", "Unknown parameter: 'tools[0].strict'."), `"strict"`},
		{"store", refuse("store", "Unknown parameter: 'store'."), `"store"`},
		{"item ids", refuse("input[1].id", "Invalid 'input[1].id': 'x'."), `"id":"msg_`},
		{"stale reasoning", `{"error":{"message":"The encrypted content AAA could not be verified.","code":"invalid_encrypted_content"}}`, `"encrypted_content":"AAA"`},
		{"lone reasoning", refuse("input", "Item 'rs_1' of type 'reasoning' was provided without its required following item."), `"encrypted_content":"AAA"`},
		{"picture in a result", refuse("input[4].output", "Invalid type for 'input[4].output': expected a string."), `"output":[`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t, llmtest.Answer{Status: 400, Body: c.body})
			s.Say(llmtest.StreamReply{Text: []string{"ok"}}, llmtest.StreamReply{Text: []string{"ok"}})
			m := model(t, s, func(o *responses.Options) { o.Quirks.CacheKey = true })
			for range 2 {
				if _, err := llm.Collect(t.Context(), m, req); err != nil {
					t.Fatal(err)
				}
			}
			reqs := s.Requests()
			if len(reqs) != 3 {
				t.Fatalf("%d requests, want 3", len(reqs))
			}
			for i, want := range []bool{true, false, false} {
				if got := bytes.Contains(reqs[i].Body, []byte(c.gone)); got != want {
					t.Errorf("request %d has %s: %v, want %v\n%s", i, c.gone, got, want, reqs[i].Body)
				}
			}
			if c.gone == `"output":[` && !bytes.Contains(reqs[1].Body, []byte("input_image")) {
				t.Errorf("the image is lost: %s", reqs[1].Body)
			}
		})
	}
}

// Stale reasoning is a matter of one session; others keep theirs.
func TestStaleReasoningOfOneSession(t *testing.T) {
	t.Parallel()
	m1 := says("so")
	m1.Thinking = []json.RawMessage{json.RawMessage(`{"type":"openai_responses","model":"gpt-5-mini","at":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAA"}}`)}
	s := llmtest.NewServer(t, llmtest.Answer{Status: 400, Body: `{"error":{"message":"no","code":"invalid_encrypted_content"}}`})
	s.Say(llmtest.StreamReply{Text: []string{"ok"}}, llmtest.StreamReply{Text: []string{"ok"}})
	m := model(t, s)
	for _, key := range []string{"one", "two"} {
		req := ask(user("q"), m1, user("r"))
		req.SessionKey = key
		if _, err := llm.Collect(t.Context(), m, req); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []bool{true, false, true} {
		if got := bytes.Contains(s.Requests()[i].Body, []byte("AAA")); got != want {
			t.Errorf("request %d has the reasoning: %v, want %v", i, got, want)
		}
	}
}

// A refusal that changes nothing ends the request.
func TestNegotiationEnds(t *testing.T) {
	t.Parallel()
	no := llmtest.Answer{Status: 400, Body: `{"error":{"message":"Unsupported parameter","param":"temperature"}}`}
	s := llmtest.NewServer(t, no, no)
	w := llmtest.Watch(t.Context(), t, model(t, s), ask())
	if e := failure(t, w); e.Kind != llm.UnsupportedParam || len(s.Requests()) != 2 {
		t.Errorf("error %+v after %d requests", e, len(s.Requests()))
	}
}

type keyring struct {
	key     string
	next    string
	refused int
	err     error
}

func (k *keyring) Sign(_ context.Context, req *http.Request, body []byte) error {
	if len(body) == 0 {
		return errors.New("no body to sign")
	}
	req.Header.Set("Authorization", "Bearer "+k.key)
	req.Header.Set("Chatgpt-Account-Id", "acc")
	return k.err
}

func (k *keyring) Refused(context.Context) bool {
	k.refused++
	ok := k.next != ""
	k.key, k.next = k.next, ""
	return ok
}

// 94: after a 401 the signer gets one chance.
func Test94Signer(t *testing.T) {
	t.Parallel()
	no := llmtest.Answer{Status: 401, Body: `{"error":{"message":"expired"}}`}
	s := llmtest.NewServer(t, no)
	s.Say(llmtest.StreamReply{Text: []string{"ok"}})
	k := &keyring{key: "old", next: "new"}
	if _, err := llm.Collect(t.Context(), model(t, s, func(o *responses.Options) { o.Signer = k }), ask()); err != nil {
		t.Fatal(err)
	}
	reqs := s.Requests()
	if a, b := reqs[0].Header.Get("Authorization"), reqs[1].Header.Get("Authorization"); a != "Bearer old" || b != "Bearer new" || k.refused != 1 {
		t.Errorf("credentials %q then %q, refused %d times", a, b, k.refused)
	}

	s = llmtest.NewServer(t, no, no)
	k = &keyring{key: "old", next: "new"}
	w := llmtest.Watch(t.Context(), t, model(t, s, func(o *responses.Options) { o.Signer = k }), ask())
	if e := failure(t, w); e.Kind != llm.Auth || len(s.Requests()) != 2 {
		t.Errorf("error %+v after %d requests", e, len(s.Requests()))
	}

	s = llmtest.NewServer(t, llmtest.Answer{Status: 403, Body: `{"error":{"message":"no"}}`})
	k = &keyring{key: "old", next: "new"}
	w = llmtest.Watch(t.Context(), t, model(t, s, func(o *responses.Options) { o.Signer = k }), ask())
	if e := failure(t, w); e.Kind != llm.Permission || k.refused != 0 {
		t.Errorf("error %+v, refused %d times", e, k.refused)
	}

	s = llmtest.NewServer(t)
	w = llmtest.Watch(t.Context(), t, model(t, s, func(o *responses.Options) { o.Signer = &keyring{key: "x", err: errors.New("sign in first")} }), ask())
	if e := failure(t, w); e.Kind != llm.Auth || e.Provider != "fake" || !strings.Contains(e.Message, "sign in first") {
		t.Errorf("error %+v", e)
	}
}

func TestPlanLimit(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Answer{Status: 429, Body: `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":7200}}`})
	w := llmtest.Watch(t.Context(), t, model(t, s, func(o *responses.Options) { o.Codex = true }), ask())
	if e := failure(t, w); e.Kind != llm.RateLimited || e.RetryAfter != 2*time.Hour || !strings.Contains(e.Message, "ChatGPT plan") {
		t.Errorf("error %+v", e)
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "ftp://x.example", "x.example", "http://"} {
		_, err := responses.New(responses.Options{Name: "p", BaseURL: base})
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.Configuration {
			t.Errorf("base %q: error %v, want configuration", base, err)
		}
	}
	for _, c := range []struct{ base, path, want string }{
		{"", "", "/v1/responses"},
		{"/", "", "/v1/responses"},
		{"/responses", "", "/v1/responses"},
		{"", "/codex/responses", "/v1/codex/responses"},
	} {
		s := llmtest.NewServer(t)
		s.Say(llmtest.StreamReply{Text: []string{"ok"}})
		m := model(t, s, func(o *responses.Options) {
			o.BaseURL, o.Path, o.ExtraQuery = o.BaseURL+c.base, c.path, map[string]string{"api-version": "1"}
		})
		if _, err := llm.Collect(t.Context(), m, ask()); err != nil {
			t.Fatal(err)
		}
		if got := s.Requests()[0].Path; got != c.want {
			t.Errorf("base %q path %q: %s, want %s", c.base, c.path, got, c.want)
		}
	}
}
