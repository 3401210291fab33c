package weixin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// options is the section of the configuration.
type options struct {
	chat.Common
	BaseURL                   string          `json:"baseUrl" doc:"Address of the iLink service; a login may name another one, which is kept with the account."`
	CDNBaseURL                string          `json:"cdnBaseUrl" doc:"Address of WeChat's files."`
	RouteTag                  string          `json:"routeTag" doc:"Value of the header SKRouteTag; empty sends none."`
	Token                     httpsafe.Secret `json:"token" doc:"Bot token; empty is the one of the login (nanobot channels login weixin)."`
	StateDir                  string          `json:"stateDir" doc:"Folder of account.json; empty is weixin in the data folder."`
	PollTimeout               int             `json:"pollTimeout" min:"1" max:"120" doc:"How long a poll waits for messages, in seconds, unless the service says otherwise."`
	ContextMessageBudget      int             `json:"contextMessageBudget" min:"1" max:"10" doc:"How many messages are sent in answer to one; the rest waits for the next one."`
	ReplyProgressMessages     bool            `json:"replyProgressMessages" doc:"Show tools as WeChat shows them instead of in words; switches sendProgress and sendToolHints on."`
	ReplyProgressMaxMessages  int             `json:"replyProgressMaxMessages" min:"0" max:"4" doc:"How many tools are shown like that for one message."`
	BlockStreaming            bool            `json:"blockStreaming" doc:"Ignored: an answer is sent when it is complete, since each piece would use up a message."`
	BlockStreamingMinChars    int             `json:"blockStreamingMinChars" doc:"Ignored, like blockStreaming."`
	BlockStreamingMaxMessages int             `json:"blockStreamingMaxMessages" doc:"Ignored, like blockStreaming."`
}

const (
	defaultBase = "https://ilinkai.weixin.qq.com"
	defaultCDN  = "https://novac2c.cdn.weixin.qq.com/c2c"

	maxUpload   = 100_000_000 // bytes of a file
	maxChars    = 3500        // of 4000: lists and tables may get longer when they are written for WeChat
	platformMax = 10          // messages that WeChat takes per context token
)

func defaults() *options {
	return &options{
		BaseURL:                   defaultBase,
		CDNBaseURL:                defaultCDN,
		PollTimeout:               35,
		ContextMessageBudget:      8,
		ReplyProgressMaxMessages:  2,
		BlockStreamingMinChars:    1200,
		BlockStreamingMaxMessages: 3,
	}
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	o.BaseURL, o.CDNBaseURL = cmp.Or(o.BaseURL, defaultBase), cmp.Or(o.CDNBaseURL, defaultCDN)
	for name, value := range map[string]*string{"baseUrl": &o.BaseURL, "cdnBaseUrl": &o.CDNBaseURL} {
		*value = strings.TrimRight(strings.TrimSpace(*value), "/")
		u, err := url.Parse(*value)
		if err != nil || u.Host == "" || u.RawQuery != "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !httpsafe.IsLocal(*value)) {
			return fmt.Errorf("%s: not an https address; the token and all messages pass it", name)
		}
	}

	switch {
	case o.PollTimeout < 1 || o.PollTimeout > 120:
		return errors.New("pollTimeout: 1 to 120")
	case o.ContextMessageBudget < 1 || o.ContextMessageBudget > platformMax:
		return errors.New("contextMessageBudget: 1 to 10")
	case o.ReplyProgressMaxMessages < 0 || o.ReplyProgressMaxMessages > 4:
		return errors.New("replyProgressMaxMessages: 0 to 4")
	case strings.ContainsAny(o.RouteTag, "\r\n"):
		return errors.New("routeTag: must be one line")
	}

	o.RouteTag = strings.TrimSpace(o.RouteTag)
	return nil
}

// expand switches progress and hints on where WeChat itself shows the tools.
func expand(section json.RawMessage) (map[string]json.RawMessage, error) {
	var o struct {
		ReplyProgressMessages any `json:"replyProgressMessages"`
	}
	var keys map[string]any
	if json.Unmarshal(section, &o) != nil || o.ReplyProgressMessages != true || json.Unmarshal(section, &keys) != nil {
		return map[string]json.RawMessage{"": section}, nil //nolint:nilerr // the factory says what is wrong with it
	}

	keys["sendProgress"], keys["sendToolHints"] = true, true
	fresh, err := json.Marshal(keys)
	return map[string]json.RawMessage{"": fresh}, err
}

// caps has no Replies: what may be sent belongs to a context token, which several
// messages may have and which outlives the process, so Send counts by itself.
func (*options) caps() chat.Caps {
	return chat.Caps{
		MaxChars: maxChars, Typing: 5 * time.Second, MaxMedia: maxUpload, Quotes: true, Group: isGroup,
	}
}

// codeBase returns where QR codes are asked for: not at the data centre where an
// account lives, which older versions wrote into the section.
func (o *options) codeBase() string {
	if u, err := url.Parse(o.BaseURL); err == nil && isWeChat(u) {
		return defaultBase
	}
	return o.BaseURL
}

func isWeChat(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	return u.Scheme == "https" && u.User == nil && (strings.HasSuffix(host, ".weixin.qq.com") || strings.HasSuffix(host, ".wechat.com"))
}

// trusts reports whether an address that came from outside is WeChat's, or one
// of the section.
func (o *options) trusts(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}

	for _, own := range []string{o.BaseURL, o.CDNBaseURL} {
		if v, err := url.Parse(own); err == nil && v.Scheme == u.Scheme && v.Host == u.Host && u.User == nil {
			return true
		}
	}
	return isWeChat(u)
}
