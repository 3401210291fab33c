package openai_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
)

// TestCases replays the conformance files. Those of the wire "err" are about
// the layers around a driver; they are shown over this one.
func TestCases(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{"chat", "strm", "err"} {
		llmtest.Conformance(t, wire, caseModel)
	}
}

func TestHistoriesComeBack(t *testing.T) {
	t.Parallel()
	llmtest.RoundTrip(t, "chat", "test-model", caseModel)
}

// caseModel makes a driver for an offline server.
func caseModel(t *testing.T, s *llmtest.Server, o llmtest.Setup) llm.Model {
	t.Helper()
	m, err := openai.New(openai.Options{
		Name: "fake", BaseURL: s.URL, Key: httpsafe.NewSecret(llmtest.Key), Client: s.Client(), Quirks: o.Quirks(), IdleTimeout: o.IdleTimeout(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNarrowVendors: vendors that refuse unknown keys get none, whatever the
// history holds, and at the first try.
func TestNarrowVendors(t *testing.T) {
	t.Parallel()
	for _, brand := range []string{"mistral", "groq"} {
		s := llmtest.NewOffline(t, false)
		s.Brand = brand
		s.Say(llmtest.StreamReply{Text: []string{"ok"}})
		temp := 0.5
		w := llmtest.Watch(t.Context(), t, caseModel(t, s, llmtest.Setup{Brand: brand}), llm.Request{
			Model: "m", System: "s", MaxTokens: 100, Temperature: &temp, SessionKey: "cli:1", Tools: request("f").Tools, ToolChoice: "auto",
			Messages: []llm.Message{
				user("a"),
				{
					Role: llm.Assistant, Content: llm.Text("b"), Reasoning: "r", HasReasoning: true, Origin: "fake",
					ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "f", Arguments: "{}"}},
				},
				{Role: llm.ToolRole, ToolCallID: "call_1", Name: "f", Content: llm.Text("r")},
			},
		})
		if n := len(s.Requests()); w.Err != nil || n != 1 {
			t.Errorf("%s: %d requests, error %v", brand, n, w.Err)
		}
	}
}
