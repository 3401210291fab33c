package anthropic_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
)

// send makes one request and returns its body.
func send(t *testing.T, req llm.Request, change ...func(*anthropic.Options)) string {
	t.Helper()
	s := newServer(t, hello())
	mustCollect(t, s.model(t, change...), req)
	return s.Bodies[0]
}

func TestRequestBody(t *testing.T) {
	t.Parallel()
	temp := 0.1
	req := ask(user("hi <b>&"))
	req.Temperature = &temp
	req.Tools = []llm.ToolDef{
		{Name: "f", Description: "does f", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)},
		{Name: "g"},
	}
	want := `{"model":"claude-sonnet-4-6","max_tokens":100,"stream":true,"temperature":0.1,"tools":[` +
		`{"name":"f","description":"does f","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}},` +
		`{"name":"g","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}],` +
		`"system":[{"type":"text","text":"You help.","cache_control":{"type":"ephemeral"}}],` +
		`"messages":[{"role":"user","content":[{"type":"text","text":"hi <b>&","cache_control":{"type":"ephemeral"}}]}]}`
	if got := send(t, req); got != want {
		t.Errorf("body (-want +got):\n%s", cmp.Diff(want, got))
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	s := newServer(t, hello())
	mustCollect(t, s.model(t, func(o *anthropic.Options) {
		o.BaseURL += "/v1/"
		o.Version = "1.2.3"
		o.Betas = []string{"context-1m-2025-08-07", "interleaved-thinking-2025-05-14"}
		o.Headers = map[string]httpsafe.Secret{"X-Team": httpsafe.NewSecret("blue")}
	}), ask())
	for k, want := range map[string]string{
		"X-Api-Key": "sk-test-key", "Anthropic-Version": "2023-06-01", "Content-Type": "application/json", "User-Agent": "nanobot/1.2.3",
		"Anthropic-Beta": "context-1m-2025-08-07,interleaved-thinking-2025-05-14", "X-Team": "blue",
	} {
		if got := s.Headers[0].Get(k); got != want {
			t.Errorf("%s = %q, want %q", k, got, want)
		}
	}
}

func TestUserHeadersReplaceOurs(t *testing.T) {
	t.Parallel()
	s := newServer(t, hello())
	mustCollect(t, s.model(t, func(o *anthropic.Options) {
		o.Version = "1.2.3"
		o.Headers = map[string]httpsafe.Secret{"user-agent": httpsafe.NewSecret("mine"), "Authorization": httpsafe.NewSecret("Bearer x")}
		o.Key = httpsafe.Secret{}
	}), ask())
	if got := s.Headers[0].Get("User-Agent"); got != "mine" {
		t.Errorf("User-Agent = %q, want mine", got)
	}
	if got, sent := s.Headers[0]["X-Api-Key"]; sent {
		t.Errorf("X-Api-Key = %q, want none without a key", got)
	}
}

func TestBadBaseURL(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"api.example.com", "ftp://x", "http://", "http://%zz"} {
		if _, err := anthropic.New(anthropic.Options{BaseURL: base}); err == nil {
			t.Errorf("New with base %q: no error", base)
		}
	}
	if _, err := anthropic.New(anthropic.Options{}); err != nil {
		t.Errorf("New with nothing: %v", err)
	}
}

// turns shows a request's messages in short form: role, then each block.
func turns(t *testing.T, body string) []string {
	t.Helper()
	var out []string
	for _, m := range decode(t, body).Messages {
		var line strings.Builder
		line.WriteString(m.Role + ":")
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				line.WriteString(" " + b.Text)
			case "tool_use":
				line.WriteString(" call(" + b.ID + ")")
			case "tool_result":
				line.WriteString(" result(" + b.ToolUseID)
				if b.IsError {
					line.WriteString(" error")
				}
				line.WriteString(" " + string(b.Content) + ")")
			default:
				line.WriteString(" [" + b.Type + "]")
			}
		}
		out = append(out, line.String())
	}
	return out
}

