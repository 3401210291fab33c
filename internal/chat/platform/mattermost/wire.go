package mattermost

import (
	"encoding/json"
	"strconv"
	"time"
)

// user is a person or a bot.
type user struct {
	ID       string `json:"id"`
	Username string `json:"username"`
	Email    string `json:"email"`
	IsBot    bool   `json:"is_bot"`
}

// post is one message.
type post struct {
	ID        string         `json:"id"`
	CreateAt  int64          `json:"create_at"` // milliseconds
	UpdateAt  int64          `json:"update_at"`
	DeleteAt  int64          `json:"delete_at"`
	UserID    string         `json:"user_id"`
	ChannelID string         `json:"channel_id"`
	RootID    string         `json:"root_id"`
	Original  string         `json:"original_id"` // of an older version
	Message   string         `json:"message"`
	Type      string         `json:"type"`
	Props     map[string]any `json:"props"`
	FileIDs   []string       `json:"file_ids"`
	Metadata  struct {
		Embeds []embed `json:"embeds"`
	} `json:"metadata"`
}

// embed is something that a post shows besides its text.
type embed struct {
	Type string `json:"type"`
	Data struct {
		Post *struct {
			Message string `json:"message"`
		} `json:"post"`
	} `json:"data"`
}

// UnmarshalJSON implements json.Unmarshaler: of what is embedded only another
// post is read, since the others have other forms.
func (e *embed) UnmarshalJSON(data []byte) error {
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &kind); err != nil || kind.Type != "permalink" {
		e.Type = kind.Type
		return err
	}
	type plain embed
	return json.Unmarshal(data, (*plain)(e))
}

// prop returns a word among the props of a post.
func (p *post) prop(name string) string {
	s, _ := p.Props[name].(string)
	return s
}

// typed reports whether a person may have written a post: not the server, a
// plugin or an older version. /me makes posts of type me.
func (p *post) typed() bool {
	return p.ID != "" && p.UserID != "" && p.ChannelID != "" && p.DeleteAt == 0 && p.Original == "" && (p.Type == "" || p.Type == "me")
}

// machine reports what a program wrote. Posts of webhooks and of apps bear the
// name of the person who installed them: whoever knows the address can write
// them.
func (p *post) machine() bool {
	for _, name := range []string{"from_webhook", "from_bot", "from_plugin", "from_oauth_app"} {
		if v, there := p.Props[name]; there && v != false && v != "" && v != "false" {
			return true
		}
	}
	return false
}

// bot reports a post of a bot account, which has an id of its own.
func (p *post) bot() bool {
	return p.prop("from_bot") == "true" && p.Props["from_webhook"] == nil && p.Props["from_plugin"] == nil && p.Props["from_oauth_app"] == nil
}

// posts is a list of them.
type posts struct {
	Order []string        `json:"order"`
	Posts map[string]post `json:"posts"`
}

// file is an uploaded one.
type file struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Size int64  `json:"size"`
	MIME string `json:"mime_type"`
}

// conversation is a channel of the server.
type conversation struct {
	ID         string `json:"id"`
	TeamID     string `json:"team_id"`
	Type       string `json:"type"`
	LastPostAt int64  `json:"last_post_at"`
	DeleteAt   int64  `json:"delete_at"`
}

// frame is what comes over the WebSocket: an event or an answer.
type frame struct {
	Event     string          `json:"event"`
	Data      json.RawMessage `json:"data"`
	Broadcast struct {
		TeamID string `json:"team_id"`
	} `json:"broadcast"`
	Seq      int64  `json:"seq"`
	SeqReply int64  `json:"seq_reply"`
	Status   string `json:"status"`
}

// details are those of the events that we handle.
type details struct {
	ConnectionID string `json:"connection_id"`
	ChannelType  string `json:"channel_type"`
	SenderName   string `json:"sender_name"`
	TeamID       string `json:"team_id"`
	Post         string `json:"post"` // JSON
}

// event is a post that may be for us.
type event struct {
	Post   post   `json:"post"`
	Type   string `json:"type,omitempty"` // of the channel; "" if the event did not say
	TeamID string `json:"team,omitempty"`
	Sender string `json:"sender,omitempty"` // name
	Edited bool   `json:"edited,omitempty"`
	// Read is when it was written by our clock, if it was read from the channel.
	Read    time.Time `json:"read,omitzero"`
	Account string    `json:"account,omitempty"` // that it was sent to
}

// key tells an event from all others.
func (e *event) key() string {
	if e.Edited {
		return e.Post.ID + "." + strconv.FormatInt(e.Post.UpdateAt, 10)
	}
	return e.Post.ID
}
