package anthropic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// server answers with scripted replies, one per request, and refuses requests
// that the real one would refuse.
type server struct{ *llmtest.Handlers }

func newServer(t *testing.T, replies ...http.HandlerFunc) *server {
	t.Helper()
	return &server{llmtest.NewHandlers(t, checkWire, replies...)}
}

func (s *server) model(t *testing.T, change ...func(*anthropic.Options)) llm.Model {
	t.Helper()
	o := anthropic.Options{BaseURL: s.URL, Key: httpsafe.NewSecret("sk-test-key"), Client: s.Client()}
	for _, f := range change {
		f(&o)
	}
	m, err := anthropic.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sse replies with an event stream; every argument is the JSON of one event.
func sse(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, ev := range events {
			var t struct {
				Type string `json:"type"`
			}
			_ = json.Unmarshal([]byte(ev), &t)
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", t.Type, ev)
		}
	}
}

func status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

const (
	start    = `{"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],"usage":{"input_tokens":3,"cache_creation_input_tokens":2,"cache_read_input_tokens":5,"output_tokens":1}}}`
	stopText = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`
	stopTool = `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`
	end      = `{"type":"message_stop"}`
)

func quoteJSON(s string) string { return string(text.AppendJSON(nil, s)) }

func textBlock(i int, deltas ...string) []string {
	out := []string{fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i)}
	for _, d := range deltas {
		out = append(out, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%s}}`, i, quoteJSON(d)))
	}
	return append(out, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
}

