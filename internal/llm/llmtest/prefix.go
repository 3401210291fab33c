package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// PromptPrefix checks that a request begins with the bytes of the one before it.
func PromptPrefix(t *testing.T, newModel func(tb testing.TB, c *http.Client) llm.Model) {
	t.Helper()
	if lowest, mean := cachedPrefix(t, newModel); lowest < 0.99 {
		t.Errorf("a request repeats only %.2f %% of the one before (mean %.2f %%), want 99 %%", 100*lowest, 100*mean)
	}
}

// BenchPrefix reports how much of a request the next one repeats.
func BenchPrefix(b *testing.B, newModel func(tb testing.TB, c *http.Client) llm.Model) {
	b.Helper()
	var lowest, mean float64
	for b.Loop() {
		lowest, mean = cachedPrefix(b, newModel)
	}
	b.ReportMetric(100*lowest, "%lowest")
	b.ReportMetric(100*mean, "%mean")
}

// cachedPrefix plays a conversation of 30 turns with tools, two requests each,
// and returns which share of a request's bytes the next one begins with: the
// lowest and the mean. Vendors charge a fraction for such a prefix.
func cachedPrefix(tb testing.TB, newModel func(tb testing.TB, c *http.Client) llm.Model) (lowest, mean float64) {
	tb.Helper()
	rec := &bodies{next: Canned(StreamReply{Text: []string{"ok"}}).Transport}
	m := newModel(tb, &http.Client{Transport: rec})
	req := llm.Request{
		Model: "claude-sonnet-4-6", MaxTokens: 2000, SessionKey: "cli:direct",
		System: strings.Repeat("You are a careful assistant and answer briefly. ", 120),
	}
	for i := range 8 {
		name := fmt.Sprintf("tool_%d", i)
		if i > 5 {
			name = "mcp_" + name
		}
		req.Tools = append(req.Tools, llm.ToolDef{
			Name: name, Description: strings.Repeat("It does something useful. ", 8),
			Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
		})
	}

	ask := func() {
		if _, err := llm.Collect(tb.Context(), m, req); err != nil {
			tb.Fatal(err)
		}
	}
	for turn := range 30 {
		id := fmt.Sprintf("call_%d", turn)
		req.Messages = append(req.Messages, llm.Message{Role: llm.User, Content: llm.Text(fmt.Sprintf("Question %d, please look it up.", turn))})
		ask()
		req.Messages = append(req.Messages,
			llm.Message{Role: llm.Assistant, Content: llm.Text("Let me see."), Origin: "fake", ToolCalls: []llm.ToolCall{{ID: id, Name: "tool_1", Arguments: `{"path":"notes.md"}`}}},
			llm.Message{Role: llm.ToolRole, ToolCallID: id, Name: "tool_1", Content: llm.Text(strings.Repeat("a line of the file\n", 20))})
		ask()
		req.Messages = append(req.Messages, llm.Message{Role: llm.Assistant, Origin: "fake", Content: llm.Text(fmt.Sprintf("Answer %d.", turn))})
	}

	lowest = 1
	for i := 1; i < len(rec.list); i++ {
		a, b := rec.list[i-1], rec.list[i]
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		share := float64(n) / float64(len(a))
		lowest = min(lowest, share)
		mean += share / float64(len(rec.list)-1)
	}

	return lowest, mean
}

// bodies keeps what was sent.
type bodies struct {
	next http.RoundTripper
	list [][]byte
}

// RoundTrip implements http.RoundTripper.
func (r *bodies) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.list = append(r.list, body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	return r.next.RoundTrip(req)
}
