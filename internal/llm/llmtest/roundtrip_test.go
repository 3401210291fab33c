package llmtest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// TestFactsNotice: whatever a wire must keep, its loss is seen, and what it may
// lose is not.
func TestFactsNotice(t *testing.T) {
	t.Parallel()
	full := func() []llm.Message {
		return []llm.Message{
			{Role: llm.User, Content: llm.Content{Blocks: []llm.Block{{Type: "text", Text: "look"}, {Type: "image_url", ImageURL: "data:image/png;base64,AAAA"}}}},
			{
				Role: llm.Assistant, Content: llm.Text("so"), Origin: "fake", Reasoning: "why", HasReasoning: true, ReasoningDetails: json.RawMessage(`[1]`),
				Thinking: []json.RawMessage{wire.ThinkingBlock("why", "s")}, ToolCalls: []llm.ToolCall{{ID: "1", Name: "f", Arguments: `{"p":1}`}},
			},
			{Role: llm.ToolRole, ToolCallID: "1", Name: "f", Content: llm.Text("r"), IsError: true},
		}
	}
	for _, c := range []struct {
		name    string
		lose    func([]llm.Message) []llm.Message
		noticed string // by these wires
	}{
		{"nothing", func(m []llm.Message) []llm.Message { return m }, ""},
		{"picture", func(m []llm.Message) []llm.Message { m[0].Content.Blocks = m[0].Content.Blocks[:1]; return m }, "chat msgs resp bedr"},
		{"text", func(m []llm.Message) []llm.Message { m[1].Content = llm.Text(""); return m }, "chat msgs resp bedr"},
		{"call", func(m []llm.Message) []llm.Message { m[1].ToolCalls = nil; return m }, "chat msgs resp bedr"},
		{"arguments", func(m []llm.Message) []llm.Message { m[1].ToolCalls[0].Arguments = "{}"; return m }, "chat msgs resp bedr"},
		{"result", func(m []llm.Message) []llm.Message { return m[:2] }, "chat msgs resp bedr"},
		{"id", func(m []llm.Message) []llm.Message { m[2].ToolCallID = "2"; return m }, "chat msgs resp bedr"},
		{"thinking", func(m []llm.Message) []llm.Message { m[1].Thinking = nil; return m }, "msgs resp bedr"},
		{"failure", func(m []llm.Message) []llm.Message { m[2].IsError = false; return m }, "msgs bedr"},
		{"reasoning", func(m []llm.Message) []llm.Message { m[1].HasReasoning = false; return m }, "chat"},
		{"details", func(m []llm.Message) []llm.Message { m[1].ReasoningDetails = nil; return m }, "chat"},
		{"name", func(m []llm.Message) []llm.Message { m[2].Name = ""; return m }, "chat"},
	} {
		noticed := ""
		for _, wire := range []string{"chat", "msgs", "resp", "bedr"} {
			k := KeepsOf(wire)
			if !cmp.Equal(k.facts(full()), k.facts(c.lose(full()))) {
				if noticed != "" {
					noticed += " "
				}
				noticed += wire
			}
		}
		if noticed != c.noticed {
			t.Errorf("loss of %s is noticed by %q, want %q", c.name, noticed, c.noticed)
		}
	}
}
