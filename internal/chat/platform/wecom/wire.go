package wecom

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// The commands.
const (
	cmdSubscribe = "aibot_subscribe"
	cmdPing      = "ping"
	cmdMessage   = "aibot_msg_callback"
	cmdEvent     = "aibot_event_callback"
	cmdRespond   = "aibot_respond_msg"
	cmdWelcome   = "aibot_respond_welcome_msg"
	cmdUpdate    = "aibot_respond_update_msg"
	cmdSend      = "aibot_send_msg"
	cmdInit      = "aibot_upload_media_init"
	cmdChunk     = "aibot_upload_media_chunk"
	cmdFinish    = "aibot_upload_media_finish"
)

// The errors that mean something to us.
const (
	codeReqID        = 846605 // the id of the message is not known, or answers no more
	codeExpired      = 846608 // the stream began too long ago
	codeUnsubscribed = 846609 // the connection is there, the subscription is not
	codeBusy         = -1
	codeFrequent     = 45009
	codeConcurrent   = 45033
)

// frame is one message of the connection. Without a command it is the answer to
// one of ours.
type frame struct {
	Cmd     string `json:"cmd,omitempty"`
	Headers struct {
		ReqID string `json:"req_id"`
	} `json:"headers"`
	Body    json.RawMessage `json:"body,omitempty"`
	ErrCode int             `json:"errcode"`
	ErrMsg  string          `json:"errmsg"`
}

// parse reads a frame. WeCom lets control characters of people's texts through.
func parse(data []byte) (frame, error) {
	clean := make([]byte, 0, len(data))
	for _, c := range data {
		if c >= 0x20 || c == '\t' || c == '\n' {
			clean = append(clean, c)
		}
	}
	var f frame
	err := json.Unmarshal(clean, &f)
	return f, err
}

// message is what a person wrote, or an event.
type message struct {
	ID       string `json:"msgid"`
	ChatID   string `json:"chatid"` // only in groups
	ChatType string `json:"chattype"`
	From     struct {
		UserID string `json:"userid"`
		CorpID string `json:"corpid"` // only of people of other companies
	} `json:"from"`
	Created json.RawMessage `json:"create_time"`
	Sent    json.RawMessage `json:"sendertime"`
	content
	Quote *content `json:"quote"`
	Event struct {
		Type   string `json:"eventtype"`
		Nested press  `json:"template_card_event"` // where the documentation of WeCom has it
		press         // where the vendor's library has it
	} `json:"event"`
}

// press is what WeCom says of a button that a person pressed.
type press struct {
	Key  string `json:"event_key"`
	Task string `json:"task_id"`
}

// content is one piece of a message.
type content struct {
	Type  string `json:"msgtype"`
	Text  words  `json:"text"`
	Voice words  `json:"voice"`
	Image file   `json:"image"`
	File  file   `json:"file"`
	Video file   `json:"video"`
	Mixed struct {
		Items []content `json:"msg_item"`
	} `json:"mixed"`
}

type words struct {
	Content string `json:"content"`
}

// file is encrypted, if it has a key.
type file struct {
	URL    string `json:"url"`
	AESKey string `json:"aeskey"`
}

const chatGroup = "group"

// chat returns where a message was written.
func (m *message) chat() string {
	if m.ChatID != "" {
		return m.ChatID
	}
	return m.From.UserID
}

// person returns who wrote. The same name in two companies is two people.
func (m *message) person() string {
	if m.From.CorpID != "" && m.From.UserID != "" {
		return m.From.CorpID + "/" + m.From.UserID
	}
	return m.From.UserID
}

// key tells messages apart.
func (m *message) key() string {
	if m.ID != "" {
		return m.ID
	}
	return m.chat() + "_" + number(m.Sent) + number(m.Created)
}

// number returns a number that may be written as a text.
func number(raw json.RawMessage) string { return strings.Trim(string(raw), `"`) }

// refusal is an answer that says no.
type refusal struct {
	Cmd  string
	Code int
	Text string
}

func (e *refusal) Error() string {
	return fmt.Sprintf("WeCom refuses %s: %s (%d)", e.Cmd, e.Text, e.Code)
}

// refused returns the code of a refusal, 0 of any other error.
func refused(err error) int {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e.Code
	}
	return 0
}

// classify says what the manager should do about an error of a command.
func classify(err error) error {
	switch code := refused(err); {
	case code == 0 || code == codeBusy:
		return err
	case code == codeFrequent || code == codeConcurrent:
		return chat.RateLimited(time.Minute, err)
	case code >= 40000 && code < 50000, code >= 93000 && code < 94000: // wrong parameters; a chat that is not there
		return chat.Permanent(err)
	}
	return err
}
