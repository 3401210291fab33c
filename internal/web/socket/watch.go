package socket

import (
	"cmp"
	"context"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// watchPrefix begins the ids under which conversations of other channels are
// shown. No client can write into such a chat: its id is not a valid one.
const watchPrefix = "@"

const maxKey = 512

// watch lets a client read along in a conversation of another channel.
func watch(r *receiver, e *envelope) {
	switch {
	case !r.proven:
		r.problem("access_denied", "conversations are watched only by a client that is connected with the token", e)
		return
	case e.Key == "" || len(e.Key) > maxKey || strings.HasPrefix(e.Key, r.c.d.Name+":"):
		r.problem("invalid key", "attach joins the chats of this channel", e)
		return
	}

	id := watchPrefix + e.Key
	defer r.hold(id)()
	resume := e.LastSeq != nil
	after := *cmp.Or(e.LastSeq, new(int64))
	a, ok := r.c.hub.enter(r.socket, id, after, resume)
	if !ok {
		r.denied(e)
		return
	}

	f := newFrame(evAttached, id, 128).number("seq", a.seq).text("key", e.Key).flag("read_only", true)
	if resume {
		f = f.flag("resumed", true).flag("complete", a.complete)
	}

	r.reply(f)
	if a.turn != "" {
		r.reply(runningFrame(id, a.turn, a.since))
	}
}

// watched reports whether a client reads along in a conversation.
func (h *hub) watched(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.chats[watchPrefix+key]
	return at != nil && len(at.sockets) > 0
}

// Heard shows the watchers of a conversation what a person wrote there.
func (c *Channel) Heard(key string, in *bus.Inbound) {
	if in.Answer != nil || !c.hub.watched(key) {
		return
	}
	c.hub.update(watchPrefix+key, func(at *conversation) {
		f := newFrame(evUser, at.id, len(in.Text)+64).must("text", in.Text).text("turn_id", visible(in.Route.MessageID))
		at.ring.add(&event{to: modern}, f)
	})
}

// Overheard shows the watchers of a conversation what the agent says there.
// It does not need a delivery receipt, and questions in it cannot be answered here.
func (c *Channel) Overheard(key string, out bus.Outbound) {
	if !c.hub.watched(key) {
		return
	}
	out.Route.ChatID, out.ID, out.Media = watchPrefix+key, "", nil
	if out.Kind == bus.Ask || out.Kind == bus.Message {
		out.Kind, out.Question = bus.Message, nil
	}
	c.hub.send(out, nil)
}

// stopTurn ends the turn of a chat. One that names another turn comes too late and
// does nothing.
func stopTurn(ctx context.Context, r *receiver, e *envelope) {
	if !validChatID(e.ChatID) {
		r.problem("invalid chat_id", "", e)
		return
	}
	if !r.c.hub.works(e.ChatID, e.TurnID) {
		return
	}
	if _, ok := r.c.hub.attach(r.socket, e.ChatID, 0, false); !ok {
		r.denied(e)
		return
	}
	r.hand(ctx, message{chat: e.ChatID, text: "/stop"}, e)
}

// works reports whether a turn goes on in a chat, and is the named one.
func (h *hub) works(id, turn string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.chats[id]
	return c != nil && c.turn != "" && (turn == "" || turn == c.turn)
}

// setModel chooses the model of a chat: a preset or the name of a model. Neither
// is the usual one.
func setModel(ctx context.Context, r *receiver, e *envelope) {
	switch {
	case !validChatID(e.ChatID) || strings.HasPrefix(e.ChatID, privatePrefix):
		r.problem("invalid chat_id", "", e)
		return
	case !r.proven:
		r.problem("access_denied", "the model is chosen only by a client that is connected with the token", e)
		return
	case len(e.Model)+len(e.Preset) > maxKey || e.Model != "" && e.Preset != "":
		r.problem("model_rejected", "name a model or a preset", e)
		return
	case r.c.o.SetModel == nil:
		r.problem("unsupported", "set_model", e)
		return
	}

	name, err := r.c.o.SetModel(ctx, bus.Route{Channel: r.c.d.Name, ChatID: e.ChatID}, e.Model, e.Preset)
	if err != nil {
		r.problem("model_rejected", err.Error(), e)
		return
	}

	r.c.hub.announce(r.socket, e.ChatID, func() frame {
		return newFrame(evUpdated, e.ChatID, 128).text("scope", "model").must("model_name", name).must("model_preset", e.Preset)
	})
}
