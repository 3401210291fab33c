package slack

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	api "github.com/slack-go/slack"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	quoteMost   = 4000 // characters of a message that was shared
	contextMost = 500  // characters of an earlier message of a thread
	namesAsked  = 20   // people that a message mentions whose names are looked up
)

// receiver makes messages for the agent of what comes during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// interesting reads an event of the Events API; nil if nothing comes of it.
func (b *bot) interesting(raw json.RawMessage) (*message, error) {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	if m.Type != "message" && m.Type != "app_mention" || !b.concerns(&m) {
		return nil, nil
	}
	return &m, nil
}

// concerns reports whether a person says something in a message. Of an edit it
// keeps the message as it is now.
func (b *bot) concerns(m *message) bool {
	if m.SubType == "message_changed" && b.o.EditedMessages && m.Changed != nil && m.Changed.Edited != nil {
		chatID, before := m.Channel, m.Before
		*m = *m.Changed
		m.Channel = chatID
		if before != nil && before.Text == m.Text {
			return false
		}
	} else {
		m.Edited = nil
	}

	if m.Thread == m.TS { // the first message of a thread
		m.Thread = ""
	}

	switch m.SubType {
	case "", "file_share", "thread_broadcast":
	default:
		return false
	}
	return m.User != "" && m.User != b.me.Load().UserID && m.Channel != "" && m.TS != "" && !b.robot(m)
}

// robot reports whether an app wrote: two that answer each other do so all
// night. One whose id is on the list may.
func (b *bot) robot(m *message) bool {
	return m.BotID != "" && !slices.Contains(b.o.AllowFrom, m.User) && !slices.Contains(b.o.Owners, m.User)
}

// id tells a message from all others of the workspaces that the bot was in.
func (b *bot) id(m *message) string {
	id := b.me.Load().TeamID + "." + m.Channel + "." + m.TS
	if m.Edited != nil {
		id += ".edit" + m.Edited.TS
	}
	return id
}

// handle turns an event into a message. An error means that it is not durable
// yet.
func (rc *receiver) handle(ctx context.Context, e event) error {
	if e.Bot != rc.bot.me.Load().UserID {
		return nil // of another account that this section had
	}

	switch {
	case e.Message != nil:
		return rc.written(ctx, e.Message, e.Backlog)
	case e.Tap != nil:
		return rc.tapped(ctx, e.Tap)
	case e.Command != nil:
		return rc.commanded(ctx, e.Command)
	}

	return nil
}

// written handles what a person wrote. Nothing is fetched before the gate has
// let the sender in.
func (rc *receiver) written(ctx context.Context, m *message, backlog bool) error {
	b := rc.bot
	id := b.id(m)
	if b.deps.Known != nil && b.deps.Known(b.deps.Name+":"+id) {
		return nil
	}

	v := rc.visitor(m.Channel, m.User, m.Thread)
	v.Route.MessageID = m.TS
	v.At = when(m.TS)
	v.Backlog = backlog
	v.Mentioned = b.mentioned(m.Text) || m.ThreadOf == b.me.Load().UserID
	if !v.Direct {
		v.Text = plain(m.Text, "", b.web.cached)
	}

	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	in := pass.Inbound(id, "")
	rc.place(&in)
	in.Meta = map[string]string{"message_id": m.TS, "user_id": m.User}
	in.Untrusted = false // it has only what was typed
	rc.compose(ctx, m, &in)
	fresh := rc.thread(ctx, m, &in)
	if err := pass.Submit(ctx, in, rc.submit); err != nil {
		return err
	}

	b.seen(ctx, m)
	if fresh {
		b.sharedEarlier.Put(m.Channel+"/"+m.Thread, true)
	}
	return nil
}

func (rc *receiver) visitor(chatID, user, thread string) access.Visitor {
	return access.Visitor{
		IDs:    []string{user},
		Name:   rc.bot.web.cached(user),
		Direct: isDirect(chatID),
		Route:  bus.Route{Channel: rc.bot.deps.Name, ChatID: chatID, ThreadID: thread},
	}
}

// place completes where a message belongs: every thread is a session, and in
// channels an answer opens one.
func (rc *receiver) place(in *bus.Inbound) {
	in.WantsStream = rc.bot.caps.EditEvery > 0
	if in.Route.ThreadID == "" && rc.bot.o.ReplyInThread && !isDirect(in.Route.ChatID) {
		in.Route.ThreadID = in.Route.MessageID
	}
	if t := in.Route.ThreadID; t != "" {
		in.SessionKey = in.Route.SessionKey() + ":" + t
	}
}

