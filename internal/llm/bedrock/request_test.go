package bedrock_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/bedrock"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// sent is the body of a request, decoded and written again with sorted keys.
func sent(t *testing.T, req llm.Request, change ...func(*bedrock.Options)) object {
	t.Helper()
	s := newServer(t, reply(piece(0, "ok")))
	must(t, s.model(t, change...), req)
	return s.body(t, 0)
}

func TestContent(t *testing.T) {
	t.Parallel()
	image := func(u string) llm.Block { return llm.Block{Type: "image_url", ImageURL: u, Path: "/tmp/secret.png"} }
	blocks := func(b ...llm.Block) llm.Message {
		return llm.Message{Role: llm.User, Content: llm.Content{Blocks: b}}
	}
	failed := result("1", "boom")
	failed.IsError = true
	withImage := result("2", "")
	withImage.Content = llm.Content{Blocks: []llm.Block{{Type: "text", Text: "seen"}, image("data:image/webp;base64,AAAA")}}
	calls := says("", llm.ToolCall{ID: "1", Name: "look", Arguments: "no JSON"}, llm.ToolCall{ID: "2", Name: "look", Arguments: `{"p":"x"}`})
	note := js(llm.ImageNote)
	for _, c := range []struct {
		name, model string
		msgs        []llm.Message
		want        string // of the messages, sorted keys, without cache points
	}{
		{
			"images", claude,
			[]llm.Message{blocks(image("data:image/jpg;base64,AAAA"), image("https://x/y.png"), image("data:image/svg+xml;base64,AAAA"), image("data:image/png;base64,%%%%"), llm.Block{Type: "text", Text: "see"})},
			`[{"content":[{"image":{"format":"jpeg","source":{"bytes":"AAAA"}}},{"text":` + note + `},{"text":` + note + `},{"text":` + note + `},{"text":"see"}],"role":"user"}]`,
		},
		{
			"failed and missing results", claude,
			[]llm.Message{user("a"), calls, failed, user("b")},
			`[{"content":[{"text":"a"}],"role":"user"},{"content":[{"toolUse":{"input":{},"name":"look","toolUseId":"1"}},{"toolUse":{"input":{"p":"x"},"name":"look","toolUseId":"2"}}],"role":"assistant"},` +
				`{"content":[{"toolResult":{"content":[{"text":"boom"}],"status":"error","toolUseId":"1"}},{"toolResult":{"content":[{"text":` + js(wire.NoResult) + `}],"status":"error","toolUseId":"2"}},{"text":"b"}],"role":"user"}]`,
		},
		{
			"image in a result", "amazon.nova-pro-v1:0",
			[]llm.Message{user("a"), calls, result("1", "r"), withImage},
			`[{"content":[{"text":"a"}],"role":"user"},{"content":[{"toolUse":{"input":{},"name":"look","toolUseId":"1"}},{"toolUse":{"input":{"p":"x"},"name":"look","toolUseId":"2"}}],"role":"assistant"},` +
				`{"content":[{"toolResult":{"content":[{"text":"r"}],"status":"success","toolUseId":"1"}},{"toolResult":{"content":[{"text":"seen"},{"image":{"format":"webp","source":{"bytes":"AAAA"}}}],"status":"success","toolUseId":"2"}}],"role":"user"}]`,
		},
		{
			"no status elsewhere", "meta.llama3-1-70b-instruct-v1:0",
			[]llm.Message{user("a"), says("x", llm.ToolCall{ID: "1", Name: "look"}), failed},
			`[{"content":[{"text":"a"}],"role":"user"},{"content":[{"text":"x"},{"toolUse":{"input":{},"name":"look","toolUseId":"1"}}],"role":"assistant"},{"content":[{"toolResult":{"content":[{"text":"boom"}],"toolUseId":"1"}}],"role":"user"}]`,
		},
		{
			"vendor block", claude,
			[]llm.Message{blocks(llm.Block{Type: "input_audio", Raw: json.RawMessage(`{"type":"input_audio"}`)})},
			`[{"content":[{"text":"[An attachment was here that cannot be sent to this model.]"}],"role":"user"}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := ask(c.msgs...)
			req.Model, req.Tools = c.model, []llm.ToolDef{look()}
			got := strings.ReplaceAll(js(sent(t, req)["messages"]), `,{"cachePoint":{"type":"default"}}`, "")
			var a, b any
			_, _ = json.Unmarshal([]byte(got), &a), json.Unmarshal([]byte(c.want), &b)
			if js(a) != js(b) {
				t.Errorf("messages = %s\nwant %s", js(a), js(b))
			}
		})
	}
}

func TestGeneration(t *testing.T) {
	t.Parallel()
	t07 := 0.7
	const nova2, oss = "us.amazon.nova-2-lite-v1:0", "openai.gpt-oss-120b-1:0"
	for _, c := range []struct {
		model, effort string
		max           int
		want          string // inferenceConfig, additionalModelRequestFields
	}{
		{claude, "", 1000, `{"maxTokens":1000,"temperature":0.7} null`},
		{claude, "low", 1000, `{"maxTokens":5120,"temperature":1} {"thinking":{"budget_tokens":1024,"type":"enabled"}}`},
		{claude, "adaptive", 1000, `{"maxTokens":1000,"temperature":1} {"thinking":{"type":"adaptive"}}`},
		{claude, "", 0, `{"maxTokens":8192,"temperature":0.7} null`},
		{opus, "", 1000, `{"maxTokens":1000} null`},
		{opus, "high", 1000, `{"maxTokens":1000} {"output_config":{"effort":"high"},"thinking":{"type":"adaptive"}}`},
		{opus, "adaptive", 1000, `{"maxTokens":1000} {"thinking":{"type":"adaptive"}}`},
		{"anthropic.claude-opus-5-v1:0", "none", 1000, `{"maxTokens":1000} {"thinking":{"type":"disabled"}}`},
		{"anthropic.claude-3-haiku-20240307-v1:0", "high", 1000, `{"maxTokens":1000,"temperature":0.7} null`},
		{"anthropic.claude-v2:1", "high", 1000, `{"maxTokens":1000,"temperature":0.7} null`},
		{"mistral.mistral-large-2407-v1:0", "high", 0, `{"temperature":0.7} null`},
		{nova2, "low", 1000, `{"maxTokens":1000,"temperature":0.7} {"reasoningConfig":{"maxReasoningEffort":"low","type":"enabled"}}`},
		{nova2, "max", 1000, `null {"reasoningConfig":{"maxReasoningEffort":"high","type":"enabled"}}`},
		{nova2, "none", 1000, `{"maxTokens":1000,"temperature":0.7} {"reasoningConfig":{"type":"disabled"}}`},
		{"amazon.nova-pro-v1:0", "high", 1000, `{"maxTokens":1000,"temperature":0.7} null`},
		{oss, "minimal", 1000, `{"maxTokens":1000,"temperature":0.7} {"reasoning_effort":"low"}`},
		{oss, "none", 1000, `{"maxTokens":1000,"temperature":0.7} null`},
	} {
		t.Run(fmt.Sprint(c.model, " ", c.effort, " ", c.max), func(t *testing.T) {
			t.Parallel()
			req := ask()
			req.Model, req.Effort, req.MaxTokens, req.Temperature = c.model, c.effort, c.max, &t07
			b := sent(t, req)
			if got := js(b["inferenceConfig"]) + " " + js(b["additionalModelRequestFields"]); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestToolChoice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ choice, effort, want string }{
		{"", "", "null"}, {"auto", "", "null"}, {"required", "", `{"any":{}}`}, {"look", "", `{"tool":{"name":"look"}}`}, {"required", "low", "null"},
	} {
		req := ask()
		req.Tools, req.ToolChoice, req.Effort = []llm.ToolDef{look()}, c.choice, c.effort
		if got := js(sub(sent(t, req), "toolConfig")["toolChoice"]); got != c.want {
			t.Errorf("choice %q with effort %q = %s, want %s", c.choice, c.effort, got, c.want)
		}
	}
	req := ask()
	req.Tools, req.ToolChoice = []llm.ToolDef{look()}, "none"
	if got := js(sent(t, req)["toolConfig"]); got != "null" {
		t.Errorf("tools with choice none: %s", got)
	}
}

func TestExtraBody(t *testing.T) {
	t.Parallel()
	req := ask()
	req.Effort = "low"
	b := sent(t, req, func(o *bedrock.Options) {
		o.ExtraBody = json.RawMessage(`{"top_k":5,"thinking":{"type":"disabled"},"guardrailConfig":{"guardrailIdentifier":"g"},"additionalModelRequestFields":{"x":1}}`)
	})
	if got, want := js(b["additionalModelRequestFields"]), `{"thinking":{"type":"disabled"},"top_k":5,"x":1}`; got != want {
		t.Errorf("fields = %s, want %s", got, want)
	}
	if got := js(b["guardrailConfig"]); got != `{"guardrailIdentifier":"g"}` {
		t.Errorf("guardrailConfig = %s", got)
	}
}

// places tells where the cache points of a body are.
func places(b object) string {
	var out []string
	for i, t := range objects(sub(b, "toolConfig")["tools"]) {
		if c := sub(t, "cachePoint"); c != nil {
			out = append(out, fmt.Sprintf("tool%d%v", i, c["ttl"]))
		}
	}
	for i, s := range objects(b["system"]) {
		if c := sub(s, "cachePoint"); c != nil {
			out = append(out, fmt.Sprintf("system%d%v", i, c["ttl"]))
		}
	}
	for i, m := range objects(b["messages"]) {
		for j, c := range objects(m["content"]) {
			if p := sub(c, "cachePoint"); p != nil {
				out = append(out, fmt.Sprintf("message%d.%d%v", i, j, p["ttl"]))
			}
		}
	}
	return strings.ReplaceAll(strings.Join(out, " "), "<nil>", "")
}

func TestCachePoints(t *testing.T) {
	t.Parallel()
	mcp := look()
	mcp.Name = "mcp_x"
	many := []llm.Message{user("a"), says("")}
	for i := range 20 {
		many[1].ToolCalls = append(many[1].ToolCalls, llm.ToolCall{ID: fmt.Sprint(i), Name: "look"})
		many = append(many, result(fmt.Sprint(i), "r"))
	}
	for _, c := range []struct {
		name, model, system string
		msgs                []llm.Message
		long                bool
		want                string
	}{
		{"claude", claude, "s", nil, false, "tool1 system1 message0.1"},
		{"no system", claude, "", nil, false, "tool1 tool3 message0.1"},
		{"one hour", claude, "s", nil, true, "tool11h system11h message0.1"},
		{"one hour is too new", "anthropic.claude-3-7-sonnet-20250219-v1:0", "s", nil, true, "tool1 system1 message0.1"},
		{"far back", claude, "s", many, false, "tool1 system1 message0.1 message2.20"},
		{"nova caches no tools", "us.amazon.nova-lite-v1:0", "s", nil, false, "system1 message0.1"},
		{"old claude", "anthropic.claude-3-haiku-20240307-v1:0", "s", nil, false, ""},
		{"other vendor", "meta.llama3-1-70b-instruct-v1:0", "s", nil, false, ""},
		{"unknown profile", "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc", "s", nil, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := ask(c.msgs...)
			req.Model, req.System, req.Tools = c.model, c.system, []llm.ToolDef{look(), mcp}
			got := places(sent(t, req, func(o *bedrock.Options) {
				if c.long {
					o.CacheTTL = 3600e9
				}
			}))
			if got != c.want {
				t.Errorf("cache points at %q, want %q", got, c.want)
			}
		})
	}
}

// Over a long conversation nearly all bytes of a request begin the next one,
// and one connection is enough.
func TestPrefixAndConnections(t *testing.T) {
	t.Parallel()
	var replies []http.HandlerFunc
	for i := range 30 {
		replies = append(replies, say(slices.Concat([]any{begin, piece(0, "step")}, toolUse(1, fmt.Sprint("t", i), "look", `{}`), []any{endTools, counts})...))
	}
	s := newServer(t, replies...)
	req := ask(user("find " + strings.Repeat("the very long thing ", 300)))
	req.Tools = []llm.ToolDef{look()}
	m := s.model(t)
	for range replies {
		r := must(t, m, req)
		req.Messages = append(slices.Clip(req.Messages), r.Message, result(r.Message.ToolCalls[0].ID, "nothing here"))
	}
	for i := 1; i < len(s.Bodies); i++ {
		a, b := s.Bodies[i-1], s.Bodies[i]
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		if n*100 < len(a)*99 {
			t.Errorf("request %d repeats %d of %d bytes of the one before", i, n, len(a))
		}
	}
	if s.Conns != 1 {
		t.Errorf("%d connections, want 1", s.Conns)
	}
}

// What a model refuses in words is left out, once and for all.
func TestLearning(t *testing.T) {
	t.Parallel()
	whole := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"s"}}},{"text":"whole"},{"toolUse":{"toolUseId":"t","name":"look","input":{"p":"x"}}}]}},"stopReason":"tool_use","usage":{"inputTokens":3,"outputTokens":2}}`))
	}
	temp := 0.5
	for _, c := range []struct {
		name, message string
		second        http.HandlerFunc
		gone          string // no longer in the request
		there         string // now in the request
	}{
		{"streaming", "This model doesn't support tool use in streaming mode.", whole, "", ""},
		{"cache", "You invoked an unsupported model or your request did not allow prompt caching.", nil, "cachePoint", ""},
		{"temperature", "The model returned the following errors: `temperature` is deprecated for this model.", nil, "temperature", ""},
		{"tool choice", "This model doesn’t support the toolConfig.toolChoice.any field. Remove it and try again.", nil, "toolChoice", ""},
		{"tokens", "The maximum tokens you requested exceeds the model limit of 512. Try again with a lower value.", nil, "1000", `"maxTokens":512`},
		{"apart", "Conversation blocks and tool result blocks cannot be provided in the same turn.", nil, "", "I have the results"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			second := c.second
			if second == nil {
				second = reply(piece(0, "ok"))
			}
			s := newServer(t, refuse(400, "ValidationException", c.message), second, second)
			m := s.model(t)
			req := ask(user("a"), says("", llm.ToolCall{ID: "1", Name: "look"}), result("1", "r"), user("b"))
			req.Tools, req.Temperature, req.ToolChoice = []llm.ToolDef{look()}, &temp, "required"
			r := must(t, m, req)
			must(t, m, req) // needs no second lesson
			if len(s.Bodies) != 3 || s.Bodies[1] != s.Bodies[2] {
				t.Fatalf("%d requests, or the last two differ", len(s.Bodies))
			}
			if c.gone != "" && (!strings.Contains(s.Bodies[0], c.gone) || strings.Contains(s.Bodies[1], c.gone)) {
				t.Errorf("%q did not go away:\n%s\n%s", c.gone, s.Bodies[0], s.Bodies[1])
			}
			if !strings.Contains(s.Bodies[1], c.there) {
				t.Errorf("no %q in %s", c.there, s.Bodies[1])
			}
			if c.second != nil && (!strings.HasSuffix(s.Paths[1], "/converse") || r.Message.Content.Text != "whole" || r.Message.Reasoning != "hm" ||
				r.Message.ToolCalls[0].Arguments != `{"p":"x"}` || r.Finish != llm.FinishToolCalls || r.Usage.Prompt != 3) {
				t.Errorf("whole answer from %s = %+v", s.Paths[1], r)
			}
		})
	}
	t.Run("not twice", func(t *testing.T) {
		t.Parallel()
		no := refuse(400, "ValidationException", "This model doesn't support tool use in streaming mode.")
		s := newServer(t, no, no)
		if e := fails(t, s.model(t), ask()); e.Status != 400 || len(s.Bodies) != 2 {
			t.Errorf("error %v after %d requests", e, len(s.Bodies))
		}
	})
}

