package whatsapp

import (
	"encoding/json"
	"strconv"
)

// frame is a message between us and a bridge. The bridge of Python nanobot
// knows only the types auth, send and send_media from us, and message, status,
// qr, sent and error from it, without an id of the request.
type frame struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"` // of a message, or of the request that is answered

	// From us.
	Token    string `json:"token,omitempty"`
	Protocol int    `json:"protocol,omitempty"` // 2: this file; hello has it, too
	To       string `json:"to,omitempty"`
	Text     string `json:"text,omitempty"`
	FilePath string `json:"filePath,omitempty"`
	MIME     string `json:"mimetype,omitempty"`
	Caption  string `json:"caption,omitempty"`
	FileName string `json:"fileName,omitempty"`
	Kind     string `json:"kind,omitempty"` // image, video, audio, voice, document
	Key      string `json:"key,omitempty"`  // the same for the same message; its id is made of it
	State    string `json:"state,omitempty"`
	Phone    string `json:"phone,omitempty"`
	Ref      string `json:"ref,omitempty"` // of a file to fetch

	// Messages to us.
	Sender         string          `json:"sender,omitempty"` // the chat
	PN             string          `json:"pn,omitempty"`     // another id of the chat
	Content        string          `json:"content,omitempty"`
	Timestamp      json.RawMessage `json:"timestamp,omitempty"` // seconds; JavaScript may make an object of it
	IsGroup        bool            `json:"isGroup,omitempty"`
	WasMentioned   bool            `json:"wasMentioned,omitempty"`
	Media          []string        `json:"media,omitempty"` // paths of files that were fetched already
	Participant    string          `json:"participant,omitempty"`
	ParticipantAlt string          `json:"participantAlt,omitempty"`
	Name           string          `json:"name,omitempty"` // that the sender chose
	Forwarded      bool            `json:"forwarded,omitempty"`
	Edited         bool            `json:"edited,omitempty"`
	Self           bool            `json:"self,omitempty"` // written by the account, in the chat with itself
	ReplyTo        *reply          `json:"replyTo,omitempty"`
	Files          []file          `json:"files,omitempty"` // that can be fetched
	Notes          []string        `json:"notes,omitempty"` // a place, a contact, a poll in words

	// Others to us.
	Status     string `json:"status,omitempty"`
	Reason     string `json:"reason,omitempty"`
	JID        string `json:"jid,omitempty"` // of the account
	QR         string `json:"qr,omitempty"`
	Code       string `json:"code,omitempty"`    // to type in, or the class of an error
	Expires    int    `json:"expires,omitempty"` // seconds
	Error      string `json:"error,omitempty"`
	RetryAfter int    `json:"retryAfter,omitempty"` // seconds
	MessageID  string `json:"messageId,omitempty"`
	Path       string `json:"path,omitempty"`
}

// reply is the message that another one answers.
type reply struct {
	ID          string `json:"id"`
	Participant string `json:"participant,omitempty"`
	Text        string `json:"text,omitempty"`
	Ours        bool   `json:"ours,omitempty"`
}

// file is one that came with a message.
type file struct {
	Kind string `json:"kind"` // image, video, audio, voice, document, sticker
	Name string `json:"name,omitempty"`
	MIME string `json:"mimetype,omitempty"`
	Size int64  `json:"size,omitempty"`
	Ref  string `json:"ref"`
}

// The types of frames.
const (
	typeAuth     = "auth"
	typeHello    = "hello" // the answer to auth
	typeSend     = "send"
	typeMedia    = "send_media"
	typeSent     = "sent"
	typeError    = "error"
	typeMessage  = "message"
	typeAck      = "ack" // we have the message
	typeStatus   = "status"
	typeQR       = "qr"
	typeLogin    = "login"
	typeCode     = "code"
	typeLogout   = "logout"
	typePresence = "presence"
	typeRead     = "read"
	typeDownload = "download"
	typeFile     = "file"
)

// The states of the account.
const (
	connected    = "connected"
	disconnected = "disconnected"
	unlinked     = "unlinked" // there is no linked device
	loggedOut    = "logged_out"
	replaced     = "replaced" // another program uses the device
	banned       = "banned"
	outdated     = "outdated" // WhatsApp does not accept this version
)

const protocol = 2

// The ways WhatsApp closes a connection.
const (
	closeLate  = 4001
	closeToken = 4003
)

// seconds returns the time of a message, 0 if there is none.
func (f *frame) seconds() int64 {
	if n, err := strconv.ParseInt(string(f.Timestamp), 10, 64); err == nil {
		return n
	}

	var long struct {
		Low uint32 `json:"low"`
	}
	if json.Unmarshal(f.Timestamp, &long) == nil {
		return int64(long.Low)
	}
	return 0
}
