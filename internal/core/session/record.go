package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Record is one message of a session with what the log knows about it beside
// the conversation. A Record is never changed once it is in a session.
type Record struct { //nolint:recvcheck // reading fills it in, all else only reads
	llm.Message

	Time      time.Time // when it came into being; Append fills it in when zero
	TurnID    string    // the turn it belongs to; Append fills it in inside a turn
	InboundID string    // of the inbound message it stores, for SeenInbound
	SenderID  string
	Media     []string // paths of files that came with the message
	LatencyMS int64    // of the turn, on its last assistant record; of the call, on a tool record; of the wait, on an answer

	Command     bool // a slash command or its reply: never shown to the model
	Plain       bool // a reply without Markdown
	Internal    bool // a prompt of ours: not shown to people
	Delivery    bool // an assistant message sent to the chat outside a turn
	Hidden      bool // not part of the visible conversation
	Denied      bool // the result of a call that was not allowed
	Interrupted bool // written by Recover in place of what never came

	// Failure is set on a record that stands where the answer of a turn should be,
	// because the turn failed: what the person reads instead. The content is for
	// the model.
	Failure string

	Event  string // what injected the record, such as "subagent_result"
	TaskID string // of the subagent behind Event

	// Runtime says which part of the content was added by us and is taken away
	// again for display.
	Runtime *RuntimeContext
}

// RuntimeContext marks text added behind a user's own words.
type RuntimeContext struct {
	Version int               `json:"version"` // 1
	Sources []string          `json:"sources,omitempty"`
	Suffix  string            `json:"suffix,omitempty"` // of a text content
	Blocks  []json.RawMessage `json:"blocks,omitempty"` // of a block content
}

// MarshalJSON writes the line form of the record.
func (r Record) MarshalJSON() ([]byte, error) { return r.appendLine(nil) }

// UnmarshalJSON reads the line form. Keys it does not know, and keys of its own
// that hold something unexpected, are passed over; the message must be sound.
//
// A message whose checksum fails says so in its text.
func (r *Record) UnmarshalJSON(data []byte) error {
	if !r.quick(data) {
		if err := r.general(data); err != nil {
			return err
		}
	}
	if _, _, ok := store.Unseal(data); !ok {
		r.spoil()
	}
	return nil
}

func (r *Record) general(data []byte) error {
	var m llm.Message
	if err := m.UnmarshalJSON(data); err != nil {
		return err
	}

	var w struct {
		Timestamp   string          `json:"timestamp"`
		TS          int64           `json:"ts"`
		TurnID      string          `json:"turn_id"`
		InboundID   string          `json:"inbound_id"`
		SenderID    string          `json:"sender_id"`
		Media       []string        `json:"media"`
		LatencyMS   float64         `json:"latency_ms"`
		Command     bool            `json:"_command"`
		Plain       bool            `json:"_plain"`
		Internal    bool            `json:"_internal"`
		Delivery    bool            `json:"_channel_delivery"`
		Hidden      bool            `json:"_hidden_history"`
		Denied      bool            `json:"_denied"`
		Interrupted bool            `json:"_interrupted"`
		Failure     string          `json:"_failure"`
		Event       string          `json:"injected_event"`
		TaskID      string          `json:"subagent_task_id"`
		Runtime     *RuntimeContext `json:"_runtime_context"`
	}
	// A key of the wrong type leaves its field empty; decoding goes on behind it.
	if err := json.Unmarshal(data, &w); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			return err
		}
	}

	*r = Record{
		Message: m, TurnID: w.TurnID, InboundID: w.InboundID, SenderID: w.SenderID, Media: w.Media,
		LatencyMS: int64(w.LatencyMS), Command: w.Command, Plain: w.Plain, Internal: w.Internal, Delivery: w.Delivery,
		Hidden: w.Hidden, Denied: w.Denied, Interrupted: w.Interrupted, Failure: w.Failure, Event: w.Event, TaskID: w.TaskID, Runtime: w.Runtime,
	}
	if w.TS != 0 {
		r.Time = time.UnixMilli(w.TS)
	} else if t, ok := parseTime(w.Timestamp); ok {
		r.Time = t
	}
	return nil
}

