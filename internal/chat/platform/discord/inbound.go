package discord

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	quoteMost  = 4000 // characters of a message that is answered
	nameShown  = 64   // characters of a person's name
	chatterMax = 1000 // messages for others that wait to be noted
)

// event is what waits to be handled: a message, an interaction, or a channel
// whose messages after one are to be read.
type event struct {
	Message     *message     `json:"message,omitempty"`
	Edited      bool         `json:"edited,omitempty"`
	Interaction *interaction `json:"interaction,omitempty"`
	Missed      *missed      `json:"-"`
}

// arrival is how a message came to us.
type arrival int

const (
	live    arrival = iota
	edited          // its author changed it
	backlog         // it was read from the history
)

// receiver makes messages for the agent of the events that come during one Run.
type receiver struct {
	bot     *bot
	submit  chat.Submit
	in      *kit.Intake[event]
	trouble *kit.Once
	ready   chan struct{}  // closed when the first session begins
	once    sync.Once      // closes it
	side    sync.WaitGroup // answers to interactions, and the registration of commands

	read    progress
	pause   pause
	chatter atomic.Int64
}

// receive accepts a message from the gateway without waiting for anything but the
// disk. What is for others is kept in memory only.
func (rc *receiver) receive(ctx context.Context, m *message, changed bool) {
	if changed && (!rc.bot.o.EditedMessages || m.Edited == "") || !rc.concerns(m) {
		return
	}

	e := event{Message: m, Edited: changed}
	if !rc.forUs(m) {
		if rc.bot.o.GroupHistory > 0 && !changed && rc.chatter.Load() < chatterMax {
			rc.chatter.Add(1)
			rc.in.Add(m.ChannelID, e, func() { rc.chatter.Add(-1) })
		}
		rc.read.saw(ctx, m.ID)
		return
	}

	key := m.ID
	if changed {
		key += "." + m.Edited
	}

	if err := rc.in.Hold(ctx, m.ChannelID, key, e); err != nil {
		rc.trouble.Warn(ctx, "hold", "a message cannot be held; its channel is read again later", "err", err)
		rc.fallBehind(ctx, m)
		return
	}

	rc.read.saw(ctx, m.ID)
}

// concerns reports whether a message says something to a bot: not our own, not
// one of a machine, and neither a note that a member joined nor a pin.
func (rc *receiver) concerns(m *message) bool {
	me := rc.bot.me.Load()
	return me != nil && m.ID != "" && m.ChannelID != "" && m.Author != nil && m.Author.ID != "" && m.Author.ID != me.ID &&
		(m.Type == typeDefault || m.Type == typeReply) && !rc.robot(m)
}

// robot reports whether a bot or a webhook wrote that we do not answer: two that
// answer each other do so all night. One whose id is on the list may.
func (rc *receiver) robot(m *message) bool {
	o := rc.bot.o
	return (m.Author.Bot || m.WebhookID != "") && !o.AllowBots && !slices.Contains(o.AllowFrom, m.Author.ID) && !slices.Contains(o.Owners, m.Author.ID)
}

// forUs reports whether the gate may find that a message is for us.
func (rc *receiver) forUs(m *message) bool {
	policy := rc.bot.o.GroupPolicy
	if c, ok := rc.bot.places.known.Get(m.ChannelID); ok && m.GuildID != "" && !rc.bot.o.answersIn(rc.bot.routeIn(c)) {
		return false
	}
	allMessages := policy != "" && policy != access.Mention
	reply := m.Reference != nil && m.Reference.Type != forwarding
	return m.GuildID == "" || allMessages || rc.named(m) || reply
}

// named reports whether a message names the bot or its role.
func (rc *receiver) named(m *message) bool {
	id := rc.bot.me.Load().ID
	if role := rc.bot.places.role(m.GuildID); role != "" && slices.Contains(m.MentionRoles, role) {
		return true
	}
	return slices.ContainsFunc(m.Mentions, func(u user) bool { return u.ID == id }) && !rc.onlyByReply(m) ||
		strings.Contains(m.Content, "<@"+id+">") || strings.Contains(m.Content, "<@!"+id+">")
}

// onlyByReply reports whether the author of the message that is answered is in
// the list of mentions only because of that.
func (rc *receiver) onlyByReply(m *message) bool {
	return m.Type == typeReply && (m.Referenced == nil || m.Referenced.Author == nil || m.Referenced.Author.ID != rc.bot.me.Load().ID)
}

