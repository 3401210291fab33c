package mochat

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	textMost  = 4000
	panelMost = 100 // messages of a panel that the server gives at once
	delayed   = "non-mention"
	any1      = "*" // of lists: all
)

// options is the section of the configuration.
type options struct {
	chat.Common
	BaseURL                   string               `json:"baseUrl" doc:"Address of the Mochat server."`
	SocketURL                 string               `json:"socketUrl" doc:"Address of its Socket.IO server; empty is baseUrl."`
	SocketPath                string               `json:"socketPath" doc:"Path of its Socket.IO server."`
	SocketDisableMsgpack      bool                 `json:"socketDisableMsgpack" doc:"Use only JSON on the socket. Otherwise msgpack is tried first, then JSON."`
	SocketReconnectDelayMS    int                  `json:"socketReconnectDelayMs" min:"0" doc:"Shortest pause before the socket is connected again, in ms."`
	SocketMaxReconnectDelayMS int                  `json:"socketMaxReconnectDelayMs" min:"0" doc:"Longest such pause, in ms."`
	SocketConnectTimeoutMS    int                  `json:"socketConnectTimeoutMs" min:"0" doc:"Longest time for the login on the socket, in ms."`
	RefreshIntervalMS         int                  `json:"refreshIntervalMs" min:"0" doc:"How often new sessions and panels are looked for, and panels are read while there is no socket, in ms; at least 1000."`
	WatchTimeoutMS            int                  `json:"watchTimeoutMs" min:"0" doc:"How long the server may wait for a message of a session while there is no socket, in ms."`
	WatchLimit                int                  `json:"watchLimit" min:"1" doc:"Most messages in one answer of the server."`
	RetryDelayMS              int                  `json:"retryDelayMs" min:"0" doc:"Pause after a failed request for messages, in ms; it doubles with each failure, up to 30 s."`
	MaxRetryAttempts          int                  `json:"maxRetryAttempts" min:"0" doc:"After so many failed connections in a row only polling is used until the channel restarts; 0 is never."`
	ClawToken                 httpsafe.Secret      `json:"clawToken" setup:"yes" doc:"Token of the agent, which begins with claw_."`
	AgentUserID               string               `json:"agentUserId" setup:"yes" doc:"User id of the agent, by which its own messages and mentions are known."`
	Sessions                  []string             `json:"sessions" doc:"Ids of direct conversations to take part in; * finds all."`
	Panels                    []string             `json:"panels" doc:"Ids of panels (channels of groups) to take part in; * finds all."`
	Mention                   mentionRule          `json:"mention" doc:"When a message of a panel is for the agent: requireInGroups."`
	Groups                    map[string]groupRule `json:"groups" doc:"The same for single groups or panels, by id, or * for all: requireMention."`
	ReplyDelayMode            string               `json:"replyDelayMode" enum:"off|non-mention" doc:"non-mention: messages of a panel that do not mention the agent are collected, and answered together after a pause or with the next one that does."`
	ReplyDelayMS              int                  `json:"replyDelayMs" min:"0" doc:"That pause, in ms."`
}

// mentionRule holds where no group has a rule of its own.
type mentionRule struct {
	RequireInGroups bool `json:"requireInGroups" doc:"Only messages that mention the agent are for it."`
}

// groupRule is that of a group or a panel.
type groupRule struct {
	RequireMention bool `json:"requireMention" doc:"Only messages that mention the agent are for it."`
}

func defaults() *options {
	return &options{
		BaseURL:                   "https://mochat.io",
		SocketPath:                "/socket.io",
		SocketReconnectDelayMS:    1000,
		SocketMaxReconnectDelayMS: 10000,
		SocketConnectTimeoutMS:    10000,
		RefreshIntervalMS:         30000,
		WatchTimeoutMS:            25000,
		WatchLimit:                100,
		RetryDelayMS:              500,
		ReplyDelayMode:            delayed,
		ReplyDelayMS:              120000,
	}
}

// Check looks at the addresses, which are all that a login needs.
func (o *options) Check() error {
	o.BaseURL = strings.TrimRight(strings.TrimSpace(o.BaseURL), "/")
	o.SocketURL = strings.TrimRight(strings.TrimSpace(o.SocketURL), "/")
	if o.SocketURL == "" {
		o.SocketURL = o.BaseURL
	}

	o.SocketPath = "/" + strings.Trim(strings.TrimSpace(o.SocketPath), "/")
	if o.SocketPath == "/" {
		o.SocketPath = "/socket.io"
	}

	o.AgentUserID = strings.TrimSpace(o.AgentUserID)
	o.Sessions, o.Panels = trimmed(o.Sessions), trimmed(o.Panels)
	switch {
	case !isWeb(o.BaseURL):
		return errors.New("baseUrl: an address that begins with https:// is needed")
	case !isWeb(o.SocketURL):
		return errors.New("socketUrl: an address that begins with https:// is needed")
	}
	return nil
}

func isWeb(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// decode reads a section that has the token, which is missing before a login.
func decode(section json.RawMessage) (*options, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return o, err
	}

	switch token := o.ClawToken.Reveal(); {
	case token == "":
		return o, chat.Fatal(errors.New("clawToken is missing: run nanobot channels login mochat to register an agent, or copy the token of one"))
	case strings.ContainsAny(token, " \t\r\n\"'"):
		return o, chat.Fatal(errors.New("clawToken must be the token alone, without quotes and blanks"))
	}
	return o, nil
}

// trimmed returns the ids of a list, each once.
func trimmed(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// wants reports whether a list lets an id in that the server names by itself. An
// empty one lets all in that write to us.
func wants(list []string, id string) bool {
	return len(list) == 0 || slices.Contains(list, any1) || slices.Contains(list, id)
}

// ms returns a time of the section within limits.
func ms(n int, least, most time.Duration) time.Duration {
	return min(max(time.Duration(min(n, 1<<40))*time.Millisecond, least), most)
}

func (o *options) refresh() time.Duration { return ms(o.RefreshIntervalMS, time.Second, time.Hour) }

func (o *options) watch() time.Duration { return ms(o.WatchTimeoutMS, time.Second, 5*time.Minute) }

func (o *options) limit() int { return min(max(o.WatchLimit, 1), 1000) }

// delay returns how long a message of a panel waits for others.
func (o *options) delay() time.Duration {
	if o.ReplyDelayMode != delayed {
		return 0
	}
	return ms(o.ReplyDelayMS, 0, 24*time.Hour)
}

// required reports whether a message of a panel must mention us.
func (o *options) required(group, panel string) bool {
	for _, key := range []string{group, panel, any1} {
		if rule, ok := o.Groups[key]; ok && key != "" {
			return rule.RequireMention
		}
	}

	switch o.GroupPolicy {
	case access.Mention:
		return true
	case access.Open, access.Allowlist:
		return false
	}
	return o.Mention.RequireInGroups
}

// barred reports whether the common settings keep us out of a panel.
func (o *options) barred(group, panel string) bool {
	return o.GroupPolicy == access.Allowlist && !slices.Contains(o.GroupAllowFrom, panel) && (group == "" || !slices.Contains(o.GroupAllowFrom, group))
}

// caps are the limits of the platform. The server takes 120 requests a minute,
// of which some are left for reading.
func (b *bot) limits() chat.Caps {
	return chat.Caps{
		MaxChars: textMost,
		Rate:     chat.Rate{Total: chat.Limit{Count: 60, Per: time.Minute}},
		Group:    func(r bus.Route) bool { return b.isPanel(r.ChatID) },
	}
}
