package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// house is an API before an agent that says what a test tells it to.
type house struct {
	*httptest.Server

	mu  sync.Mutex
	got []bus.Inbound
}

type script func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool)

func says(outs ...bus.Outbound) script {
	return func(_ context.Context, _ bus.Inbound, yield func(bus.Outbound, error) bool) {
		for _, o := range outs {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func final(text string, t bus.Turn) bus.Outbound {
	if t.StopReason == "" {
		t.StopReason = "completed"
	}
	return bus.Outbound{Kind: bus.Final, Text: text, Turn: &t}
}

func open(t *testing.T, s script, change ...func(*api.Options)) *house {
	t.Helper()
	h := &house{}
	o := api.Options{
		Media: api.Uploads{Dir: t.TempDir()}, Metrics: api.NewMetrics("v1", time.Unix(0, 0), func() time.Time { return time.Unix(5, 0) }),
		Models: func() []api.Model { return []api.Model{{ID: "nanobot"}, {ID: "org/fast", Preset: "fast"}} },
		Now:    func() time.Time { return time.Unix(1700000000, 0) },
		Ask: func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
			h.mu.Lock()
			h.got = append(h.got, in)
			h.mu.Unlock()
			return func(yield func(bus.Outbound, error) bool) { s(ctx, in, yield) }
		},
	}
	for _, c := range change {
		c(&o)
	}
	a, err := api.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h.Server = httptest.NewServer(a.Handler())
	t.Cleanup(h.Close)
	return h
}

// post sends JSON and returns status, headers and body.
func (h *house) post(t *testing.T, path, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	return h.send(t, http.MethodPost, path, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

func (h *house) send(t *testing.T, method, path, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := h.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

func (h *house) last(t *testing.T) bus.Inbound {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.got) == 0 {
		t.Fatal("nothing reached the agent")
	}
	return h.got[len(h.got)-1]
}

func parse(t *testing.T, body string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return v
}

// TestChat: the whole form of an answer, with what it cost.
func TestChat(t *testing.T) {
	t.Parallel()
	h := open(t, says(
		bus.Outbound{Kind: bus.Message, Text: "On it.", Media: []bus.Media{{Path: "/ws/a.png"}}},
		bus.Outbound{Kind: bus.ToolEvent, Tool: &bus.Tool{Name: "read_file", Phase: "start"}},
		final("Done.", bus.Turn{Usage: bus.Usage{Prompt: 10, Completion: 5, Cached: 4}}),
	))
	status, head, body := h.post(t, "/v1/chat/completions", `{"model":"nanobot","temperature":0.3,"messages":[{"role":"user","content":"hi"}]}`)
	got := parse(t, body)
	id, _ := got["id"].(string)
	delete(got, "id")
	want := map[string]any{
		"object": "chat.completion", "created": 1.7e9, "model": "nanobot",
		"choices": []any{map[string]any{
			"index": 0.0, "finish_reason": "stop",
			"message": map[string]any{"role": "assistant", "content": "On it.\n[file: a.png at /ws/a.png]\n\nDone."},
		}},
		"usage": map[string]any{"prompt_tokens": 10.0, "completion_tokens": 5.0, "total_tokens": 15.0, "prompt_tokens_details": map[string]any{"cached_tokens": 4.0}},
	}
	if d := cmp.Diff(want, got); d != "" || status != 200 || !strings.HasPrefix(id, "chatcmpl-") {
		t.Errorf("status %d, id %q (-want +got)\n%s", status, id, d)
	}
	if !strings.HasPrefix(head.Get("X-Request-Id"), "req_") {
		t.Errorf("headers %v", head)
	}
	in := h.last(t)
	if !in.Stateless || !in.OwnTurn || in.WantsStream || in.Interactive || in.Text != "hi" || in.SessionKey != "api:"+in.Route.ChatID || in.Route.Channel != "api" {
		t.Errorf("inbound %+v", in)
	}
}

// TestChatHistory: who keeps the conversation decides what the agent gets.
func TestChatHistory(t *testing.T) {
	t.Parallel()
	const msgs = `"messages":[
		{"role":"system","content":"be brief"},
		{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":"sunny"},
		{"role":"assistant","content":"ok"},
		{"role":"developer","content":"in German"},
		{"role":"user","content":"c"},
		{"role":"user","content":"d"}]`
	all := []bus.Said{
		{Role: "system", Text: "be brief", Clean: true},
		{Role: "user", Text: "a\nb", Clean: true},
		{Role: "assistant", Text: "[called f with {}]"},
		{Role: "tool", Text: "sunny"},
		{Role: "assistant", Text: "ok"},
		{Role: "system", Text: "in German", Clean: true},
	}
	instructions := []bus.Said{all[0], all[5]}
	for name, c := range map[string]struct {
		history, body string
		header        string
		key           string // "" is a random one
		want          []bus.Said
	}{
		"no name":        {"server", `{` + msgs + `}`, "", "", all},
		"session_id":     {"server", `{"session_id":"s1",` + msgs + `}`, "", "api:s1", instructions},
		"user":           {"", `{"user":"u1",` + msgs + `}`, "", "", all},
		"default":        {"default", `{` + msgs + `}`, "", "", all}, // the client keeps it
		"header first":   {"server", `{"session_id":"s1","user":"u1",` + msgs + `}`, "h1", "api:h1", instructions},
		"id before user": {"server", `{"session_id":"s1","user":"u1",` + msgs + `}`, "", "api:s1", instructions},
		"client's":       {"client", `{"user":"u1",` + msgs + `}`, "", "", all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, says(final("ok", bus.Turn{})), func(o *api.Options) { o.History = c.history })
			var headers []string
			if c.header != "" {
				headers = []string{"X-Nanobot-Session", c.header}
			}
			status, _, body := h.post(t, "/v1/chat/completions", c.body, headers...)
			if status != 200 {
				t.Fatalf("status %d: %s", status, body)
			}
			in := h.last(t)
			if d := cmp.Diff(c.want, in.History); d != "" || in.Text != "c\n\nd" {
				t.Errorf("text %q, history (-want +got)\n%s", in.Text, d)
			}
			if in.Stateless != (c.key == "") || c.key != "" && in.SessionKey != c.key || !strings.HasPrefix(in.SessionKey, "api:") {
				t.Errorf("key %q, stateless %v", in.SessionKey, in.Stateless)
			}
			more, _ := parse(t, body)["nanobot"].(map[string]any)
			if session, _ := more["session"].(string); c.key != "" && "api:"+session != c.key || c.key == "" && session != "" {
				t.Errorf("told the session %q", session)
			}
		})
	}
}

// TestPythonsConversation: with the configuration of Python nanobot, one message
// without a session name continues api:default.
func TestPythonsConversation(t *testing.T) {
	t.Parallel()
	h := open(t, says(final("ok", bus.Turn{})), func(o *api.Options) { o.History = "default" })
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"hi"}]}`:                  "api:default",
		`{"session_id":"s","messages":[{"role":"user","content":"hi"}]}`: "api:s",
	} {
		if status, _, got := h.post(t, "/v1/chat/completions", body); status != 200 {
			t.Fatalf("status %d: %s", status, got)
		}
		if in := h.last(t); in.Stateless || in.SessionKey != want {
			t.Errorf("%s: key %q, stateless %v; want %s", body, in.SessionKey, in.Stateless, want)
		}
	}
}

// TestToolChoice: a client can ask for an answer without tools.
func TestToolChoice(t *testing.T) {
	t.Parallel()
	h := open(t, says(final("ok", bus.Turn{})))
	for choice, want := range map[string]bool{
		`"none"`: true, `"auto"`: false, `{"type":"function","function":{"name":"f"}}`: false,
		`{"type":"none"}`: true, `{"type":"any"}`: false, `{"type":7}`: false,
	} {
		for path, body := range map[string]string{
			"/v1/chat/completions": `"messages":[{"role":"user","content":"hi"}]`,
			"/v1/responses":        `"input":"hi"`,
			"/v1/messages":         `"messages":[{"role":"user","content":"hi"}]`,
		} {
			if status, _, got := h.post(t, path, `{"tool_choice":`+choice+`,`+body+`}`); status != 200 {
				t.Fatalf("%s %s: status %d: %s", path, choice, status, got)
			}
			if got := h.last(t).NoTools; got != want {
				t.Errorf("%s %s: without tools %v, want %v", path, choice, got, want)
			}
			// Tools that are not to be called are no reason to refuse a request.
			tools := `"tools":[{"type":"function","name":"f","function":{"name":"f"}}],`
			if status, _, got := h.post(t, path, `{`+tools+`"tool_choice":`+choice+`,`+body+`}`); (status == 200) != want {
				t.Errorf("%s %s with tools: status %d: %s", path, choice, status, got)
			}
		}
	}
}

// TestChatStream: the role first, text as it comes with steps as paragraphs,
// the finish reason, the usage if asked for, the mark of the end.
func TestChatStream(t *testing.T) {
	t.Parallel()
	h := open(t, says(
		bus.Outbound{Kind: bus.Delta, Text: "Let me "},
		bus.Outbound{Kind: bus.Delta, Text: "look."},
		bus.Outbound{Kind: bus.DeltaEnd, Resuming: true},
		bus.Outbound{Kind: bus.ToolEvent, Tool: &bus.Tool{CallID: "1", Name: "grep", Phase: "start", Arguments: "{}"}},
		bus.Outbound{Kind: bus.Reasoning, Text: "hm"},
		bus.Outbound{Kind: bus.Delta, Text: "Found."},
		bus.Outbound{Kind: bus.DeltaEnd},
		func() bus.Outbound {
			o := final("Found.", bus.Turn{Usage: bus.Usage{Prompt: 1, Completion: 2}})
			o.Streamed = true
			return o
		}(),
	))
	_, head, body := h.post(t, "/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},"nanobot":{"events":true},"messages":[{"role":"user","content":"hi"}]}`)
	if got := head.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
	var text strings.Builder
	var seen []string
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok || data == "[DONE]" {
			seen = append(seen, frame)
			continue
		}
		v := parse(t, data)
		choices := v["choices"].([]any)
		switch {
		case len(choices) == 0:
			seen = append(seen, "usage")
			if got := v["usage"].(map[string]any)["total_tokens"]; got != 3.0 {
				t.Errorf("usage %v", v["usage"])
			}
			continue
		case v["nanobot"] != nil && v["nanobot"].(map[string]any)["type"] != nil:
			seen = append(seen, v["nanobot"].(map[string]any)["type"].(string))
			continue
		}
		c := choices[0].(map[string]any)
		delta := c["delta"].(map[string]any)
		switch {
		case delta["role"] != nil:
			seen = append(seen, "role")
		case c["finish_reason"] != nil:
			seen = append(seen, c["finish_reason"].(string))
		default:
			seen = append(seen, "text")
			text.WriteString(delta["content"].(string))
		}
	}
	if got, want := strings.Join(seen, " "), "role text text tool reasoning text stop usage data: [DONE]"; got != want {
		t.Errorf("chunks %q, want %q", got, want)
	}
	if got, want := text.String(), "Let me look.\n\nFound."; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if !h.last(t).WantsStream {
		t.Error("the agent was not asked to stream")
	}
}

