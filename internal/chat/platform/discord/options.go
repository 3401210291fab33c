package discord

import (
	"errors"
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

// The intents that matter here; see the gateway's documentation.
const (
	intentGuilds   = 1 << 0
	intentGuild    = 1 << 9
	intentDirect   = 1 << 12
	intentContent  = 1 << 15
	intentsDefault = intentGuilds | intentGuild | intentDirect | intentContent
)

const (
	maxText    = 2000      // characters of a message
	maxUpload  = 10 << 20  // bytes of a file, without boosts
	maxBoosted = 100 << 20 // bytes of a file on a server of the highest level
	maxFiles   = 10        // of a message
)

// options is the section of the configuration.
type options struct {
	chat.Common
	Token             httpsafe.Secret `json:"token" setup:"yes" doc:"Token of the bot, from the Bot page of the Discord developer portal."`
	Intents           int             `json:"intents" doc:"Events that Discord sends, as the sum of their numbers." min:"0"`
	AllowChannels     []string        `json:"allowChannels" doc:"Ids of server channels in which the bot answers; a thread belongs to its channel. Empty: all."`
	AllowBots         bool            `json:"allowBots" doc:"Answer other bots and webhooks that are in allowFrom or admitted by \"*\"."`
	EditedMessages    bool            `json:"editedMessages" doc:"Answer a message again when its author changes it."`
	ReadReceiptEmoji  string          `json:"readReceiptEmoji" doc:"Reaction on a message that was received; empty for none."`
	WorkingEmoji      string          `json:"workingEmoji" doc:"Reaction while the agent works on a message; empty for none."`
	WorkingEmojiDelay float64         `json:"workingEmojiDelay" doc:"Seconds of work before workingEmoji is shown, 8 at most." min:"0"`
	ProxyUsername     string          `json:"proxyUsername" doc:"User name for the proxy; needs proxyPassword."`
	ProxyPassword     httpsafe.Secret `json:"proxyPassword" doc:"Password for the proxy; needs proxyUsername."`
	APIBase           string          `json:"apiBase" doc:"Address of the REST API, version 10."`
}

func defaults() *options {
	return &options{
		Intents: intentsDefault, ReadReceiptEmoji: "👀", WorkingEmoji: "🔧", WorkingEmojiDelay: 2,
		APIBase: "https://discord.com/api/v10",
	}
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	token := o.Token.Reveal()
	o.APIBase = strings.TrimRight(o.APIBase, "/")
	u, err := url.Parse(o.APIBase)
	switch {
	case token == "":
		return errors.New("token is missing: copy it from the Bot page of https://discord.com/developers/applications")
	case strings.HasPrefix(token, "Bot ") || strings.ContainsAny(token, " \t\r\n\""):
		return errors.New("token: enter only the token itself, without \"Bot\", quotes or blanks")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("apiBase: not an http address")
	case (o.ProxyUsername == "") != o.ProxyPassword.IsZero():
		return errors.New("proxyUsername and proxyPassword: set both or none")
	case o.Intents < 0:
		return errors.New("intents: not a sum of intents")
	}

	return nil
}

// workingDelay returns how long a message is worked on before that is shown. A signal
// has ten seconds.
func (o *options) workingDelay() time.Duration {
	return time.Duration(min(max(o.WorkingEmojiDelay, 0), 8) * float64(time.Second))
}

// proxy returns the address of the proxy with its credentials.
func (o *options) proxy() string {
	if o.ProxyUsername == "" || o.Proxy == "" {
		return o.Proxy
	}
	u, err := url.Parse(o.Proxy)
	if err != nil {
		return o.Proxy // the client says what is wrong with it
	}
	u.User = url.UserPassword(o.ProxyUsername, o.ProxyPassword.Reveal())
	return u.String()
}

// rules returns those of allowChannels, and that people have names besides their ids.
func (o *options) rules() access.Rules {
	r := access.Rules{Entries: access.ReadNames(access.Digits)}
	if len(o.AllowChannels) > 0 {
		r.Group = o.inAllowedChannel
	}
	return r
}

// inAllowedChannel is the rule of allowChannels. A thread has the chat id of its
// channel.
func (o *options) inAllowedChannel(v access.Visitor) access.Decision {
	if o.answersIn(v.Route) {
		return ""
	}
	return access.Ignore
}

// answersIn reports whether the lists allow a place in a server.
func (o *options) answersIn(r bus.Route) bool {
	return (len(o.AllowChannels) == 0 || slices.Contains(o.AllowChannels, r.ChatID) || slices.Contains(o.AllowChannels, r.ThreadID)) &&
		(o.GroupPolicy != access.Allowlist || slices.Contains(o.GroupAllowFrom, r.ChatID))
}

// caps returns the limits of the platform. The margin to 2000 is for escapes.
func (o *options) caps() chat.Caps {
	c := chat.Caps{
		MaxChars: 1900, Unit: markdown.UTF16,
		EditEvery: 1200 * time.Millisecond, GroupEditEvery: 1200 * time.Millisecond,
		Previewed: func(bus.Route, string) bool { return true },
		Typing:    7 * time.Second, // it fades after ten, and the wait for workingEmoji comes on top
		MaxMedia:  maxBoosted, Together: maxFiles, Buttons: true, Keys: true,
		Rate: chat.Rate{
			Total: chat.Limit{Count: 40, Per: time.Second},
			Chat:  chat.Limit{Count: 5, Per: 5 * time.Second},
			Edit:  chat.Limit{Count: 20, Per: time.Second},
		},
	}
	if o.Streaming != nil && !*o.Streaming {
		c.EditEvery, c.GroupEditEvery = 0, 0
	}
	return c
}
