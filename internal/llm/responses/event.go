package responses

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// event is one event of a stream. All kinds share one shape, because their
// fields do not collide.
type event struct {
	Type         string          `json:"type"`
	OutputIndex  int             `json:"output_index"` // nowhere if the server does not say
	ItemID       string          `json:"item_id"`
	ContentIndex int             `json:"content_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        json.RawMessage `json:"delta"`
	Text         string          `json:"text"`
	Refusal      string          `json:"refusal"`
	Arguments    json.RawMessage `json:"arguments"`
	Part         *part           `json:"part"`
	Item         json.RawMessage `json:"item"`
	Response     *reply          `json:"response"`
	Error        json.RawMessage `json:"error"`
}

// nowhere is the place of an item whose place is not known.
const nowhere = -1

// reply is the whole answer: what a terminal event carries, and what a server
// sends that does not stream.
type reply struct {
	Object     string            `json:"object"`
	Status     string            `json:"status"`
	Error      json.RawMessage   `json:"error"`
	Incomplete incomplete        `json:"incomplete_details"`
	Output     []json.RawMessage `json:"output"`
	OutputText string            `json:"output_text"`
	Usage      *usage            `json:"usage"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

// item is one element of the output.
type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Content   []part          `json:"content"`
	Summary   []part          `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
	Status    string          `json:"status"`
	Action    action          `json:"action"`
}

// action holds what a hosted search did.
type action struct {
	Query   string        `json:"query"`
	Queries []string      `json:"queries"`
	URL     string        `json:"url"`
	Sources []wire.Source `json:"sources"`
}

type part struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// usage counts tokens.
type usage struct {
	Input        llm.Count `json:"input_tokens"`
	Output       llm.Count `json:"output_tokens"`
	Cost         float64   `json:"cost"`
	InputDetails struct {
		Cached     llm.Count `json:"cached_tokens"`
		CacheWrite llm.Count `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning llm.Count `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func (u *usage) normal() llm.Usage {
	return llm.Usage{
		Prompt:     int(u.Input),
		Completion: int(u.Output),
		Cached:     int(u.InputDetails.Cached),
		CacheWrite: int(u.InputDetails.CacheWrite),
		Reasoning:  int(u.OutputDetails.Reasoning),
		Cost:       u.Cost,
	}
}

// decode reads a JSON object. A field of an unexpected type is skipped; only
// text that is not an object is an error.
func decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		return nil
	}
	return err
}

func present(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", "{}", `""`:
		return false
	}
	return true
}

// textOf reads a value that should be a string; an object is given as its JSON.
func textOf(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if raw[0] != '"' {
		return string(raw)
	}

	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}
