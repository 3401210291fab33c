package telegram

import (
	"context"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
)

// maxData is how many bytes Telegram gives back of a button.
const maxData = 64

// buttons are the answers to a question, one below the other. A label that is
// too long to come back is replaced by its number: Telegram sends the whole
// keyboard back with a tap, so nothing needs to be remembered.
func (b *bot) buttons(q *bus.Question) *keyboard {
	if q == nil || len(q.Options) == 0 || !b.o.InlineKeyboards {
		return nil
	}
	k := &keyboard{}
	for i, label := range q.Options {
		data := label
		if len(data) > maxData {
			data = "#" + strconv.Itoa(i)
		}
		k.Rows = append(k.Rows, []button{{Text: label, Data: data}})
	}
	return k
}

// label is what stands on the button that was tapped.
func (q *callbackQuery) label() string {
	if q.Message.ReplyMarkup != nil {
		for _, row := range q.Message.ReplyMarkup.Rows {
			for _, btn := range row {
				if btn.Data == q.Data {
					return btn.Text
				}
			}
		}
	}
	return q.Data
}

// tapped makes of a tap a message with the label as its text.
func (b *bot) tapped(ctx context.Context, q *callbackQuery, submit channel.Submit) error {
	if q.Message == nil || q.From == nil {
		return nil
	}
	m := *q.Message
	v := b.visitor(&m, q.From)
	v.Mentioned, v.At = true, time.Time{} // when it was tapped nobody says
	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}
	label := q.label()
	in := pass.Inbound("tap."+q.ID, label)
	b.place(&in, &m)
	in.Meta = b.meta(&m, q.From)
	in.Meta["callback_query_id"], in.Meta["button_label"], in.Meta["is_callback"] = q.ID, label, "true"
	if err := submit(ctx, in); err != nil {
		return err
	}
	// The rest is for the eye: the little clock goes away, and the buttons.
	if err := b.calls.call(ctx, "answerCallbackQuery", map[string]string{"callback_query_id": q.ID}, nil); err != nil {
		b.deps.Log.DebugContext(ctx, "answer a tap", "err", err)
	}
	err := b.calls.call(ctx, "editMessageReplyMarkup", outgoing{ChatID: m.Chat.ID, MessageID: m.ID}, nil)
	if err != nil {
		b.deps.Log.DebugContext(ctx, "remove buttons", "err", err)
	}
	return nil
}