// compose writes the message for the agent: what its sender typed or said, and
// apart from it what they passed on and sent along.
func (rc *receiver) compose(ctx context.Context, m *message, in *bus.Inbound) {
	b := rc.bot
	asked := 0
	name := func(id string) string {
		if asked++; asked > namesAsked {
			return b.web.cached(id)
		}
		return b.web.person(ctx, id)
	}

	var lines []string
	if s := plain(m.Text, b.me.Load().UserID, name); s != "" {
		lines = append(lines, s)
	}

	for _, a := range m.Attachments {
		s := a.Text
		if s == "" {
			s = a.Fallback
		}
		if s = strings.TrimSpace(plain(s, "", name)); s != "" && (a.Shared || a.Unfurled) {
			who := text.Speaker(a.Author)
			in.Quoted = append(in.Quoted, bus.Quote{About: "a message that was shared", Text: "[written by " + who + "]\n" + text.Ellipsis(s, quoteMost)})
		}
	}

	f := files{bot: b}
	for _, one := range m.Files {
		f.add(ctx, one)
	}

	lines = append(lines, f.spoken...)
	if len(f.marks) > 0 {
		in.Quoted = append(in.Quoted, bus.Quote{About: "files", Text: strings.Join(f.marks, "\n")})
	}

	in.Media = f.media

	if len(lines)+len(in.Quoted) == 0 { // only our name: the sender waits for an answer
		lines = append(lines, "[empty message]")
	}

	in.Text = strings.Join(lines, "\n")
	if !isDirect(m.Channel) && !strings.HasPrefix(in.Text, "/") {
		in.Text = strings.TrimSpace(b.web.person(ctx, m.User) + ": " + in.Text)
	}
}

// thread adds what was said in a thread before the agent is named there for the
// first time, as words of others. It reports whether it did.
func (rc *receiver) thread(ctx context.Context, m *message, in *bus.Inbound) bool {
	b := rc.bot
	if !b.o.IncludeThreadContext || b.o.ThreadContextLimit == 0 || m.Thread == "" || m.Thread == m.TS ||
		strings.HasPrefix(in.Text, "/") || b.sharedEarlier.Has(m.Channel+"/"+m.Thread) {
		return false
	}

	list, err := b.earlier(ctx, m)
	if err != nil {
		b.web.report(ctx, "the earlier messages of a thread cannot be read", refusal(err), err)
		return false
	}

	var lines []string
	for _, one := range list {
		if s := text.Label(plain(one.Text, "", b.web.cached), contextMost); s != "" {
			lines = append(lines, b.web.person(ctx, one.User)+": "+s)
		}
	}

	if lines = lines[max(0, len(lines)-b.o.ThreadContextLimit):]; len(lines) > 0 {
		in.Quoted = append(in.Quoted, bus.Quote{About: "said before in the thread", Text: strings.Join(lines, "\n")})
	}
	return true
}

// earlier reads a thread up to a message, from our own last words on: what is
// before them the agent knows.
func (b *bot) earlier(ctx context.Context, m *message) ([]api.Message, error) {
	var out []api.Message
	const pages = 5
	p := api.GetConversationRepliesParameters{ChannelID: m.Channel, Timestamp: m.Thread, Latest: m.TS, Limit: 200}
	for range pages {
		var more bool
		list, err := call(ctx, func(ctx context.Context) (list []api.Message, err error) {
			list, more, p.Cursor, err = b.api.GetConversationRepliesContext(ctx, &p)
			return list, err
		})
		if err != nil {
			return nil, err
		}

		for _, one := range list {
			switch {
			case one.User == b.me.Load().UserID:
				out = nil
			case one.Timestamp < m.TS:
				out = append(out, one)
			}
		}

		if !more || p.Cursor == "" {
			break
		}
	}

	return out, nil
}

// commanded handles a slash command. One of the agent's own commands keeps its
// name; of any other the words behind it count.
func (rc *receiver) commanded(ctx context.Context, c *command) error {
	b := rc.bot
	v := rc.visitor(c.Channel, c.User, "")
	v.Mentioned = true
	v.NoPairing = true // it may be a conversation of other people, in which we cannot write
	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	line := strings.TrimSpace(plain(c.Text, "", b.web.cached))
	if name := strings.TrimPrefix(c.Name, "/"); b.hasCommand(name) {
		line = strings.TrimSpace("/" + name + " " + line)
	} else if first, _, _ := strings.Cut(line, " "); b.hasCommand(first) {
		line = "/" + line
	}

	in := pass.Inbound("command."+c.Trigger, line)
	in.Untrusted = false
	in.WantsStream = b.caps.EditEvery > 0

	if v.Direct {
		chatID, err := b.web.open(ctx, c.User)
		if err != nil {
			b.web.report(ctx, "the conversation with a person cannot be opened", refusal(err), err)
			return nil
		}
		in.Route.ChatID = chatID
	}

	return rc.submit(ctx, in)
}

// hasCommand reports whether the agent has a slash command.
func (b *bot) hasCommand(name string) bool {
	return slices.ContainsFunc(b.deps.Commands, func(c chat.Command) bool { return c.Name == name })
}
