package wecom

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	buttonsMost = 6    // of one card
	keyMost     = 1024 // bytes of what a button bears
	cardMost    = 100  // characters that a card shows well; a longer question is a message before it
	titleMost   = 26
)

const (
	cardButtons = "button_interaction"
	cardNotice  = "text_notice"
	cardTitle   = "Choose an answer"
	noticeURL   = "https://work.weixin.qq.com/" // WeCom's own page: there is nothing of ours to open
)

// choice is what a button means. WeCom sends it back when the button is pressed.
type choice struct {
	Question string `json:"q,omitempty"` // of a question that a turn waits on
	Label    string `json:"l"`
	Clean    bool   `json:"c,omitempty"` // the label is as good as the person's own words
	Chat     string `json:"t"`
}

// card is a template card.
type card struct {
	Type    string            `json:"card_type"`
	Title   map[string]string `json:"main_title"`
	About   string            `json:"sub_title_text,omitempty"`
	Buttons []button          `json:"button_list,omitempty"`
	Action  *cardAction       `json:"card_action,omitempty"`
	Task    string            `json:"task_id"`
}

// cardAction is where a press on a card leads. WeCom takes no notice without one.
type cardAction struct {
	Type int    `json:"type"` // 1 is an address
	URL  string `json:"url"`
}

type button struct {
	Text  string `json:"text"`
	Style int    `json:"style"`
	Key   string `json:"key"`
}

// offer shows a question with its answers as buttons, as many cards as that
// takes. A text that is too long for a card comes before it.
func (b *bot) offer(ctx context.Context, out bus.Outbound) error {
	q := out.Question
	s := render(out.Text)
	var buttons []button
	for i, label := range q.Options {
		c := choice{Label: label, Clean: q.Clean, Chat: out.Route.ChatID}
		if out.Kind == bus.Ask {
			c.Question = q.ID
		}

		key, _ := json.Marshal(c) // words only
		if len(key) > keyMost {
			return b.push(ctx, out, s+"\n\n- "+strings.Join(q.Options, "\n- "))
		}
		buttons = append(buttons, button{Text: label, Style: 1 + min(i, 1), Key: string(key)})
	}

	id := hash(out.Key + out.Route.ChatID + q.ID)
	about := s
	if len([]rune(s)) > cardMost || strings.Contains(s, "\n") {
		if !b.asked.Has(id) {
			if err := b.push(ctx, out, s); err != nil {
				return err
			}
			b.asked.Put(id, true)
		}
		about = ""
	}

	n := 0
	for list := range slices.Chunk(buttons, buttonsMost) {
		part := id + "_" + strconv.Itoa(n)
		n++
		if b.asked.Has(part) {
			continue
		}

		c := card{
			Type:    cardButtons,
			Title:   map[string]string{"title": phrase.In(b.language(), cardTitle)},
			About:   about,
			Buttons: list,
			Task:    part,
		}
		if err := b.pushAs(ctx, out, "template_card", c); err != nil {
			return err
		}
		b.asked.Put(part, true)
	}

	return nil
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// pressed hands over the answer that a button stands for.
func (rc *receiver) pressed(ctx context.Context, e *event, m *message) error {
	b := rc.bot
	p := m.Event.press
	if p.Key == "" {
		p = m.Event.Nested
	}

	var c choice
	_ = json.Unmarshal([]byte(p.Key), &c) // what is not a choice has no label
	if c.Label == "" || c.Chat != m.chat() {
		b.once(ctx, "a button that is not ours")
		return nil
	}

	pass, ok := b.deps.Gate.Admit(ctx, rc.visitor(e, m))
	if !ok {
		return nil
	}

	in := pass.Inbound("press."+m.key(), c.Label)
	in.Route.MessageID = "" // what answers a press is pushed
	in.Untrusted = !c.Clean // the model wrote the label, perhaps after it had read a stranger's words

	if c.Question != "" {
		in.Answer = &bus.Answer{QuestionID: c.Question, Option: c.Label}
		in.Untrusted = false // the program wrote it
	}

	in.Meta = map[string]string{"chat_type": m.ChatType, "button_label": c.Label, "is_callback": "true"}
	if err := rc.submit(ctx, in); err != nil {
		return err
	}
	if m.ChatType == chatGroup && c.Question != "" {
		return nil // whether the right person pressed, only the agent knows
	}

	done := card{Type: cardNotice, Title: map[string]string{"title": "✓ " + text.Ellipsis(c.Label, titleMost)}, Action: &cardAction{1, noticeURL}, Task: p.Task}
	body := map[string]any{"response_type": "update_template_card", "template_card": done}
	if _, err := b.call(ctx, cmdUpdate, e.ReqID, body, ackTime); err != nil {
		b.deps.Log.DebugContext(ctx, "a card cannot be changed", "err", err)
	}
	return nil
}

var _ chat.Streamer = (*bot)(nil)
