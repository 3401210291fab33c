package qq

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// kind is what a chat is. It decides the address that messages go to.
type kind string

const (
	direct      kind = "c2c"
	group       kind = "group"
	guild       kind = "guild"    // a channel of a guild
	guildDirect kind = "guild_dm" // a direct chat that began in a guild

	guildPrefix       = "channel:"
	guildDirectPrefix = "dm:"
)

// window returns how long QQ takes replies to a message.
func (k kind) window() time.Duration {
	if k == direct {
		return directTime
	}
	return groupTime
}

// modern reports whether a chat has the second version of the API: with numbers
// of replies, Markdown, files and buttons.
func (k kind) modern() bool { return k == direct || k == group }

type user struct {
	ID           string `json:"id,omitempty"`
	Username     string `json:"username,omitempty"`
	Bot          bool   `json:"bot,omitempty"`
	UserOpenID   string `json:"user_openid,omitempty"`
	MemberOpenID string `json:"member_openid,omitempty"`
	UnionOpenID  string `json:"union_openid,omitempty"`
}

// ids returns what the platform knows a person by, the first of these first.
func (u user) ids(first ...string) []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, id := range append(first, u.ID, u.UserOpenID, u.MemberOpenID, u.UnionOpenID) {
		if !seen[id] {
			out = append(out, id)
		}
		seen[id] = true
	}
	return out
}

type message struct {
	ID          string       `json:"id"`
	Author      user         `json:"author"`
	Content     string       `json:"content"`
	Timestamp   stamp        `json:"timestamp"`
	GroupOpenID string       `json:"group_openid,omitempty"`
	GroupID     string       `json:"group_id,omitempty"`
	GuildID     string       `json:"guild_id,omitempty"`
	ChannelID   string       `json:"channel_id,omitempty"`
	Attachments []attachment `json:"attachments,omitempty"`
	Mentions    []mention    `json:"mentions,omitempty"`
	Reference   *struct {
		MessageID string `json:"message_id"`
	} `json:"message_reference,omitempty"`
}

type mention struct {
	ID    string `json:"id,omitempty"`
	IsYou bool   `json:"is_you,omitempty"`
}

type attachment struct {
	URL         string `json:"url"`
	Filename    string `json:"filename,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	Size        number `json:"size,omitempty"`
	VoiceURL    string `json:"voice_wav_url,omitempty"`
	Spoken      string `json:"asr_refer_text,omitempty"`
}

// tap is a person's press of a button.
type tap struct {
	ID          string `json:"id"`
	ChatType    int    `json:"chat_type"` // 0 guild, 1 group, 2 direct
	Timestamp   stamp  `json:"timestamp"`
	UserOpenID  string `json:"user_openid,omitempty"`
	GroupOpenID string `json:"group_openid,omitempty"`
	Member      string `json:"group_member_openid,omitempty"`
	Data        struct {
		Resolved struct {
			Data string `json:"button_data,omitempty"`
		} `json:"resolved"`
	} `json:"data"`
}

// number is one that QQ writes as a number or as text.
type number int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(data []byte) error {
	s := strings.Trim(string(data), `"`)
	if s == "" || s == "null" {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	*n = number(f)
	return err
}

// stamp is a time in milliseconds, which QQ writes as text or in seconds. One that
// cannot be read is 0, which is now.
type stamp int64

// UnmarshalJSON implements json.Unmarshaler.
func (s *stamp) UnmarshalJSON(data []byte) error {
	const seconds = 1e11 // more than that are milliseconds
	text := strings.Trim(string(data), `"`)
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		*s = stamp(t.UnixMilli())
	} else if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		if *s = stamp(n); n < seconds {
			*s *= 1000
		}
	}

	return nil
}

func (s stamp) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(s))
}

// outgoing is a message that is sent.
type outgoing struct {
	Type     *int           `json:"msg_type,omitempty"`
	Content  string         `json:"content,omitempty"`
	Markdown *markdownBody  `json:"markdown,omitempty"`
	Keyboard map[string]any `json:"keyboard,omitempty"`
	Media    *mediaBody     `json:"media,omitempty"`
	Typing   map[string]any `json:"input_notify,omitempty"`
	MsgID    string         `json:"msg_id,omitempty"`
	MsgSeq   int            `json:"msg_seq,omitempty"`

	picture []byte // in guilds: sent along
}

// encode is JSON, or a form with the picture.
func (m outgoing) encode() kit.Body {
	if m.picture == nil {
		return kit.JSON(m)
	}

	form := kit.NewForm()
	for _, f := range [][2]string{{"content", m.Content}, {"msg_id", m.MsgID}} {
		if f[1] != "" {
			form.Field(f[0], f[1])
		}
	}

	form.File("file_image", "image", bytes.NewReader(m.picture), int64(len(m.picture)))
	return form.Body()
}

type markdownBody struct {
	Content string `json:"content"`
}

type mediaBody struct {
	FileInfo string `json:"file_info"`
}

// The types of messages.
const (
	typeText     = 0
	typeMarkdown = 2
	typeTyping   = 6
	typeMedia    = 7
)

// frame is one of the gateway.
type frame struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  int64           `json:"s,omitempty"`
	Kind string          `json:"t,omitempty"`
}
