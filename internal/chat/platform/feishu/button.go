package feishu

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	pressEvent  = "card.action.trigger"
	buttonsMost = 50 // of one card, which has 200 elements
	labelMost   = 60 // characters of a button
	rowButtons  = 4  // side by side, if their labels are short
	rowLabel    = 12
	textMost    = 8000 // bytes of the text that all buttons together bear
)

// What a person who presses a button reads.
const (
	textStranger  = "Only people whom the owner of this bot has admitted can answer."
	textOthers    = "Only the person who was asked can answer."
	textOver      = "That question is not open any more. Nothing was done because of this answer."
	textTryAgain  = "The answer could not be kept. Try again in a moment."
	textClosed    = "This question is closed."
	toastDone     = "success"
	toastRefused  = "warning"
	toastTryAgain = "error"
)

// choice is what a button means. Feishu keeps it from people and sends it back
// when the button is pressed.
type choice struct {
	Question string `json:"q,omitempty"` // of a question that a turn waits on
	Label    string `json:"l"`
	Clean    bool   `json:"c,omitempty"` // the label is as good as the person's own words
	Chat     string `json:"t"`
	Thread   string `json:"h,omitempty"`
	Session  string `json:"s,omitempty"` // what began the conversation, in groups
	Person   string `json:"p,omitempty"` // who is asked; empty: whoever may talk to us
	Until    int64  `json:"u,omitempty"` // Unix time; 0: for ever
	Text     string `json:"x,omitempty"` // the text of the card, for another process, unless it is long
}

// posed is a message with buttons.
type posed struct {
	text  string         // the text of its card; "" if it is not known
	event string         // of the press that answered it
	last  map[string]any // the card when it is over; nil: it is open
}

// closedCard returns the card of a question that is over, with a line that says how.
func (q *posed) closedCard(how string) map[string]any {
	q.last = questionCard(q.text+"\n\n"+how, nil)
	return q.last
}

// press is what Feishu tells of a button that was pressed.
type press struct {
	Event    string `json:"event,omitempty"` // id
	Operator ids    `json:"operator"`
	Action   struct {
		Value json.RawMessage `json:"value"`
	} `json:"action"`
	Context struct {
		Message string `json:"open_message_id"`
		Chat    string `json:"open_chat_id"`
	} `json:"context"`
	Choice choice `json:"choice"`
}

// questions are what was asked, and their buttons.
type questions struct {
	bot     *bot
	asked   *recent.Map[string, asking] // by the message that asks
	askedIn *recent.Map[string, string] // that message, by the id of the question and by its code

	mu    sync.Mutex                  // guards what is in posed
	posed *recent.Map[string, *posed] // messages with buttons
}

// language returns the one that people of this app read, unless the settings name
// another.
func (qs *questions) language() string {
	b := qs.bot
	if b.o.Domain == domainLark {
		return cmp.Or(string(b.o.Language), phrase.English)
	}
	return cmp.Or(string(b.o.Language), phrase.Chinese)
}

// send sends a question as a card with a button for each answer. "" with
// no error: it has none, or does not fit, and is sent as words.
func (qs *questions) send(ctx context.Context, out bus.Outbound) (string, error) {
	b, q := qs.bot, out.Question
	if q == nil || len(q.Options) == 0 || len(q.Options) > buttonsMost || slices.Contains(q.Options, "") {
		return "", nil
	}

	shown := cardMarkdown(out, maxTables)
	said := strings.TrimSpace(strings.TrimSuffix(shown, codeLine(out)))
	content, err := encode(questionCard(shown, buttons(out, said)))
	if err != nil {
		return "", err
	}

	id, err := b.deliver(ctx, out, shape{"interactive", content}, out.Key)
	switch {
	case misshapen(err):
		b.deps.Log.InfoContext(ctx, "a card with buttons is refused; the question is sent as words", "err", err)
		return "", nil
	case err != nil:
		return "", err
	}

	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.posed.Put(id, &posed{text: said})
	return id, nil
}

// codeLine returns the last line of a card that tells how to answer in words: it goes
// when the answer is there.
func codeLine(out bus.Outbound) string {
	if _, ok := chat.AskedIn(out.Text); !ok {
		return ""
	}
	out.Text = out.Text[strings.LastIndexByte(strings.TrimRight(out.Text, " \n"), '\n')+1:]
	return cardMarkdown(out, maxTables)
}

