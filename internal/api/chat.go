package api

import (
	"context"
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
	ctx, leave, err := a.enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	head := completion{ID: "chatcmpl-" + randomHex(24), Created: a.o.Now().Unix(), Model: c.model.ID}
	if c.stream {
		return a.chatStream(ctx, w, c, head)
	}
	got, err := a.run(ctx, c, sink{})
	if err != nil {
		return err
	}
	head.Object = "chat.completion"
	head.Choices = []choice{{Message: &chatText{Role: "assistant", Content: &got.text}, Finish: &got.finish}}
	head.Usage = chatUsageOf(got.turn.Usage)
	if d := got.details(c); d != nil {
		head.Nanobot = d
	}
	return sendJSON(w, http.StatusOK, head)
}

// chatStream answers with chunks: the role, the text as it comes, the finish
// reason, and if asked for the usage. What goes wrong after the beginning is
// an error event and the end of the stream, without the mark of a good end.
func (a *API) chatStream(ctx context.Context, w http.ResponseWriter, c *call, head completion) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	head.Object = "chat.completion.chunk"
	s := newStream(w, cancel)
	defer s.release()
	first := true
	chunk := func(d chatText, finish *string, more any) {
		if first {
			first = false
			role, empty := head, ""
			role.Choices = []choice{{Delta: &chatText{Role: "assistant", Content: &empty}}}
			s.send("", role)
		}
		head.Choices, head.Nanobot = []choice{{Delta: &d, Finish: finish}}, more
		s.send("", head)
		head.Nanobot = nil
	}
	stop := s.beat(a.ping)
	got, err := a.run(ctx, c, sink{
		text:  func(t string) { chunk(chatText{Content: &t}, nil, nil) },
		event: func(e event) { chunk(chatText{}, nil, e) },
	})
	stop()
	if err != nil {
		if !s.isBegun() {
			return err
		}
		s.send("", a.failed(ctx, w, err).body())
		return nil
	}
	var more any
	if d := got.details(c); d != nil {
		more = d
	}
	chunk(chatText{}, &got.finish, more)
	if c.usage {
		head.Choices, head.Usage = []choice{}, chatUsageOf(got.turn.Usage)
		s.send("", head)
	}
	s.raw([]byte("data: [DONE]\n\n"))
	return nil
}

// failed makes a fault of an error that comes too late for a status.
func (a *API) failed(ctx context.Context, w http.ResponseWriter, err error) *fault {
	f := a.explain(err)
	if f.err != nil && !gone(ctx) {
		a.o.Log.WarnContext(ctx, "api stream", "request", w.Header().Get(headerRequest), "status", f.status, "err", f.err)
	}
	return f
}
