package dingtalk

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/markdown"
)

const (
	apiBase  = "https://api.dingtalk.com"
	oapiBase = "https://oapi.dingtalk.com"

	maxText = 3500     // characters of a message: 14,000 bytes at most, and DingTalk takes 15,000
	maxFile = 20 << 20 // bytes
)

// options is the section of the configuration.
type options struct {
	channel.Common
	ClientID                  string          `json:"clientId" setup:"yes" doc:"Client ID (AppKey) of the app, from its Credentials page on https://open-dev.dingtalk.com."`
	ClientSecret              httpsafe.Secret `json:"clientSecret" setup:"yes" doc:"Client Secret (AppSecret) of the app, from the same page."`
	GroupUserIsolation        bool            `json:"groupUserIsolation" doc:"Each person has a conversation of their own in a group."`
	DisablePrivateChat        bool            `json:"disablePrivateChat" doc:"Answer direct messages only with a note that the bot works in groups."`
	AllowRemoteMediaRedirects bool            `json:"allowRemoteMediaRedirects" doc:"Ignored: each address that a redirect names is checked. Python nanobot has this setting."`
	RemoteMediaHosts          []string        `json:"remoteMediaRedirectAllowedHosts" doc:"Ignored. Python nanobot has this setting."`
	Reaction                  string          `json:"reaction" doc:"Reaction on a message while the agent works on it; empty for none."`
	APIBaseURL                string          `json:"apiBaseUrl" doc:"Address of the API; https://api.dingtalk.io for the international edition."`
	OAPIBaseURL               string          `json:"oapiBaseUrl" doc:"Address that takes files."`
}

func defaults() *options {
	return &options{Reaction: "🤔思考中", APIBaseURL: apiBase, OAPIBaseURL: oapiBase}
}

func decode(section json.RawMessage) (options, error) {
	o := *defaults()
	if err := channel.Decode(section, &o); err != nil {
		return o, err
	}
	if err := o.check(); err != nil {
		return o, channel.Fatal(err)
	}
	return o, nil
}

func (o *options) check() error {
	o.APIBaseURL, o.OAPIBaseURL = strings.TrimRight(o.APIBaseURL, "/"), strings.TrimRight(o.OAPIBaseURL, "/")
	switch {
	case o.ClientID == "":
		return errors.New("clientId is missing: copy it from the Credentials page of the app on https://open-dev.dingtalk.com")
	case o.ClientSecret.IsZero():
		return errors.New("clientSecret is missing: copy it from the Credentials page of the app on https://open-dev.dingtalk.com")
	case strings.ContainsAny(o.ClientID+o.ClientSecret.Reveal(), " \t\r\n\""):
		return errors.New("clientId and clientSecret: enter them without quotes and blanks")
	case !web(o.APIBaseURL):
		return errors.New("apiBaseUrl: not an http address")
	case !web(o.OAPIBaseURL):
		return errors.New("oapiBaseUrl: not an http address")
	}
	return nil
}

func web(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// caps are the limits of the platform.
func (o *options) caps() channel.Caps {
	return channel.Caps{
		MaxChars: maxText,
		Unit:     markdown.Runes,
		MaxMedia: maxFile,
		Rate: channel.Rate{
			Total: channel.Limit{Count: 20, Per: time.Second},
			Group: channel.Limit{Count: 20, Per: time.Minute},
		},
		Group: isGroup,
	}
}
