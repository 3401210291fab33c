package telegram

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	quoteMost = 4000 // characters of a message that is answered
)

// receiver makes messages for the agent of the updates that come during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// handle turns an update, or the parts of an album, into one message. An
// error means that it is not durable yet.
func (rc *receiver) handle(ctx context.Context, us []update) error {
	if q := us[0].Callback; q != nil {
		return rc.tapped(ctx, q)
	}

	var parts []*message
	for i := range us {
		m := us[i].Message
		if m == nil && rc.bot.o.EditedMessages {
			m = us[i].Edited
		}
		if m != nil && rc.concerns(ctx, m) {
			parts = append(parts, m)
		}
	}

	if len(parts) == 0 {
		return nil
	}

	slices.SortStableFunc(parts, func(x, y *message) int { return int(x.ID - y.ID) })
	return rc.written(ctx, parts, us[0].Message == nil)
}

// concerns reports whether a message says something to a bot. Service
// messages do not; of those a move of the chat is remembered.
func (rc *receiver) concerns(ctx context.Context, m *message) bool {
	var err error
	switch {
	case m.MigrateTo != 0:
		err = rc.bot.facts.move(strconv.FormatInt(m.Chat.ID, 10), m.MigrateTo)
	case m.MigrateFrom != 0:
		err = rc.bot.facts.move(strconv.FormatInt(m.MigrateFrom, 10), m.Chat.ID)
	}

	if err != nil {
		rc.bot.deps.Log.ErrorContext(ctx, "cannot save the new number of a chat", "err", err)
	}
	return m.From != nil && m.From.ID != rc.bot.me.Load().ID && !rc.robot(m) && !m.AutoForward && m.Chat.Type != "channel" && !m.empty()
}

// robot reports whether another bot wrote: two that answer each other do so all
// night. One whose id is on the list may. People who write as a group or a
// channel come with a bot's name, too.
func (rc *receiver) robot(m *message) bool {
	id := strconv.FormatInt(m.From.ID, 10)
	return m.From.IsBot && m.SenderChat == nil && !slices.Contains(rc.bot.o.AllowFrom, id) && !slices.Contains(rc.bot.o.Owners, id)
}

// written handles a message that a person wrote. Nothing is fetched before the gate has
// let the sender in.
func (rc *receiver) written(ctx context.Context, parts []*message, edited bool) error {
	m := parts[0]
	v := rc.visitor(m, m.From)
	for _, p := range parts {
		s, entities := p.words()
		line, ours, sure := rc.command(s)
		if !ours && !v.Direct {
			return nil
		}
		v.Mentioned = v.Mentioned || sure && strings.HasPrefix(line, "/") || rc.mentioned(s, entities) || rc.answersUs(p)
	}

	if !edited {
		v.Text = rc.overheard(parts)
	}

	pass, ok := rc.bot.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	id := rc.id(m)
	if edited {
		id += ".edit" + strconv.FormatInt(m.EditDate, 10)
	}

	in := pass.Inbound(id, "")
	rc.place(&in, m)
	in.Meta = rc.meta(m, m.From)
	in.Text, in.Quoted, in.Media = rc.compose(ctx, parts, v)
	in.Untrusted = false // it has only what was typed
	in.Answer = rc.replied(parts, edited)
	return pass.Submit(ctx, in, rc.submit)
}

// overheard returns what others say of a message that is not for us: its words, and
// what kinds of files are in it. Nothing is fetched.
func (rc *receiver) overheard(parts []*message) string {
	var out []string
	for _, m := range parts {
		s, _ := m.words()
		if s = text.Valid(s); s != "" {
			out = append(out, s)
		}
		out = append(out, m.notes()...)
		for _, a := range m.attachments() {
			out = append(out, "["+a.kind+"]")
		}
	}

	return strings.Join(out, " ")
}

// id tells a message from all others. The bot's number is in it, because
// another bot counts its messages from the start.
func (rc *receiver) id(m *message) string {
	return fmt.Sprintf("%d.%d.%d", rc.bot.me.Load().ID, m.Chat.ID, m.ID)
}

// isID reports whether an entry of a list is the number of a person or a chat.
func isID(s string) bool { return access.Digits(strings.TrimPrefix(s, "-")) }

