package feishu

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	nameShown  = 64   // characters of a person's name
	quoteMost  = 200  // characters of a message that is answered
	noteMost   = 4000 // characters of a card or of a forwarded conversation's message
	forwardMax = 50   // messages of a forwarded conversation
	quoteFresh = 30 * time.Second
)

// receiver makes messages for the agent of the events that come during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// forUs reports whether a message in a group is for us.
func (b *bot) forUs(e *event) bool {
	switch b.o.GroupPolicy {
	case access.Open:
		return true
	case access.Allowlist:
		return slices.Contains(b.o.GroupAllowFrom, e.Message.Chat)
	}
	return b.named(e)
}

// named reports whether a message names the bot.
func (b *bot) named(e *event) bool {
	me := b.me.Load()
	if b.o.RespondToAtAll && strings.Contains(e.Message.Content, "@_all") {
		return true
	}
	return me != nil && slices.ContainsFunc(e.Message.Mentions, func(m mention) bool { return m.ID.Open == me.OpenID })
}

// handle turns an event into a message. An error means that it is not durable
// yet.
func (rc *receiver) handle(ctx context.Context, e event) error {
	b, m := rc.bot, &e.Message
	if e.Press != nil && e.App == b.o.AppID {
		return rc.chosen(ctx, e.Press)
	}
	if e.App != b.o.AppID || b.deps.Known != nil && b.deps.Known(b.deps.Name+":"+m.ID) {
		return nil
	}

	body := b.read(m)
	v := access.Visitor{
		Direct:    e.direct(),
		Mentioned: b.named(&e),
		Route:     bus.Route{Channel: b.deps.Name, ChatID: m.Chat, MessageID: m.ID},
		Text:      body.text,
	}
	for _, id := range []string{e.Sender.ID.Open, e.Sender.ID.Union, e.Sender.ID.User} {
		if id != "" {
			v.IDs = append(v.IDs, id)
		}
	}

	v.Name, _ = b.names.Get(e.Sender.ID.Open)
	v.Name = cmp.Or(v.Name, e.Sender.ID.Open)
	v.At = b.calls.clock.Here(millis(m.Created))
	if b.o.Domain == domainLark {
		v.Language = phrase.English
	}
	if v.Direct {
		v.Route.ChatID = e.Sender.ID.Open
	}
	if m.Thread != "" {
		v.Route.ThreadID = cmp.Or(m.Root, m.ID)
	}

	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}
	return rc.written(ctx, &e, body, v, pass)
}

// written hands over what a person wrote.
func (rc *receiver) written(ctx context.Context, e *event, body content, v access.Visitor, pass access.Pass) error {
	b, m := rc.bot, &e.Message
	for _, n := range m.Mentions {
		b.names.Put(n.ID.Open, text.Speaker(n.Name))
	}

	in := pass.Inbound(m.ID, "")
	in.Untrusted = false
	if !v.Direct && b.o.TopicIsolation {
		in.SessionKey = in.Route.SessionKey() + ":" + cmp.Or(m.Root, m.ID)
	}

	in.Meta = map[string]string{
		"message_id": m.ID, "chat_type": m.ChatType, "msg_type": m.Type, "parent_id": m.Parent, "root_id": m.Root, "thread_id": m.Thread, "user_id": e.Sender.ID.Open,
	}
	if a, session := rc.answers(m, body); a != nil {
		in.Answer, in.Text = a, body.text
		if in.SessionKey != "" {
			in.SessionKey = in.Route.SessionKey() + ":" + session
		}
		return rc.submit(ctx, in)
	}

	files := &files{bot: b, message: m.ID}
	files.add(ctx, body.files)
	said := strings.TrimSpace(strings.Join(append([]string{body.text}, files.spoken...), "\n"))
	in.Media, in.Text = files.media, said
	command := strings.HasPrefix(said, "/")
	if v.Direct && said == "/new" {
		b.fresh.Put(m.ID, true)
	}
	if !v.Direct && !command {
		in.Text = strings.TrimSpace("@" + v.Name + ": " + said)
	}

	quotes, came := rc.quoted(ctx, e, v.Route)
	in.Quoted, in.Media = append(body.quotes, quotes...), append(in.Media, came...)
	if m.Type == "merge_forward" {
		in.Quoted = append(in.Quoted, rc.forwarded(ctx, m.ID)...)
	}
	if len(files.marks) > 0 {
		in.Quoted = append(in.Quoted, bus.Quote{About: "files", Text: strings.Join(files.marks, "\n")})
	}
	if said == "" && len(in.Quoted) == 0 {
		in.Text = strings.TrimSpace(in.Text + " [empty message]")
	}
	return pass.Submit(ctx, in, rc.submit)
}

// asking is a question that was put to people, and the message that began the
// conversation in which it was.
type asking struct {
	bus.Question
	session string
}

// answers returns the answer that a message gives to a question, and the conversation
// of that: by quoting it, where only a short word counts, or by a word and its
// code.
func (rc *receiver) answers(m *message, body content) (*bus.Answer, string) {
	if len(body.files) > 0 || strings.HasPrefix(body.text, "/") {
		return nil, ""
	}

	qs := rc.bot.ask
	if q, ok := qs.asked.Get(m.Parent); ok && m.Parent != "" {
		word := strings.TrimSuffix(body.text, " "+q.Code)
		if _, remark, ok := q.Choose(word); ok && remark == "" {
			return &bus.Answer{QuestionID: q.ID, Option: word}, q.session
		}
	}

	for word := range strings.FieldsSeq(body.text) {
		id, _ := qs.askedIn.Get(strings.ToLower(word))
		q, ok := qs.asked.Get(id)
		if !ok || q.Code == "" {
			continue
		}
		if a, ok := q.Coded(body.text); ok {
			return &a, q.session
		}
	}

	return nil, ""
}

