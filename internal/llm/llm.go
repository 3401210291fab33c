// Package llm has the types for talking to language models: messages, tool
// calls, requests, the event stream, usage and errors, and the Model interface
// that every driver and decorator implements. It knows no vendor and no wire.
//
// The packages below it: wire has what drivers share (event streams, error
// classification, tool calls), catalog the table of providers and models, chain
// the decorators around drivers (retry, key rotation, throttle, fallback). Each
// wire protocol has a driver package of its own.
//
// A Message marshals to the OpenAI chat shape, which is also the line format
// of session files.
package llm

import (
	"context"
	"encoding/json"
	"iter"
)

// Role says who speaks in a Message.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one entry of a conversation. Values are treated as immutable once
// they are in a history: governance works on copies.
type Message struct {
	Role       Role
	Content    Content
	ToolCalls  []ToolCall // assistant
	ToolCallID string     // tool
	Name       string     // tool: the tool's name
	IsError    bool       // tool: the call failed; kept as "is_error"

	// Reasoning is the model's thinking as text. HasReasoning tells "" (the
	// model thought nothing) from absent.
	Reasoning    string
	HasReasoning bool

	// Thinking and ReasoningDetails are opaque, signed blocks that must go back
	// unmodified to the provider family they came from (Origin) and nowhere else.
	Thinking         []json.RawMessage
	ReasoningDetails json.RawMessage
	Origin           string
}

// Content is a message body: plain text, or blocks when Blocks is non-nil.
type Content struct {
	Text   string
	Blocks []Block
}

// Block is one part of a structured content.
type Block struct {
	Type     string          // "text", "image_url", or a vendor's own
	Text     string          // for "text"
	ImageURL string          // for "image_url": a data: or https: URL
	Path     string          // where an image came from; stored as _meta.path, never sent
	Raw      json.RawMessage // verbatim form of other types
}

// ImageNote stands in for an image that a model cannot see. It names no file,
// because a name invites an invented description.
const ImageNote = "[An image was here, but it could not be shown to you. Do not describe it; say that you cannot see it.]"

// ToolCall is a complete request by the model to run a tool.
type ToolCall struct {
	ID   string
	Name string
	// Arguments is the exact string received. ParseArguments turns it into an
	// object or says why it must not run.
	Arguments string
	// Extra holds vendor keys of the call that must be echoed verbatim
	// (extra_content, provider_specific_fields, function.provider_specific_fields).
	Extra map[string]json.RawMessage
}

// ToolDef describes a tool to the model. Schema is a JSON Schema object.
type ToolDef struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Request is one call of a model. Messages never contain the system prompt.
type Request struct {
	Model       string // wire name
	System      string
	Messages    []Message
	Tools       []ToolDef
	ToolChoice  string // "", "auto", "none", "required", or a tool name
	MaxTokens   int
	Temperature *float64 // nil: leave it to the vendor
	Effort      string   // "", none, minimal, low, medium, high, xhigh, max, adaptive
	SessionKey  string   // for cache affinity; never the conversation itself
	Source      string   // what caused the request: user, cron, heartbeat, dream, subagent, api, guest:NAME, ...; "" is user
	TurnID      string   // groups the requests of one turn in the ledger
	Estimate    int      // about how many tokens the prompt has, when the caller knows; 0 if not
	ToolDeltas  bool     // calls are shown while they are written
}

// Finish says why the model stopped.
type Finish string

// The finish reasons after normalisation.
const (
	FinishStop      Finish = "stop"
	FinishToolCalls Finish = "tool_calls"
	FinishLength    Finish = "length"
	FinishRefusal   Finish = "refusal"
	FinishFilter    Finish = "content_filter"
)

// RunsTools reports whether tool calls under this finish reason may be executed.
func (f Finish) RunsTools() bool { return f == FinishToolCalls || f == FinishStop }

// Usage counts tokens. Prompt includes Cached and CacheWrite.
type Usage struct {
	Prompt     int     `json:"prompt_tokens"`
	Completion int     `json:"completion_tokens"`
	Cached     int     `json:"cached_tokens,omitempty"`
	CacheWrite int     `json:"cache_creation_input_tokens,omitempty"`
	Reasoning  int     `json:"reasoning_tokens,omitempty"`
	Cost       float64 `json:"cost,omitempty"` // as reported by the vendor
	Estimated  bool    `json:"estimated,omitempty"`
}