// history makes a conversation out of bytes, most of them illegal.
func history(data []byte) []llm.Message {
	var msgs []llm.Message
	ids := []string{"a", "b", "", "x|y", "a__dedupe_1", strings.Repeat("l", 64)}
	texts := []string{"", " ", "hello", "世界", "\xff"}
	stored := []json.RawMessage{
		wire.ThinkingBlock("t", "s"), wire.ThinkingBlock("t", ""), wire.RedactedBlock("AAAA"),
		json.RawMessage(`{"type":"text","text":"inner"}`), json.RawMessage(`{"type":"tool_use","id":"a"}`),
	}
	for len(data) >= 2 {
		kind, v := data[0], int(data[1])
		data = data[2:]
		text := texts[v%len(texts)]
		switch kind % 5 {
		case 0:
			msgs = append(msgs, user(text))
		case 1:
			msgs = append(msgs, llm.Message{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{{Type: "image_url", ImageURL: "data:image/png;base64,AA=="}, {Type: "text", Text: text}}}})
		case 2, 3:
			m := llm.Message{Role: llm.Assistant, Content: llm.Text(text), Origin: []string{"bedrock", "other"}[v/2%2]}
			for i := range v % 4 {
				m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: ids[(v+i*v/16)%len(ids)], Name: "f", Arguments: []string{"{}", "", "[", `{"a":1}`}[(v+i)%4]})
				m.Thinking = append(m.Thinking, stored[(v/4+3*i)%len(stored)])
			}
			msgs = append(msgs, m)
		default:
			msgs = append(msgs, llm.Message{Role: llm.ToolRole, ToolCallID: ids[v%len(ids)], Content: llm.Text(text), IsError: v > 99})
		}
	}
	return msgs
}

// Whatever the history, the request is legal and always the same.
func TestAnyHistoryIsLegal(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	answer := slices.Concat(event(begin), event(piece(0, "x")), event(endTurn), event(counts))
	for i := range 150 {
		data := make([]byte, 2*r.IntN(20))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		req := llm.Request{Model: claude, Messages: history(data), Tools: []llm.ToolDef{{Name: "f"}}[:i%2], Effort: []string{"", "low"}[i/2%2]}
		var bodies []string
		m := caught(t, answer, func(_ *http.Request, body []byte) {
			bodies = append(bodies, string(body))
			if err := checkConverse(body); err != nil {
				t.Errorf("history %x: %v\n%s", data, err, body)
			}
		})
		must(t, m, req)
		must(t, m, req)
		if t.Failed() || bodies[0] != bodies[1] {
			t.Fatalf("history %x: two encodings:\n%s\n%s", data, bodies[0], bodies[1])
		}
	}
}
