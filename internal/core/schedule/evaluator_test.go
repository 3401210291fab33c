package schedule

import (
	"context"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// The judge of heartbeats is asked once, coldly, with the prompt that counts then.
func TestEvaluatorPrompt(t *testing.T) {
	t.Parallel()
	model := llmtest.NewScript(t, llmtest.Call("evaluate_notification", map[string]any{"should_notify": true}))
	judge := Evaluator(func() string { return "Judge strictly." }, func(context.Context) (llm.Model, string, error) { return model, "cheap", nil })
	notify, err := judge(t.Context(), "look at the stove", "it is off")
	if !notify || err != nil {
		t.Errorf("notify %v, %v", notify, err)
	}
	req := model.Last()
	if req.Model != "cheap" || req.Temperature == nil || *req.Temperature != 0 || req.Source != eventHeartbeat || req.System != "Judge strictly." {
		t.Errorf("request for %q, temperature %v, source %q, prompt %q", req.Model, req.Temperature, req.Source, req.System)
	}
}