func TestHistoryRepair(t *testing.T) {
	t.Parallel()
	failed := result("a", "boom")
	failed.IsError = true
	cases := []struct {
		name string
		msgs []llm.Message
		want []string
	}{
		{"two users", []llm.Message{user("a"), user("b")}, []string{"user: a b"}},
		{"two assistants", []llm.Message{user("a"), assistant("b"), assistant("c"), user("d")}, []string{"user: a", "assistant: b c", "user: d"}},
		{"blank user", []llm.Message{user(" \n")}, []string{"user: (empty)"}},
		{"blank assistant dropped", []llm.Message{user("a"), assistant(" "), user("b")}, []string{"user: a b"}},
		{"trailing assistant removed", []llm.Message{user("a"), assistant("b")}, []string{"user: a"}},
		{"only assistant", []llm.Message{assistant("b")}, []string{"user: b"}},
		{"only a call", []llm.Message{assistant("", call("a", "f", "{}"))}, []string{"user: (The conversation goes on from here.)"}},
		{"nothing", []llm.Message{}, []string{"user: (The conversation goes on from here.)"}},
		{
			"leading assistant",
			[]llm.Message{assistant("b"), user("c")},
			[]string{"user: (The conversation goes on from here.)", "assistant: b", "user: c"},
		},
		{
			"leading call",
			[]llm.Message{assistant("", call("a", "f", "{}")), result("a", "r")},
			[]string{"user: (The conversation goes on from here.)", "assistant: call(a)", `user: result(a "r")`},
		},
		{
			"results in order, then text",
			[]llm.Message{user("q"), assistant("x", call("a", "f", "{}"), call("b", "g", "{}")), result("a", "1"), user("also"), result("b", "2")},
			[]string{"user: q", "assistant: x call(a) call(b)", `user: result(a "1") result(b "2") also`},
		},
		{
			"error and empty result",
			[]llm.Message{user("q"), assistant("", call("a", "f", "{}"), call("b", "f", "{}")), failed, result("b", "")},
			[]string{"user: q", "assistant: call(a) call(b)", `user: result(a error "boom") result(b "(empty)")`},
		},
		{
			"orphan result dropped",
			[]llm.Message{user("q"), result("zz", "?"), assistant("x"), result("y", "?"), user("on")},
			[]string{"user: q", "assistant: x", "user: on"},
		},
		{
			"missing result made up",
			[]llm.Message{user("q"), assistant("", call("a", "f", "{}"), call("b", "f", "{}")), result("b", "2"), assistant("x"), user("on")},
			[]string{
				"user: q", "assistant: call(a) call(b)",
				`user: result(b "2") result(a error "No result was recorded for this call; it may or may not have run.")`,
				"assistant: x", "user: on",
			},
		},
		{
			"missing result before the user's next words",
			[]llm.Message{user("q"), assistant("", call("a", "f", "{}")), user("on")},
			[]string{
				"user: q", "assistant: call(a)",
				`user: result(a error "No result was recorded for this call; it may or may not have run.") on`,
			},
		},
		{
			"late result is an orphan",
			[]llm.Message{user("q"), assistant("", call("a", "f", "{}")), assistant("x"), result("a", "late"), user("on")},
			[]string{
				"user: q", "assistant: call(a)",
				`user: result(a error "No result was recorded for this call; it may or may not have run.")`, "assistant: x", "user: on",
			},
		},
		{
			"call without a name",
			[]llm.Message{user("q"), assistant("x", call("a", "", "{}")), result("a", "?"), user("on")},
			[]string{"user: q", "assistant: x", "user: on"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := ask(user("x"))
			req.Messages = c.msgs
			if got := turns(t, send(t, req)); !cmp.Equal(got, c.want) {
				t.Errorf("turns (-want +got):\n%s", cmp.Diff(c.want, got))
			}
		})
	}
}