// Add sums two usages.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		Prompt:     SumCounts(Count(u.Prompt), Count(o.Prompt)),
		Completion: SumCounts(Count(u.Completion), Count(o.Completion)),
		Cached:     SumCounts(Count(u.Cached), Count(o.Cached)),
		CacheWrite: SumCounts(Count(u.CacheWrite), Count(o.CacheWrite)),
		Reasoning:  SumCounts(Count(u.Reasoning), Count(o.Reasoning)),
		Cost:       u.Cost + o.Cost,
		Estimated:  u.Estimated || o.Estimated,
	}
}

// Response is a complete answer of a model.
type Response struct {
	Message Message // role assistant
	Finish  Finish
	Usage   Usage
	// FallbackModel is the name of the model that answered in place of the
	// first of a fallback chain; "" if the first one did.
	FallbackModel string
}

// EventKind says what an Event is.
type EventKind int

// The kinds of Event.
const (
	// TextDelta carries a piece of the visible answer in Text.
	TextDelta EventKind = iota + 1
	// ReasoningDelta carries a piece of the thinking in Text.
	ReasoningDelta
	// Waiting is sent by Retry before and while it sleeps; Text is for the user.
	Waiting
	// Restarted says that the deltas of this stream so far are void: the
	// request is being made again.
	Restarted
	// Done is the last event of a successful stream; Response is set.
	Done
	// ToolDelta carries a piece of the arguments of a call in Text; Tool says
	// whose. It is for showing: the call comes with Done, or not at all.
	ToolDelta
	// HostedTool tells of a tool that the provider runs itself, whose results are
	// before the model from then on; Tool is set.
	HostedTool
)

// ToolPart holds what a stream tells about a tool call.
type ToolPart struct {
	ID    string // "" if it is not known yet
	Name  string
	Index int // of the call in the answer, on ToolDelta

	// On HostedTool: start, end or error; what was asked; and what was found, as
	// a JSON list of objects with url and title.
	Phase, Arguments, Result string
}

// Event is one step of a model's answer.
type Event struct {
	Kind     EventKind
	Text     string
	Brief    bool // on Waiting: Text holds only until the next event
	Response *Response
	Tool     *ToolPart // on ToolDelta and HostedTool
}

// Model answers requests.
//
// Stream yields deltas as they arrive and then exactly one Done event, or one
// non-nil error (an *Error, or the context's error) and nothing after it.
// Partial tool calls never leave the driver but as ToolDelta. Implementations are safe for
// concurrent use, stop all work when the caller breaks out of the loop or ctx
// ends, never retry, and never modify the Request.
type Model interface {
	Stream(ctx context.Context, req Request) iter.Seq2[Event, error]
}

// ModelFunc adapts a function to Model.
type ModelFunc func(ctx context.Context, req Request) iter.Seq2[Event, error]

// Stream implements Model.
func (f ModelFunc) Stream(ctx context.Context, req Request) iter.Seq2[Event, error] {
	return f(ctx, req)
}

// Collect runs a request and returns the complete response.
func Collect(ctx context.Context, m Model, req Request) (Response, error) {
	for ev, err := range m.Stream(ctx, req) {
		if err != nil {
			return Response{}, err
		}
		if ev.Kind == Done {
			return *ev.Response, nil
		}
	}
	return Response{}, &Error{Kind: StreamTruncated, Message: "the stream ended without an answer"}
}

// Text makes a plain text content.
func Text(s string) Content { return Content{Text: s} }

// String returns the text of a content; images appear as "[image: path]".
func (c Content) String() string {
	if c.Blocks == nil {
		return c.Text
	}

	var out []byte
	for i, b := range c.Blocks {
		if i > 0 {
			out = append(out, '\n')
		}
		switch {
		case b.Type == "text":
			out = append(out, b.Text...)
		case b.Type == "image_url" && b.Path != "":
			out = append(out, "[image: "+b.Path+"]"...)
		case b.Type == "image_url":
			out = append(out, "[image]"...)
		}
	}

	return string(out)
}

// Blank reports whether a content holds nothing but white space.
func (c Content) Blank() bool {
	for _, b := range c.Blocks {
		if b.Type != "text" || !blank(b.Text) {
			return false
		}
	}
	return c.Blocks != nil || blank(c.Text)
}

func blank(s string) bool {
	for _, r := range s {
		switch r {
		case ' ', '\t', '\n', '\r', '\v', '\f', 0x85, 0xA0, 0x3000, 0xFEFF:
		default:
			return false
		}
	}
	return true
}
