package mattermost

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// options is the section of the configuration.
type options struct {
	chat.Common
	ServerURL            string          `json:"serverUrl" setup:"yes" doc:"Address of the Mattermost server, such as https://chat.example.com."`
	Token                httpsafe.Secret `json:"token" setup:"yes" doc:"Access token of the bot account."`
	TeamID               string          `json:"teamId" doc:"Only channels of this team are served, besides direct messages."`
	AllowFromMatchMode   string          `json:"allowFromMatchMode" enum:"id|username|email" doc:"What the entries of allowFrom, owners and dm.allowFrom are."`
	GroupPolicyInThread  access.Policy   `json:"groupPolicyInThread" enum:"mention|open|allowlist" doc:"The groupPolicy of messages in threads; if empty, groupPolicy."`
	ReplyInThread        bool            `json:"replyInThread" doc:"An answer to a message in a channel begins a thread, which is a conversation of its own."`
	IncludeThreadContext bool            `json:"includeThreadContext" doc:"The agent sees the earlier messages of a thread that it was not given, as untrusted content."`
	ThreadContextLimit   int             `json:"threadContextLimit" min:"1" max:"200" doc:"At most so many earlier messages of a thread."`
	StreamingMaxChars    int             `json:"streamingMaxChars" min:"1" doc:"Longest text of a message that is still being written."`
	ReactEmoji           string          `json:"reactEmoji" doc:"Name of the reaction on a message that is being worked on; empty is none."`
	DoneEmoji            string          `json:"doneEmoji" doc:"Name of the reaction on a message that was answered; empty is none."`
	LinkPreviews         bool            `json:"linkPreviews" doc:"Mattermost may fetch the addresses in answers for previews and images."`
	DM                   direct          `json:"dm" doc:"Direct messages."`
	WebhookURL           string          `json:"webhookUrl" doc:"Address under which the Mattermost server reaches this program; with it, choices are shown as buttons."`
	WebhookListenHost    string          `json:"webhookListenHost" doc:"Host of the port for buttons."`
	WebhookListenPort    int             `json:"webhookListenPort" min:"0" max:"65535" doc:"Port for buttons; 0 is the gateway's own."`
	WebhookPath          string          `json:"webhookPath" doc:"Path for buttons."`
}

// direct are the settings of direct messages.
type direct struct {
	Enabled   bool     `json:"enabled" doc:"Direct messages are answered."`
	Policy    string   `json:"policy" enum:"open|allowlist" doc:"Who may write directly: open leaves it to allowFrom and pairing, allowlist admits the people in dm.allowFrom as well."`
	AllowFrom []string `json:"allowFrom" doc:"People who may write directly, besides those in allowFrom."`
}

const (
	matchID    = "id"
	matchName  = "username"
	matchMail  = "email"
	policyOpen = "open"
	policyList = "allowlist"
)

func defaults() *options {
	return &options{
		AllowFromMatchMode:   matchID,
		ReplyInThread:        true,
		IncludeThreadContext: true,
		ThreadContextLimit:   20,
		StreamingMaxChars:    16000,
		ReactEmoji:           "eyes",
		DoneEmoji:            "white_check_mark",
		DM:                   direct{Enabled: true, Policy: policyOpen},
		WebhookListenHost:    "127.0.0.1",
		WebhookPath:          "/mattermost",
	}
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	o.ServerURL = strings.TrimRight(strings.TrimSpace(o.ServerURL), "/")
	u, err := url.Parse(o.ServerURL)
	switch {
	case o.ServerURL == "":
		return errors.New("serverUrl is missing: the address of your Mattermost server")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil:
		return errors.New("serverUrl: not an http address without a query")
	case o.Token.IsZero():
		return errors.New("token is missing: create a bot account in Mattermost under Integrations > Bot Accounts")
	case !slices.Contains([]string{matchID, matchName, matchMail}, o.AllowFromMatchMode):
		return fmt.Errorf("allowFromMatchMode: %q is not id, username or email", o.AllowFromMatchMode)
	case o.DM.Policy != policyOpen && o.DM.Policy != policyList:
		return fmt.Errorf("dm.policy: %q is not open or allowlist", o.DM.Policy)
	case o.ThreadContextLimit < 1 || o.ThreadContextLimit > 200:
		return errors.New("threadContextLimit: 1 to 200")
	case o.StreamingMaxChars < 1:
		return errors.New("streamingMaxChars: at least 1")
	}

	o.ReactEmoji, o.DoneEmoji = strings.Trim(o.ReactEmoji, ": "), strings.Trim(o.DoneEmoji, ": ")
	if o.GroupPolicy == "" {
		o.GroupPolicy = access.Mention
	}
	if o.GroupPolicyInThread == "" {
		o.GroupPolicyInThread = o.GroupPolicy
	}
	return o.checkWebhook()
}

