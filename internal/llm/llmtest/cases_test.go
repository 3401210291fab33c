package llmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// drivenWires are the wires whose cases a test of some package replays: openai
// (chat, strm, err), anthropic, responses, bedrock, signin and runner.
const drivenWires = "chat strm err msgs resp bedr oauth loop"

// TestEveryCaseHasAFile: the specification numbers its cases from 1 to 94.
func TestEveryCaseHasAFile(t *testing.T) {
	t.Parallel()
	have := map[int]bool{}
	var pending []string
	for _, c := range Cases(t, "") {
		have[c.Number] = true
		if !slices.Contains(strings.Fields(drivenWires), c.Wire) {
			pending = append(pending, c.Name)
		}
	}
	for n := 1; n <= 94; n++ {
		if !have[n] {
			t.Errorf("case %d has no file", n)
		}
	}
	if len(pending) > 0 {
		t.Errorf("nothing drives %v", pending)
	}
}

// complaints collects what a check finds instead of failing.
type complaints struct {
	testing.TB
	list []string
}

func (c *complaints) Helper()                      {}
func (c *complaints) Errorf(f string, args ...any) { c.list = append(c.list, fmt.Sprintf(f, args...)) }

// TestWantsCanFail: every part of a want notices a difference.
func TestWantsCanFail(t *testing.T) {
	t.Parallel()
	answer := func() (result, *Server) {
		s := NewOffline(t, false)
		s.requests = []Recorded{{Path: "/v1/chat/completions", Body: []byte(`{"model":"m"}`)}}
		return result{events: "TD", waits: []string{"in 2 s"}, Watched: Watched{Text: "a", Reasoning: "r", Response: &llm.Response{
			Message: llm.Message{Content: llm.Text("a"), Reasoning: "r", HasReasoning: true, ToolCalls: []llm.ToolCall{{ID: "1", Name: "f", Arguments: `{"p":1}`}}},
			Finish:  llm.FinishToolCalls, Usage: llm.Usage{Prompt: 1},
		}}}, s
	}
	failed := func() (result, *Server) {
		_, s := answer()
		return result{Watched: Watched{Err: &llm.Error{Kind: llm.Auth, Status: 401, Message: "no key"}}}, s
	}
	canceled := func() (result, *Server) {
		_, s := answer()
		return result{Watched: Watched{Err: context.Canceled}}, s
	}
	for _, c := range []struct {
		want string
		of   func() (result, *Server)
		fine bool
	}{
		{`{"text":"a","reasoning":"r","calls":[{"id":"1","name":"f","args":{"p":1},"raw":"{\"p\":1}"}],"finish":"tool_calls","runs":true,"usage":{"prompt_tokens":1},"events":"TD","waits":["2 s"],"requests":1,"paths":["completions"],"sent":["model"],"notSent":["x"]}`, answer, true},
		{`{"error":{"kind":"auth","status":401,"retryable":false,"fallsBack":true,"says":["key"],"hides":["x"]}}`, failed, true},
		{`{"error":{"canceled":true}}`, canceled, true},
		{`{"text":"b"}`, answer, false},
		{`{"reasoning":"absent"}`, answer, false},
		{`{"calls":[]}`, answer, false},
		{`{"calls":[{"id":"2","name":"f"}]}`, answer, false},
		{`{"calls":[{"id":"?","name":"f"}]}`, answer, false},
		{`{"calls":[{"name":"g"}]}`, answer, false},
		{`{"calls":[{"name":"f","args":{"p":2}}]}`, answer, false},
		{`{"calls":[{"name":"f","raw":"{}"}]}`, answer, false},
		{`{"calls":[{"name":"f","error":"cut"}]}`, answer, false},
		{`{"calls":[{"name":"f","extra":{"x":1}}]}`, answer, false},
		{`{"finish":"stop"}`, answer, false},
		{`{"runs":false}`, answer, false},
		{`{"usage":{"prompt_tokens":2}}`, answer, false},
		{`{"events":"D"}`, answer, false},
		{`{"waits":["3 s"]}`, answer, false},
		{`{"waits":["2 s","2 s"]}`, answer, false},
		{`{"requests":2}`, answer, false},
		{`{"at":["0s"]}`, answer, false},
		{`{"paths":["responses"]}`, answer, false},
		{`{"sent":["x"]}`, answer, false},
		{`{"notSent":["model"]}`, answer, false},
		{`{"header":{"X":"y"}}`, answer, false},
		{`{"error":{"kind":"auth"}}`, answer, false},
		{`{}`, failed, false},
		{`{"error":{"kind":"billing"}}`, failed, false},
		{`{"error":{"kind":"auth","status":403}}`, failed, false},
		{`{"error":{"kind":"auth","code":"x"}}`, failed, false},
		{`{"error":{"kind":"auth","limit":1}}`, failed, false},
		{`{"error":{"kind":"auth","retryable":true}}`, failed, false},
		{`{"error":{"kind":"auth","fallsBack":false}}`, failed, false},
		{`{"error":{"kind":"auth","retryAfter":"1s"}}`, failed, false},
		{`{"error":{"kind":"auth","says":["x"]}}`, failed, false},
		{`{"error":{"kind":"auth","hides":["key"]}}`, failed, false},
		{`{"error":{"canceled":true}}`, failed, false},
		{`{"error":{"kind":"auth"}}`, canceled, false},
	} {
		var w Want
		if err := strictJSON([]byte(c.want), &w); err != nil {
			t.Fatalf("%s: %v", c.want, err)
		}
		r, s := c.of()
		got := &complaints{TB: t}
		w.check(got, r, s)
		if (len(got.list) == 0) != c.fine {
			t.Errorf("%s: complaints %q, want none: %v", c.want, got.list, c.fine)
		}
	}
}

// TestMalformedCases: a file that cannot be understood is not passed over.
func TestMalformedCases(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, data string }{
		{"no number", "x.txtar", "t\n-- want --\n{}\n"},
		{"number", "a-chat-x.txtar", "t\n-- want --\n{}\n"},
		{"no want", "1-chat-x.txtar", "t\n"},
		{"no title", "1-chat-x.txtar", "-- want --\n{}\n"},
		{"section", "1-chat-x.txtar", "t\n-- wnt --\n{}\n-- want --\n{}\n"},
		{"key", "1-chat-x.txtar", "t\n-- want --\n{\"txt\":\"\"}\n"},
	} {
		if _, err := parseCase(c.file, []byte(c.data)); err == nil {
			t.Errorf("%s: accepted", c.name)
		}
	}
	for _, raw := range []string{"statu 3\n\n", "status x\n\n", "quoted\n\nx\n", "every x\n\n"} {
		if _, err := parseAnswer(raw); err == nil {
			t.Errorf("answer %q: accepted", raw)
		}
	}
}
