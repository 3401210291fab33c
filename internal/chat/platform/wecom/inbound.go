package wecom

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	welcomeTime = 5 * time.Second // for the answer to a person who opens the chat
	nameShown   = 64
	quoteMost   = 4000 // characters of a message that is answered
)

// receiver makes messages for the agent of what comes during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// handle deals with a callback. An error means that it is not durable yet.
func (rc *receiver) handle(ctx context.Context, e event) error {
	b := rc.bot
	var m message
	_ = json.Unmarshal(e.Body, &m) // it could be read when it came
	if e.Bot != b.o.BotID || m.From.UserID == "" {
		return nil // of another bot, which this section was for before
	}

	switch {
	case e.Cmd == cmdMessage:
		return rc.written(ctx, &e, &m)
	case m.Event.Type == "enter_chat":
		rc.welcome(ctx, &e, &m)
		return nil
	}

	return rc.pressed(ctx, &e, &m)
}

// visitor returns who wrote. WeCom passes on only what names us in a group.
func (rc *receiver) visitor(e *event, m *message) access.Visitor {
	return access.Visitor{
		IDs:       []string{m.person()},
		Name:      text.Speaker(m.From.UserID),
		Direct:    m.ChatType != chatGroup,
		Mentioned: true,
		At:        time.UnixMilli(e.At), // by our clock: WeCom sends nothing later
		Route:     bus.Route{Channel: rc.bot.deps.Name, ChatID: m.chat(), MessageID: m.key()},
	}
}

// welcome greets a person who opens the chat, if they may talk to us.
func (rc *receiver) welcome(ctx context.Context, e *event, m *message) {
	b := rc.bot
	late := b.deps.Now().Sub(time.UnixMilli(e.At)) > welcomeTime
	if b.o.WelcomeMessage == "" || late || !b.deps.Gate.Knows(ctx, rc.visitor(e, m)) {
		return
	}
	body := map[string]any{"msgtype": "text", "text": words{b.o.WelcomeMessage}}
	if _, err := b.call(ctx, cmdWelcome, e.ReqID, body, ackTime); err != nil {
		b.deps.Log.WarnContext(ctx, "a person cannot be greeted", "err", err)
	}
}

// written hands over what a person wrote.
func (rc *receiver) written(ctx context.Context, e *event, m *message) error {
	b := rc.bot
	id := m.key()
	if b.deps.Known != nil && b.deps.Known(b.deps.Name+":"+id) {
		return nil
	}

	v := rc.visitor(e, m)
	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	said, came := pieces{bot: b}, pieces{bot: b}
	said.add(ctx, &m.content)
	if m.Quote != nil {
		came.add(ctx, m.Quote)
	}

	in := pass.Inbound(id, "")
	in.Untrusted = false
	in.Media = append(said.media, came.media...)
	in.Text = strings.Join(said.typed, "\n")

	if !v.Direct {
		if in.Text = b.withoutUs(in.Text); !strings.HasPrefix(in.Text, "/") {
			in.Text = strings.TrimSpace(v.Name + ": " + in.Text)
		}
	}

	if s := strings.Join(append(came.typed, came.marks...), "\n"); s != "" {
		in.Quoted = append(in.Quoted, bus.Quote{About: "what this answers", Text: "[Reply to: " + text.Ellipsis(s, quoteMost) + "]"})
	}
	if len(said.marks) > 0 {
		in.Quoted = append(in.Quoted, bus.Quote{About: "files", Text: strings.Join(said.marks, "\n")})
	}
	if in.Text == "" && len(in.Quoted) == 0 {
		in.Text = "[empty message]"
	}

	in.Meta = map[string]string{
		"message_id": id, "msg_type": m.Type, "chat_type": m.ChatType, "req_id": e.ReqID, "received": strconv.FormatInt(e.At, 10),
	}
	t := b.turnOf(bus.Outbound{Route: in.Route, Meta: in.Meta})
	if err := pass.Submit(ctx, in, rc.submit); err != nil {
		return err
	}

	if t != nil {
		b.begin(ctx, t) // here, so that the answers stand in the order of the messages
	}
	return nil
}

// withoutUs takes our name out of a message in a group. If it is not known, it
// is the one that the message begins with.
func (b *bot) withoutUs(s string) string {
	if name := b.o.BotName; name != "" {
		return strings.TrimSpace(strings.ReplaceAll(s, "@"+name, ""))
	}

	s = strings.TrimSpace(s)
	if !strings.HasPrefix(s, "@") {
		return s
	}
	if i := strings.IndexFunc(s, unicode.IsSpace); i > 0 {
		return strings.TrimSpace(s[i:])
	}
	return ""
}