// buttons returns the answers to a question below a text.
func buttons(out bus.Outbound, said string) []any {
	q := out.Question
	c := choice{Clean: q.Clean, Chat: out.Route.ChatID, Thread: out.Route.ThreadID}
	c.Session = sessionOf(out)

	if out.Kind == bus.Ask {
		c.Question, c.Person = q.ID, out.Meta["user_id"]
		if !q.Expires.IsZero() {
			c.Until = q.Expires.Unix()
		}
	}

	if len(said)*len(q.Options) <= textMost {
		c.Text = said
	}

	var list []any
	for i, label := range q.Options {
		c.Label = label
		list = append(list, map[string]any{
			"tag":        "button",
			"element_id": "option_" + strconv.Itoa(i),
			"text":       map[string]string{"tag": "plain_text", "content": text.Ellipsis(text.Label(label, labelMost), labelMost)},
			"type":       "default",
			"behaviors":  []any{map[string]any{"type": "callback", "value": c}},
		})
	}

	long := slices.ContainsFunc(q.Options, func(s string) bool { return len([]rune(s)) > rowLabel })
	if long || len(list) > rowButtons {
		return list
	}

	var columns []any
	for _, one := range list {
		columns = append(columns, map[string]any{"tag": "column", "width": "auto", "elements": []any{one}})
	}
	return []any{map[string]any{"tag": "column_set", "flex_mode": "flow", "columns": columns}}
}

// sessionOf returns the message that began the conversation of a turn in a group.
func sessionOf(out bus.Outbound) string {
	return cmp.Or(out.Meta["root_id"], out.Route.ThreadID, out.Meta["message_id"], out.Route.MessageID)
}

// questionCard returns a card with a text and what stands below it. It cannot be
// passed on: the answer belongs to this chat.
func questionCard(said string, below []any) map[string]any {
	words := map[string]any{"tag": "markdown", "content": said, "element_id": elementID}
	return map[string]any{
		"schema": "2.0",
		"config": map[string]any{"wide_screen_mode": true, "update_multi": true, "enable_forward": false},
		"body":   map[string]any{"elements": append([]any{words}, below...)},
	}
}

// pressed decides about a press and returns what Feishu shows: it waits three
// seconds. The answer is on the disk when the card says so.
func (qs *questions) pressed(ctx context.Context, h *head, raw json.RawMessage) map[string]any {
	b := qs.bot
	var p press
	err := json.Unmarshal(raw, &p)
	if err == nil {
		err = json.Unmarshal(p.Action.Value, &p.Choice)
	}

	p.Operator = p.Operator.sound(h.Tenant)
	c := &p.Choice
	if err != nil || c.Label == "" || c.Chat == "" || p.Operator.Open == "" || p.Context.Message == "" || h.EventID == "" {
		b.once(ctx, "a button that is not ours is ignored", "err", err)
		return map[string]any{}
	}
	if h.AppID != "" && h.AppID != b.o.AppID || b.deps.Known != nil && b.deps.Known(b.deps.Name+":"+pressID(h.EventID)) || b.replayed(ctx, h) {
		return map[string]any{}
	}

	p.Event, p.Action.Value = h.EventID, nil
	switch {
	case !b.deps.Gate.Knows(ctx, qs.presser(&p)):
		return toast(toastRefused, phrase.In(qs.language(), textStranger))
	case !p.here() || c.Person != "" && !slices.Contains(p.ids(), c.Person):
		return toast(toastRefused, phrase.In(qs.language(), textOthers))
	}

	qs.mu.Lock()
	defer qs.mu.Unlock()

	q, known := qs.posed.Get(p.Context.Message)
	if !known { // of an earlier process
		q = &posed{text: c.Text}
		qs.posed.Put(p.Context.Message, q)
		if c.Question != "" {
			qs.askedIn.Put(c.Question, p.Context.Message)
		}
	}

	done := "✓ " + text.Ellipsis(text.Label(c.Label, labelMost), labelMost)
	switch {
	case q.event == p.Event: // Feishu repeats itself
		return q.answer(toastDone, done)
	case q.last == nil && c.Until != 0 && b.deps.Now().Unix() >= c.Until:
		q.closedCard(phrase.In(qs.language(), textClosed))
		fallthrough
	case q.last != nil:
		return q.answer(toastRefused, phrase.In(qs.language(), textOver))
	}

	in := b.in.Load()
	if in == nil {
		return toast(toastTryAgain, phrase.In(qs.language(), textTryAgain))
	}
	if err := in.Hold(ctx, p.Context.Chat, pressID(p.Event), event{App: b.o.AppID, Press: &p}); err != nil {
		b.once(ctx, "an answer could not be kept; the person is asked to press again", "err", err)
		return toast(toastTryAgain, phrase.In(qs.language(), textTryAgain))
	}

	q.event = p.Event
	q.closedCard(escape(done))
	return q.answer(toastDone, done)
}