// TestChatStreamWhole: what was not streamed comes in one piece.
func TestChatStreamWhole(t *testing.T) {
	t.Parallel()
	h := open(t, says(final("All at once.", bus.Turn{})))
	_, _, body := h.post(t, "/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	if !strings.Contains(body, `"content":"All at once."`) || strings.Contains(body, `"usage"`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("got %s", body)
	}
}

// TestStreamFails: an error before the first piece is a status, one after it
// an event, and never looks like a good end.
func TestStreamFails(t *testing.T) {
	t.Parallel()
	broken := bus.Turn{StopReason: "error", Error: "the model is away", ErrorKind: "overloaded"}
	for path, request := range map[string]string{
		"/v1/chat/completions": `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/responses":        `{"stream":true,"input":"hi"}`,
		"/v1/messages":         `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			status, _, body := open(t, says(final("the model is away", broken))).post(t, path, request)
			if status != 503 || !strings.Contains(body, "the model is away") {
				t.Errorf("a failed turn: %d %s", status, body)
			}
			status, head, body := open(t, func(_ context.Context, _ bus.Inbound, yield func(bus.Outbound, error) bool) {
				yield(bus.Outbound{}, errors.New("disk full at /secret"))
			}).post(t, path, request)
			if status != 500 || strings.Contains(body, "/secret") || !strings.Contains(body, "request id") || head.Get("X-Should-Retry") != "false" {
				t.Errorf("status %d %v: %s", status, head, body)
			}
			_, _, body = open(t, func(_ context.Context, _ bus.Inbound, yield func(bus.Outbound, error) bool) {
				yield(bus.Outbound{Kind: bus.Delta, Text: "so far"}, nil)
				yield(bus.Outbound{}, errors.New("disk full"))
			}).post(t, path, request)
			if !strings.Contains(body, "so far") || !strings.Contains(body, `"message":"The turn failed`) ||
				strings.Contains(body, "[DONE]") || strings.Contains(body, "response.completed") || strings.Contains(body, "message_stop") {
				t.Errorf("got %s", body)
			}
		})
	}
}

