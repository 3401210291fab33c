package schedule

import (
	"context"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// The judge of heartbeats is told what the workspace says, in whatever script.
func TestEvaluatorPrompt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		prompt string // prompts/evaluator.md; "-": there is none
		own    bool   // it is used
	}{
		{"none", "-", false},
		{"own", "Judge strictly.\n", true},
		{"empty", " \n", false},
		{"long, in another script", strings.Repeat("判", evaluatorMax), true},
		{"too long", strings.Repeat("x", evaluatorMax+1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ws := t.TempDir()
			if c.prompt != "-" {
				put(t, ws, evaluatorFile, c.prompt)
			}
			model := llmtest.NewScript(t, llmtest.Call("evaluate_notification", map[string]any{"should_notify": true}))
			judge := Evaluator(ws, func(context.Context) (llm.Model, string, error) { return model, "cheap", nil })
			notify, err := judge(t.Context(), "look at the stove", "it is off")
			if !notify || err != nil {
				t.Errorf("notify %v, %v", notify, err)
			}
			req := model.Last()
			if req.Model != "cheap" || req.Temperature == nil || *req.Temperature != 0 || req.Source != EventHeartbeat {
				t.Errorf("request for %q, temperature %v, source %q", req.Model, req.Temperature, req.Source)
			}
			if own := req.System == strings.TrimSpace(c.prompt); own != c.own || !own && req.System != evaluatorPrompt {
				t.Errorf("prompt %.40q", req.System)
			}
		})
	}
}
