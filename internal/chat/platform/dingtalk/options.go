package dingtalk

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	apiBase  = "https://api.dingtalk.com"
	oapiBase = "https://oapi.dingtalk.com"

	maxText = 3500     // characters of a message: 14,000 bytes at most, and DingTalk takes 15,000
	maxFile = 20 << 20 // bytes
)

// options is the section of the configuration.
type options struct {
	chat.Common
	ClientID                  string          `json:"clientId" setup:"yes" doc:"Client ID (AppKey) of the app, from its Credentials page on https://open-dev.dingtalk.com."`
	ClientSecret              httpsafe.Secret `json:"clientSecret" setup:"yes" doc:"Client Secret (AppSecret) of the app, from the same page."`
	GroupUserIsolation        bool            `json:"groupUserIsolation" doc:"Each person has a conversation of their own in a group."`
	DisablePrivateChat        bool            `json:"disablePrivateChat" doc:"Answer direct messages only with a note that the bot works in groups."`
	AllowRemoteMediaRedirects bool            `json:"allowRemoteMediaRedirects" doc:"Ignored: each address that a redirect names is checked. Python nanobot has this setting."`
	RemoteMediaHosts          []string        `json:"remoteMediaRedirectAllowedHosts" doc:"Ignored. Python nanobot has this setting."`
	Reaction                  string          `json:"reaction" doc:"Reaction on a message while the agent works on it; empty for none."`
	CardTemplateID            string          `json:"cardTemplateId" doc:"Template of an AI card, in which answers grow; empty for messages that come at once."`
	CardContentKey            string          `json:"cardContentKey" doc:"Variable of the template that holds the answer."`
	LoginSource               string          `json:"loginSource" doc:"Name of the program that DingTalk makes an app for by QR code."`
	APIBaseURL                string          `json:"apiBaseUrl" doc:"Address of the API; https://api.dingtalk.io for the international edition."`
	OAPIBaseURL               string          `json:"oapiBaseUrl" doc:"Address that takes files."`
}

func defaults() *options {
	return &options{
		Reaction:       "🤔思考中",
		CardContentKey: "content",
		LoginSource:    "nanobot",
		APIBaseURL:     apiBase,
		OAPIBaseURL:    oapiBase,
	}
}

func decode(section json.RawMessage) (*options, error) {
	o, err := chat.Read(section, defaults())
	if err == nil {
		err = o.complete()
	}
	if err != nil {
		return o, chat.Fatal(err)
	}
	return o, nil
}

// complete says which key is missing.
func (o *options) complete() error {
	switch {
	case o.ClientID == "":
		return errors.New("clientId is missing: log in by QR code with nanobot channels login, or copy it from the Credentials page of the app on https://open-dev.dingtalk.com")
	case o.ClientSecret.IsZero():
		return errors.New("clientSecret is missing: copy it from the Credentials page of the app on https://open-dev.dingtalk.com")
	case strings.ContainsAny(o.ClientID+o.ClientSecret.Reveal(), " \t\r\n\""):
		return errors.New("clientId and clientSecret: enter them without quotes and blanks")
	}
	return nil
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	o.APIBaseURL, o.OAPIBaseURL = strings.TrimRight(o.APIBaseURL, "/"), strings.TrimRight(o.OAPIBaseURL, "/")
	switch {
	case o.CardTemplateID != "" && o.CardContentKey == "":
		return errors.New("cardContentKey is missing: enter the name of the variable that shows the answer in the card template")
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

// caps returns the limits of the platform.
func (o *options) caps() chat.Caps {
	c := chat.Caps{
		MaxChars: maxText,
		Unit:     markdown.Runes,
		MaxMedia: maxFile,
		Rate: chat.Rate{
			Total: chat.Limit{Count: 20, Per: time.Second},
			Group: chat.Limit{Count: 20, Per: time.Minute},
		},
		Group: isGroup,
	}
	if o.CardTemplateID != "" {
		c.EditEvery = cardEvery
		c.GroupEditEvery = cardEvery
		c.OneMessage = true
		c.Rate.Edit = chat.Limit{Count: cardEdits, Per: time.Second}
	}
	return c
}
