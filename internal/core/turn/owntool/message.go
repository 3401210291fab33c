package owntool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

type messageInput struct {
	Content string   `json:"content" desc:"text"`
	Media   []string `json:"media,omitempty" max:"10" desc:"files to attach"`
	Channel string   `json:"channel,omitempty" desc:"default: this chat"`
	ChatID  string   `json:"chat_id,omitempty"`

	Buttons [][]string `json:"buttons,omitempty"` // rows of answers to choose from
}

// messageMax is how many messages one turn may send, wherever they go.
const messageMax = 20

// What fits under a message on every platform that has buttons.
const (
	maxLabels  = 24
	labelRunes = 64
)

func badLabel(s string) bool {
	return strings.TrimSpace(s) == "" || utf8.RuneCountInString(s) > labelRunes
}

// sentCount counts the messages of a turn.
type sentCount struct {
	mu   sync.Mutex
	turn string
	n    int
}

// add reports whether the turn may send one more.
func (s *sentCount) add(turn string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != turn {
		s.turn, s.n = turn, 0
	}
	s.n++
	return s.n <= messageMax
}

// Messenger sends for the message tool.
type Messenger struct {
	// Media makes a file ready to be sent; nil when files cannot be.
	Media func(ctx context.Context, c tool.Call, path string) (bus.Media, error)
	// Elsewhere sends to another chat than that of the turn; nil when there
	// is no way.
	Elsewhere func(ctx context.Context, c tool.Call, out bus.Outbound) error
}

// target is where a call wants to write to, and whether that is another chat
// than that of its turn. Whether it may is asked by the approval policy, before
// the call; what no answer could allow is refused here.
func (m Messenger) target(c tool.Call, in messageInput) (to bus.Route, other bool, refused *tool.Result) {
	to = c.Route
	if (in.Channel == "" || in.Channel == to.Channel) && (in.ChatID == "" || in.ChatID == to.ChatID) {
		return to, false, nil
	}

	no := func(code tool.Code, format string, args ...any) *tool.Result {
		r := tool.Fail(code, format, args...)
		return &r
	}
	to = bus.Route{Channel: cmp.Or(in.Channel, c.Route.Channel), ChatID: in.ChatID}
	switch {
	case c.Scope != "":
		return to, true, no(tool.DeniedPolicy, "only the current chat (%s %s) can be written to", c.Route.Channel, c.Route.ChatID)
	case m.Elsewhere == nil:
		return to, true, no(tool.Unsupported, "only the current chat (%s %s) can be written to: other chats are reached by the gateway, which this program is not", c.Route.Channel, c.Route.ChatID)
	case to.ChatID == "":
		return to, true, no(tool.InvalidArgs, "chat_id is missing: name the chat on %s", to.Channel)
	case to.Channel == "websocket":
		return to, true, no(tool.DeniedPolicy, "chats of other WebSocket clients cannot be written to")
	}

	return to, true, nil
}

// Message lets the model send something besides its answer. Where it goes
// comes with the call, so parallel sessions cannot get in each other's way.
func Message(m Messenger) tool.Tool {
	return tool.Func(tool.Tool{
		Name: "message", Sink: tool.SinkMessage, Trusted: true,
		Description: "Send a message or files to the user now. A normal answer needs no tool; files do.",
	}, func(ctx context.Context, c tool.Call, in messageInput) (tool.Result, error) {
		to, other, refused := m.target(c, in)
		if refused != nil {
			return *refused, nil
		}
		if c.Publish == nil && !other {
			return tool.Fail(tool.Unsupported, "no person is listening; put it into your answer"), nil
		}
		if c.SessionKey == "heartbeat" {
			return tool.Fail(tool.DeniedPolicy, "not during a heartbeat; put it into your answer, which is delivered if it matters"), nil
		}

		out := bus.Outbound{Kind: bus.Message, Route: to, ReplyTo: to.MessageID, Text: text.StripThink(in.Content)}
		for _, p := range in.Media {
			if m.Media == nil {
				return tool.Fail(tool.Unsupported, "files cannot be sent here"), nil
			}
			m, err := m.Media(ctx, c, p)
			if err != nil {
				return tool.Fail(tool.DeniedPolicy, "cannot attach %s: %v", p, err), nil
			}
			out.Media = append(out.Media, m)
		}

		if out.Text == "" && len(out.Media) == 0 {
			return tool.Fail(tool.InvalidArgs, "content is empty"), nil
		}

		if labels := slices.Concat(in.Buttons...); len(labels) > 0 {
			if i := slices.IndexFunc(labels, badLabel); i >= 0 || len(labels) > maxLabels {
				return tool.Fail(tool.InvalidArgs, "buttons: at most %d labels of 1 to %d characters", maxLabels, labelRunes), nil
			}
			out.Question = &bus.Question{ID: c.ID, Options: labels, Clean: !c.Tainted}
		}

		if !tool.StateOf(c.State, func() *sentCount { return new(sentCount) }).add(c.TurnID) {
			return tool.Fail(tool.DeniedPolicy, "this turn has sent %d messages, which is enough; put the rest into your answer", messageMax), nil
		}

		send := c.Publish
		if other {
			send = func(ctx context.Context, out bus.Outbound) error { return m.Elsewhere(ctx, c, out) }
		}

		if err := send(ctx, out); err != nil {
			if errors.Is(err, context.Canceled) {
				return tool.Result{}, err
			}
			res := tool.Fail(tool.Internal, "not sent: %v", err)
			res.Untrusted = true // the platform may be quoted
			return res, nil
		}

		return tool.Textf("sent to %s %s%s", to.Channel, to.ChatID, withFiles(len(out.Media))), nil
	})
}

func withFiles(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " with 1 attachment"
	}
	return fmt.Sprintf(" with %d attachments", n)
}