// handle turns an event into a message for the agent. An error means that it is
// not durable yet.
func (rc *receiver) handle(ctx context.Context, e event) error {
	select {
	case <-rc.ready: // what an earlier process held waits until we know who we are
	case <-ctx.Done():
		return ctx.Err()
	}

	switch {
	case e.Missed != nil:
		return rc.catchUpWith(ctx, e.Missed)
	case e.Interaction != nil && e.Interaction.Type == interactionButton:
		return rc.tapped(ctx, e.Interaction)
	case e.Interaction != nil:
		return rc.commanded(ctx, e.Interaction)
	case e.Message != nil && rc.concerns(e.Message):
		how := live
		if e.Edited {
			how = edited
		}
		return rc.written(ctx, e.Message, how)
	}

	return nil
}

// visitor returns who wrote, or used a command or a button.
func (rc *receiver) visitor(route bus.Route, guild string, who *user, nick string) access.Visitor {
	v := access.Visitor{IDs: []string{who.ID}, Name: shownName(who, nick), Direct: guild == "", Route: route}
	if who.unique() {
		v.Names = []string{who.Username}
	}
	return v
}

func shownName(u *user, nick string) string {
	for _, s := range []string{nick, u.GlobalName, u.Username} {
		if s = text.Speaker(s); s != "" {
			return s
		}
	}
	return u.ID
}

// speaker tells the people of a group apart.
func speaker(m *message) string {
	return fmt.Sprintf("%s (@%s)", shownName(m.Author, m.Member.nick()), text.Speaker(m.Author.Username))
}

func moment(stamp string) time.Time {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return time.Time{}
	}
	return t
}

// written handles what a person wrote. Nothing is fetched for people before the
// gate has let them in.
func (rc *receiver) written(ctx context.Context, m *message, how arrival) error {
	route, err := rc.bot.route(ctx, m.GuildID, m.ChannelID)
	if err != nil {
		return err
	}

	route.MessageID = m.ID
	v := rc.visitor(route, m.GuildID, m.Author, m.Member.nick())
	if m.WebhookID != "" {
		v.Names = nil // whoever made the webhook chose it
	}

	v.Backlog = how == backlog
	if v.At = moment(m.Timestamp); how == edited {
		v.At = moment(m.Edited)
	}

	if !v.Direct {
		if err := rc.complete(ctx, m, v); err != nil {
			return err
		}
		v.Mentioned = rc.named(m) || rc.answersUs(m)
		if how != edited {
			v.Text = rc.overheard(m)
		}
	}

	pass, ok := rc.bot.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	id := m.ID
	if how == edited {
		id += ".edit" + m.Edited
	}

	in := pass.Inbound(id, "")
	if known := rc.bot.deps.Known; known != nil && known(in.ID) {
		return nil // it was read again
	}

	if rc.bot.places.people.Put(strings.ToLower(m.Author.Username), m.Author.ID); v.Direct {
		rc.read.direct(ctx, m.ChannelID, m.ID)
	}

	in.Meta = meta(m)
	rc.place(&in)
	in.Text, in.Quoted, in.Media = rc.compose(ctx, m, v)
	in.Untrusted = false // it has only what was typed
	in.Answer = rc.replied(m, how == edited)
	return pass.Submit(ctx, in, rc.submit)
}

// complete fetches the message that is answered, if Discord left it out and it
// decides whether a message is for us.
func (rc *receiver) complete(ctx context.Context, m *message, v access.Visitor) error {
	r := m.Reference
	if m.Type != typeReply || r == nil || m.Referenced != nil || number(r.MessageID) == 0 || !rc.bot.deps.Gate.Knows(ctx, v) {
		return nil
	}

	var old message
	err := rc.bot.calls.do(ctx, call{method: http.MethodGet, path: "/channels/" + m.ChannelID + "/messages/" + r.MessageID, patience: 10 * time.Second}, &old)
	if e := refusal(err); e != nil && e.Status/100 == 4 && e.Status != http.StatusTooManyRequests {
		return nil // it is gone
	}
	if err != nil {
		return err
	}

	m.Referenced = &old
	return nil
}

// place completes where a message belongs: every thread is a session.
func (rc *receiver) place(in *bus.Inbound) {
	in.WantsStream = rc.bot.caps.EditEvery > 0
	if t := in.Route.ThreadID; t != "" {
		in.SessionKey = in.Route.SessionKey() + ":thread:" + t
		in.Meta["thread_id"], in.Meta["parent_channel_id"] = t, in.Route.ChatID
	}
}

func meta(m *message) map[string]string {
	out := map[string]string{"message_id": m.ID}
	if m.GuildID != "" {
		out["guild_id"] = m.GuildID
	}
	if m.Reference != nil && m.Reference.MessageID != "" {
		out["reply_to"] = m.Reference.MessageID
	}
	return out
}