func TestRepairsAreLogged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	req := ask(user("q"), result("zz", "secret text"))
	req.SessionKey = "cli:1"
	send(t, req, func(o *anthropic.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	if got := log.String(); !strings.Contains(got, "orphan_results=1") || !strings.Contains(got, "session=cli:1") || strings.Contains(got, "secret") {
		t.Errorf("log = %q", got)
	}
}

// 63: results with an image go into one turn; the trailing assistant is gone.
func TestResultsWithImages(t *testing.T) {
	t.Parallel()
	picture := llm.Message{Role: llm.ToolRole, ToolCallID: "b", Content: llm.Content{Blocks: []llm.Block{
		{Type: "text", Text: "a picture"}, {Type: "image_url", ImageURL: "data:image/png;base64,iVBOR=", Path: "/x.png"},
	}}}
	body := send(t, ask(user("q"), assistant("", call("a", "f", "{}"), call("b", "g", "{}")), result("a", "1"), picture, assistant("bye")))
	want := []string{
		`{"type":"tool_result","tool_use_id":"a","content":"1"}`,
		`{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"a picture"},` +
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBOR="}}],"cache_control":{"type":"ephemeral"}}`,
	}
	if got := contentOf(t, body, 2); !cmp.Equal(got, want) {
		t.Errorf("results (-want +got):\n%s", cmp.Diff(want, got))
	}
	if n := len(decode(t, body).Messages); n != 3 {
		t.Errorf("%d turns, want 3", n)
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	body := send(t, ask(llm.Message{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{
		{Type: "image_url", ImageURL: "https://x/y.png"},
		{Type: "image_url", ImageURL: "data:image/jpg;base64,AA=="},
		{Type: "image_url", ImageURL: "data:image/svg+xml,<svg/>"},
		{Raw: json.RawMessage(`{"b":1,"a":"<"}`)},
		{Type: "document", Raw: json.RawMessage(`{"type":"document","source":{"type":"text","data":"x"}}`)},
		{Type: "text", Text: "  "},
	}}}))
	want := []string{
		`{"type":"image","source":{"type":"url","url":"https://x/y.png"}}`,
		`{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AA=="}}`,
		`{"type":"text","text":"[image could not be sent]"}`,
		`{"type":"text","text":"{\"a\":\"<\",\"b\":1}","cache_control":{"type":"ephemeral"}}`,
		`{"type":"document","source":{"type":"text","data":"x"}}`,
	}
	if got := contentOf(t, body, 0); !cmp.Equal(got, want) {
		t.Errorf("content (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// 64: foreign and repeated ids become legal and unique, and results find their calls.
func TestToolIDs(t *testing.T) {
	t.Parallel()
	body := send(t, ask(
		user("q"), assistant("", call("call_1|fc_2", "f", "{}"), call("call_1|fc_2", "f", "{}")), result("call_1|fc_2", "first"), result("call_1|fc_2", "second"),
		assistant("", call("call_1|fc_2", "f", "{}")), result("call_1|fc_2", "third"),
		assistant("", call("", "f", "{}"), call("", "f", "{}")), result("", "fourth"), result("", "fifth"),
		assistant("", call("…"+strings.Repeat("长", 60), "f", "{}")), result("…"+strings.Repeat("长", 60), "sixth"),
	))
	w := decode(t, body)
	answers := map[string]string{}
	var ids []string
	for _, m := range w.Messages {
		for _, b := range m.Content {
			switch b.Type {
			case "tool_use":
				ids = append(ids, b.ID)
			case "tool_result":
				answers[b.ToolUseID] = string(b.Content)
			}
		}
	}
	var got []string
	for _, id := range ids {
		got = append(got, answers[id])
	}
	want := []string{`"first"`, `"second"`, `"third"`, `"fourth"`, `"fifth"`, `"sixth"`}
	if !cmp.Equal(got, want) {
		t.Errorf("results in the order of their calls = %v, want %v (ids %v)", got, want, ids)
	}
	if !strings.HasPrefix(ids[0], "call_1_fc_2_") || len(ids[0]) != len("call_1_fc_2_")+8 || ids[1] != ids[0]+"__dedupe_1" || ids[2] != ids[0]+"__dedupe_2" {
		t.Errorf("ids = %v", ids)
	}
	if !strings.HasPrefix(ids[3], "toolu_") || len(ids[3]) != 28 {
		t.Errorf("made id = %q", ids[3])
	}
}

func TestArgumentsAreReplayedAsObjects(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                        `{}`,
		`{"a": 1}`:                `{"a": 1}`,
		`[1,2]`:                   `{}`,
		`nonsense`:                `{}`,
		"```json\n{\"a\":1}\n```": `{"a":1}`,
	} {
		body := send(t, ask(user("q"), assistant("", call("a", "f", args)), result("a", "r")))
		if got := string(decode(t, body).Messages[1].Content[0].Input); got != want {
			t.Errorf("input for %q = %s, want %s", args, got, want)
		}
	}
}

func TestSystemMessagesAreJoined(t *testing.T) {
	t.Parallel()
	body := send(t, ask(user("q"), llm.Message{Role: llm.System, Content: llm.Text("Later rule.")}, user("r")))
	w := decode(t, body)
	if len(w.System) != 1 || w.System[0].Text != "You help.\n\nLater rule." || len(w.Messages) != 1 {
		t.Errorf("system = %+v, turns = %d", w.System, len(w.Messages))
	}
	req := ask()
	req.System = " "
	if body := send(t, req); strings.Contains(body, `"system"`) {
		t.Errorf("a blank system prompt was sent: %s", body)
	}
}

// 65, 66 and the table of thinking modes.
func TestThinkingModes(t *testing.T) {
	t.Parallel()
	const enabled = `{"type":"enabled","budget_tokens":%d}`
	cases := []struct {
		model, effort string
		max           int
		thinking      string
		output        string
		wantMax       int
		temperature   string // as sent, "" if not
	}{
		{"claude-sonnet-4-6", "", 100, "", "", 100, "0.5"},
		{"claude-sonnet-4-6", "none", 100, "", "", 100, "0.5"},
		{"claude-sonnet-5", "none", 100, `{"type":"disabled"}`, "", 100, ""},
		{"claude-opus-5-1-20270101", "none", 100, `{"type":"disabled"}`, "", 100, ""},
		{"claude-opus-4-8", "none", 100, "", "", 100, ""},
		{"claude-sonnet-4-6", "adaptive", 100, `{"type":"adaptive"}`, "", 100, "1"},
		{"claude-opus-4-8", "adaptive", 100, `{"type":"adaptive"}`, "", 100, ""},
		{"claude-sonnet-4-5", "adaptive", 100, fmt.Sprintf(enabled, 4096), "", 8192, "1"},
		{"claude-sonnet-4-20250514", "low", 100, fmt.Sprintf(enabled, 1024), "", 5120, "1"},
		{"claude-sonnet-4-20250514", "minimal", 100, fmt.Sprintf(enabled, 1024), "", 5120, "1"},
		{"claude-sonnet-4-20250514", "medium", 20000, fmt.Sprintf(enabled, 4096), "", 20000, "1"},
		{"claude-sonnet-4-20250514", "curious", 100, fmt.Sprintf(enabled, 4096), "", 8192, "1"},
		{"claude-sonnet-4-20250514", "high", 100, fmt.Sprintf(enabled, 8192), "", 12288, "1"},
		{"claude-sonnet-4-20250514", "max", 20000, fmt.Sprintf(enabled, 20000), "", 24096, "1"},
		{"claude-opus-4-8", "high", 100, `{"type":"adaptive"}`, `{"effort":"high"}`, 100, ""},
		{"anthropic/claude-opus-4.7", "xhigh", 100, `{"type":"adaptive"}`, `{"effort":"xhigh"}`, 100, ""},
		{"claude-opus-4-7", "minimal", 100, `{"type":"adaptive"}`, `{"effort":"low"}`, 100, ""},
		{"claude-haiku-5", "max", 100, `{"type":"adaptive"}`, `{"effort":"max"}`, 100, ""},
		{"claude-fable-5", "low", 100, `{"type":"adaptive"}`, `{"effort":"low"}`, 100, ""},
		{"claude-opus-4-20250514", "high", 100, fmt.Sprintf(enabled, 8192), "", 12288, "1"},
		{"claude-mythos-preview", "low", 100, fmt.Sprintf(enabled, 1024), "", 5120, ""},
		{"claude-3-5-sonnet-20241022", "high", 100, "", "", 100, "0.5"},
		{"claude-3-7-sonnet-20250219", "low", 100, fmt.Sprintf(enabled, 1024), "", 5120, "1"},
		{"us.anthropic.claude-opus-4-8-v1:0", "high", 100, `{"type":"adaptive"}`, `{"effort":"high"}`, 100, ""},
		{"MiniMax-M2", "low", 0, fmt.Sprintf(enabled, 1024), "", 8192, "1"},
		{"claude-sonnet-4-6", "", 0, "", "", 8192, "0.5"},
	}
	for _, c := range cases {
		t.Run(c.model+" "+c.effort, func(t *testing.T) {
			t.Parallel()
			temp := 0.5
			req := ask()
			req.Model, req.Effort, req.MaxTokens, req.Temperature = c.model, c.effort, c.max, &temp
			w := decode(t, send(t, req))
			sent := ""
			if w.Temperature != nil {
				sent = fmt.Sprint(*w.Temperature)
			}
			got := []string{string(w.Thinking), string(w.Output), fmt.Sprint(w.MaxTokens), sent}
			if want := []string{c.thinking, c.output, fmt.Sprint(c.wantMax), c.temperature}; !cmp.Equal(got, want) {
				t.Errorf("thinking, output_config, max_tokens, temperature (-want +got):\n%s", cmp.Diff(want, got))
			}
		})
	}
}

func TestTemperatureIsClamped(t *testing.T) {
	t.Parallel()
	temp := 1.7
	req := ask()
	req.Temperature = &temp
	if got := decode(t, send(t, req)).Temperature; got == nil || *got != 1 {
		t.Errorf("temperature = %v, want 1", got)
	}
}

// A tool loop begun without thinking must go on without it, or the API refuses.
func TestThinkingWaitsForTheNextTurn(t *testing.T) {
	t.Parallel()
	req := ask(user("q"), assistant("", call("a", "f", "{}")), result("a", "r"))
	req.Effort = "high"
	if w := decode(t, send(t, req)); w.Thinking != nil {
		t.Errorf("thinking = %s inside a loop without thinking, want none", w.Thinking)
	}
	req.Messages = append(req.Messages, assistant("done"), user("next"))
	if w := decode(t, send(t, req)); w.Thinking == nil {
		t.Error("no thinking in a new turn")
	}
	signed := assistant("", call("b", "f", "{}"))
	signed.Origin = "anthropic"
	signed.Thinking = []json.RawMessage{json.RawMessage(`{"type":"thinking","thinking":"hm","signature":"s"}`)}
	req.Messages = append(req.Messages, signed, result("b", "r"))
	if w := decode(t, send(t, req)); w.Thinking == nil {
		t.Error("no thinking in a loop that began with thinking")
	}
}

func TestToolChoice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ choice, effort, want string }{
		{"", "", ""},
		{"auto", "", ""},
		{"none", "", `{"type":"none"}`},
		{"none", "high", `{"type":"none"}`},
		{"required", "", `{"type":"any"}`},
		{"f", "", `{"type":"tool","name":"f"}`},
		{"required", "high", ""},
		{"f", "adaptive", ""},
	} {
		req := ask()
		req.Tools = []llm.ToolDef{{Name: "f"}}
		req.ToolChoice, req.Effort = c.choice, c.effort
		if got := string(decode(t, send(t, req)).ToolChoice); got != c.want {
			t.Errorf("choice %q, effort %q: tool_choice = %s, want %s", c.choice, c.effort, got, c.want)
		}
	}
	req := ask()
	req.ToolChoice = "required"
	if got := string(decode(t, send(t, req)).ToolChoice); got != "" {
		t.Errorf("tool_choice without tools = %s, want none", got)
	}
}

func TestCacheMarkers(t *testing.T) {
	t.Parallel()
	tool := func(names ...string) (defs []llm.ToolDef) {
		for _, n := range names {
			defs = append(defs, llm.ToolDef{Name: n})
		}
		return defs
	}
	var many []llm.ToolCall
	var results []llm.Message
	for i := range 12 {
		id := fmt.Sprint("c", i)
		many = append(many, call(id, "f", "{}"))
		results = append(results, result(id, "r"))
	}
	big := append([]llm.Message{user("q"), assistant("", many...)}, results...)
	cases := []struct {
		name   string
		req    llm.Request
		change func(*anthropic.Options)
		want   []string
	}{
		{"plain", ask(), nil, []string{"system", "0.0"}},
		{"built-in and mcp tools", llm.Request{System: "s", Tools: tool("a", "b", "mcp_x"), Messages: []llm.Message{user("q")}}, nil, []string{"tool b", "system", "0.0"}},
		{"no system", llm.Request{Tools: tool("a", "mcp_x"), Messages: []llm.Message{user("q")}}, nil, []string{"tool a", "tool mcp_x", "0.0"}},
		{"only mcp tools", llm.Request{System: "s", Tools: tool("mcp_x"), Messages: []llm.Message{user("q")}}, nil, []string{"system", "0.0"}},
		{"newest turn", ask(user("a"), assistant("b"), user("c"), user("d")), nil, []string{"system", "2.1"}},
		{
			"a long step keeps the mark before it",
			llm.Request{System: "s", Tools: tool("a", "mcp_x"), Messages: big},
			nil,
			[]string{"tool a", "system", "0.0", "2.11"},
		},
		{
			"one hour",
			llm.Request{System: "s", Tools: tool("a"), Messages: []llm.Message{user("q")}},
			func(o *anthropic.Options) { o.CacheTTL = time.Hour },
			[]string{"tool a 1h", "system 1h", "0.0"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.req.Model = "claude-sonnet-4-6"
			var change []func(*anthropic.Options)
			if c.change != nil {
				change = append(change, c.change)
			}
			if got := markers(t, send(t, c.req, change...)); !cmp.Equal(got, c.want) {
				t.Errorf("markers = %v, want %v", got, c.want)
			}
		})
	}
}

func markers(t *testing.T, body string) []string {
	t.Helper()
	w := decode(t, body)
	ttl := func(raw json.RawMessage) string {
		if strings.Contains(string(raw), `"1h"`) {
			return " 1h"
		}
		return ""
	}
	var out []string
	for _, raw := range w.Tools {
		var d struct {
			Name         string          `json:"name"`
			CacheControl json.RawMessage `json:"cache_control"`
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		if d.CacheControl != nil {
			out = append(out, "tool "+d.Name+ttl(d.CacheControl))
		}
	}
	for _, b := range w.System {
		if b.CacheControl != nil {
			out = append(out, "system"+ttl(b.CacheControl))
		}
	}
	for i, m := range w.Messages {
		for j, b := range m.Content {
			if b.CacheControl != nil {
				out = append(out, fmt.Sprintf("%d.%d%s", i, j, ttl(b.CacheControl)))
			}
		}
	}
	return out
}

// Each request repeats nearly all bytes of the one before it as a prefix.
func TestPrefixIsStable(t *testing.T) {
	t.Parallel()
	req := ask(user("start"))
	req.System = strings.Repeat("You are careful. ", 300)
	req.Tools = []llm.ToolDef{{Name: "f", Description: strings.Repeat("x", 2000)}, {Name: "mcp_g"}}
	before := send(t, req)
	for i := range 8 {
		id := fmt.Sprint("c", i)
		a := assistant("step", call(id, "f", `{"n":1}`))
		a.Origin = "anthropic"
		a.Thinking = []json.RawMessage{json.RawMessage(`{"type":"thinking","thinking":"hm","signature":"s"}`)}
		req.Messages = append(slices.Clip(req.Messages), a, result(id, strings.Repeat("output ", 50)))
		if i%3 == 2 {
			req.Messages = append(req.Messages, assistant("done"), user("next"))
		}
		body := send(t, req)
		shared := 0
		for shared < min(len(before), len(body)) && before[shared] == body[shared] {
			shared++
		}
		if ratio := float64(shared) / float64(len(before)); ratio < 0.99 {
			t.Errorf("request %d repeats %.2f%% of the one before", i, 100*ratio)
		}
		before = body
	}
}

func TestRequestIsNotModified(t *testing.T) {
	t.Parallel()
	build := func() llm.Request {
		m := assistant("x", call("a|b", "f", "[]"))
		m.Origin = "anthropic"
		m.Thinking = []json.RawMessage{json.RawMessage(`{"type":"thinking","thinking":"hm","signature":"s"}`)}
		return ask(assistant("only"), user("q"), m, user("mid"), result("a|b", "r"), assistant("tail"))
	}
	req := build()
	send(t, req)
	if diff := cmp.Diff(build(), req); diff != "" {
		t.Errorf("the request was modified:\n%s", diff)
	}
}

func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	body := send(t, ask(user("a\xffb")))
	if got := decode(t, body).Messages[0].Content[0].Text; got != "a\uFFFDb" {
		t.Errorf("text = %q", got)
	}
}
