package telegram

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// maxData is how many bytes Telegram gives back of a button.
const maxData = 64

// askMark begins the data of buttons that answer a question a turn waits on:
// the mark, the id of the question, a dot, the number of the option.
const askMark = "?"

// buttons returns the answers to a question, one below the other. A label that is
// too long to come back is replaced by its number: Telegram sends the whole
// keyboard back with a tap, so nothing needs to be remembered. Of a question
// that a turn waits on the buttons carry its id.
func (b *bot) buttons(out bus.Outbound) *keyboard {
	q := out.Question
	if q == nil || len(q.Options) == 0 || !b.o.InlineKeyboards {
		return nil
	}

	k := &keyboard{}
	for i, label := range q.Options {
		data := label
		switch {
		case out.Kind == bus.Ask:
			data = askMark + q.ID + "." + strconv.Itoa(i)
		case len(data) > maxData || strings.HasPrefix(data, askMark):
			data = "#" + strconv.Itoa(i)
		}
		k.Rows = append(k.Rows, []button{{Text: label, Data: data}})
	}

	return k
}

// tappedOn returns the button that a tap names, if the message has such a one: a
// client can send any data it likes.
func (q *callbackQuery) tappedOn() (button, bool) {
	if q.Message.ReplyMarkup == nil {
		return button{}, false
	}

	for _, row := range q.Message.ReplyMarkup.Rows {
		for _, btn := range row {
			if btn.Data == q.Data {
				return btn, true
			}
		}
	}

	return button{}, false
}

// question returns the id of the question that a button answers, "" if it answers
// none.
func (btn button) question() string {
	data, ok := strings.CutPrefix(btn.Data, askMark)
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(data, ".")
	return id
}

// ours reports whether the bot itself wrote a message.
func (rc *receiver) ours(m *message) bool {
	return m != nil && m.From != nil && m.From.ID == rc.bot.me.Load().ID && m.ForwardOrigin == nil && m.ViaBot == nil
}

// replied returns the answer that a message gives by being a reply to a question.
// Only a short word that was typed counts: neither an edited message nor one
// that was forwarded, quotes a part of the question, or comes with anything else.
func (rc *receiver) replied(parts []*message, edited bool) *bus.Answer {
	m := parts[0]
	switch {
	case len(parts) != 1, edited, !rc.ours(m.ReplyTo):
		return nil // not a single new message in reply to the bot
	case m.ForwardOrigin != nil, m.ViaBot != nil, m.Quote != nil:
		return nil // words that the person did not type, or an answer to a part of the question
	case m.Text == "", len(m.notes()) > 0, len(m.attachments()) > 0:
		return nil // more than a word
	}

	q := m.ReplyTo.question()
	word := strings.TrimSuffix(rc.withoutUs(m.Text, m.Entities), " "+q.Code)
	if _, remark, ok := q.Choose(word); q.ID == "" || !ok || remark != "" || strings.HasPrefix(word, "/") {
		return nil
	}
	return &bus.Answer{QuestionID: q.ID, Option: word}
}

// question returns what a message of ours asks, as far as it shows: by its buttons
// or by its last line.
func (m *message) question() (q bus.Question) {
	if m.ReplyMarkup != nil {
		for _, row := range m.ReplyMarkup.Rows {
			for _, btn := range row {
				q.ID = btn.question()
				q.Options = append(q.Options, btn.Text)
			}
		}
		return q
	}

	if q, ok := chat.AskedIn(m.Text); ok {
		q.ID = q.Code
		return q
	}
	return q
}

// tapped makes of a tap a message with the label as its text.
func (rc *receiver) tapped(ctx context.Context, q *callbackQuery) error {
	if q.Message == nil || q.From == nil {
		return nil
	}

	m := *q.Message
	v := rc.visitor(&m, q.From)
	v.Mentioned, v.At = true, time.Time{} // Telegram does not say when it was tapped
	pass, ok := rc.bot.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	btn, there := q.tappedOn()
	if !there || !rc.ours(&m) {
		rc.bot.deps.Log.WarnContext(ctx, "a tap on a button that the message does not have is dropped", "sender", q.From.ID)
		return nil
	}

	label := btn.Text
	in := pass.Inbound("tap."+q.ID, label)
	// The model wrote the label, perhaps after it had read a stranger's words.
	in.Untrusted = !rc.bot.clean.Has(in.Route.ChatID + "/" + strconv.FormatInt(m.ID, 10))

	if id := btn.question(); id != "" {
		in.Answer = &bus.Answer{QuestionID: id, Option: label}
		in.Untrusted = false // the program wrote it
	}

	rc.place(&in, &m)
	in.Meta = rc.meta(&m, q.From)
	in.Meta["callback_query_id"] = q.ID
	in.Meta["button_label"] = label
	in.Meta["is_callback"] = "true"
	if err := rc.submit(ctx, in); err != nil {
		return err
	}

	// The rest is for the eye: the little clock goes away, and the buttons.
	if err := rc.bot.calls.call(ctx, "answerCallbackQuery", map[string]string{"callback_query_id": q.ID}, nil); err != nil {
		rc.bot.deps.Log.DebugContext(ctx, "answer a tap", "err", err)
	}

	if in.Answer != nil && !v.Direct {
		return nil // whether the right person tapped, only the agent knows
	}

	err := rc.bot.calls.call(ctx, "editMessageReplyMarkup", outgoing{ChatID: m.Chat.ID, MessageID: m.ID}, nil)
	if err != nil {
		rc.bot.deps.Log.DebugContext(ctx, "remove buttons", "err", err)
	}
	return nil
}