// ours reports whether the bot itself wrote a message.
func (rc *receiver) ours(m *message) bool {
	return m != nil && m.Author != nil && m.Author.ID == rc.bot.me.Load().ID
}

func (rc *receiver) answersUs(m *message) bool { return m.Type == typeReply && rc.ours(m.Referenced) }

// words returns the text of a message without the mention that only says that the
// bot is meant, and with the user names of others for their numbers.
func (rc *receiver) words(m *message) string {
	s := m.Content
	id := rc.bot.me.Load().ID
	marks := []string{"<@" + id + ">", "<@!" + id + ">"}
	if role := rc.bot.places.role(m.GuildID); role != "" {
		marks = append(marks, "<@&"+role+">")
	}

	for _, mark := range marks {
		s = strings.ReplaceAll(s, mark, "")
	}

	var pairs []string
	for _, u := range m.Mentions {
		if u.ID != "" && u.Username != "" {
			name := "@" + text.Speaker(u.Username)
			pairs = append(pairs, "<@"+u.ID+">", name, "<@!"+u.ID+">", name)
		}
	}
	return strings.TrimSpace(text.Valid(strings.NewReplacer(pairs...).Replace(s)))
}

// notes returns the parts of a message that are neither text nor files.
func (m *message) notes() []string {
	var out []string
	for _, s := range m.Stickers {
		out = append(out, "[sticker: "+text.Label(s.Name, nameShown)+"]")
	}

	if p := m.Poll; p != nil {
		var options []string
		for _, a := range p.Answers {
			options = append(options, text.Label(a.Media.Text, 200))
		}
		out = append(out, fmt.Sprintf("[poll: %s - %s]", text.Label(p.Question.Text, 300), strings.Join(options, " / ")))
	}

	return out
}

// overheard returns what others say of a message that is not for us: its words, and
// what kinds of files are in it. Nothing is fetched.
func (rc *receiver) overheard(m *message) string {
	var out []string
	if s := rc.words(m); s != "" {
		out = append(out, s)
	}
	out = append(out, m.notes()...)
	for _, a := range m.Attachments {
		out = append(out, "["+string(a.kind(m))+"]")
	}
	return strings.Join(out, " ")
}

// compose writes the message for the agent: what its sender typed or said, and
// apart from it what they passed on, answer or sent along.
func (rc *receiver) compose(ctx context.Context, m *message, v access.Visitor) (string, []bus.Quote, []bus.Media) {
	var lines []string
	files := kit.NewFiles(rc.bot.deps)
	quotes := rc.replyTag(ctx, m, files)
	typed := !m.Author.Bot && m.WebhookID == ""
	switch s := rc.words(m); {
	case s == "":
	case typed:
		lines = append(lines, s)
	default:
		quotes = append(quotes, bus.Quote{About: "written by another bot", Text: s})
	}

	for _, snap := range m.Snapshots {
		if s := strings.TrimSpace(text.Valid(snap.Message.Content)); s != "" {
			quotes = append(quotes, bus.Quote{About: "forwarded", Text: s})
		}
		rc.bot.add(ctx, files, &snap.Message, false)
	}

	if notes := m.notes(); len(notes) > 0 {
		quotes = append(quotes, bus.Quote{About: "sent along", Text: strings.Join(notes, "\n")})
	}

	rc.bot.add(ctx, files, m, typed)
	lines = append(lines, files.Spoken...)
	quotes = append(quotes, files.Quotes()...)
	if len(lines)+len(quotes) == 0 { // only our name: the sender waits for an answer
		lines = append(lines, "[empty message]")
	}
	if !v.Direct && (len(lines) == 0 || !strings.HasPrefix(lines[0], "/")) {
		lines = append([]string{strings.TrimSpace(speaker(m) + ": " + strings.Join(lines, "\n"))}, nil...)
	}
	return strings.Join(lines, "\n"), quotes, files.Media
}

// replyTag quotes the message that is answered, whoever wrote it: our own may
// repeat what a stranger said. Its files come first.
func (rc *receiver) replyTag(ctx context.Context, m *message, files *kit.Files) []bus.Quote {
	r := m.Referenced
	if m.Type != typeReply || r == nil {
		return nil
	}

	rc.bot.add(ctx, files, r, false)
	to := "a message"
	switch {
	case rc.ours(r):
		to = "you"
	case r.Author != nil && r.Author.Username != "":
		to = "@" + text.Speaker(r.Author.Username)
	}

	s := strings.TrimSpace(text.Ellipsis(text.Valid(r.Content), quoteMost))
	if s == "" {
		s = strings.Join(r.notes(), " ")
	}
	if s != "" {
		s = ": " + s
	}
	return []bus.Quote{{About: "what this answers", Text: "[answers " + to + s + "]"}}
}