// TestFinish: why an answer ended is told as it is.
func TestFinish(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turn   bus.Turn
		chat   string
		status string
		reason any
		stop   string // of /v1/messages
	}{
		"done":      {bus.Turn{}, "stop", "completed", nil, "end_turn"},
		"cut":       {bus.Turn{Truncated: true}, "length", "incomplete", "max_output_tokens", "max_tokens"},
		"steps":     {bus.Turn{StopReason: "max_iterations"}, "length", "incomplete", "max_output_tokens", "max_tokens"},
		"budget":    {bus.Turn{StopReason: "budget_exceeded"}, "length", "incomplete", "max_output_tokens", "max_tokens"},
		"refused":   {bus.Turn{StopReason: "refused"}, "content_filter", "incomplete", "content_filter", "refusal"},
		"filtered":  {bus.Turn{StopReason: "error", Error: "x", ErrorKind: "content_filter"}, "content_filter", "incomplete", "content_filter", "refusal"},
		"repeating": {bus.Turn{StopReason: "loop_detected"}, "stop", "completed", nil, "end_turn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, says(final("text", c.turn)))
			_, _, body := h.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`)
			if got := parse(t, body)["choices"].([]any)[0].(map[string]any)["finish_reason"]; got != c.chat {
				t.Errorf("finish %v, want %v", got, c.chat)
			}
			_, _, body = h.post(t, "/v1/responses", `{"input":"hi"}`)
			v := parse(t, body)
			var reason any
			if d, ok := v["incomplete_details"].(map[string]any); ok {
				reason = d["reason"]
			}
			if v["status"] != c.status || reason != c.reason {
				t.Errorf("response %v %v, want %v %v", v["status"], reason, c.status, c.reason)
			}
			_, _, body = h.post(t, "/v1/messages", `{"messages":[{"role":"user","content":"hi"}]}`)
			if got := parse(t, body)["stop_reason"]; got != c.stop {
				t.Errorf("stop reason %v, want %v", got, c.stop)
			}
		})
	}
}

// TestTurnErrors: what a model's failure means to a client.
func TestTurnErrors(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]struct {
		status int
		retry  string
	}{
		"rate_limit": {429, "true"}, "overloaded": {503, "true"}, "timeout": {504, "false"}, "auth": {502, "false"},
		"billing": {402, "false"}, "budget_exceeded": {402, "false"}, "context_length": {400, "false"},
		"unsupported_image": {400, "false"}, "connection": {502, "false"}, "": {500, "false"},
	} {
		t.Run("kind "+kind, func(t *testing.T) {
			t.Parallel()
			h := open(t, says(final("", bus.Turn{StopReason: "error", Error: "told", ErrorKind: kind})))
			status, head, body := h.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`)
			e := parse(t, body)["error"].(map[string]any)
			if status != want.status || head.Get("X-Should-Retry") != want.retry || e["message"] != "told" {
				t.Errorf("status %d, retry %q, %v; want %+v", status, head.Get("X-Should-Retry"), e, want)
			}
			if (status == 429 || status == 503) != (head.Get("Retry-After") != "") {
				t.Errorf("status %d with Retry-After %q", status, head.Get("Retry-After"))
			}
		})
	}
}

