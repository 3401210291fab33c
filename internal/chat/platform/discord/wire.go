package discord

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// epoch is when the numbers of Discord begin, in milliseconds.
const epoch = 1420070400000

// snowflake returns an id of something that happened at a time, smaller than all ids
// of that millisecond.
func snowflake(t time.Time) uint64 {
	if ms := t.UnixMilli() - epoch; ms > 0 {
		return uint64(ms) << 22
	}
	return 0
}

// number returns an id as a number, 0 if it is none.
func number(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// The types of messages that say something to a bot.
const (
	typeDefault = 0
	typeReply   = 19
)

const (
	flagNoEmbeds = 1 << 2  // addresses are not fetched for a preview
	flagVoice    = 1 << 13 // a voice message
	flagSilent   = 1 << 12 // no notification
	flagSecret   = 1 << 6  // only the person who asked sees it
)

type user struct {
	ID         string `json:"id"`
	Username   string `json:"username,omitempty"`
	GlobalName string `json:"global_name,omitempty"`
	Bot        bool   `json:"bot,omitempty"`
	// Discriminator follows the names of bots and of people who have not chosen a
	// name of the new kind: "0" if no other person has the name.
	Discriminator string `json:"discriminator,omitempty"`
}

// unique reports whether no other person has the same user name now.
func (u *user) unique() bool {
	return u.Username != "" && !u.Bot && (u.Discriminator == "" || u.Discriminator == "0")
}

type member struct {
	User *user  `json:"user,omitempty"`
	Nick string `json:"nick,omitempty"`
}

// nick returns the name of a person in a server, "" if they have none there.
func (m *member) nick() string {
	if m == nil {
		return ""
	}
	return m.Nick
}

type message struct {
	ID           string       `json:"id"`
	ChannelID    string       `json:"channel_id"`
	GuildID      string       `json:"guild_id,omitempty"`
	Type         int          `json:"type"`
	Flags        int          `json:"flags,omitempty"`
	Content      string       `json:"content,omitempty"`
	Author       *user        `json:"author,omitempty"`
	Member       *member      `json:"member,omitempty"`
	WebhookID    string       `json:"webhook_id,omitempty"`
	Timestamp    string       `json:"timestamp,omitempty"`
	Edited       string       `json:"edited_timestamp,omitempty"`
	Mentions     []user       `json:"mentions,omitempty"`
	MentionRoles []string     `json:"mention_roles,omitempty"`
	Attachments  []attachment `json:"attachments,omitempty"`
	Stickers     []sticker    `json:"sticker_items,omitempty"`
	Components   []component  `json:"components,omitempty"`
	Reference    *reference   `json:"message_reference,omitempty"`
	Referenced   *message     `json:"referenced_message,omitempty"`
	Snapshots    []snapshot   `json:"message_snapshots,omitempty"`
	Poll         *poll        `json:"poll,omitempty"`
}

type attachment struct {
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	ContentType string `json:"content_type,omitempty"`
	Size        int64  `json:"size"`
	URL         string `json:"url"`
}

type sticker struct {
	Name string `json:"name"`
}

// reference names another message. Of type 1 it is forwarded.
type reference struct {
	Type      int    `json:"type,omitempty"`
	MessageID string `json:"message_id,omitempty"`
	ChannelID string `json:"channel_id,omitempty"`
	Fail      *bool  `json:"fail_if_not_exists,omitempty"`
}

const forwarding = 1

// snapshot is a message that was forwarded.
type snapshot struct {
	Message message `json:"message"`
}

type poll struct {
	Question pollText `json:"question"`
	Answers  []struct {
		Media pollText `json:"poll_media"`
	} `json:"answers"`
}

type pollText struct {
	Text string `json:"text"`
}

// component is a row of buttons, or a button.
type component struct {
	Type       int         `json:"type"`
	Style      int         `json:"style,omitempty"`
	Label      string      `json:"label,omitempty"`
	CustomID   string      `json:"custom_id,omitempty"`
	Components []component `json:"components,omitempty"`
}

const (
	componentRow    = 1
	componentButton = 2
	styleSecondary  = 2
)

// interaction is a command or a button that a person used.
type interaction struct {
	ID        string   `json:"id"`
	Token     string   `json:"token,omitempty"`
	Locale    string   `json:"locale,omitempty"` // of the person
	Type      int      `json:"type"`
	Context   *int     `json:"context,omitempty"`
	ChannelID string   `json:"channel_id"`
	GuildID   string   `json:"guild_id,omitempty"`
	Member    *member  `json:"member,omitempty"`
	User      *user    `json:"user,omitempty"`
	Message   *message `json:"message,omitempty"`
	Data      struct {
		Name     string   `json:"name,omitempty"`
		CustomID string   `json:"custom_id,omitempty"`
		Options  []option `json:"options,omitempty"`
	} `json:"data"`
}

const (
	interactionCommand = 2
	interactionButton  = 3
	contextPrivate     = 2 // a chat between people, which the bot is not in
)

type option struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value,omitempty"`
}

// text returns the value as a person typed it.
func (o option) text() string {
	var s string
	if json.Unmarshal(o.Value, &s) == nil {
		return strings.TrimSpace(s)
	}
	return strings.TrimSpace(string(o.Value))
}

// guild is a server, as it is told when the bot comes online.
type guild struct {
	ID       string  `json:"id"`
	Tier     int     `json:"premium_tier"`
	Channels []place `json:"channels"`
	Threads  []place `json:"threads"`
	Roles    []struct {
		ID   string `json:"id"`
		Tags struct {
			BotID string `json:"bot_id"`
		} `json:"tags"`
	} `json:"roles"`
}

// place is a channel, a thread or a direct chat.
type place struct {
	ID          string `json:"id"`
	Type        int    `json:"type"`
	GuildID     string `json:"guild_id,omitempty"`
	ParentID    string `json:"parent_id,omitempty"`
	Name        string `json:"name,omitempty"`
	LastMessage string `json:"last_message_id,omitempty"`
}

// thread reports whether a place is a thread, whose parent is its channel. Of
// other places the parent is a category.
func (p place) thread() bool { return p.Type >= 10 && p.Type <= 12 }

// readable reports whether people write in a place: text, announcements, voice
// and stage channels have a chat, and so have threads.
func (p place) readable() bool {
	return p.thread() || p.Type == 0 || p.Type == 2 || p.Type == 5 || p.Type == 13
}