func (rc *receiver) visitor(m *message, from *user) access.Visitor {
	id := strconv.FormatInt(from.ID, 10)
	v := access.Visitor{
		IDs:      []string{id},
		Name:     text.Speaker(from.shown()),
		Direct:   m.Chat.Type == "private",
		Language: from.Language,
		Route:    bus.Route{Channel: rc.bot.deps.Name, ChatID: rc.bot.facts.first(m.Chat.ID), MessageID: strconv.FormatInt(m.ID, 10)},
	}
	if from.Username != "" && m.SenderChat == nil { // else it is the name of all who write as a group or a channel
		v.Names = []string{from.Username}
	}
	if t := m.topic(); t != 0 {
		v.Route.ThreadID = strconv.FormatInt(t, 10)
	}
	if at := max(m.Date, m.EditDate); at > 0 {
		v.At = time.Unix(at, 0)
	}
	return v
}

// place completes where a message belongs: every topic is a session.
func (rc *receiver) place(in *bus.Inbound, m *message) {
	in.WantsStream = rc.bot.caps.EditEvery > 0
	if t := m.topic(); t != 0 {
		in.SessionKey = in.Route.SessionKey() + ":topic:" + strconv.FormatInt(t, 10)
	}
}

func (rc *receiver) meta(m *message, from *user) map[string]string {
	out := map[string]string{
		"message_id": strconv.FormatInt(m.ID, 10), "user_id": strconv.FormatInt(from.ID, 10),
		"first_name": from.FirstName, "is_group": strconv.FormatBool(m.Chat.Type != "private"),
	}
	if from.Username != "" {
		out["username"] = from.Username
	}
	if t := m.topic(); t != 0 {
		out["message_thread_id"] = strconv.FormatInt(t, 10)
	}
	if m.Chat.IsForum {
		out["is_forum"] = "true"
	}
	if m.ReplyTo != nil {
		out["reply_to_message_id"] = strconv.FormatInt(m.ReplyTo.ID, 10)
	}
	return out
}

// answersUs reports whether a message is a reply to one of ours. In a topic
// every message is a reply to the one that created the topic.
func (rc *receiver) answersUs(m *message) bool {
	return m.ReplyTo != nil && m.ReplyTo.TopicCreated == nil && m.ReplyTo.From != nil && m.ReplyTo.From.ID == rc.bot.me.Load().ID
}

// mentioned reports whether the bot is named in a text.
func (rc *receiver) mentioned(s string, entities []entity) bool {
	return slices.ContainsFunc(entities, func(e entity) bool { return rc.names(s, e) })
}

func (rc *receiver) names(s string, e entity) bool {
	me := rc.bot.me.Load()
	switch e.Type {
	case "mention":
		from, to := span(s, e)
		return strings.EqualFold(s[from:to], "@"+me.Username)
	case "text_mention":
		return e.User != nil && e.User.ID == me.ID
	}
	return false
}

// span returns where an entity stands, in bytes. Telegram counts UTF-16 units.
func span(s string, e entity) (from, to int) {
	from, to = len(s), len(s)
	n := 0
	for i, r := range s {
		if n <= e.Offset {
			from = i
		}
		if n >= e.Offset+e.Length {
			to = i
			break
		}
		n += utf16.RuneLen(r)
	}

	if n < e.Offset || from > to {
		from = to
	}
	return from, to
}

// withoutUs removes the mention that only says that the bot is meant.
func (rc *receiver) withoutUs(s string, entities []entity) string {
	for _, e := range slices.Backward(entities) {
		if e.Type == "mention" && rc.names(s, e) {
			from, to := span(s, e)
			s = strings.TrimRight(s[:from], " ") + s[to:]
		}
	}
	return strings.TrimSpace(s)
}