// answer returns what Feishu shows after a press: words for the person who pressed,
// and the card for all.
func (q *posed) answer(kind, words string) map[string]any {
	out := toast(kind, words)
	if q.text != "" {
		out["card"] = map[string]any{"type": "raw", "data": q.last}
	}
	return out
}

// toast returns an answer that only tells something.
func toast(kind, words string) map[string]any {
	return map[string]any{"toast": map[string]any{"type": kind, "content": words}}
}

func pressID(event string) string { return "press." + event }

func (p *press) ids() []string {
	return slices.DeleteFunc([]string{p.Operator.Open, p.Operator.Union, p.Operator.User}, func(s string) bool { return s == "" })
}

// direct reports whether the card was sent to one person.
func (c *choice) direct() bool { return !strings.HasPrefix(c.Chat, "oc_") }

// here reports whether a button was pressed where we sent it to.
func (p *press) here() bool {
	switch c := &p.Choice; {
	case !c.direct():
		return p.Context.Chat == c.Chat
	case idType(c.Chat) == "email":
		return true
	default:
		return slices.Contains(p.ids(), c.Chat)
	}
}

// presser returns who pressed a button, for the gate.
func (qs *questions) presser(p *press) access.Visitor {
	b, c := qs.bot, &p.Choice
	v := access.Visitor{
		IDs: p.ids(), Direct: c.direct(), Mentioned: true, Name: p.Operator.Open,
		Route: bus.Route{Channel: b.deps.Name, ChatID: c.Chat, ThreadID: c.Thread, MessageID: p.Context.Message},
	}
	if c.direct() {
		v.Route.ChatID = p.Operator.Open
	}
	if c.Question != "" {
		v.Route.MessageID = "" // an answer is not a message that can be answered
	}
	if name, ok := b.names.Get(p.Operator.Open); ok {
		v.Name = name
	}
	if b.o.Domain == domainLark {
		v.Language = phrase.English
	}
	return v
}

// chosen hands over the answer that a button stands for.
func (rc *receiver) chosen(ctx context.Context, p *press) error {
	b, c := rc.bot, &p.Choice
	pass, ok := b.deps.Gate.Admit(ctx, b.ask.presser(p))
	if !ok {
		return nil
	}

	in := pass.Inbound(pressID(p.Event), c.Label)
	in.Untrusted = !c.Clean // the model wrote the label, perhaps after it had read a stranger's words
	if c.Question != "" {
		in.Answer = &bus.Answer{QuestionID: c.Question, Option: c.Label}
		in.Untrusted = false // the program wrote it
	}
	if !c.direct() && b.o.TopicIsolation && c.Session != "" {
		in.SessionKey = in.Route.SessionKey() + ":" + c.Session
	}

	in.Meta = map[string]string{
		"message_id": p.Context.Message, "root_id": c.Session, "user_id": p.Operator.Open, "button_label": c.Label, "is_callback": "true",
	}
	return rc.submit(ctx, in)
}

// resolve shows that a question is over. Late means that an answer to it came too late, so
// the card must not show that one.
func (qs *questions) resolve(ctx context.Context, question string, late bool) {
	b := qs.bot
	id, _ := qs.askedIn.Get(question)
	qs.mu.Lock()
	q, ok := qs.posed.Get(id)
	if !ok || q.text == "" || q.last != nil && !late {
		qs.mu.Unlock()
		return
	}

	q.event = ""
	content, err := encode(q.closedCard(escape(phrase.In(qs.language(), textClosed))))
	qs.mu.Unlock()
	if err == nil {
		err = b.calls.call(ctx, http.MethodPatch, messagePath(id), draft{Content: string(content)}, nil)
	}
	if err != nil {
		b.deps.Log.DebugContext(ctx, "the buttons of a question cannot be removed", "err", err)
	}
}