// item is a message as the API tells it.
type item struct {
	ID      string `json:"message_id"`
	Upper   string `json:"upper_message_id"`
	Type    string `json:"msg_type"`
	Created string `json:"create_time"`
	Body    struct {
		Content string `json:"content"`
	} `json:"body"`
	Sender struct {
		ID   string `json:"id"`
		Type string `json:"sender_type"`
	} `json:"sender"`
	Mentions []struct {
		Key  string `json:"key"`
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"mentions"`
}

// message returns the item in the form of an event.
func (it *item) message() *message {
	m := &message{ID: it.ID, Type: it.Type, Content: it.Body.Content, Created: it.Created}
	for _, n := range it.Mentions {
		m.Mentions = append(m.Mentions, mention{Key: n.Key, ID: ids{Open: n.ID}, Name: n.Name})
	}
	return m
}

// fetch asks Feishu for a message and returns its items.
func (c *client) fetch(ctx context.Context, id string) ([]item, error) {
	var got struct {
		Items []item `json:"items"`
	}
	err := c.call(ctx, http.MethodGet, messagePath(id)+"?card_msg_content_type=raw_card_content", nil, &got)
	return got.Items, err
}

// fetched is a message that was looked up.
type fetched struct {
	quotes []bus.Quote
	media  []bus.Media
	at     time.Time
}

// quoted returns the message that another one answers, with its files. What began the
// topic that a message is in was given to the agent before.
func (rc *receiver) quoted(ctx context.Context, e *event, route bus.Route) ([]bus.Quote, []bus.Media) {
	b, m := rc.bot, &e.Message
	if m.Parent == "" || m.Thread != "" && m.Parent == m.Root && b.deps.Known != nil && b.deps.Known(b.deps.Name+":"+m.Root) {
		return nil, nil
	}

	if q, ok := b.deps.Quoted(route, m.Parent); ok {
		to := "you"
		if q.SenderID != "" {
			to = "a message"
		}
		return answersTo(to, q.Text), q.Media
	}

	f, ok := b.quotes.Get(m.Parent)
	if !ok || b.deps.Now().Sub(f.at) >= quoteFresh {
		list, err := b.calls.fetch(ctx, m.Parent)
		if err != nil || len(list) == 0 {
			b.deps.Log.DebugContext(ctx, "a message that is answered cannot be read", "message", m.Parent, "err", err)
			return answersTo("a message that cannot be read", ""), nil
		}
		f = rc.fetched(ctx, &list[0])
		b.quotes.Put(m.Parent, f)
	}

	return f.quotes, f.media
}

// fetched returns a message with its files. Whoever spoke in one is not the sender.
func (rc *receiver) fetched(ctx context.Context, it *item) fetched {
	b := rc.bot
	to := "a message"
	if it.Sender.Type == "app" && it.Sender.ID == b.o.AppID {
		to = "you"
	}

	came := &files{bot: b, message: it.ID}
	came.add(ctx, b.read(it.message()).files)
	f := fetched{quotes: answersTo(to, b.describe(it)), media: came.media, at: b.deps.Now()}
	if marks := append(came.spoken, came.marks...); len(marks) > 0 {
		f.quotes = append(f.quotes, bus.Quote{About: "files of what this answers", Text: strings.Join(marks, "\n")})
	}
	return f
}

func answersTo(to, said string) []bus.Quote {
	if said = strings.TrimSpace(cut(text.Valid(said), quoteMost)); said != "" {
		said = ": " + said
	}
	return []bus.Quote{{About: "what this answers", Text: "[answers " + to + said + "]"}}
}

// cut shortens a text and says so.
func cut(s string, n int) string {
	if short := text.Cut(s, n); short != s {
		return short + "..."
	}
	return s
}

// describe returns what a message says, in words.
func (b *bot) describe(it *item) string {
	body := b.read(it.message())
	words := []string{body.text}
	for _, q := range body.quotes {
		words = append(words, q.Text)
	}
	for _, f := range body.files {
		words = append(words, "["+strings.TrimSpace(f.kind+" "+media.FileName(f.name))+"]")
	}
	return strings.TrimSpace(strings.Join(words, "\n"))
}

// forwarded returns the messages of a conversation that was passed on.
func (rc *receiver) forwarded(ctx context.Context, id string) []bus.Quote {
	list, err := rc.bot.calls.fetch(ctx, id)
	if err != nil {
		rc.bot.deps.Log.WarnContext(ctx, "a forwarded conversation cannot be read", "message", id, "err", err)
		return []bus.Quote{{About: "forwarded", Text: "[merged forward messages]"}}
	}

	var lines []string
	more := 0
	for i := range list {
		it := &list[i]
		if it.Upper == "" || it.ID == id {
			continue
		}
		if len(lines) == forwardMax {
			more++
			continue
		}

		who, ok := rc.bot.names.Get(it.Sender.ID)
		if !ok {
			who = text.Speaker(it.Sender.ID)
		}
		lines = append(lines, who+": "+cut(rc.bot.describe(it), noteMost))
	}

	if more > 0 {
		lines = append(lines, "[and more messages that are left out]")
	}
	if len(lines) == 0 {
		lines = []string{"[merged forward messages]"}
	}
	return []bus.Quote{{About: "forwarded", Text: strings.Join(lines, "\n")}}
}