// appendLine appends the record as one JSON object without a newline in it.
func (r Record) appendLine(b []byte) ([]byte, error) {
	start := len(b)
	b = r.AppendFields(append(b, '{'))
	if !r.Time.IsZero() {
		b = append(b, `,"timestamp":"`...)
		b = appendTime(b, r.Time)
		b = append(b, `","ts":`...)
		b = strconv.AppendInt(b, r.Time.UnixMilli(), 10)
	}

	b = appendText(b, "turn_id", r.TurnID)
	b = appendText(b, "inbound_id", r.InboundID)
	b = appendText(b, "sender_id", r.SenderID)
	if len(r.Media) > 0 {
		b = append(b, `,"media":[`...)
		for i, m := range r.Media {
			if i > 0 {
				b = append(b, ',')
			}
			b = text.AppendJSON(b, m)
		}
		b = append(b, ']')
	}

	if r.LatencyMS > 0 {
		b = append(b, `,"latency_ms":`...)
		b = strconv.AppendInt(b, r.LatencyMS, 10)
	}

	b = appendFlag(b, "_command", r.Command)
	b = appendFlag(b, "_plain", r.Plain)
	b = appendFlag(b, "_internal", r.Internal)
	b = appendFlag(b, "_channel_delivery", r.Delivery)
	b = appendFlag(b, "_hidden_history", r.Hidden)
	b = appendFlag(b, "_denied", r.Denied)
	b = appendFlag(b, "_interrupted", r.Interrupted)
	b = appendText(b, "_failure", r.Failure)
	b = appendText(b, "injected_event", r.Event)
	b = appendText(b, "subagent_task_id", r.TaskID)
	if r.Runtime != nil {
		b = append(b, `,"_runtime_context":`...)
		b = r.Runtime.appendJSON(b)
	}

	b = append(b, '}')
	if !r.opaque() {
		return b, nil
	}

	// Opaque parts come from outside: they may be broken or hold newlines.
	var flat bytes.Buffer
	if err := json.Compact(&flat, b[start:]); err != nil {
		return nil, fmt.Errorf("encode %s record: %w", r.Role, err)
	}
	return append(b[:start], flat.Bytes()...), nil
}

func (c RuntimeContext) appendJSON(b []byte) []byte {
	b = append(b, `{"version":`...)
	b = strconv.AppendInt(b, int64(max(c.Version, 1)), 10)
	b = append(b, `,"sources":[`...)
	for i, s := range c.Sources {
		if i > 0 {
			b = append(b, ',')
		}
		b = text.AppendJSON(b, s)
	}

	b = append(b, ']')
	b = appendText(b, "suffix", c.Suffix)
	if len(c.Blocks) > 0 {
		b = append(b, `,"blocks":[`...)
		for i, blk := range c.Blocks {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, blk...)
		}
		b = append(b, ']')
	}

	return append(b, '}')
}

// opaque reports whether the record carries JSON that we did not write.
func (r Record) opaque() bool {
	if len(r.Thinking) > 0 || len(r.ReasoningDetails) > 0 || (r.Runtime != nil && len(r.Runtime.Blocks) > 0) {
		return true
	}

	for _, b := range r.Content.Blocks {
		if len(b.Raw) > 0 {
			return true
		}
	}

	for _, c := range r.ToolCalls {
		if len(c.Extra) > 0 {
			return true
		}
	}
	return false
}

func appendText(b []byte, key, v string) []byte {
	if v == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	return text.AppendJSON(b, v)
}

func appendFlag(b []byte, key string, v bool) []byte {
	if !v {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, key...)
	return append(b, `":true`...)
}

// Times are written as the Python generations write them: local, without a
// zone, microseconds left out when zero.
const (
	timeWhole = "2006-01-02T15:04:05"
	timeMicro = "2006-01-02T15:04:05.000000"
)

func appendTime(b []byte, t time.Time) []byte {
	t = t.Local()
	if t.Nanosecond()/1000 == 0 {
		return t.AppendFormat(b, timeWhole)
	}
	return t.AppendFormat(b, timeMicro)
}

// parseTime reads a time without a zone as local, and also offsets and Z.
func parseTime(s string) (time.Time, bool) {
	if t, err := time.ParseInLocation(timeWhole, s, time.Local); err == nil {
		return t, true // a fraction is accepted although the layout has none
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}
