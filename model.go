package nanobot

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/trial"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// What a model of your own is made of; see WithModel.
type (
	// Model answers requests.
	Model = llm.Model
	// ModelFunc makes a Model of a function.
	ModelFunc = llm.ModelFunc
	// ModelRequest is one call of a model.
	ModelRequest = llm.Request
	// ModelMessage is one message of a request.
	ModelMessage = llm.Message
	// ModelCall is a tool call of the model.
	ModelCall = llm.ToolCall
	// ModelEvent is one step of an answer: deltas, then one ModelDone.
	ModelEvent = llm.Event
	// ModelResponse is a complete answer.
	ModelResponse = llm.Response
	// ModelUsage counts tokens.
	ModelUsage = llm.Usage
	// ModelTrial is what TryModel found out; Err says why there was no answer.
	ModelTrial = trial.Trial
	// ModelVerdict is what was found about one ability of a model.
	ModelVerdict = trial.Verdict
)

// The kinds of ModelEvent that a model needs.
const (
	ModelText = llm.TextDelta
	ModelDone = llm.Done
)

// ModelAnswer returns the last event of an answer: its text and the tools it calls.
func ModelAnswer(text string, calls ...ModelCall) ModelEvent {
	res := ModelResponse{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(text), ToolCalls: calls}, Finish: llm.FinishStop}
	if len(calls) > 0 {
		res.Finish = llm.FinishToolCalls
	}
	return ModelEvent{Kind: llm.Done, Response: &res}
}

// UserMessage returns a message of the user, for requests.
func UserMessage(text string) ModelMessage {
	return ModelMessage{Role: llm.User, Content: llm.Text(text)}
}

// TryModel finds out what a model can do, with a few tiny calls: it asks for
// some words, for a tool call and, if it reads images, for the colour of a
// small one. The name is that of a model or a preset; "" is the configured
// model. With WithModel it tries that one.
func TryModel(ctx context.Context, name string, opts ...Option) (*ModelTrial, error) {
	o := options(opts).Options
	loaded, _, err := app.Load(&o)
	if err != nil {
		return nil, explained(err)
	}

	t, err := provider.OpenTrial(ctx, app.ProviderOptions(loaded, o), name)
	if err != nil {
		return nil, explained(err)
	}
	return t, provider.RunTrial(ctx, loaded, t, false, func(ModelVerdict) {})
}
