package web

import (
	"context"
	"encoding/json"
)

// What clients can subscribe to. docs/reference/websocket.md lists when each changes.
const (
	TopicSessions    = "sessions"
	TopicQuestions   = "questions"
	TopicAutomations = "automations"
	TopicChannels    = "channels"
	TopicPairing     = "pairing"
	TopicMCP         = "mcp"
	TopicMemory      = "memory"
	TopicSettings    = "settings"
	TopicBudget      = "budget"
	TopicLog         = "log"
	TopicDoctor      = "doctor"
	TopicDevices     = "devices"
)

// Topics returns all of them.
func Topics() []string {
	return []string{
		TopicSessions, TopicQuestions, TopicAutomations, TopicChannels, TopicPairing, TopicMCP,
		TopicMemory, TopicSettings, TopicBudget, TopicLog, TopicDoctor, TopicDevices,
	}
}

// Done is what an action did.
type Done struct {
	Result  any      // what the client is told, which becomes JSON
	Changed []string // topics whose clients are told
}

// Change is what most actions are: it returns what the client is told.
type Change func(ctx context.Context, payload json.RawMessage) (any, error)

// Changing makes an action of a change that is about the same topics whenever it
// succeeds, or about none.
func Changing(do Change, topics ...string) Action {
	return func(ctx context.Context, payload json.RawMessage) (Done, error) {
		result, err := do(ctx, payload)
		if err != nil {
			return Done{}, err
		}
		return Done{Result: result, Changed: topics}, nil
	}
}
