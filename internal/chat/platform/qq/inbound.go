package qq

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	quoteMost = 4000 // characters of a message that is answered
	tapTime   = 3 * time.Second

	// askMark begins the data of buttons that answer a question a turn waits on:
	// the mark, the id of the question, the mark again, the answer.
	askMark = "?"

	metaKind = "chat_kind"
	metaAt   = "at" // milliseconds
)

// event is what waits to be handled.
type event struct {
	Kind    string   `json:"kind"`
	Message *message `json:"message,omitempty"`
	Tap     *tap     `json:"tap,omitempty"`
}

// receiver makes messages for the agent of the events that come during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
	in     *kit.Intake[event]
	side   sync.WaitGroup // answers to buttons, and who we are
	once   *kit.Once      // logs trouble
}

// receive accepts an event without waiting for anything but the disk. An error ends
// the connection: the resumed session brings the event again.
func (rc *receiver) receive(ctx context.Context, e event) error {
	v, ok := rc.visitor(e)
	if !ok {
		return nil
	}

	key := v.Route.MessageID
	if e.Tap != nil {
		key = "tap." + e.Tap.ID
		rc.confirm(ctx, e.Tap.ID)
	}

	if err := rc.in.Hold(ctx, v.Route.ChatID, key, e); err != nil {
		if ctx.Err() == nil && !errors.Is(err, chat.ErrStopping) {
			rc.once.Warn(ctx, "hold", "a message cannot be held; QQ is asked for it again", "err", err)
		}
		return socketPause(err)
	}
	return nil
}

// visitor returns who wrote or pressed a button. False: it says nothing to a bot.
func (rc *receiver) visitor(e event) (v access.Visitor, ok bool) {
	v.Route.Channel = rc.bot.deps.Name
	switch {
	case e.Tap != nil:
		v, ok = tapper(v, e.Tap)
		v.At = rc.bot.calls.clock.Here(v.At)
		return v, ok
	case e.Message == nil || e.Message.ID == "" || e.Message.Author.Bot:
		return v, false
	}

	m := e.Message
	v.Route.MessageID = m.ID
	v.At = rc.bot.calls.clock.Here(m.Timestamp.time())
	v.Name = name(m.Author)

	switch e.Kind {
	case "C2C_MESSAGE_CREATE":
		v.IDs, v.Direct = m.Author.ids(), true
		if len(v.IDs) > 0 {
			v.Route.ChatID = v.IDs[0]
		}

	case "GROUP_AT_MESSAGE_CREATE", "GROUP_MESSAGE_CREATE":
		v.IDs = m.Author.ids(m.Author.MemberOpenID)
		if v.Route.ChatID = m.GroupOpenID; v.Route.ChatID == "" {
			v.Route.ChatID = m.GroupID
		}
		v.Mentioned = e.Kind == "GROUP_AT_MESSAGE_CREATE" || slices.ContainsFunc(m.Mentions, func(who mention) bool { return who.IsYou })

	case "DIRECT_MESSAGE_CREATE":
		v.IDs, v.Direct = m.Author.ids(), true
		if m.GuildID != "" {
			v.Route.ChatID = guildDirectPrefix + m.GuildID
		}

	case "AT_MESSAGE_CREATE":
		v.IDs, v.Mentioned = m.Author.ids(), true
		if m.ChannelID != "" {
			v.Route.ChatID = guildPrefix + m.ChannelID
		}
	}

	if !v.Direct {
		v.Text = rc.words(m)
	}
	return v, v.Route.ChatID != "" && len(v.IDs) > 0
}

func tapper(v access.Visitor, t *tap) (access.Visitor, bool) {
	v.Mentioned, v.At = true, t.Timestamp.time()
	switch t.ChatType {
	case 1:
		v.Route.ChatID, v.IDs = t.GroupOpenID, user{MemberOpenID: t.Member}.ids()
	case 2:
		v.Route.ChatID = t.UserOpenID
		v.IDs = user{UserOpenID: t.UserOpenID}.ids()
		v.Direct = true
	}

	if len(v.IDs) > 0 {
		v.Name = v.IDs[0]
	}
	return v, t.ID != "" && v.Route.ChatID != "" && len(v.IDs) > 0
}

// name returns that of a person, on one line. QQ seldom tells it.
func name(u user) string {
	s := text.Speaker(u.Username)
	if ids := u.ids(u.MemberOpenID); s == "" && len(ids) > 0 {
		s = text.Cut(ids[0], 8)
	}
	return s
}

// kindOf returns what the chat of an event is.
func kindOf(e event) kind {
	switch {
	case e.Kind == "DIRECT_MESSAGE_CREATE":
		return guildDirect
	case e.Kind == "AT_MESSAGE_CREATE":
		return guild
	case strings.HasPrefix(e.Kind, "GROUP_") || e.Tap != nil && e.Tap.ChatType == 1:
		return group
	}
	return direct
}