// TestBadRequests: every mistake gets an answer that says what it is.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	msg := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	for name, c := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"broken JSON":       {"chat/completions", `{"messages":`, 400, "not valid JSON"},
		"no object":         {"chat/completions", `[1]`, 400, "JSON object"},
		"empty":             {"chat/completions", ``, 400, "JSON object"},
		"wrong type":        {"chat/completions", `{"messages":"hi"}`, 400, "messages must not be"},
		"no messages":       {"chat/completions", `{"messages":[]}`, 400, "no messages"},
		"unknown role":      {"chat/completions", `{"messages":[{"role":"robot","content":"x"}]}`, 400, "robot"},
		"assistant last":    {"chat/completions", `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"x"}]}`, 400, "must be the user's"},
		"only a system":     {"chat/completions", `{"messages":[{"role":"system","content":"x"}]}`, 400, "must be the user's"},
		"blank":             {"chat/completions", msg(`"  "`), 400, "must say something"},
		"number content":    {"chat/completions", msg(`7`), 400, "a text or a list"},
		"unknown part":      {"chat/completions", msg(`[{"type":"video"}]`), 400, "video"},
		"unknown model":     {"chat/completions", `{"model":"gpt-9","messages":[{"role":"user","content":"x"}]}`, 404, "gpt-9"},
		"two answers":       {"chat/completions", `{"n":2,"messages":[{"role":"user","content":"x"}]}`, 400, "leave n out"},
		"own tools":         {"chat/completions", `{"tools":[{"type":"function"}],"messages":[{"role":"user","content":"x"}]}`, 400, "its own tools"},
		"JSON answers":      {"chat/completions", `{"response_format":{"type":"json_object"},"messages":[{"role":"user","content":"x"}]}`, 400, "response_format"},
		"spoken answers":    {"chat/completions", `{"modalities":["audio"],"messages":[{"role":"user","content":"x"}]}`, 400, "text"},
		"bad session":       {"chat/completions", `{"session_id":"a\u0000b","messages":[{"role":"user","content":"x"}]}`, 400, "session"},
		"long session":      {"chat/completions", `{"session_id":"` + strings.Repeat("x", 129) + `","messages":[{"role":"user","content":"x"}]}`, 400, "session"},
		"file address":      {"chat/completions", msg(`[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]`), 400, "data: or http"},
		"remote picture":    {"chat/completions", msg(`[{"type":"image_url","image_url":{"url":"http://127.0.0.1/x.png"}}]`), 400, "not fetched here"},
		"no picture":        {"chat/completions", msg(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGFsbG8="}}]`), 400, "not a PNG"},
		"bad base64":        {"chat/completions", msg(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,???"}}]`), 400, "base64"},
		"file by id":        {"chat/completions", msg(`[{"type":"file","file":{"file_id":"x"}}]`), 400, "file_data"},
		"too large":         {"chat/completions", msg(`"` + strings.Repeat("x", 1<<16) + `"`), 413, "at most"},
		"file too large":    {"chat/completions", msg(`[{"type":"file","file":{"filename":"a","file_data":"` + strings.Repeat("AAAA", 2000) + `"}}]`), 413, "A file may"},
		"previous response": {"responses", `{"previous_response_id":"r","input":"x"}`, 400, "conversation"},
		"background":        {"responses", `{"background":true,"input":"x"}`, 400, "background"},
		"JSON response":     {"responses", `{"text":{"format":{"type":"json_schema"}},"input":"x"}`, 400, "format"},
		"unknown item":      {"responses", `{"input":[{"type":"web_search_call"}]}`, 400, "web_search_call"},
		"no input":          {"responses", `{}`, 400, "must say something"},
		"unknown path":      {"embeddings", `{}`, 404, "POST /v1/embeddings"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, says(final("x", bus.Turn{})), func(o *api.Options) { o.MaxBody, o.Media.MaxFile = 1<<16, 4000 })
			status, head, body := h.post(t, "/v1/"+c.path, c.body)
			e, _ := parse(t, body)["error"].(map[string]any)
			msg, _ := e["message"].(string)
			if status != c.status || !strings.Contains(msg, c.want) || e["type"] != "invalid_request_error" || head.Get("X-Should-Retry") != "false" {
				t.Errorf("status %d: %s; want %d with %q", status, body, c.status, c.want)
			}
			if len(h.got) > 0 {
				t.Error("it reached the agent")
			}
		})
	}
}

