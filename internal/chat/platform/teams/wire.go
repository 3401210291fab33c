package teams

import (
	"encoding/json"
	"strings"
	"time"
)

// activity is what Teams sends, as far as we read it.
type activity struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	Name         string          `json:"name,omitempty"` // of an invoke
	Timestamp    string          `json:"timestamp,omitempty"`
	ServiceURL   string          `json:"serviceUrl"`
	ChannelID    string          `json:"channelId"`
	From         account         `json:"from"`
	Recipient    account         `json:"recipient"`
	Conversation conversation    `json:"conversation"`
	Text         string          `json:"text,omitempty"`
	Attachments  []attachment    `json:"attachments,omitempty"`
	Entities     []entity        `json:"entities,omitempty"`
	ReplyToID    string          `json:"replyToId,omitempty"`
	Value        json.RawMessage `json:"value,omitempty"`
	ChannelData  channelData     `json:"channelData"`
}

type account struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	AAD  string `json:"aadObjectId,omitempty"`
	Role string `json:"role,omitempty"`
}

type conversation struct {
	ID       string `json:"id"`
	Type     string `json:"conversationType,omitempty"`
	IsGroup  bool   `json:"isGroup,omitempty"`
	TenantID string `json:"tenantId,omitempty"`
}

type channelData struct {
	EventType string `json:"eventType,omitempty"`
	Tenant    struct {
		ID string `json:"id,omitempty"`
	} `json:"tenant"`
}

type attachment struct {
	ContentType string          `json:"contentType"`
	ContentURL  string          `json:"contentUrl,omitempty"`
	Name        string          `json:"name,omitempty"`
	Content     json.RawMessage `json:"content,omitempty"` // a text or an object
}

type entity struct {
	Type      string       `json:"type"`
	Text      string       `json:"text,omitempty"`
	Mentioned account      `json:"mentioned"`
	Quoted    *quotedReply `json:"quotedReply,omitempty"`
}

type quotedReply struct {
	MessageID string `json:"messageId"`
	Sender    string `json:"senderName,omitempty"`
	Preview   string `json:"preview,omitempty"`
}

// personal is the type of conversations of two.
const personal = "personal"

// place returns the conversation without the thread, and the first message of the
// thread.
func (a *activity) place() (chat, root string) {
	chat, root, _ = strings.Cut(a.Conversation.ID, ";messageid=")
	return chat, root
}

// direct reports whether only the sender and the bot read the conversation.
func (a *activity) direct() bool {
	chat, _ := a.place()
	switch a.Conversation.Type {
	case personal:
		return !a.Conversation.IsGroup
	case "":
		return !a.Conversation.IsGroup && strings.HasPrefix(chat, "a:")
	}
	return false
}

// at returns when it was written; zero if Teams does not say.
func (a *activity) at() time.Time {
	t, err := time.Parse(time.RFC3339Nano, a.Timestamp)
	if err != nil {
		return time.Time{}
	}
	return t
}

// tenant returns the directory that the activity belongs to.
func (a *activity) tenant() string {
	if a.ChannelData.Tenant.ID != "" {
		return a.ChannelData.Tenant.ID
	}
	return a.Conversation.TenantID
}

// outgoing is an activity of ours.
type outgoing struct {
	Type        string       `json:"type"`
	Text        string       `json:"text,omitempty"`
	TextFormat  string       `json:"textFormat,omitempty"`
	ReplyToID   string       `json:"replyToId,omitempty"`
	Attachments []any        `json:"attachments,omitempty"`
	Entities    []streamInfo `json:"entities,omitempty"`
}

// streamInfo says which part of a growing text an activity is.
type streamInfo struct {
	Type     string `json:"type"` // streaminfo
	ID       string `json:"streamId,omitempty"`
	Kind     string `json:"streamType"`
	Sequence int    `json:"streamSequence,omitempty"`
}
