package dingtalk

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	quoteMost   = 4000 // characters of a message that is answered
	nameShown   = 64   // characters of a person's name
	noticeEvery = time.Minute

	metaWebhook = "session_webhook"
	metaExpires = "session_webhook_expires" // milliseconds
	metaSender  = "sender_id"
	metaName    = "sender_name"
)

// message is what a person wrote, as DingTalk sends it.
type message struct {
	ID             string  `json:"msgId"`
	Type           string  `json:"msgtype"`
	CreatedAt      int64   `json:"createAt"` // milliseconds
	Conversation   string  `json:"conversationId"`
	Kind           string  `json:"conversationType"` // 1 direct, 2 group
	SenderID       string  `json:"senderId"`
	StaffID        string  `json:"senderStaffId"`
	SenderCorp     string  `json:"senderCorpId"`
	BotCorp        string  `json:"chatbotCorpId"`
	Nick           string  `json:"senderNick"`
	Webhook        string  `json:"sessionWebhook"`
	WebhookExpires int64   `json:"sessionWebhookExpiredTime"` // milliseconds
	Text           said    `json:"text"`
	Content        content `json:"content"`
}

type said struct {
	Content string   `json:"content"`
	IsReply bool     `json:"isReplyMsg"`
	Replied *replied `json:"repliedMsg"`
}

type replied struct {
	Type    string  `json:"msgType"`
	Content content `json:"content"`
}

// content is what a message holds beside plain text. Older events have it as
// JSON in a string.
type content struct {
	Text         string  `json:"text"`
	Recognition  string  `json:"recognition"`
	DownloadCode string  `json:"downloadCode"`
	PictureCode  string  `json:"pictureDownloadCode"`
	FileName     string  `json:"fileName"`
	RichText     []piece `json:"richText"`
}

