package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// outgoing is what all sending methods take.
type outgoing struct {
	ChatID    any        `json:"chat_id"`
	ThreadID  int64      `json:"message_thread_id,omitempty"`
	Text      string     `json:"text,omitempty"`
	Rich      *richText  `json:"rich_message,omitempty"` // instead of Text
	ParseMode string     `json:"parse_mode,omitempty"`
	Reply     *replying  `json:"reply_parameters,omitempty"`
	Markup    *keyboard  `json:"reply_markup,omitempty"`
	Silent    bool       `json:"disable_notification,omitempty"`
	MessageID int64      `json:"message_id,omitempty"` // of an edit
	Reaction  []reaction `json:"reaction,omitempty"`
	Action    string     `json:"action,omitempty"`
	Preview   *noPreview `json:"link_preview_options,omitempty"` // with Text
}

// noPreview keeps Telegram from fetching the addresses in a text: what is in an
// address would leave with it, although no person opened it.
type noPreview struct {
	Off bool `json:"is_disabled"`
}

type replying struct {
	MessageID int64 `json:"message_id"`
	Anyway    bool  `json:"allow_sending_without_reply"`
}

type reaction struct {
	Type  string `json:"type"`
	Emoji string `json:"emoji"`
}

const modeHTML = "HTML"

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if out.Kind == bus.Delta {
		out.Text, out.Plain = preview(out.Text), true
	}

	if len(out.Media) == 0 && text.Blank(out.Text) {
		return "", nil
	}

	var sent message
	err := b.deliver(ctx, out.Route, func(to outgoing) error {
		to.Silent = quiet(out.Kind)
		to.Reply = b.replying(out)
		to.Markup = b.buttons(out)
		if len(out.Media) > 0 {
			return b.sendFile(ctx, to, out, &sent)
		}
		return b.sendText(ctx, to, out, &sent)
	})
	if err != nil {
		return "", err
	}

	if out.Question != nil && out.Question.Clean {
		b.clean.Put(out.Route.ChatID+"/"+strconv.FormatInt(sent.ID, 10), true)
	}
	if q := b.quotes(out); q != 0 {
		b.quoted.Put(out.Route.ChatID+"/"+strconv.FormatInt(q, 10), true)
	}
	return strconv.FormatInt(sent.ID, 10), nil
}

// quiet reports whether a kind should not make phones ring.
func quiet(k bus.Kind) bool {
	return k == bus.Progress || k == bus.ToolHint || k == bus.Notice || k == bus.Reasoning
}

// deliver runs a call for a route, again for the new number if the chat has
// moved, and without the topic if that is gone.
func (b *bot) deliver(ctx context.Context, route bus.Route, try func(to outgoing) error) error {
	to, err := b.address(route)
	if err != nil {
		return chat.Permanent(err)
	}

	err = try(to)
	if e := refusal(err); e != nil && e.MigrateTo != 0 {
		if err := b.facts.move(route.ChatID, e.MigrateTo); err != nil {
			b.deps.Log.ErrorContext(ctx, "cannot save the new number of a chat", "err", err)
		}
		to.ChatID = e.MigrateTo
		err = try(to)
	}

	if e := refusal(err); e != nil && e.Code == http.StatusBadRequest && to.ThreadID != 0 && e.mentions("thread not found", "TOPIC_DELETED") {
		to.ThreadID = 0
		err = try(to)
	}
	return classify(err)
}

func (b *bot) address(route bus.Route) (outgoing, error) {
	id := b.facts.current(route.ChatID)
	var to outgoing
	if n, err := strconv.ParseInt(id, 10, 64); err == nil {
		to.ChatID = n
	} else if name, ok := strings.CutPrefix(id, "@"); ok && name != "" {
		to.ChatID = id
	} else {
		return to, fmt.Errorf("%q is not a Telegram chat: use its number, or the @name of a public chat", route.ChatID)
	}

	if route.ThreadID != "" {
		n, err := strconv.ParseInt(route.ThreadID, 10, 64)
		if err != nil {
			return to, fmt.Errorf("%q is not a Telegram topic", route.ThreadID)
		}
		to.ThreadID = n
	}

	return to, nil
}

// quotes returns the message an answer quotes, 0 if none. Every answer names the
// message it belongs to; whether that is quoted is a setting. Any other one
// is named on purpose.
func (b *bot) quotes(out bus.Outbound) int64 {
	id := out.ReplyTo
	if id == "" || id == out.Route.MessageID {
		if !b.o.ReplyToMessage || quiet(out.Kind) {
			return 0
		}
		id = out.Route.MessageID
	}

	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || b.quoted.Has(out.Route.ChatID+"/"+id) {
		return 0
	}
	return n
}

func (b *bot) replying(out bus.Outbound) *replying {
	if n := b.quotes(out); n != 0 {
		return &replying{MessageID: n, Anyway: true}
	}
	return nil
}

