package slack

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	api "github.com/slack-go/slack"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

const (
	maxLabel   = 75   // characters of a button
	maxValue   = 2000 // characters that come back with it
	maxButtons = 25   // of one block
)

// askMark begins the value of buttons that answer a question a turn waits on:
// the mark, the id of the question, a dot, the label.
const askMark = "?"

// buttons returns the answers to a question.
func (b *bot) buttons(out bus.Outbound) []api.Block {
	q := out.Question
	if q == nil || !b.o.Buttons {
		return nil
	}

	var all []api.BlockElement
	for i, label := range q.Options {
		if strings.TrimSpace(label) == "" {
			continue
		}

		value := label
		if out.Kind == bus.Ask {
			value = askMark + q.ID + "." + label
		}

		words := api.NewTextBlockObject(api.PlainTextType, text.Ellipsis(label, maxLabel), false, false)
		all = append(all, api.NewButtonBlockElement("option."+strconv.Itoa(i), text.Cut(value, maxValue), words))
	}

	var blocks []api.Block
	for group := range slices.Chunk(all, maxButtons) {
		blocks = append(blocks, api.NewActionBlock("", group...))
	}
	return blocks
}

// tapped makes of a press of a button a message with the label as its text.
func (rc *receiver) tapped(ctx context.Context, t *interaction) error {
	b := rc.bot
	v := rc.visitor(t.Channel.ID, t.User.ID, t.Message.Thread)
	v.Mentioned, v.Route.MessageID = true, t.Message.TS
	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	label, question := t.Actions[0].Value, ""
	if s, ask := strings.CutPrefix(label, askMark); ask {
		question, label, _ = strings.Cut(s, ".")
	}

	if label == "" || !strings.HasPrefix(t.Actions[0].ID, "option.") {
		return nil
	}

	in := pass.Inbound("tap."+t.Trigger, label)
	in.WantsStream = b.caps.EditEvery > 0
	if in.Route.ThreadID != "" {
		in.SessionKey = in.Route.SessionKey() + ":" + in.Route.ThreadID
	}

	in.Meta = map[string]string{"message_id": t.Message.TS, "user_id": t.User.ID, "button_label": label, "is_callback": "true"}
	// The model wrote the label, perhaps after it had read a stranger's words.
	in.Untrusted = !b.clean.Has(t.Channel.ID + "/" + t.Message.TS)
	if question != "" {
		in.Answer = &bus.Answer{QuestionID: question, Option: label}
		in.Untrusted = false // the program wrote it
	}

	if err := rc.submit(ctx, in); err != nil {
		return err
	}
	if question != "" && !v.Direct {
		return nil // whether the right person pressed it, only the agent knows
	}

	b.disarm(ctx, t, label)
	return nil
}

// disarm replaces the buttons of a message by the answer.
func (b *bot) disarm(ctx context.Context, t *interaction, label string) {
	var old api.Blocks
	if err := json.Unmarshal(t.Message.Blocks, &old); err != nil {
		return
	}

	blocks := slices.DeleteFunc(old.BlockSet, func(one api.Block) bool { return one.BlockType() == api.MBTAction })
	answer := api.NewTextBlockObject(api.PlainTextType, "✓ "+text.Ellipsis(label, maxLabel), false, false)
	blocks = append(blocks, api.NewSectionBlock(answer, nil, nil))
	_, err := call(ctx, func(ctx context.Context) (string, error) {
		_, ts, _, err := b.api.UpdateMessageContext(ctx, t.Channel.ID, t.Message.TS, api.MsgOptionText(t.Message.Text, false), api.MsgOptionBlocks(blocks...))
		return ts, err
	})
	if err != nil {
		b.deps.Log.DebugContext(ctx, "remove buttons", "err", err)
	}
}