// TestAdmission: nobody gets in who should not.
func TestAdmission(t *testing.T) {
	t.Parallel()
	const ok = `{"messages":[{"role":"user","content":"x"}]}`
	key := func(o *api.Options) { o.Token = httpsafe.NewSecret(token) }
	page := func(o *api.Options) { o.Origins = []string{"https://chat.example"} }
	json := []string{"Content-Type", "application/json"}
	for name, c := range map[string]struct {
		change  func(*api.Options)
		headers []string
		status  int
	}{
		"no key needed":          {nil, json, 200},
		"no key":                 {key, json, 401},
		"wrong key":              {key, append(json, "Authorization", "Bearer 0123456789abcdef-tokem"), 401},
		"wrong scheme":           {key, append(json, "Authorization", "Basic "+token), 401},
		"right key":              {key, append(json, "Authorization", "Bearer "+token), 200},
		"key in X-Api-Key":       {key, append(json, "X-Api-Key", token), 200},
		"wrong in X-Api-Key":     {key, append(json, "X-Api-Key", token+"x"), 401},
		"nothing in X-Api-Key":   {key, append(json, "X-Api-Key", ""), 401},
		"one of two keys right":  {key, append(json, "X-Api-Key", token, "Authorization", "Bearer wrong"), 200},
		"X-Api-Key, no key set":  {nil, append(json, "X-Api-Key", "any"), 200},
		"text/plain":             {nil, []string{"Content-Type", "text/plain"}, 415},
		"no type":                {nil, nil, 415},
		"form":                   {nil, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"foreign page":           {nil, append(json, "Origin", "https://evil.example"), 403},
		"foreign page, null":     {nil, append(json, "Origin", "null"), 403},
		"foreign page, quiet":    {nil, append(json, "Sec-Fetch-Site", "cross-site"), 403},
		"foreign form":           {nil, []string{"Content-Type", "multipart/form-data; boundary=x", "Origin", "https://evil.example"}, 403},
		"listed page":            {page, append(json, "Origin", "https://chat.example", "Sec-Fetch-Site", "cross-site"), 200},
		"rebound name":           {nil, append(json, "Host", "evil.example"), 403},
		"behind a proxy":         {nil, append(json, "X-Forwarded-For", "10.0.0.1"), 403},
		"behind a load balancer": {nil, append(json, "X-Amzn-Trace-Id", "1"), 403},
		"behind a mesh":          {nil, append(json, "X-Envoy-Internal", "true"), 403},
		"behind a tunnel":        {nil, append(json, "Cf-Ray", "1"), 403},
		"behind a platform":      {nil, append(json, "Fly-Client-Ip", "192.0.2.1"), 403},
		"a header of tomorrow":   {nil, append(json, "X-Whoever-Sent-This", "192.0.2.1"), 403},
		"a vendor's library":     {nil, append(json, "X-Stainless-Lang", "python", "Openai-Organization", "o"), 200},
		"proxy, other words":     {nil, append(json, "X-Forwarded-Host", "bot.example"), 403},
		"proxy of a CDN":         {nil, append(json, "Cf-Connecting-Ip", "10.0.0.1"), 403},
		"proxy, only its name":   {nil, append(json, "Via", "1.1 front"), 403},
		"proxy and right key":    {key, append(json, "X-Forwarded-For", "10.0.0.1", "Authorization", "Bearer "+token), 200},
		"localhost":              {nil, append(json, "Host", "localhost:80"), 200},
		"name of ours":           {func(o *api.Options) { o.Hosts = []string{"bot.lan"} }, append(json, "Host", "bot.lan"), 200},
		"same page, wrong key":   {key, append(json, "Origin", "http://localhost", "Host", "localhost"), 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.change == nil {
				c.change = func(*api.Options) {}
			}
			h := open(t, says(final("x", bus.Turn{})), c.change)
			status, head, body := h.send(t, http.MethodPost, "/v1/chat/completions", ok, c.headers...)
			if status != c.status {
				t.Errorf("status %d, want %d: %s", status, c.status, body)
			}
			if status != 200 && len(h.got) > 0 {
				t.Error("it reached the agent")
			}
			if (status == 401) != (head.Get("WWW-Authenticate") != "") {
				t.Errorf("challenge %q", head.Get("WWW-Authenticate"))
			}
			if (name == "listed page") != (head.Get("Access-Control-Allow-Origin") != "") {
				t.Errorf("CORS %q", head.Get("Access-Control-Allow-Origin"))
			}
		})
	}
	h := open(t, says(), page, key)
	status, head, _ := h.send(t, http.MethodOptions, "/v1/chat/completions", "", "Origin", "https://chat.example", "Access-Control-Request-Method", "POST")
	if status != 204 || !strings.Contains(head.Get("Access-Control-Allow-Headers"), "Authorization, X-Api-Key, ") {
		t.Errorf("preflight: %d %v", status, head)
	}
}