// compose writes the message for the agent: what its sender typed, said or
// pointed at on the map, and apart from it what they passed on, answer or sent
// along.
func (rc *receiver) compose(ctx context.Context, parts []*message, v access.Visitor) (string, []bus.Quote, []bus.Media) {
	var lines []string
	files := rc.files()
	quotes := rc.replyTag(ctx, parts[0], files)
	said := false
	for _, m := range parts {
		s, entities := m.words()
		if m.typed {
			s, _, _ = rc.command(rc.withoutUs(s, entities))
		}

		switch {
		case text.Blank(s):
		case m.typed:
			if !v.Direct && !said && !strings.HasPrefix(s, "/") {
				s = speaker(m.From) + ": " + s
			}
			said = true
			lines = append(lines, text.Valid(s))

		default:
			quotes = append(quotes, bus.Quote{About: m.writer(), Text: strings.TrimPrefix(forwarded(m.ForwardOrigin)+"\n"+text.Valid(s), "\n")})
		}

		if l := m.Location; l != nil && m.typed && m.Venue == nil {
			lines = append(lines, m.notes()...)
		} else if notes := m.notes(); len(notes) > 0 {
			quotes = append(quotes, bus.Quote{About: "sent along", Text: strings.Join(notes, "\n")})
		}

		files.add(ctx, m, true)
	}

	for _, s := range files.spoken {
		if !v.Direct && !said {
			s = speaker(parts[0].From) + ": " + s
		}
		lines, said = append(lines, s), true
	}

	if len(files.marks) > 0 {
		quotes = append(quotes, bus.Quote{About: "files", Text: strings.Join(files.marks, "\n")})
	}

	nothing := ""
	if len(lines)+len(quotes) == 0 { // only our name, or only invisible signs: the sender waits for an answer
		nothing = "[empty message]"
	}

	switch {
	case !said && !v.Direct:
		lines = append(lines, strings.TrimSpace(speaker(parts[0].From)+": "+nothing))
	case nothing != "":
		lines = append(lines, nothing)
	}
	return strings.Join(lines, "\n"), quotes, files.media
}

// writer says how the words of a message that its sender did not type got in.
func (m *message) writer() string {
	switch {
	case m.ForwardOrigin != nil:
		return "forwarded"
	case m.From.IsBot && m.SenderChat == nil:
		return "written by another bot"
	}
	return "not typed by the sender"
}

// speaker tells the people of a group apart.
func speaker(u *user) string {
	if u.Username == "" {
		return text.Speaker(u.shown())
	}
	return text.Speaker(u.shown()) + " (@" + u.Username + ")"
}

// replyTag quotes the message that is answered, whoever wrote it: our own may
// repeat what a stranger said. Its files come first.
func (rc *receiver) replyTag(ctx context.Context, m *message, files *files) []bus.Quote {
	r := m.ReplyTo
	if r == nil || r.TopicCreated != nil {
		return nil
	}

	files.add(ctx, r, false)
	s, _ := r.words()
	if m.Quote != nil && m.Quote.Text != "" {
		s = m.Quote.Text
	}

	s = strings.TrimSpace(text.Ellipsis(text.Valid(s), quoteMost))
	if s == "" {
		s = strings.Join(r.notes(), " ")
	}

	to := "a message"
	switch {
	case r.From != nil && r.From.ID == rc.bot.me.Load().ID:
		to = "you"
	case r.From != nil && r.From.Username != "":
		to = "@" + r.From.Username
	case r.From != nil && r.From.FirstName != "":
		to = text.Speaker(r.From.FirstName)
	}

	if s != "" {
		s = ": " + s
	}
	return []bus.Quote{{About: "what this answers", Text: "[answers " + to + s + "]"}}
}

// forwarded says whose words these are, if not the sender's own.
func forwarded(o *origin) string {
	if o == nil {
		return ""
	}

	who := o.SenderName
	switch {
	case o.SenderUser != nil:
		who = o.SenderUser.shown()
	case o.SenderChat != nil:
		who = o.SenderChat.Title
	case o.Chat != nil:
		who = o.Chat.Title
	}

	if who = text.Speaker(who); who == "" {
		who = "somebody"
	}
	return "[forwarded, written by " + who + "]"
}

// empty reports whether there is nothing in a message for an agent.
func (m *message) empty() bool {
	return m.Text == "" && m.Caption == "" && len(m.notes()) == 0 && len(m.attachments()) == 0
}

// notes returns the parts of a message that are neither text nor files.
func (m *message) notes() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, text.Valid(fmt.Sprintf(format, args...))) }
	if v := m.Venue; v != nil {
		add("[place: %s, %s]", v.Title, v.Address)
	}
	if l := m.Location; l != nil {
		add("[location: %v, %v]", l.Latitude, l.Longitude)
	}
	if c := m.Contact; c != nil {
		add("[contact: %s, %s]", strings.TrimSpace(c.FirstName+" "+c.LastName), c.Phone)
	}

	if p := m.Poll; p != nil {
		var options []string
		for _, o := range p.Options {
			options = append(options, o.Text)
		}
		add("[poll: %s - %s]", p.Question, strings.Join(options, " / "))
	}

	if d := m.Dice; d != nil {
		add("[dice: %s %d]", d.Emoji, d.Value)
	}
	if s := m.Sticker; s != nil {
		add("[sticker: %s]", strings.TrimSpace(s.Emoji))
	}
	return out
}