func thinkBlock(i int, signature string, deltas ...string) []string {
	out := []string{fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"thinking","thinking":"","signature":""}}`, i)}
	for _, d := range deltas {
		out = append(out, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"thinking_delta","thinking":%s}}`, i, quoteJSON(d)))
	}
	if signature != "" {
		out = append(out, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":%s}}`, i, quoteJSON(signature)))
	}
	return append(out, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
}

func toolBlock(i int, id, name string, deltas ...string) []string {
	out := []string{fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`, i, id, name)}
	for _, d := range deltas {
		out = append(out, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, quoteJSON(d)))
	}
	return append(out, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
}

// stream joins events and groups of events.
func stream(parts ...any) http.HandlerFunc {
	var events []string
	for _, p := range parts {
		switch v := p.(type) {
		case string:
			events = append(events, v)
		case []string:
			events = append(events, v...)
		}
	}
	return sse(events...)
}

func hello() http.HandlerFunc { return stream(start, textBlock(0, "Hel", "lo"), stopText, end) }

// wire is a request as the vendor reads it.
type wire struct {
	Model       string            `json:"model"`
	MaxTokens   int               `json:"max_tokens"`
	Stream      bool              `json:"stream"`
	Temperature *float64          `json:"temperature"`
	Thinking    json.RawMessage   `json:"thinking"`
	Output      json.RawMessage   `json:"output_config"`
	Tools       []json.RawMessage `json:"tools"`
	ToolChoice  json.RawMessage   `json:"tool_choice"`
	System      []wireBlock       `json:"system"`
	Messages    []wireTurn        `json:"messages"`
}

type wireTurn struct {
	Role    string      `json:"role"`
	Content []wireBlock `json:"content"`
}

type wireBlock struct {
	Type         string          `json:"type"`
	Text         string          `json:"text"`
	ID           string          `json:"id"`
	ToolUseID    string          `json:"tool_use_id"`
	Input        json.RawMessage `json:"input"`
	Content      json.RawMessage `json:"content"`
	IsError      bool            `json:"is_error"`
	Signature    string          `json:"signature"`
	CacheControl json.RawMessage `json:"cache_control"`
}

func decode(t *testing.T, body string) wire {
	t.Helper()
	var w wire
	if err := json.Unmarshal([]byte(body), &w); err != nil {
		t.Fatalf("body is not JSON: %v\n%s", err, body)
	}
	return w
}

// checkWire holds a request against the rules of the real API.
func checkWire(r *http.Request, body []byte) error {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/messages":
		return fmt.Errorf("%s %s", r.Method, r.URL.Path)
	case r.Header.Get("X-Api-Key") == "" && r.Header.Get("Authorization") == "":
		return fmt.Errorf("no credentials")
	case r.Header.Get("Anthropic-Version") != "2023-06-01":
		return fmt.Errorf("anthropic-version %q", r.Header.Get("Anthropic-Version"))
	case strings.Count(string(body), `"cache_control"`) > 4:
		return fmt.Errorf("more than 4 cache markers")
	}
	var w wire
	if err := json.Unmarshal(body, &w); err != nil {
		return err
	}
	if w.Model == "" || w.MaxTokens < 1 || !w.Stream || len(w.Messages) == 0 || w.Messages[0].Role != "user" {
		return fmt.Errorf("model, max_tokens, stream or first message wrong")
	}
	ids := map[string]bool{}
	open := map[string]bool{}
	idPattern := regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	for i, m := range w.Messages {
		if len(m.Content) == 0 || i > 0 && m.Role == w.Messages[i-1].Role {
			return fmt.Errorf("turn %d is empty or repeats a role", i)
		}
		others := false
		next := map[string]bool{}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				if strings.TrimSpace(b.Text) == "" {
					return fmt.Errorf("blank text in turn %d", i)
				}
				others = true
			case "image":
				if m.Role != "user" {
					return fmt.Errorf("image in an assistant turn %d", i)
				}
				others = true
			case "tool_use":
				if !idPattern.MatchString(b.ID) || ids[b.ID] || m.Role != "assistant" || len(b.Input) == 0 || b.Input[0] != '{' {
					return fmt.Errorf("tool_use %q in turn %d", b.ID, i)
				}
				ids[b.ID], next[b.ID] = true, true
			case "tool_result":
				if !open[b.ToolUseID] || others {
					return fmt.Errorf("tool_result %q in turn %d", b.ToolUseID, i)
				}
				delete(open, b.ToolUseID)
			case "thinking", "redacted_thinking":
				if b.CacheControl != nil || m.Role != "assistant" || b.Type == "thinking" && b.Signature == "" {
					return fmt.Errorf("bad thinking block in turn %d", i)
				}
			}
		}
		if len(open) > 0 {
			return fmt.Errorf("calls without a result before turn %d: %v", i+1, open)
		}
		open = next
	}
	if n := len(w.Messages); strings.Contains(string(w.Thinking), "enabled") && n > 1 && w.Messages[n-1].Content[0].Type == "tool_result" {
		if first := w.Messages[n-2].Content[0].Type; first != "thinking" && first != "redacted_thinking" {
			return fmt.Errorf("thinking is on, but the last assistant turn begins with %s", first)
		}
	}
	return nil
}

func user(s string) llm.Message { return llm.Message{Role: llm.User, Content: llm.Text(s)} }

func call(id, name, args string) llm.ToolCall {
	return llm.ToolCall{ID: id, Name: name, Arguments: args}
}

func assistant(text string, calls ...llm.ToolCall) llm.Message {
	return llm.Message{Role: llm.Assistant, Content: llm.Text(text), ToolCalls: calls}
}

func result(id, text string) llm.Message {
	return llm.Message{Role: llm.ToolRole, ToolCallID: id, Name: "t", Content: llm.Text(text)}
}

func ask(msgs ...llm.Message) llm.Request {
	if len(msgs) == 0 {
		msgs = []llm.Message{user("hi")}
	}
	return llm.Request{Model: "claude-sonnet-4-6", System: "You help.", Messages: msgs, MaxTokens: 100}
}

// collect runs a request and checks the contract of a stream on the way.
func collect(t *testing.T, m llm.Model, req llm.Request) (llm.Response, error) {
	t.Helper()
	var text, thought strings.Builder
	var resp *llm.Response
	var failed error
	for ev, err := range m.Stream(t.Context(), req) {
		if resp != nil || failed != nil {
			t.Fatal("something came after the end")
		}
		switch {
		case err != nil:
			failed = err
		case ev.Kind == llm.TextDelta:
			text.WriteString(ev.Text)
		case ev.Kind == llm.ReasoningDelta:
			thought.WriteString(ev.Text)
		case ev.Kind == llm.Done:
			resp = ev.Response
		}
	}
	if failed != nil {
		return llm.Response{}, failed
	}
	if resp == nil {
		t.Fatal("the stream ended without Done or error")
	}
	if got, want := text.String(), resp.Message.Content.Text; got != want {
		t.Errorf("text deltas = %q, want %q", got, want)
	}
	if got, want := thought.String(), resp.Message.Reasoning; got != want {
		t.Errorf("reasoning deltas = %q, want %q", got, want)
	}
	return *resp, nil
}

func mustCollect(t *testing.T, m llm.Model, req llm.Request) llm.Response {
	t.Helper()
	resp, err := collect(t, m, req)
	if err != nil {
		t.Fatalf("stream: %v", err)
	}
	return resp
}
