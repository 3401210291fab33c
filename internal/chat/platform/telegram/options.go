package telegram

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// options is the section of the configuration.
type options struct {
	chat.Common
	Token                 httpsafe.Secret `json:"token" setup:"yes" doc:"Token of the bot, from @BotFather."`
	APIBase               string          `json:"apiBase" doc:"Address of the Bot API; change it for a server of your own."`
	ReplyToMessage        bool            `json:"replyToMessage" doc:"Quote the message that is answered."`
	ReactEmoji            string          `json:"reactEmoji" doc:"Reaction on messages that were received; empty is none."`
	StreamEditInterval    *float64        `json:"streamEditInterval" min:"0.1" doc:"Shortest time between two edits of a growing answer, in seconds."` // seconds
	EditedMessages        bool            `json:"editedMessages" doc:"Treat an edited message as a new one."`
	InlineKeyboards       bool            `json:"inlineKeyboards" doc:"Show the answers of a question as buttons."`
	RichMessages          bool            `json:"richMessages" doc:"Send rich messages to servers that know them."`
	Mode                  string          `json:"mode" enum:"polling|webhook" doc:"How updates arrive: the gateway asks for them, or Telegram calls it."`
	WebhookURL            string          `json:"webhookUrl" doc:"The https address that Telegram calls in webhook mode."`
	WebhookListenHost     string          `json:"webhookListenHost" doc:"Address of the listener in webhook mode."`
	WebhookListenPort     int             `json:"webhookListenPort" min:"0" max:"65535" doc:"Port of the listener in webhook mode; 0 uses the gateway's port."`
	WebhookPath           string          `json:"webhookPath" doc:"Path of the listener in webhook mode."`
	WebhookSecretToken    httpsafe.Secret `json:"webhookSecretToken" doc:"Secret that Telegram sends along in webhook mode."`
	WebhookMaxConnections int             `json:"webhookMaxConnections" min:"1" max:"100" doc:"Connections that Telegram may open in webhook mode."`

	// Read for the sake of old files; connections are made as needed.
	ConnectionPoolSize json.RawMessage `json:"connectionPoolSize" doc:"Ignored; older versions wrote it."`
	PoolTimeout        json.RawMessage `json:"poolTimeout" doc:"Ignored; older versions wrote it."`
}

const (
	modePolling = "polling"
	modeWebhook = "webhook"
	goodSecret  = 16 // characters that cannot be guessed
)

var (
	tokenForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d+:[A-Za-z0-9_-]{20,}$`) })
	secretForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`) })
)

func defaults() *options {
	return &options{
		APIBase: "https://api.telegram.org", ReactEmoji: "👀", Mode: modePolling,
		WebhookListenHost: "127.0.0.1", WebhookListenPort: 8081, WebhookPath: "/telegram", WebhookMaxConnections: 4,
	}
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	switch {
	case o.Token.IsZero():
		return errors.New("token is missing: ask @BotFather for one")
	case !tokenForm().MatchString(o.Token.Reveal()):
		return errors.New("token does not look like one of @BotFather's (digits, a colon, letters)")
	case o.StreamEditInterval != nil && *o.StreamEditInterval < 0.1:
		return errors.New("streamEditInterval: at least 0.1 seconds")
	case o.Mode != modePolling && o.Mode != modeWebhook:
		return fmt.Errorf("mode: %q is neither polling nor webhook", o.Mode)
	}

	o.APIBase = strings.TrimRight(o.APIBase, "/")
	if u, err := url.Parse(o.APIBase); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("apiBase: not an http address")
	}
	if o.Mode == modeWebhook {
		return o.checkWebhook()
	}
	return nil
}

func (o *options) checkWebhook() error {
	u, err := url.Parse(o.WebhookURL)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		return errors.New("webhookUrl: webhook mode needs the https address that Telegram shall call")
	case !secretForm().MatchString(o.WebhookSecretToken.Reveal()):
		return errors.New("webhookSecretToken: webhook mode needs 1 to 256, preferably 16 or more, of A-Z a-z 0-9 _ -; anyone who guesses it can write as any person")
	case !strings.HasPrefix(o.WebhookPath, "/") || strings.ContainsAny(o.WebhookPath, " {}"):
		return errors.New("webhookPath: must begin with / and hold no blanks or braces")
	case o.WebhookListenPort < 0 || o.WebhookListenPort > 65535:
		return errors.New("webhookListenPort: 0 to 65535")
	case o.WebhookMaxConnections < 1 || o.WebhookMaxConnections > 100:
		return errors.New("webhookMaxConnections: 1 to 100")
	}

	return nil
}

// bot returns the bot's number, which every token begins with.
func (o *options) bot() int64 {
	number, _, _ := strings.Cut(o.Token.Reveal(), ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// caps returns the limits of the platform. Texts are counted by Telegram after
// the markup is gone, so the margin to 4096 is for what rendering adds:
// bullets, and the padding of tables.
func (o *options) caps() chat.Caps {
	c := chat.Caps{
		MaxChars: 4000, Unit: markdown.UTF16,
		EditEvery: time.Second, GroupEditEvery: 3 * time.Second,
		Previewed: func(_ bus.Route, words string) bool {
			page, ok := toHTML(words)
			return ok && !o.RichMessages && page == escape(words) && preview(words) == words
		},
		Typing: 4 * time.Second, MaxMedia: maxUpload, Buttons: o.InlineKeyboards, Group: isGroup,
		Rate: chat.Rate{
			Total: chat.Limit{Count: 25, Per: time.Second},
			Chat:  chat.Limit{Count: 1, Per: time.Second},
			Group: chat.Limit{Count: 20, Per: time.Minute},
		},
	}
	if o.StreamEditInterval != nil {
		c.EditEvery = time.Duration(*o.StreamEditInterval * float64(time.Second))
		c.GroupEditEvery = max(c.EditEvery, c.GroupEditEvery)
	}
	if o.Streaming != nil && !*o.Streaming {
		c.EditEvery, c.GroupEditEvery = 0, 0
	}
	return c
}
