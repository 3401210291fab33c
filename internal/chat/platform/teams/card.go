package teams

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

const (
	adaptiveCard = "application/vnd.microsoft.card.adaptive"
	rowButtons   = 6 // Teams shows no more of a row
)

// tap is what a button of ours sends back.
type tap struct {
	Label    string `json:"nanobot"`
	Question string `json:"question,omitempty"` // that a turn waits on
}

// readTap reads the value of an activity, if a button of ours sent it.
func readTap(value json.RawMessage) (tap, bool) {
	var t tap
	if len(value) == 0 || json.Unmarshal(value, &t) != nil {
		return t, false
	}
	return t, t.Label != ""
}

// buttons returns a card with the answers to a question. A tap shows the answer in
// the chat as if it had been typed.
func buttons(out bus.Outbound) []any {
	q := out.Question
	if q == nil || len(q.Options) == 0 {
		return nil
	}

	var rows []any
	for some := range slices.Chunk(q.Options, rowButtons) {
		var actions []any
		for _, label := range some {
			t := tap{Label: label}
			if out.Kind == bus.Ask {
				t.Question = q.ID
			}
			actions = append(actions, object{
				"type": "Action.Submit", "title": label,
				"data": object{"msteams": object{"type": "messageBack", "displayText": label, "text": label, "value": t}, "nanobot": t.Label, "question": t.Question},
			})
		}

		rows = append(rows, object{"type": "ActionSet", "actions": actions})
	}

	return []any{object{
		"contentType": adaptiveCard,
		"content":     object{"type": "AdaptiveCard", "version": "1.4", "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "body": rows},
	}}
}

// tapped makes of a tap a message with the label as its text. A client can send
// any value it likes, so only what we asked counts as more than a stranger's
// words.
func (rc *receiver) tapped(ctx context.Context, a *activity, t tap) error {
	b := rc.bot
	v := rc.visitor(a)
	v.Mentioned, v.At = true, time.Time{} // Teams does not say when it was tapped
	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	asked, known := b.asked.Get(v.Route.ChatID + "/" + a.ReplyToID)
	in := pass.Inbound("tap."+rc.id(a), t.Label)
	in.Untrusted = !known || !asked.Clean || !slices.Contains(asked.Options, t.Label)

	if t.Question != "" {
		in.Answer = &bus.Answer{QuestionID: t.Question, Option: t.Label}
		in.Untrusted = false // the program wrote it, and checks it
	}

	rc.place(&in, a)
	if err := rc.submit(ctx, in); err != nil {
		return err
	}
	if !known || in.Answer != nil && !v.Direct {
		return nil // whether the right person tapped, only the agent knows
	}

	b.unbutton(ctx, v.Route, a.ReplyToID, asked)
	return nil
}

// unbutton removes the buttons of a question that is answered.
func (b *bot) unbutton(ctx context.Context, route bus.Route, id string, q bus.Question) {
	address, err := b.address(route, id)
	if err == nil {
		_, err = b.calls.call(ctx, http.MethodPut, address, outgoing{Type: "message", Text: strings.TrimSpace(q.Text), TextFormat: "markdown"})
	}
	if err != nil {
		b.deps.Log.DebugContext(ctx, "remove buttons", "err", err)
	}
}
