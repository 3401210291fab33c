package api

import (
	"net/http"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// completion is an answer of /v1/chat/completions, whole or a chunk of it.
type completion struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int64      `json:"created"`
	Model   string     `json:"model"`
	Choices []choice   `json:"choices"`
	Usage   *chatUsage `json:"usage,omitempty"`
	Nanobot any        `json:"nanobot,omitempty"`
}

type choice struct {
	Index   int       `json:"index"`
	Message *chatText `json:"message,omitempty"`
	Delta   *chatText `json:"delta,omitempty"`
	Finish  *string   `json:"finish_reason"`
}

type chatText struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func chatUsageOf(u bus.Usage) *chatUsage {
	out := &chatUsage{Prompt: u.Prompt, Completion: u.Completion, Total: u.Prompt + u.Completion}
	out.Details.Cached = u.Cached
	return out
}

// chat answers POST /v1/chat/completions.
func (a *API) chat(w http.ResponseWriter, r *http.Request) error {
	c, err := a.readChat(w, r)
	defer c.drop()
	if err != nil {
		return err
	}
	head := completion{ID: "chatcmpl-" + randomHex(24), Created: a.o.Now().Unix(), Model: c.model.ID}
	return a.answer(w, r, c, &chatEncoder{call: c, head: head})
}

// chatEncoder answers in the form of /v1/chat/completions. A stream has chunks:
// the role, the text as it comes, the finish reason, and if asked for the usage.
// An error in it is an event, and the mark of a good end is missing.
type chatEncoder struct {
	call *call
	head completion // what an answer or its chunks have in common

	stream *stream
	begun  bool // the role was sent
}

func (e *chatEncoder) whole(got answer) any {
	out := e.head
	out.Object = "chat.completion"
	out.Choices = []choice{{Message: &chatText{Role: "assistant", Content: &got.text}, Finish: &got.finish}}
	out.Usage = chatUsageOf(got.turn.Usage)
	if d := got.details(e.call); d != nil {
		out.Nanobot = d
	}
	return out
}

func (e *chatEncoder) open(s *stream) sink {
	e.stream = s
	e.head.Object = "chat.completion.chunk"
	return sink{
		text:  func(t string) { e.chunk(chatText{Content: &t}, nil, nil) },
		event: func(ev event) { e.chunk(chatText{}, nil, ev) },
	}
}

// chunk sends a piece of the answer; more is what it says beyond the protocol.
func (e *chatEncoder) chunk(d chatText, finish *string, more any) {
	if !e.begun {
		e.begun = true
		role, empty := e.head, ""
		role.Choices = []choice{{Delta: &chatText{Role: "assistant", Content: &empty}}}
		e.stream.send("", role)
	}

	out := e.head
	out.Choices = []choice{{Delta: &d, Finish: finish}}
	out.Nanobot = more
	e.stream.send("", out)
}

func (e *chatEncoder) end(got answer) {
	var more any
	if d := got.details(e.call); d != nil {
		more = d
	}

	e.chunk(chatText{}, &got.finish, more)
	if e.call.usage {
		last := e.head
		last.Choices = []choice{}
		last.Usage = chatUsageOf(got.turn.Usage)
		e.stream.send("", last)
	}

	e.stream.raw([]byte("data: [DONE]\n\n"))
}

func (e *chatEncoder) fail(f *fault) { e.stream.send("", f.body()) }