// piece is a part of a rich text.
type piece struct {
	Type         string `json:"type"`
	Text         string `json:"text"`
	DownloadCode string `json:"downloadCode"`
	PictureCode  string `json:"pictureDownloadCode"`
	FileName     string `json:"fileName"`
	AtName       string `json:"atName"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(data []byte) error {
	type plain content
	var s string
	if json.Unmarshal(data, &s) == nil {
		if s == "" || s[0] != '{' {
			c.Text = s
			return nil
		}
		data = []byte(s)
	}

	return json.Unmarshal(data, (*plain)(c))
}

// receiver makes messages for the agent of what comes during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
	in     *kit.Intake[message]
	once   *kit.Once // logs trouble
}

// receive holds a message and reports whether its frame may be confirmed. One that
// cannot be read would come again for ever.
func (rc *receiver) receive(ctx context.Context, f frame) bool {
	var m message
	if err := json.Unmarshal([]byte(f.Data), &m); err != nil {
		rc.once.Warn(ctx, "message", "a message of DingTalk cannot be read", "err", err)
		return true
	}

	v, ok := rc.visitor(&m)
	if !ok {
		return true
	}
	if err := rc.in.Hold(ctx, v.Route.ChatID, m.ID, m); err != nil {
		rc.once.Warn(ctx, "hold", "a message cannot be held; DingTalk sends it again", "err", err)
		return false
	}
	return true
}

// ownStaff reports whether the staff id says who wrote. Administrators choose
// these: one of another organisation can be the same, and one can look like the
// ids that DingTalk gives out.
func (m *message) ownStaff() bool {
	foreign := m.SenderCorp != "" && m.BotCorp != "" && m.SenderCorp != m.BotCorp
	return m.StaffID != "" && !foreign && !strings.HasPrefix(m.StaffID, "$:")
}

// visitor returns who wrote. False: nothing says who.
func (rc *receiver) visitor(m *message) (v access.Visitor, ok bool) {
	v.Route = bus.Route{Channel: rc.bot.deps.Name, MessageID: m.ID}
	if m.ownStaff() {
		v.IDs = append(v.IDs, m.StaffID)
	}
	if m.SenderID != "" {
		v.IDs = append(v.IDs, m.SenderID)
	}

	if len(v.IDs) == 0 || m.ID == "" {
		return v, false
	}

	v.Route.ChatID, v.Direct = v.IDs[0], m.Kind != "2"
	if !v.Direct {
		v.Route.ChatID, v.Mentioned = groupPrefix+m.Conversation, true // DingTalk sends nothing else
	}
	if v.Name = text.Speaker(m.Nick); v.Name == "" {
		v.Name = v.IDs[0]
	}
	if m.CreatedAt > 0 {
		v.At = time.UnixMilli(m.CreatedAt)
	}
	return v, v.Direct || m.Conversation != ""
}

// handle turns a message into one for the agent. An error means that it is not
// durable yet. Nothing is fetched for people before the gate has let them in.
func (rc *receiver) handle(ctx context.Context, m message) error {
	v, ok := rc.visitor(&m)
	if !ok {
		return nil
	}

	meta := map[string]string{
		"message_id": m.ID, "conversation_id": m.Conversation, "conversation_type": m.Kind, "platform": "dingtalk",
		metaSender: m.StaffID, metaName: v.Name,
	}
	if m.Webhook != "" && rc.bot.origin.Has(m.Webhook) {
		meta[metaWebhook], meta[metaExpires] = m.Webhook, strconv.FormatInt(m.WebhookExpires, 10)
	}

	if v.Direct && rc.bot.o.DisablePrivateChat {
		rc.decline(ctx, v, meta)
		return nil
	}

	pass, ok := rc.bot.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	in := pass.Inbound(m.ID, "")
	if known := rc.bot.deps.Known; known != nil && known(in.ID) {
		return nil // DingTalk repeats what it thinks was lost
	}

	in.Meta = meta
	rc.bot.talks.Put(m.ID, m.Conversation)
	if !v.Direct && rc.bot.o.GroupUserIsolation {
		in.SessionKey = in.Route.SessionKey() + ":" + v.IDs[0]
	}

	in.Text, in.Quoted, in.Media = rc.compose(ctx, &m, v)
	in.Untrusted = false // it has only what was typed
	return pass.Submit(ctx, in, rc.submit)
}

// decline tells a person that the bot works in groups, now and then.
func (rc *receiver) decline(ctx context.Context, v access.Visitor, meta map[string]string) {
	who, now := v.IDs[0], rc.bot.deps.Now()
	if last, ok := rc.bot.notified.Get(who); ok && now.Sub(last) < noticeEvery {
		return
	}

	rc.bot.notified.Put(who, now)
	language := or(string(rc.bot.o.Language), phrase.Chinese)
	words := phrase.In(language, "I only work in group chats. Please mention me there.")
	if _, err := rc.bot.Send(ctx, bus.Outbound{Kind: bus.Notice, Route: v.Route, Text: words, Plain: true, Meta: meta}); err != nil {
		rc.bot.deps.Log.DebugContext(ctx, "the note about groups is lost", "err", err)
	}
}

// compose writes the message for the agent: what its sender typed or said, and
// apart from it what they answer or sent along.
func (rc *receiver) compose(ctx context.Context, m *message, v access.Visitor) (string, []bus.Quote, []bus.Media) {
	files := &files{bot: rc.bot}
	var quotes []bus.Quote
	if r := m.Text.Replied; m.Text.IsReply && r != nil {
		words := rc.words(ctx, files, r.Type, r.Content, false)
		if words == "" {
			words = "[" + text.Label(r.Type, nameShown) + "]"
		}
		quotes = append(quotes, bus.Quote{About: "what this answers", Text: "[Reply to: " + text.Ellipsis(words, quoteMost) + "]"})
	}

	typed := strings.TrimSpace(text.Valid(m.Text.Content))
	if m.Type != "text" {
		typed = rc.words(ctx, files, m.Type, m.Content, true)
	}
	if len(files.marks) > 0 {
		quotes = append(quotes, bus.Quote{About: "files", Text: strings.Join(files.marks, "\n")})
	}
	if typed == "" && len(quotes) == 0 {
		typed = "[empty message]"
	}
	if !v.Direct && !strings.HasPrefix(typed, "/") {
		typed = strings.TrimSpace(v.Name + ": " + typed)
	}
	return typed, quotes, files.media
}

// words returns those of a message, with its files fetched; own says that its sender
// wrote them.
func (rc *receiver) words(ctx context.Context, files *files, kind string, c content, own bool) string {
	switch kind {
	case "text":
		return strings.TrimSpace(text.Valid(c.Text))
	case "audio":
		if s := strings.TrimSpace(c.Recognition); s != "" {
			return "[transcription: " + s + "]" // DingTalk did it
		}
		return files.add(ctx, kit.VoiceFile, c.DownloadCode, "voice.amr", own)

	case "picture":
		return files.add(ctx, kit.ImageFile, or(c.DownloadCode, c.PictureCode), "image.jpg", own)
	case "video":
		return files.add(ctx, kit.VideoFile, c.DownloadCode, "video.mp4", own)
	case "file":
		return files.add(ctx, kit.OtherFile, c.DownloadCode, or(c.FileName, "file"), own)
	case "richText":
		return rc.rich(ctx, files, c.RichText, own)
	}

	files.marks = append(files.marks, "["+text.Label(kind, nameShown)+"]")
	return ""
}

// rich returns the text of a rich text.
func (rc *receiver) rich(ctx context.Context, files *files, list []piece, own bool) string {
	var b strings.Builder
	for _, p := range list {
		switch s := text.Valid(p.Text); {
		case p.Type == "picture" || p.DownloadCode != "":
			files.add(ctx, kit.ImageFile, or(p.DownloadCode, p.PictureCode), or(p.FileName, "image.jpg"), own)
		case p.Type == "at":
			b.WriteString("@" + text.Label(or(p.AtName, s), nameShown) + " ")
		case p.Type == "bold":
			b.WriteString("**" + s + "**")
		case p.Type == "italic":
			b.WriteString("*" + s + "*")
		case p.Type == "inlineCode":
			b.WriteString("`" + s + "`")
		case p.Type == "pre":
			b.WriteString("\n```\n" + s + "\n```\n")
		default:
			b.WriteString(s)
		}
	}

	return strings.TrimSpace(b.String())
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
