package wire

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// StoredThinking is a block of Message.Thinking. Its JSON form is the same for
// all wires: "thinking" with a text and a signature, "redacted_thinking" with
// data that only the vendor can read, and, where thoughts did not all come
// first, "text" and "tool_use" entries that record the order.
type StoredThinking struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Text      string `json:"text"`
	ID        string `json:"id"`
	Signature string `json:"signature"`
	Data      string `json:"data"`
}

// ReadThinking decodes a stored block; one that is not an object has no Type.
func ReadThinking(raw json.RawMessage) StoredThinking {
	var b StoredThinking
	_ = json.Unmarshal(raw, &b) // what cannot be read has no type and is left out
	return b
}

// signed reports whether the vendor can check the block. One that was cut
// before its signature would be refused.
func (b StoredThinking) signed() bool { return b.Signature != "" || b.Data != "" }

// signedHead begins the thinking blocks that are stored. The signature stands
// first so that replay need not parse a long thought to see it.
const signedHead = `{"type":"thinking","signature":"`

func peekStored(raw json.RawMessage) StoredThinking {
	if bytes.HasPrefix(raw, []byte(signedHead)) && len(raw) > len(signedHead) && raw[len(signedHead)] != '"' {
		return StoredThinking{Type: "thinking", Signature: "present"}
	}
	return ReadThinking(raw)
}

// ThinkingBlock returns the stored form of a thought.
func ThinkingBlock(thought, signature string) json.RawMessage {
	var raw []byte
	if signature != "" {
		raw = append(raw, signedHead[:len(signedHead)-1]...)
		raw = text.AppendJSON(raw, signature)
		raw = append(raw, `,"thinking":`...)
	} else {
		raw = append(raw, `{"type":"thinking","thinking":`...)
	}

	raw = text.AppendJSON(raw, thought)
	return append(raw, '}')
}

// RedactedBlock returns the stored form of a thought that only the vendor can read.
func RedactedBlock(data string) json.RawMessage {
	raw := append([]byte(nil), `{"type":"redacted_thinking","data":`...)
	return append(text.AppendJSON(raw, data), '}')
}

// StoreThinking returns what Message.Thinking must hold of an answer: its
// thinking parts. If they did not all come first, the texts and calls between
// them are recorded too, so that replay can restore the order the vendor
// signed.
func StoreThinking(parts []Part) []json.RawMessage {
	last := -1
	for i, p := range parts {
		if p.Kind == ThinkingPart {
			last = i
		}
	}

	if last < 0 {
		return nil
	}

	mixed := slices.ContainsFunc(parts[:last], func(p Part) bool { return p.Kind != ThinkingPart })
	var out []json.RawMessage
	for _, p := range parts {
		switch {
		case p.Kind == ThinkingPart:
			out = append(out, p.Raw)
		case mixed && p.Kind == TextPart && p.Text != "":
			raw := append([]byte(nil), `{"type":"text","text":`...)
			out = append(out, append(text.AppendJSON(raw, p.Text), '}'))
		case mixed && p.Kind == CallPart:
			raw := append([]byte(nil), `{"type":"tool_use","id":`...)
			out = append(out, append(text.AppendJSON(raw, p.ID), '}'))
		}
	}

	return out
}
