package nanobot

import "github.com/nanobot-go/nanobot/internal/llm"

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
)

// The kinds of ModelEvent that a model needs.
const (
	ModelText = llm.TextDelta
	ModelDone = llm.Done
)

// ModelAnswer is the last event of an answer: its text and the tools it calls.
func ModelAnswer(text string, calls ...ModelCall) ModelEvent {
	res := ModelResponse{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(text), ToolCalls: calls}, Finish: llm.FinishStop}
	if len(calls) > 0 {
		res.Finish = llm.FinishToolCalls
	}
	return ModelEvent{Kind: llm.Done, Response: &res}
}
