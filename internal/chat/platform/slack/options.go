package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// options is the section of the configuration.
type options struct {
	chat.Common
	Mode                 string          `json:"mode" doc:"How events arrive: by a connection to Slack, or by requests of Slack." enum:"socket|webhook"`
	BotToken             httpsafe.Secret `json:"botToken" setup:"yes" doc:"The bot user's OAuth token, which begins with xoxb-."`
	AppToken             httpsafe.Secret `json:"appToken" setup:"yes" doc:"The app-level token with the scope connections:write, which begins with xapp-; for mode socket."`
	SigningSecret        httpsafe.Secret `json:"signingSecret" doc:"The app's signing secret, which proves that a request is from Slack; for mode webhook."`
	WebhookPath          string          `json:"webhookPath" doc:"Path of the Request URL; for mode webhook."`
	WebhookListenHost    string          `json:"webhookListenHost" doc:"Address that receives requests, if webhookListenPort is set."`
	WebhookListenPort    int             `json:"webhookListenPort" doc:"Port that receives requests; 0 is the gateway's own." min:"0" max:"65535"`
	APIBase              string          `json:"apiBase" doc:"Address of the Web API."`
	ReplyInThread        bool            `json:"replyInThread" doc:"Answer messages in channels in a thread, which is a conversation of its own."`
	ReactEmoji           string          `json:"reactEmoji" doc:"Name of the reaction on a message while it is processed; empty is none."`
	DoneEmoji            string          `json:"doneEmoji" doc:"Name of the reaction on a message that was answered; empty is none."`
	GroupRequireMention  bool            `json:"groupRequireMention" doc:"With groupPolicy allowlist, answer only messages that name the bot."`
	DM                   direct          `json:"dm" doc:"Direct messages."`
	IncludeThreadContext bool            `json:"includeThreadContext" doc:"Give the agent the earlier messages of a thread in which it is named for the first time."`
	ThreadContextLimit   int             `json:"threadContextLimit" doc:"How many earlier messages of a thread the agent gets." min:"0" max:"200"`
	Buttons              bool            `json:"buttons" doc:"Show choices as buttons, which needs Interactivity in the app's settings; otherwise they are part of the text."`
	EditedMessages       bool            `json:"editedMessages" doc:"Treat an edited message as a new one."`

	UserTokenReadOnly json.RawMessage `json:"userTokenReadOnly" doc:"Ignored; older versions wrote it."`
}

// direct are the settings of direct messages.
type direct struct {
	Enabled   bool     `json:"enabled" doc:"Answer direct messages."`
	Policy    string   `json:"policy" doc:"Who may write directly: all people that allowFrom or pairing admits, or only those of dm.allowFrom." enum:"open|allowlist"`
	AllowFrom []string `json:"allowFrom" doc:"Ids of people who may write directly, for the policy allowlist."`
}

const (
	modeSocket  = "socket"
	modeWebhook = "webhook"
	allowlist   = "allowlist"
)

func defaults() *options {
	return &options{
		Mode:                 modeSocket,
		WebhookPath:          "/slack/events",
		WebhookListenHost:    "127.0.0.1",
		APIBase:              "https://slack.com/api/",
		ReplyInThread:        true,
		ReactEmoji:           "eyes",
		DoneEmoji:            "white_check_mark",
		DM:                   direct{Enabled: true, Policy: "open"},
		IncludeThreadContext: true,
		ThreadContextLimit:   20,
		Buttons:              true,
	}
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	o.ReactEmoji, o.DoneEmoji = strings.Trim(o.ReactEmoji, ": "), strings.Trim(o.DoneEmoji, ": ")
	o.APIBase = strings.TrimRight(o.APIBase, "/") + "/"
	u, err := url.Parse(o.APIBase)
	switch {
	case o.BotToken.IsZero():
		return errors.New("botToken is missing: it is under OAuth & Permissions in the app's settings, after the app is installed")
	case !strings.HasPrefix(o.BotToken.Reveal(), "xoxb-"):
		return errors.New("botToken does not begin with xoxb-: take the Bot User OAuth Token")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("apiBase: not an http address")
	case o.DM.Policy != "open" && o.DM.Policy != allowlist:
		return fmt.Errorf("dm.policy: %q must be open or allowlist", o.DM.Policy)
	case o.ThreadContextLimit < 0 || o.ThreadContextLimit > 200:
		return errors.New("threadContextLimit: 0 to 200")
	}

	switch o.Mode {
	case modeSocket:
		return o.checkSocket()
	case modeWebhook:
		return o.checkWebhook()
	}
	return fmt.Errorf("mode: %q is neither socket nor webhook", o.Mode)
}

