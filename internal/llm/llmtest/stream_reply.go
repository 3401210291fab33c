package llmtest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// StreamReply is an answer of a model that a Server renders as a stream in the
// protocol it is asked in.
type StreamReply struct {
	Think []string // pieces
	Text  []string // pieces
	Calls []StreamCall
	// Finish is the reason; "" means stop, or tool_calls when there are calls.
	Finish llm.Finish
	Usage  llm.Usage
	// Cut ends the stream after the text and calls, without a finish reason.
	Cut bool
	// Fail puts an error of this vendor type into the stream instead of the end.
	Fail string
	// Hold keeps the stream open before the end.
	Hold <-chan struct{}
}

// StreamCall is a tool call whose arguments arrive in pieces.
type StreamCall struct {
	ID, Name string
	Args     []string
}

func (r *StreamReply) render(a Answer, chat bool) Answer {
	if chat {
		a.Events = r.chat()
	} else {
		a.ContentType = "text/event-stream"
		a.Body = r.messages()
	}

	if r.Cut || r.Hold != nil {
		a.Hold = r.Hold
	}
	return a
}

func js(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (r *StreamReply) finishReason() llm.Finish {
	switch {
	case r.Finish != "":
		return r.Finish
	case len(r.Calls) > 0:
		return llm.FinishToolCalls
	}
	return llm.FinishStop
}

// chat renders Chat Completions chunks.
func (r *StreamReply) chat() []string {
	var ev []string
	delta := func(format string, args ...any) {
		ev = append(ev, fmt.Sprintf(`{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":%s,"finish_reason":null}]}`, fmt.Sprintf(format, args...)))
	}
	delta(`{"role":"assistant","content":""}`)
	for _, p := range r.Think {
		delta(`{"reasoning_content":%s}`, js(p))
	}

	for _, p := range r.Text {
		delta(`{"content":%s}`, js(p))
	}

	for i, c := range r.Calls {
		delta(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, i, js(c.ID), js(c.Name))
		for _, p := range c.Args {
			delta(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, js(p))
		}
	}

	switch {
	case r.Fail != "":
		return append(ev, fmt.Sprintf(`{"error":{"message":"something broke","type":%s}}`, js(r.Fail)))
	case r.Cut || r.Hold != nil:
		return ev
	}

	ev = append(ev, fmt.Sprintf(`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":%s}]}`, js(r.finishReason())))
	if u := r.Usage; u != (llm.Usage{}) {
		ev = append(ev, fmt.Sprintf(`{"id":"c1","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`,
			u.Prompt, u.Completion, u.Prompt+u.Completion, u.Cached))
	}
	return append(ev, "[DONE]")
}

// messages renders the events of the Messages protocol.
func (r *StreamReply) messages() string {
	out := strings.Builder{}
	event := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "event: %s\ndata: %s\n\n", name, fmt.Sprintf(format, args...))
	}
	u := r.Usage
	event("message_start", `{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":1}}}`,
		u.Prompt-u.Cached, u.Cached)
	event("ping", `{"type":"ping"}`)
	index := 0
	block := func(start string, deltas ...string) {
		event("content_block_start", `{"type":"content_block_start","index":%d,"content_block":%s}`, index, start)
		for _, d := range deltas {
			event("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":%s}`, index, d)
		}
		event("content_block_stop", `{"type":"content_block_stop","index":%d}`, index)
		index++
	}
	if len(r.Think) > 0 {
		var ds []string
		for _, p := range r.Think {
			ds = append(ds, fmt.Sprintf(`{"type":"thinking_delta","thinking":%s}`, js(p)))
		}
		block(`{"type":"thinking","thinking":""}`, append(ds, `{"type":"signature_delta","signature":"sig"}`)...)
	}

	if len(r.Text) > 0 {
		var ds []string
		for _, p := range r.Text {
			ds = append(ds, fmt.Sprintf(`{"type":"text_delta","text":%s}`, js(p)))
		}
		block(`{"type":"text","text":""}`, ds...)
	}

	for _, c := range r.Calls {
		var ds []string
		for _, p := range c.Args {
			ds = append(ds, fmt.Sprintf(`{"type":"input_json_delta","partial_json":%s}`, js(p)))
		}
		block(fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":{}}`, js(c.ID), js(c.Name)), ds...)
	}

	switch {
	case r.Fail != "":
		event("error", `{"type":"error","error":{"type":%s,"message":"something broke"}}`, js(r.Fail))
		return out.String()
	case r.Cut || r.Hold != nil:
		return out.String()
	}

	event("message_delta", `{"type":"message_delta","delta":{"stop_reason":%s},"usage":{"output_tokens":%d}}`, js(stopReason(r.finishReason())), u.Completion)
	event("message_stop", `{"type":"message_stop"}`)
	return out.String()
}

func stopReason(f llm.Finish) string {
	switch f {
	case llm.FinishToolCalls:
		return "tool_use"
	case llm.FinishLength:
		return "max_tokens"
	case llm.FinishRefusal, llm.FinishFilter:
		return "refusal"
	}
	return "end_turn"
}
