package responses_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/responses"
)

// tripFunc answers without a network.
type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func canned(tb testing.TB, contentType, body string) llm.Model {
	tb.Helper()
	m, err := responses.New(responses.Options{
		Name: "fake", BaseURL: "https://x.example/v1", Client: &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Whatever a server sends, the contract of a model holds: deltas that add up,
// then one answer or one error, and no call without a name or an id. What came
// back can be sent again.
func FuzzStream(f *testing.F) {
	f.Add("data: " + done + "\n\n")
	f.Add("data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"a\"}\n\ndata: {\"type\":\"response.output_text.done\",\"output_index\":0,\"text\":\"ab\"}\n\ndata: " + done + "\n\n")
	f.Add(`data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_0","call_id":"c","name":"f"}}` + "\n\n" +
		`data: {"type":"response.function_call_arguments.delta","item_id":"fc_0","delta":"{"}` + "\n\n" + "data: " + done + "\n\n")
	f.Add(`data: {"type":"response.output_item.done","item":{"type":"reasoning","id":"rs","summary":[{"text":"x"}],"encrypted_content":"e"}}` + "\n\n" + "data: " + done + "\n\n")
	f.Add(`data: {"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning","encrypted_content":"e"},{"type":"message","content":[{"type":"refusal","refusal":"no"}]},{"type":"function_call","name":"f"},{"type":"function_call","name":"f"}]}}` + "\n\n")
	f.Add(`data: {"type":"error","code":"x"}` + "\n\n")
	f.Add(`{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"t"}]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, kind := range []string{"text/event-stream", "application/json"} {
			w := llmtest.Watch(t.Context(), t, canned(t, kind, body), ask())
			if w.Response == nil {
				continue
			}
			msg := w.Response.Message
			if w.Reasoning != msg.Reasoning {
				t.Errorf("reasoning %q, deltas %q", msg.Reasoning, w.Reasoning)
			}
			seen := map[string]bool{}
			next := []llm.Message{user("q"), msg}
			for _, c := range msg.ToolCalls {
				if c.ID == "" || strings.TrimSpace(c.Name) == "" || seen[c.ID] {
					t.Errorf("call %+v", c)
				}
				seen[c.ID] = true
				next = append(next, result(c.ID, "r"))
			}
			sendAgain(t, append(next, user("more")))
		}
	})
}

// sendAgain checks that a history can be encoded as JSON with every call
// answered.
func sendAgain(t *testing.T, msgs []llm.Message) {
	t.Helper()
	m, err := responses.New(responses.Options{
		Name: "fake", BaseURL: "https://x.example/v1", Client: &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
			data, _ := io.ReadAll(r.Body)
			if _, err := llmtest.ResponsesHistory(data); err != nil {
				t.Errorf("history: %v\n%s", err, data)
			}
			return nil, io.EOF
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range m.Stream(t.Context(), ask(msgs...)) { //nolint:revive // only the request matters
	}
}

// The cost of putting a long stream together grows with its bytes only.
func BenchmarkStream(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		var s strings.Builder
		for range n {
			s.WriteString("data: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"word \"}\n\n")
		}
		s.WriteString("data: " + done + "\n\n")
		m := canned(b, "text/event-stream", s.String())
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(s.Len()))
			for b.Loop() {
				if _, err := llm.Collect(b.Context(), m, ask()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
