package teams

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	switch {
	case len(out.Media) > 0:
		return b.sendFile(ctx, out)
	case blank(out.Text):
		return "", nil
	case out.Kind == bus.Delta && !isGroup(out.Route):
		if id, ok, err := b.beginStream(ctx, out); ok || err != nil {
			return id, err
		}
	}

	id, err := b.post(ctx, out.Route, b.message(out, out.Kind != bus.Delta))
	if err == nil {
		b.recordQuestion(out, id)
	}
	return id, err
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// recordQuestion stores what a message of ours asks.
func (b *bot) recordQuestion(out bus.Outbound, id string) {
	if out.Question == nil || len(out.Question.Options) == 0 || id == "" {
		return
	}
	q := *out.Question
	q.Text = render(out.Text)
	b.asked.Put(out.Route.ChatID+"/"+id, q)
}

// message returns a message as Teams takes it. One that is not complete may have
// half of its markup.
func (b *bot) message(out bus.Outbound, complete bool) outgoing {
	m := outgoing{Type: "message", TextFormat: "markdown", ReplyToID: b.replyTo(out), Attachments: buttons(out)}
	switch {
	case out.Plain || out.Kind == bus.ToolHint:
		m.Text, m.TextFormat = out.Text, "plain"
	case complete:
		m.Text = render(out.Text)
	default:
		m.Text = preview(out.Text)
	}

	return m
}

// replyTo returns the message that is answered, if answers shall say so.
func (b *bot) replyTo(out bus.Outbound) string {
	if !b.o.ReplyInThread {
		return ""
	}
	return out.ReplyTo
}

// address returns that of a message in a conversation, or of all of them.
func (b *bot) address(route bus.Route, id string) (string, error) {
	place := route.ChatID
	if !strings.Contains(place, ":") {
		return "", chat.Permanent(fmt.Errorf("%q is not a conversation of Teams: use the id that its messages come from", place))
	}

	if route.ThreadID != "" && b.o.ReplyInThread {
		place += ";messageid=" + route.ThreadID
	}

	base := b.facts.where(route.ChatID)
	if !b.o.trusted(base) {
		return "", chat.Permanent(fmt.Errorf("the serviceUrl of the conversation is not in trustedServiceUrlHosts"))
	}

	out := strings.TrimRight(base, "/") + "/v3/conversations/" + url.PathEscape(place) + "/activities"
	if id != "" {
		out += "/" + url.PathEscape(id)
	}
	return out, nil
}

// post sends an activity to a conversation.
func (b *bot) post(ctx context.Context, route bus.Route, m outgoing) (string, error) {
	address, err := b.address(route, "")
	if err != nil {
		return "", err
	}
	id, err := b.calls.call(ctx, http.MethodPost, address, m)
	return id, b.refused(classify(err))
}

// Edit implements chat.Streamer.
func (b *bot) Edit(ctx context.Context, out bus.Outbound, id string, final bool) error {
	if blank(out.Text) {
		return nil
	}
	if st := b.streams.find(out.Route.ChatID, id); st != nil {
		return b.grow(ctx, st, out, final)
	}
	return b.replace(ctx, out, id, final)
}

// replace makes a message say something else.
func (b *bot) replace(ctx context.Context, out bus.Outbound, id string, complete bool) error {
	address, err := b.address(out.Route, id)
	if err != nil {
		return err
	}

	m := b.message(out, complete)
	m.ReplyToID = ""
	_, err = b.calls.call(ctx, http.MethodPut, address, m)
	if err == nil && complete {
		b.recordQuestion(out, id)
	}
	return b.refused(classify(err))
}

// Signal implements chat.Signaller: bots of Teams can show that they type,
// and cannot react to messages.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	if phase != chat.Working || b.streams.busy(route.ChatID, b.deps.Now()) {
		return nil
	}
	_, err := b.post(ctx, route, outgoing{Type: "typing"})
	return err
}
