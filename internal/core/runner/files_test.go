package runner_test

import (
	"context"
	"iter"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// TestCases replays the conformance files that are about the tool loop: a
// whole run stands in for the model.
func TestCases(t *testing.T) {
	t.Parallel()
	llmtest.Conformance(t, "loop", func(t *testing.T, s *llmtest.Server, o llmtest.Setup) llm.Model {
		t.Helper()
		m, err := openai.New(openai.Options{Name: "fake", BaseURL: s.URL, Key: httpsafe.NewSecret(llmtest.Key), Client: s.Client(), Quirks: o.Quirks()})
		if err != nil {
			t.Fatal(err)
		}
		return looped{m}
	})
}

type looped struct{ model llm.Model }

// Stream runs a turn and reports its end.
func (l looped) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		var tools []tool.Tool
		for _, d := range req.Tools {
			tools = append(tools, tool.Tool{Name: d.Name, Description: d.Description, Schema: d.Schema, Run: func(context.Context, tool.Call) (tool.Result, error) {
				return tool.Text("r"), nil
			}})
		}
		set, err := tool.NewSet(tools...)
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		res, err := runner.Run(ctx, runner.Spec{Model: l.model, ModelName: req.Model, Messages: req.Messages, MaxTokens: req.MaxTokens, Tools: set})
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		_ = yield(llm.Event{Kind: llm.TextDelta, Text: res.Text}, nil) &&
			yield(llm.Event{Kind: llm.Done, Response: &llm.Response{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(res.Text)}, Finish: llm.FinishStop}}, nil)
	}
}