// sendText sends HTML, and the text as it is where HTML is not possible.
func (b *bot) sendText(ctx context.Context, to outgoing, out bus.Outbound, sent *message) error {
	to.Preview = &noPreview{Off: true}
	if rich := b.rich(out); rich != nil {
		page := to
		page.Rich = rich
		if err := b.calls.call(ctx, "sendRichMessage", page, sent); b.conclusive(err) {
			return err
		}
	}
	return b.formatted(to, out, func(to outgoing) error { return b.calls.call(ctx, "sendMessage", to, sent) })
}

// formatted tries with markup, then without.
func (b *bot) formatted(to outgoing, out bus.Outbound, try func(to outgoing) error) error {
	if page, ok := render(out); ok {
		to.Text, to.ParseMode = page, modeHTML
		err := try(to)
		if e := refusal(err); e == nil || !aboutMarkup(e) {
			return err
		}
	}
	to.Text, to.ParseMode = out.Text, ""
	return try(to)
}

func render(out bus.Outbound) (string, bool) {
	switch {
	case out.Kind == bus.ToolHint:
		return "<blockquote expandable>" + escape(strings.TrimSpace(out.Text)) + "</blockquote>", true
	case out.Plain:
		return "", false
	}
	return toHTML(out.Text)
}

// aboutMarkup reports whether a refusal may be about the form of a text, so
// that another form gets around it. The words for that are many and change;
// those for what has nothing to do with it are few.
func aboutMarkup(e *apiError) bool {
	return e.Code == http.StatusBadRequest && e.MigrateTo == 0 && !aboutFile(e) && !e.mentions(
		"not modified", "not found", "can't be edited", "not enough rights", "have no rights", "need administrator", "kicked",
		"PEER_", "CHAT_", "USER_", "TOPIC_", "BUTTON_", "REPLY_")
}

// preview returns the text of a message that is not complete: its markup may not be
// either, so none is shown.
func preview(s string) string { return markdown.UTF16.Cut(markdown.Plain(markdown.Parse(s)), maxText) }

// Edit implements chat.Streamer.
func (b *bot) Edit(ctx context.Context, out bus.Outbound, id string, final bool) error {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return chat.Permanent(fmt.Errorf("%q is not a Telegram message", id))
	}

	route := out.Route
	if !final {
		out.Text, out.Plain = preview(out.Text), true
	}

	if text.Blank(out.Text) {
		return nil
	}

	err = b.deliver(ctx, route, func(to outgoing) error {
		to.MessageID = n
		to.ThreadID = 0
		to.Preview = &noPreview{Off: true}

		if rich := b.rich(out); rich != nil {
			page := to
			page.Rich = rich
			if err := b.calls.call(ctx, "editMessageText", page, nil); b.conclusive(err) {
				return err
			}
		}

		return b.formatted(to, out, func(to outgoing) error { return b.calls.call(ctx, "editMessageText", to, nil) })
	})
	if e := refusal(err); e != nil && e.mentions("message is not modified") {
		err = nil
	}
	if err == nil && route.MessageID != "" { // an earlier process may have begun the answer, and quoted
		b.quoted.Put(route.ChatID+"/"+route.MessageID, true)
	}
	return err
}

// Erase implements chat.Streamer.
func (b *bot) Erase(ctx context.Context, route bus.Route, id string) error {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return chat.Permanent(fmt.Errorf("%q is not a Telegram message", id))
	}

	err = b.deliver(ctx, route, func(to outgoing) error {
		to.MessageID, to.ThreadID = n, 0
		return b.calls.call(ctx, "deleteMessage", to, nil)
	})
	if e := refusal(err); e != nil && e.mentions("message to delete not found") {
		return nil
	}
	return err
}

// isGroup reports whether several people read a chat: only direct chats have
// numbers above zero.
func isGroup(route bus.Route) bool {
	n, err := strconv.ParseInt(route.ChatID, 10, 64)
	return err != nil || n < 0
}

// Signal implements chat.Signaller.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	if phase == chat.Working {
		return b.deliver(ctx, route, func(to outgoing) error {
			to.Action = "typing"
			return b.calls.call(ctx, "sendChatAction", to, nil)
		})
	}

	id, err := strconv.ParseInt(route.MessageID, 10, 64)
	if err != nil || b.o.ReactEmoji == "" || b.dumb.Load() {
		return nil //nolint:nilerr // without a message there is nothing to react to
	}

	err = b.deliver(ctx, route, func(to outgoing) error {
		to.MessageID, to.ThreadID = id, 0
		marks := []reaction{}
		if phase == chat.Seen {
			marks = append(marks, reaction{"emoji", b.o.ReactEmoji})
		}
		return b.calls.call(ctx, "setMessageReaction", struct {
			outgoing
			Reaction []reaction `json:"reaction"` // also an empty list is sent: it takes the mark away
		}{to, marks}, nil)
	})
	if e := refusal(err); e != nil && e.mentions("REACTION_INVALID") {
		b.dumb.Store(true)
		return fmt.Errorf("reactEmoji %s is none of Telegram's reactions: %w", b.o.ReactEmoji, err)
	}
	return err
}

// params returns the words of a call with a file.
func (o outgoing) params() (map[string]string, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}

	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}

	out := make(map[string]string, len(raw))
	for k, v := range raw {
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			s = string(v)
		}
		out[k] = s
	}

	return out, nil
}
