package qq

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	apiBase     = "https://api.sgroup.qq.com"
	sandboxBase = "https://sandbox.api.sgroup.qq.com"
	tokenBase   = "https://bots.qq.com" //nolint:gosec // an address

	formatPlain    = "plain"
	formatMarkdown = "markdown"
)

const (
	repliesMost  = 5                // to one message
	progressMost = 2                // of them that are not an answer
	usualText    = 2000             // characters of a message
	longestText  = 4800             // characters of a message when an answer would need too many
	hardText     = 5000             // more than that is not sent
	maxFile      = 15 << 20         // bytes: QQ takes 20 MB of base64
	directTime   = 59 * time.Minute // QQ takes replies to a person for an hour,
	groupTime    = 290 * time.Second
)

// options is the section of the configuration.
type options struct {
	chat.Common
	AppID             string          `json:"appId" setup:"yes" doc:"AppID of the bot, from the development settings on https://q.qq.com."`
	Secret            httpsafe.Secret `json:"secret" setup:"yes" doc:"AppSecret of the bot, from the same page."`
	MsgFormat         string          `json:"msgFormat" enum:"plain|markdown" doc:"How answers are sent. markdown needs the platform's approval; what is refused is sent as plain text."`
	AckMessage        string          `json:"ackMessage" doc:"Text that confirms each message; it uses one of the five replies. Empty: none."`
	MediaDir          string          `json:"mediaDir" doc:"Ignored: files are kept in the data folder. Python nanobot has this setting."`
	DownloadChunkSize int             `json:"downloadChunkSize" min:"1024" doc:"Ignored. Python nanobot has this setting."`
	DownloadMaxBytes  int64           `json:"downloadMaxBytes" min:"1048576" doc:"Largest file that is accepted, in bytes; maxMediaBytes holds as well."`
	APIBaseURL        string          `json:"apiBaseUrl" doc:"Address of the API."`
	TokenBaseURL      string          `json:"tokenBaseUrl" doc:"Address that gives access tokens."`
	Sandbox           bool            `json:"sandbox" doc:"Use the sandbox: only the people and groups that are entered there can talk to the bot."`
}

func defaults() *options {
	return &options{
		MsgFormat:         formatPlain,
		DownloadChunkSize: 256 << 10,
		DownloadMaxBytes:  200 << 20,
		APIBaseURL:        apiBase,
		TokenBaseURL:      tokenBase,
	}
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	if o.APIBaseURL = strings.TrimRight(o.APIBaseURL, "/"); o.APIBaseURL == "" {
		o.APIBaseURL = apiBase
	}
	if o.TokenBaseURL = strings.TrimRight(o.TokenBaseURL, "/"); o.TokenBaseURL == "" {
		o.TokenBaseURL = tokenBase
	}
	if o.Sandbox && o.APIBaseURL == apiBase {
		o.APIBaseURL = sandboxBase
	}

	switch {
	case o.AppID == "":
		return errors.New("appId is missing: copy it from the development settings of the bot on https://q.qq.com")
	case o.Secret.IsZero():
		return errors.New("secret is missing: generate the AppSecret in the development settings of the bot on https://q.qq.com")
	case strings.ContainsAny(o.AppID+o.Secret.Reveal(), " \t\r\n\""):
		return errors.New("appId and secret: enter them without quotes and blanks")
	case o.MsgFormat != formatPlain && o.MsgFormat != formatMarkdown:
		return errors.New("msgFormat: plain or markdown")
	case !web(o.APIBaseURL):
		return errors.New("apiBaseUrl: not an http address")
	case !web(o.TokenBaseURL):
		return errors.New("tokenBaseUrl: not an http address")
	}

	return nil
}

func web(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// caps returns the limits of the platform. Its messages cannot be changed, so
// nothing is streamed. The margin to hardText is for what rendering adds.
func (o *options) caps() chat.Caps {
	return chat.Caps{
		MaxChars: usualText,
		Unit:     markdown.Runes,
		Typing:   8 * time.Second,
		MaxMedia: maxFile,
		Keys:     true,
		Replies:  chat.Limit{Count: repliesMost, Per: directTime},
		Quotes:   true,
		Rate: chat.Rate{
			Total: chat.Limit{Count: 50, Per: time.Second},
			Chat:  chat.Limit{Count: 5, Per: time.Second},
		},
	}
}
