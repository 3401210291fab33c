package socket

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	maxQuestionID = 128
	maxOption     = 256
	maxRemark     = 8 << 10
)

// unasked is what the agent is told when a client that proved nothing would
// have to be asked.
const unasked = "no authenticated person can be asked here: the client is connected without a token, and its client_id proves nothing. " +
	"The user can set channels.websocket.token (or tokenIssueSecret) and connect with it, see docs/reference/websocket.md"

// sign says who a message comes from as far as the connection proves it. The
// client_id is a name that every program can choose. Without proof a client
// chats; it is not asked for permission, because a command that the agent runs
// could be the one that answers.
func (r *receiver) sign(in *bus.Inbound) {
	in.Identity = r.identity
	if !r.proven {
		in.Interactive, in.Unasked = false, unasked
	}
}

// answer is the reply to a question that a turn waits on. It is handed over
// like a message, but never becomes one: if the question is closed, the client
// is told so by question_gone.
func (r *receiver) answer(ctx context.Context, e *envelope) {
	switch {
	case !validChatID(e.ChatID):
		r.problem("invalid chat_id", "", e)
		return
	case !r.proven:
		r.problem("access_denied", "questions are answered only by a client that is connected with the token", e)
		return
	case e.QuestionID == "" || len(e.QuestionID) > maxQuestionID:
		r.problem("invalid question_id", "", e)
		return
	case strings.TrimSpace(e.Option) == "" || len(e.Option) > maxOption || len(e.Remark) > maxRemark:
		r.problem("invalid option", "", e)
		return
	}

	if _, ok := r.c.hub.attach(r.socket, e.ChatID, 0, false); !ok {
		r.denied(e)
		return
	}

	route := bus.Route{Channel: r.c.d.Name, ChatID: e.ChatID}
	pass, ok := r.c.d.Gate.Admit(ctx, access.Visitor{Route: route, IDs: []string{r.client}, Direct: true, Owner: true, Language: e.Language})
	if !ok {
		r.problem("access_denied", "", e)
		return
	}

	in := pass.Inbound(e.ChatID+"/answer."+rand.Text(), "")
	r.sign(&in)
	in.Answer = &bus.Answer{QuestionID: e.QuestionID, Option: e.Option, Remark: e.Remark}
	in.Untrusted = false // of a client that proved who it is

	switch err := r.life.submit(ctx, in); {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, bus.ErrTooLarge):
		r.problem("message_rejected", "text_too_large", e)
	default:
		r.c.d.Log.WarnContext(ctx, "an answer was not accepted", "channel", r.c.d.Name, "err", err)
		r.problem("message_rejected", "not accepted, try again", e)
	}
}