func (o *options) checkWebhook() error {
	if o.WebhookURL == "" {
		return nil
	}

	u, err := url.Parse(o.WebhookURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("webhookUrl: the http address under which the Mattermost server reaches this program is needed")
	case !strings.HasPrefix(o.WebhookPath, "/") || strings.ContainsAny(o.WebhookPath, " {}"):
		return errors.New("webhookPath: must begin with / and hold no blanks or braces")
	case o.WebhookListenPort < 0 || o.WebhookListenPort > 65535:
		return errors.New("webhookListenPort: 0 to 65535")
	}

	return nil
}

// host returns the server, for people.
func (o *options) host() string {
	u, err := url.Parse(o.ServerURL)
	if err != nil {
		return ""
	}
	return u.Host + u.Path
}

// caps returns the limits of the platform; some are known only after connecting.
func (o *options) caps() chat.Caps {
	c := chat.Caps{
		MaxChars:       16383,
		EditEvery:      time.Second,
		GroupEditEvery: time.Second,
		Previewed: func(_ bus.Route, words string) bool {
			return utf8.RuneCountInString(harmless(words, o.LinkPreviews)) <= o.StreamingMaxChars
		},
		Typing:   4 * time.Second,
		MaxMedia: 100 << 20,
		Together: 5,
		Buttons:  o.WebhookURL != "",
		Keys:     true,
		Refines:  true,
		Rate: chat.Rate{
			Total: chat.Limit{Count: 5, Per: time.Second},
			Edit:  chat.Limit{Count: 3, Per: time.Second},
		},
	}
	if o.Streaming != nil && !*o.Streaming {
		c.EditEvery, c.GroupEditEvery = 0, 0
	}
	return c
}

// rules returns who may talk to us, in Mattermost's own settings.
func (o *options) rules() access.Rules {
	return access.Rules{
		Direct: func(v access.Visitor) access.Decision {
			switch {
			case !o.DM.Enabled:
				return access.Refuse
			case o.DM.Policy == policyList && o.listed(o.DM.AllowFrom, v):
				return access.Admit
			}
			return ""
		},
		ForUs:   func(v access.Visitor) bool { return o.forUs(v.Route.ChatID, v.Route.ThreadID, v.Mentioned) },
		Entries: o.entry,
	}
}

// entry reads an entry of a list of people. What has the form of an id is one in
// every mode: a person could take the id of another one as their name.
func (o *options) entry(written string) []access.Entry {
	s := strings.TrimSpace(written)
	e := access.Entry{Kind: access.Name, Value: s}
	switch {
	case s == "*":
		e = access.Entry{Kind: access.Anyone}
	case isID(s):
		e.Kind = access.ID
	case o.AllowFromMatchMode == matchName:
		e.Value = strings.TrimPrefix(s, "@")
	case o.AllowFromMatchMode == matchID:
		e = access.Entry{Kind: access.Unreadable, Advice: "it is not the id of a person; write the id, or set allowFromMatchMode to username or email to admit guests by these"}
	}

	return []access.Entry{e}
}

// isID reports whether a word has the form of an id: 26 small letters and digits.
func isID(s string) bool {
	return len(s) == 26 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// forUs reports whether a post in a channel, or in a thread of it, is for us.
func (o *options) forUs(chatID, thread string, mentioned bool) bool {
	policy := o.GroupPolicy
	if thread != "" {
		policy = o.GroupPolicyInThread
	}

	switch policy {
	case access.Open:
		return true
	case access.Allowlist:
		return slices.Contains(o.GroupAllowFrom, chatID)
	}
	return mentioned
}

// listed reports whether a list has a person, in the sense of
// allowFromMatchMode.
func (o *options) listed(list []string, v access.Visitor) bool {
	return slices.ContainsFunc(list, func(written string) bool { return access.Matches(o.entry(written), v) })
}