// TestServeNeedsKey: a listener for other machines is refused without a key.
func TestServeNeedsKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token string
		want  string
	}{"none": {"", "needs a key"}, "short": {"secret", "at least 16"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "0.0.0.0:0")
			if err != nil {
				t.Fatal(err)
			}
			a, err := api.New(api.Options{Token: httpsafe.NewSecret(c.token), Ask: newAgent().ask})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if _, err := l.Accept(); err == nil {
				t.Error("the listener is still open")
			}
		})
	}
}

// TestDisconnect: a client that goes away ends its turn.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"whole": `{"messages":[{"role":"user","content":"x"}]}`, "stream": `{"stream":true,"messages":[{"role":"user","content":"x"}]}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started, stopped := make(chan struct{}), make(chan error, 1)
			h := open(t, func(ctx context.Context, _ bus.Inbound, yield func(bus.Outbound, error) bool) {
				yield(bus.Outbound{Kind: bus.Delta, Text: "x"}, nil)
				close(started)
				<-ctx.Done()
				stopped <- context.Cause(ctx)
				yield(bus.Outbound{}, errors.New("stopped"))
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-started; cancel() }()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if resp, err := h.Client().Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			<-stopped
		})
	}
}

// deaf is a client that takes nothing any more.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestDeaf: a turn whose stream nobody takes is stopped.
func TestDeaf(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"stream":true,"messages":[{"role":"user","content":"x"}]}`,
		"/v1/responses":        `{"stream":true,"input":"x"}`,
		"/v1/messages":         `{"stream":true,"messages":[{"role":"user","content":"x"}]}`,
	} {
		stopped := false
		h := open(t, func(ctx context.Context, _ bus.Inbound, yield func(bus.Outbound, error) bool) {
			yield(bus.Outbound{Kind: bus.Delta, Text: "x"}, nil)
			select {
			case <-ctx.Done():
				stopped = true
			default:
			}
			yield(bus.Outbound{}, errors.New("stopped"))
		}, func(o *api.Options) { o.Token = httpsafe.NewSecret(token) })
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		h.Config.Handler.ServeHTTP(deaf{httptest.NewRecorder()}, r)
		if !stopped {
			t.Errorf("%s: the turn went on", path)
		}
	}
}

// TestTimeout: a turn that takes too long is ended and told so.
func TestTimeout(t *testing.T) {
	t.Parallel()
	h := open(t, func(ctx context.Context, _ bus.Inbound, yield func(bus.Outbound, error) bool) {
		<-ctx.Done()
		yield(bus.Outbound{}, errors.New("stopped"))
	}, func(o *api.Options) { o.Timeout = 10 * time.Millisecond })
	status, head, body := h.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`)
	if status != 504 || !strings.Contains(body, "longer than 10ms") || head.Get("X-Should-Retry") != "false" {
		t.Errorf("status %d: %s", status, body)
	}
}

