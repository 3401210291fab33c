package feishu

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	eventAge = 24 * time.Hour // Feishu repeats an event for six hours; what is older is replayed
	maxHeard = 1000           // messages for others that wait; more of them are not remembered
)

// envelope is what Feishu sends about something that happened.
type envelope struct {
	Header head            `json:"header"`
	Event  json.RawMessage `json:"event"`
	// Of requests that prove an address.
	Type      string `json:"type"`
	Token     string `json:"token"`
	Challenge string `json:"challenge"`
}

// head is what every event has.
type head struct {
	EventID string `json:"event_id"`
	Type    string `json:"event_type"`
	Created string `json:"create_time"`
	Token   string `json:"token"`
	AppID   string `json:"app_id"`
	Tenant  string `json:"tenant_key"` // the organisation of the app
}

// ids are those of a person.
type ids struct {
	Open   string `json:"open_id"`
	User   string `json:"user_id"`
	Union  string `json:"union_id"`
	Tenant string `json:"tenant_key,omitempty"` // the organisation of the person
}

// sound leaves out a user id that proves nothing. Administrators choose these: one
// of another organisation can be the same, and one can look like an id of the
// other kinds, which Feishu gives out.
func (p ids) sound(home string) ids {
	foreign := home != "" && p.Tenant != "" && p.Tenant != home
	if foreign || strings.HasPrefix(p.User, "ou_") || strings.HasPrefix(p.User, "on_") {
		p.User = ""
	}
	return p
}

// event is a message, or a button that was pressed.
type event struct {
	Press  *press `json:"press,omitempty"`
	App    string `json:"app,omitempty"` // that it is for
	Sender struct {
		ID     ids    `json:"sender_id"`
		Type   string `json:"sender_type"`
		Tenant string `json:"tenant_key,omitempty"`
	} `json:"sender"`
	Message message `json:"message"`
}

type message struct {
	ID       string    `json:"message_id"`
	Root     string    `json:"root_id,omitempty"`
	Parent   string    `json:"parent_id,omitempty"`
	Thread   string    `json:"thread_id,omitempty"`
	Created  string    `json:"create_time"`
	Chat     string    `json:"chat_id"`
	ChatType string    `json:"chat_type"`
	Type     string    `json:"message_type"`
	Content  string    `json:"content"`
	Mentions []mention `json:"mentions,omitempty"`
}

type mention struct {
	Key  string `json:"key"`
	ID   ids    `json:"id"`
	Name string `json:"name"`
}

func (e *event) direct() bool { return e.Message.ChatType == "p2p" }

// millis returns a time of Feishu's clock; zero if it does not say. Some events count
// microseconds.
func millis(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	if n > 1e14 {
		n /= 1000
	}
	return time.UnixMilli(n)
}

// accept keeps an event. No error means that Feishu may forget it: also if
// nothing comes of it. The answer is what Feishu shows then, nil for most events.
func (b *bot) accept(ctx context.Context, payload []byte) (answer []byte, err error) {
	var outer envelope
	if err := json.Unmarshal(payload, &outer); err != nil {
		b.once(ctx, "an event of Feishu is not JSON as expected and is ignored", "err", err)
		return nil, nil
	}

	h := &outer.Header
	switch h.Type {
	case "im.message.receive_v1":
	case pressEvent:
		return encode(b.ask.pressed(ctx, h, outer.Event))
	case "im.message.reaction.created_v1", "im.message.reaction.deleted_v1", "im.message.message_read_v1", "im.message.recalled_v1",
		"im.chat.access_event.bot_p2p_chat_entered_v1", "im.chat.member.bot.added_v1", "im.chat.member.bot.deleted_v1":
		return nil, nil
	default:
		b.once(ctx, "an event of Feishu has an unknown type and is ignored", "type", strconv.Quote(h.Type[:min(len(h.Type), 64)]))
		return nil, nil
	}

	if b.replayed(ctx, h) {
		return nil, nil
	}

	var e event
	if err := json.Unmarshal(outer.Event, &e); err != nil {
		b.once(ctx, "a message of Feishu is not JSON as expected and is ignored", "err", err)
		return nil, nil
	}

	e.Press = nil // we alone write it
	e.Sender.ID.Tenant = e.Sender.Tenant
	e.Sender.ID = e.Sender.ID.sound(h.Tenant)
	return nil, b.hold(ctx, h.AppID, e)
}

// replayed reports whether an event is older than any that Feishu repeats.
func (b *bot) replayed(ctx context.Context, h *head) bool {
	made := millis(h.Created)
	if made.IsZero() || b.deps.Now().Sub(b.calls.clock.Here(made)) <= eventAge {
		return false
	}
	b.once(ctx, "an event of Feishu is older than a day and is ignored; check the clock of this machine if it was written now", "event", h.EventID, "at", made)
	return true
}

// hold queues a message. What is probably for us is on the disk then.
func (b *bot) hold(ctx context.Context, app string, e event) error {
	m := &e.Message
	switch {
	case e.Sender.Type == "bot" || e.Sender.Type == "app":
		return nil // two bots that answer each other do so all night
	case m.ID == "" || m.Chat == "" || m.ChatType == "" || m.Type == "" || e.Sender.ID.Open == "":
		b.once(ctx, "a message of Feishu lacks its id, chat, type or sender and is ignored")
		return nil
	case app != "" && app != b.o.AppID:
		b.once(ctx, "an event of Feishu is for another app and is ignored", "app", app)
		return nil
	case b.deps.Known != nil && b.deps.Known(b.deps.Name+":"+m.ID):
		return nil
	}

	in := b.in.Load()
	if in == nil {
		return chat.ErrStopping
	}

	e.App = b.o.AppID
	if e.direct() || b.forUs(&e) {
		return in.Hold(ctx, m.Chat, m.ID, e)
	}

	if b.heard.Load() < maxHeard {
		b.heard.Add(1)
		in.Add(m.Chat, e, func() { b.heard.Add(-1) })
	}
	return nil
}

// challenge returns the answer to a request that proves our address.
func challenge(word string) []byte {
	data, _ := encode(map[string]string{"challenge": word}) // a word
	return bytes.TrimSpace(data)
}