// handle turns an event into a message for the agent. An error means that it is
// not durable yet. Nothing is fetched for people before the gate has let them in.
func (rc *receiver) handle(ctx context.Context, e event) error {
	v, ok := rc.visitor(e)
	if !ok {
		return nil
	}

	k := kindOf(e)
	rc.bot.book.record(v.Route.ChatID, k, v.Route.MessageID, v.At)
	if e.Tap != nil {
		v.Route.MessageID = rc.bot.book.last(v.Route.ChatID)
	}

	pass, ok := rc.bot.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}
	if e.Tap != nil {
		return rc.tapped(ctx, pass, e.Tap, k)
	}

	m := e.Message
	in := pass.Inbound(m.ID, "")
	if known := rc.bot.deps.Known; known != nil && known(in.ID) {
		return nil // QQ repeats itself
	}

	in.Meta = meta(m.ID, k, v.At)
	in.Text, in.Quoted, in.Media = rc.compose(ctx, m, v)
	in.Untrusted = false // it has only what was typed
	in.Answer = rc.replied(m, v.Route)
	return pass.Submit(ctx, in, rc.submit)
}

// meta returns what an answer needs to know, also after a restart.
func meta(id string, k kind, at time.Time) map[string]string {
	out := map[string]string{"message_id": id, metaKind: string(k)}
	if !at.IsZero() {
		out[metaAt] = strconv.FormatInt(at.UnixMilli(), 10)
	}
	return out
}

// words returns what was typed, without the mention that only says that the bot is
// meant.
func (rc *receiver) words(m *message) string {
	s := text.Valid(m.Content)
	if me := rc.bot.me.Load(); me != nil && me.ID != "" {
		s = strings.NewReplacer("<@!"+me.ID+">", "", "<@"+me.ID+">", "").Replace(s)
	}
	return strings.TrimSpace(s)
}

// compose writes the message for the agent: what its sender typed or said, and
// apart from it what they answer or sent along.
func (rc *receiver) compose(ctx context.Context, m *message, v access.Visitor) (string, []bus.Quote, []bus.Media) {
	var lines []string
	var quotes []bus.Quote
	files := kit.NewFiles(rc.bot.deps)
	if q, ok := rc.quoted(m, v.Route); ok {
		to := "a message"
		if q.SenderID == "" {
			to = "you"
		}
		quotes = append(quotes, bus.Quote{About: "what this answers", Text: "[answers " + to + ": " + text.Ellipsis(q.Text, quoteMost) + "]"})
		files.Media = append(files.Media, q.Media...)
	}

	if s := rc.words(m); s != "" {
		lines = append(lines, s)
	}

	for _, a := range m.Attachments {
		if words := strings.TrimSpace(a.Spoken); words != "" && a.kind() == kit.VoiceFile {
			files.Spoken = append(files.Spoken, "[transcription: "+words+"]") // QQ did it
			continue
		}
		files.Add(ctx, rc.bot.received(a))
	}

	lines = append(lines, files.Spoken...)
	quotes = append(quotes, files.Quotes()...)
	if len(lines)+len(quotes) == 0 { // only our name: the person waits for an answer
		lines = append(lines, "[empty message]")
	}

	s := strings.Join(lines, "\n")
	if !v.Direct && !strings.HasPrefix(s, "/") {
		s = strings.TrimSpace(v.Name + ": " + s)
	}
	return s, quotes, files.Media
}

// quoted returns the message that is answered, if it is known.
func (rc *receiver) quoted(m *message, route bus.Route) (chat.Quoted, bool) {
	if m.Reference == nil || m.Reference.MessageID == "" || rc.bot.deps.Quoted == nil {
		return chat.Quoted{}, false
	}
	return rc.bot.deps.Quoted(route, m.Reference.MessageID)
}

// replied returns the answer that a message gives by being a reply to a question.
// Only a short word that was typed counts, and only in a message without
// anything else.
func (rc *receiver) replied(m *message, route bus.Route) *bus.Answer {
	asked, ok := rc.quoted(m, route)
	if !ok || asked.SenderID != "" || len(m.Attachments) > 0 {
		return nil
	}

	q, ok := chat.AskedIn(asked.Text)
	if !ok {
		return nil
	}

	q.ID = q.Code
	word := strings.TrimSuffix(rc.words(m), " "+q.Code)
	if _, remark, ok := q.Choose(word); !ok || remark != "" || strings.HasPrefix(word, "/") {
		return nil
	}
	return &bus.Answer{QuestionID: q.ID, Option: word}
}

// tapped makes of a button the answer to a question. Only buttons that the
// program wrote call back.
func (rc *receiver) tapped(ctx context.Context, pass access.Pass, t *tap, k kind) error {
	data, ok := strings.CutPrefix(t.Data.Resolved.Data, askMark)
	id, label, whole := strings.Cut(data, askMark)
	if !ok || !whole || id == "" || label == "" {
		rc.bot.deps.Log.WarnContext(ctx, "a button that is not ours is ignored")
		return nil
	}

	in := pass.Inbound("tap."+t.ID, label)
	in.Untrusted = false // the program wrote it
	in.Answer = &bus.Answer{QuestionID: id, Option: label}
	in.Meta = meta(in.Route.MessageID, k, time.Time{})
	in.Meta["button_label"] = label
	return rc.submit(ctx, in)
}

// confirm tells QQ that a button was received, so that it stops to wait.
func (rc *receiver) confirm(ctx context.Context, id string) {
	rc.side.Go(func() {
		k := kit.Call{Method: http.MethodPut, Path: "/interactions/" + id, Body: kit.JSON(map[string]int{"code": 0}), Within: tapTime}
		if err := rc.bot.calls.send(ctx, k, nil); err != nil {
			rc.bot.deps.Log.DebugContext(ctx, "confirm a button", "err", err)
		}
	})
}