// TestFault: errors of the agent are told as the wiring says.
func TestFault(t *testing.T) {
	t.Parallel()
	busy := errors.New("busy")
	h := open(t, func(_ context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
		if in.Text == "nothing" {
			return
		}
		yield(bus.Outbound{}, busy)
	}, func(o *api.Options) {
		o.Fault = func(err error) (int, string) {
			if errors.Is(err, busy) {
				return 503, "Come back later."
			}
			return 0, ""
		}
	})
	status, head, body := h.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`)
	if status != 503 || head.Get("Retry-After") == "" || !strings.Contains(body, "Come back later.") {
		t.Errorf("status %d: %s", status, body)
	}
	if status, _, body := h.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"nothing"}]}`); status != 500 {
		t.Errorf("a turn without an answer: %d %s", status, body)
	}
}

// TestModelsAndSessions: the smaller paths.
func TestModelsAndSessions(t *testing.T) {
	t.Parallel()
	var deleted string
	h := open(t, says(final("x", bus.Turn{})), func(o *api.Options) {
		o.DeleteSession = func(_ context.Context, key string) (bool, error) {
			deleted = key
			return key == "api:a/b", nil
		}
	})
	_, _, body := h.send(t, http.MethodGet, "/v1/models", "")
	want := `{"object":"list","data":[{"id":"nanobot","object":"model","created":0,"owned_by":"nanobot"},{"id":"org/fast","object":"model","created":0,"owned_by":"nanobot"}]}` + "\n"
	if body != want {
		t.Errorf("models %s", body)
	}
	if status, _, body := h.send(t, http.MethodGet, "/v1/models/org%2Ffast", ""); status != 200 || parse(t, body)["id"] != "org/fast" {
		t.Errorf("model: %d %s", status, body)
	}
	if status, _, _ := h.send(t, http.MethodGet, "/v1/models/none", ""); status != 404 {
		t.Errorf("no model: %d", status)
	}
	h.post(t, "/v1/chat/completions", `{"model":"org/fast","messages":[{"role":"user","content":"x"}]}`)
	if got := h.last(t).Preset; got != "fast" {
		t.Errorf("preset %q", got)
	}
	if status, _, body := h.send(t, http.MethodDelete, "/v1/sessions/a%2Fb", ""); status != 200 || deleted != "api:a/b" || parse(t, body)["deleted"] != true {
		t.Errorf("delete: %d %s of %q", status, body, deleted)
	}
	if status, _, _ := h.send(t, http.MethodDelete, "/v1/sessions/none", ""); status != 404 {
		t.Errorf("delete nothing: %d", status)
	}
	client := open(t, says(), func(o *api.Options) { o.History = "client" })
	if status, _, body := client.post(t, "/v1/chat/completions", `{"session_id":"s","messages":[{"role":"user","content":"x"}]}`); status != 400 || !strings.Contains(body, "kept by the client") {
		t.Errorf("a session where none is kept: %d %s", status, body)
	}
}
