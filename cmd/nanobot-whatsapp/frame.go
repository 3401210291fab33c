package main

// frame is a message between this program and nanobot. docs/how-to/channels/whatsapp.md lists
// the types; the names are those of internal/chat/platform/whatsapp, which are checked
// by the same file of examples.
type frame struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"` // of a message, or of the request that is answered

	// To this program.
	Token    string `json:"token,omitempty"`
	Protocol int    `json:"protocol,omitempty"`
	To       string `json:"to,omitempty"`
	Text     string `json:"text,omitempty"`
	FilePath string `json:"filePath,omitempty"`
	MIME     string `json:"mimetype,omitempty"`
	Caption  string `json:"caption,omitempty"`
	FileName string `json:"fileName,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Key      string `json:"key,omitempty"`
	State    string `json:"state,omitempty"`
	Phone    string `json:"phone,omitempty"`
	Ref      string `json:"ref,omitempty"`

	// Messages of people.
	Sender         string   `json:"sender,omitempty"`
	PN             string   `json:"pn,omitempty"`
	Content        string   `json:"content,omitempty"`
	Timestamp      int64    `json:"timestamp,omitempty"` // seconds
	IsGroup        bool     `json:"isGroup,omitempty"`
	WasMentioned   bool     `json:"wasMentioned,omitempty"`
	Participant    string   `json:"participant,omitempty"`
	ParticipantAlt string   `json:"participantAlt,omitempty"`
	Name           string   `json:"name,omitempty"`
	Forwarded      bool     `json:"forwarded,omitempty"`
	Edited         bool     `json:"edited,omitempty"`
	Self           bool     `json:"self,omitempty"`
	ReplyTo        *reply   `json:"replyTo,omitempty"`
	Files          []file   `json:"files,omitempty"`
	Notes          []string `json:"notes,omitempty"`

	// Others from this program.
	Status     string `json:"status,omitempty"`
	Reason     string `json:"reason,omitempty"`
	JID        string `json:"jid,omitempty"`
	QR         string `json:"qr,omitempty"`
	Code       string `json:"code,omitempty"`
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

// file is one that came with a message. Ref is all that is needed to fetch it.
type file struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	MIME string `json:"mimetype,omitempty"`
	Size int64  `json:"size,omitempty"`
	Ref  string `json:"ref"`
}

// The states of the account.
const (
	connected    = "connected"
	disconnected = "disconnected"
	unlinked     = "unlinked"
	loggedOut    = "logged_out"
	replaced     = "replaced"
	banned       = "banned"
	outdated     = "outdated"
)

const protocol = 2
