package api

import (
	"net/http"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// messageObject is an answer of /v1/messages.
type messageObject struct {
	ID           string         `json:"id"`
	Type         string         `json:"type"`
	Role         string         `json:"role"`
	Model        string         `json:"model"`
	Content      []contentBlock `json:"content"`
	StopReason   *string        `json:"stop_reason"`
	StopSequence *string        `json:"stop_sequence"` // always null
	Usage        messagesUsage  `json:"usage"`
	Nanobot      *details       `json:"nanobot,omitempty"`
}

// contentBlock is a text, or what the model thought. A thought has an empty
// signature: it is not for the vendor of the model.
type contentBlock struct {
	Type      string  `json:"type"`
	Text      *string `json:"text,omitempty"`
	Thinking  *string `json:"thinking,omitempty"`
	Signature *string `json:"signature,omitempty"`
}

// The types of blocks that we send.
const (
	blockText     = "text"
	blockThinking = "thinking"
)

func newBlock(kind, text string) contentBlock {
	if kind == blockThinking {
		return contentBlock{Type: kind, Thinking: &text, Signature: new(string)}
	}
	return contentBlock{Type: kind, Text: &text}
}

// messagesUsage counts input from the cache apart from other input. What was
// written to a cache is not told apart from other input.
type messagesUsage struct {
	Input        int `json:"input_tokens"`
	CacheCreated int `json:"cache_creation_input_tokens"`
	CacheRead    int `json:"cache_read_input_tokens"`
	Output       int `json:"output_tokens"`
}

func messagesUsageOf(u bus.Usage) messagesUsage {
	return messagesUsage{Input: max(u.Prompt-u.Cached, 0), CacheRead: u.Cached, Output: u.Completion}
}

// stopReason returns a finish reason in the words of the protocol.
func stopReason(finish string) string {
	switch finish {
	case finishLength:
		return "max_tokens"
	case finishFilter:
		return "refusal"
	}
	return "end_turn"
}

// messages answers POST /v1/messages.
func (a *API) messages(w http.ResponseWriter, r *http.Request) error {
	c, err := a.readMessages(w, r)
	defer c.drop()
	if err != nil {
		return err
	}
	return a.answer(w, r, c, &messagesEncoder{
		call:    c,
		request: w.Header().Get(headerRequest),
		message: messageObject{
			ID:      "msg_" + randomHex(24),
			Type:    "message",
			Role:    "assistant",
			Model:   c.model.ID,
			Content: []contentBlock{},
		},
	})
}

// countTokens answers POST /v1/messages/count_tokens, which clients ask before
// a long request. A number would mislead them: what a model is sent is made by
// the agent, once per step of the turn.
func (a *API) countTokens(http.ResponseWriter, *http.Request) error {
	return &fault{
		status:  http.StatusNotFound,
		code:    "unsupported",
		message: "Tokens cannot be counted before a turn: the agent adds its instructions, tools and memory, and a turn may call a model several times. The usage is in the answer.",
	}
}

// messagesEncoder answers in the form of /v1/messages.
type messagesEncoder struct {
	call    *call
	request string        // id of the request
	message messageObject // as it is before the answer

	stream *stream
	begun  bool
	index  int    // of the block that is open, or of the next one
	kind   string // type of the block that is open; "" is none
}

func (e *messagesEncoder) whole(got answer) any {
	out, reason := e.message, stopReason(got.finish)
	out.Content = []contentBlock{newBlock(blockText, got.text)}
	out.StopReason = &reason
	out.Usage = messagesUsageOf(got.turn.Usage)
	out.Nanobot = got.details(e.call)
	return out
}

func (e *messagesEncoder) open(s *stream) sink {
	e.stream = s
	s.idle = []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n")
	out := sink{
		text: func(t string) {
			e.openBlock(blockText)
			e.delta(map[string]string{"type": "text_delta", "text": t})
		},
		event: func(ev event) {
			e.begin()
			e.send("nanobot_event", map[string]any{"event": ev})
		},
	}
	if e.call.thinking {
		out.thought = func(t string) {
			e.openBlock(blockThinking)
			e.delta(map[string]string{"type": "thinking_delta", "thinking": t})
		}
	}
	return out
}

func (e *messagesEncoder) send(kind string, fields map[string]any) {
	fields["type"] = kind
	e.stream.send(kind, fields)
}

// begin sends what comes before the blocks.
func (e *messagesEncoder) begin() {
	if !e.begun {
		e.begun = true
		e.send("message_start", map[string]any{"message": e.message})
	}
}

// openBlock begins a block of a type, unless one is open.
func (e *messagesEncoder) openBlock(kind string) {
	if e.kind == kind {
		return
	}
	e.begin()
	e.closeBlock()
	e.kind = kind
	e.send("content_block_start", map[string]any{"index": e.index, "content_block": newBlock(kind, "")})
}

func (e *messagesEncoder) delta(d map[string]string) {
	e.send("content_block_delta", map[string]any{"index": e.index, "delta": d})
}

func (e *messagesEncoder) closeBlock() {
	if e.kind == "" {
		return
	}
	e.send("content_block_stop", map[string]any{"index": e.index})
	e.kind = ""
	e.index++
}

func (e *messagesEncoder) end(got answer) {
	e.begin()
	if got.text == "" {
		e.openBlock(blockText) // clients expect that there is one
	}

	e.closeBlock()
	last := map[string]any{
		"delta": map[string]any{"stop_reason": stopReason(got.finish), "stop_sequence": nil},
		"usage": messagesUsageOf(got.turn.Usage),
	}
	if d := got.details(e.call); d != nil {
		last["nanobot"] = d
	}

	e.send("message_delta", last)
	e.send("message_stop", map[string]any{})
}

func (e *messagesEncoder) fail(f *fault) { e.stream.send("error", f.messagesBody(e.request)) }