func (o *options) checkSocket() error {
	switch {
	case o.AppToken.IsZero():
		return errors.New("appToken is missing: generate an app-level token with connections:write under Basic Information in the app's settings")
	case !strings.HasPrefix(o.AppToken.Reveal(), "xapp-"):
		return errors.New("appToken does not begin with xapp-: take the app-level token")
	}
	return nil
}

func (o *options) checkWebhook() error {
	switch {
	case len(o.SigningSecret.Reveal()) < 16:
		return errors.New("signingSecret: webhook mode needs the Signing Secret, which is under Basic Information in the app's settings")
	case !strings.HasPrefix(o.WebhookPath, "/") || strings.ContainsAny(o.WebhookPath, " {}"):
		return errors.New("webhookPath: must begin with / and hold no blanks or braces")
	case o.WebhookListenPort < 0 || o.WebhookListenPort > 65535:
		return errors.New("webhookListenPort: 0 to 65535")
	}
	return nil
}

// rules returns what dm, groupPolicy and groupRequireMention say. Allow lists and
// pairing stay with the gate: an open dm.policy alone admits no one, since every
// older file has it.
func (o *options) rules() access.Rules {
	return access.Rules{
		Direct: func(v access.Visitor) access.Decision {
			has := func(list []string) bool {
				return slices.ContainsFunc(v.IDs, func(id string) bool { return slices.Contains(list, id) })
			}
			switch {
			case !o.DM.Enabled:
				return access.Ignore
			case o.DM.Policy != allowlist || has(o.Owners):
				return ""
			case !has(o.DM.AllowFrom) && !slices.Contains(o.DM.AllowFrom, "*"):
				return access.Refuse
			case len(o.AllowFrom) == 0:
				return access.Admit
			}

			return ""
		},
		ForUs: func(v access.Visitor) bool {
			switch o.GroupPolicy {
			case access.Open:
				return true
			case access.Allowlist:
				return slices.Contains(o.GroupAllowFrom, v.Route.ChatID) && (v.Mentioned || !o.GroupRequireMention)
			}
			return v.Mentioned
		},
	}
}

// How long a text may be. Slack takes a change of a message only up to 4,000
// characters, so a text that is streamed goes on in the next message before;
// others have room up to the 12,000 of a Markdown block. Both leave a margin for
// what rendering adds.
const (
	maxText     = 11_500
	maxStreamed = 3700
)

// caps returns the limits of the platform.
func (o *options) caps() chat.Caps {
	c := chat.Caps{
		MaxChars:       maxStreamed,
		Unit:           markdown.UTF16,
		EditEvery:      time.Second,
		GroupEditEvery: 2 * time.Second,
		Previewed:      func(bus.Route, string) bool { return true },
		Typing:         90 * time.Second, // a status lasts for two minutes
		MaxMedia:       maxUpload,
		Buttons:        o.Buttons,
		Group:          func(r bus.Route) bool { return !isDirect(r.ChatID) },
		Rate: chat.Rate{
			Total: chat.Limit{Count: 200, Per: time.Minute},
			Chat:  chat.Limit{Count: 1, Per: time.Second},
			Edit:  chat.Limit{Count: 45, Per: time.Minute},
		},
	}
	if o.Streaming != nil && !*o.Streaming {
		c.EditEvery, c.GroupEditEvery, c.MaxChars = 0, 0, maxText
	}
	return c
}

// isDirect reports whether a conversation is one with a single person.
func isDirect(chatID string) bool { return strings.HasPrefix(chatID, "D") }
