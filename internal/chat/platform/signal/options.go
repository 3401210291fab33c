package signal

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// options is the section of the configuration.
type options struct {
	chat.Common
	PhoneNumber            string       `json:"phoneNumber" setup:"yes" doc:"The bot's own number, such as +4915112345678."`
	DaemonHost             string       `json:"daemonHost" setup:"yes" doc:"The host on which signal-cli listens."`
	DaemonPort             int          `json:"daemonPort" setup:"yes" doc:"The port on which signal-cli listens." min:"1" max:"65535"`
	Managed                bool         `json:"managed" doc:"Start and supervise signal-cli, instead of connecting to a daemon that runs already."`
	ConfigDir              string       `json:"configDir" doc:"The folder in which signal-cli keeps its accounts, if managed; empty is signal-cli's own."`
	GroupMessageBufferSize int          `json:"groupMessageBufferSize" doc:"How many earlier messages of a group come along with one for the bot; groupHistory replaces it." min:"1"`
	AttachmentsDir         *string      `json:"attachmentsDir" doc:"The folder in which signal-cli stores files, if it is on this machine; other files are fetched over its API."`
	DM                     dmOptions    `json:"dm" doc:"Who may write to the bot directly."`
	Group                  groupOptions `json:"group" doc:"Which groups the bot answers in."`
	ReactEmoji             string       `json:"reactEmoji" doc:"A reaction on a message while it is processed; empty is none."`
	ReplyToMessage         bool         `json:"replyToMessage" doc:"The first message of an answer quotes the question."`
	EditedMessages         bool         `json:"editedMessages" doc:"Treat an edited message as a new one."`
	TrustChangedKeys       bool         `json:"trustChangedKeys" doc:"Accept the new safety number of a person without asking, and send again."`
	KeepDisappearing       bool         `json:"keepDisappearing" doc:"Keep messages that disappear in Signal like all others."`
}

type dmOptions struct {
	Enabled   bool     `json:"enabled" doc:"Answer direct messages."`
	Policy    string   `json:"policy" doc:"Whether only listed and approved people are answered, or all." enum:"allowlist|open"`
	AllowFrom []string `json:"allowFrom" doc:"Numbers and UUIDs of people who may talk to the bot; the same as allowFrom of the section."`
}

type groupOptions struct {
	Enabled        bool     `json:"enabled" doc:"Answer in groups."`
	Policy         string   `json:"policy" doc:"Whether the bot answers only in groups of allowFrom, or in all." enum:"allowlist|open"`
	AllowFrom      []string `json:"allowFrom" doc:"Ids of groups; an asterisk is all."`
	RequireMention bool     `json:"requireMention" doc:"Answer only messages that name or answer the bot, and commands."`
}

const (
	policyList = "allowlist"
	policyOpen = "open"
	anyone     = "*"
)

func defaults() *options {
	return &options{
		DaemonHost: "localhost", DaemonPort: 8080, GroupMessageBufferSize: 20,
		DM:    dmOptions{Enabled: true, Policy: policyList},
		Group: groupOptions{Policy: policyList, RequireMention: true},
	}
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	number := normal(o.PhoneNumber)
	switch {
	case o.PhoneNumber == "":
		return errors.New("phoneNumber is missing: the number that signal-cli is registered or linked with; nanobot channels login links one")
	case !isNumber(number):
		return errors.New("phoneNumber: a number with its country code is needed, such as +4915112345678")
	}
	o.PhoneNumber = number
	return o.checkRest()
}

// checkRest checks all but the number.
func (o *options) checkRest() error {
	switch {
	case o.DaemonHost == "":
		return errors.New("daemonHost is empty: localhost if signal-cli runs on this machine")
	case o.DaemonPort < 1 || o.DaemonPort > 65535:
		return errors.New("daemonPort: 1 to 65535")
	case o.GroupMessageBufferSize < 1:
		return errors.New("groupMessageBufferSize: at least 1")
	}

	for key, policy := range map[string]*string{"dm.policy": &o.DM.Policy, "group.policy": &o.Group.Policy} {
		if *policy == "" {
			*policy = policyList
		}
		if *policy != policyList && *policy != policyOpen {
			return fmt.Errorf("%s: %q must be allowlist or open", key, *policy)
		}
	}

	return nil
}

// base returns the address of the daemon, "" if we start it.
func (o *options) base() string {
	if o.Managed {
		return ""
	}
	return "http://" + net.JoinHostPort(o.DaemonHost, strconv.Itoa(o.DaemonPort))
}

// local reports whether the daemon runs on this machine.
func (o *options) local() bool { return o.Managed || httpsafe.LoopbackHost(o.DaemonHost) }

// files returns the folder of received files, "" if it is not known. Home is that of
// the user.
func (o *options) files(home string) string {
	if o.AttachmentsDir == nil || *o.AttachmentsDir == "" {
		if o.Managed && o.ConfigDir != "" {
			return filepath.Join(below(home, o.ConfigDir), "attachments")
		}
		if !o.local() || home == "" {
			return ""
		}
		return filepath.Join(home, ".local", "share", "signal-cli", "attachments")
	}
	return below(home, *o.AttachmentsDir)
}

// below returns a folder that may be named from the user's home.
func below(home, dir string) string {
	if rest, ok := strings.CutPrefix(dir, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	return dir
}

// caps returns the limits of the platform. Longer texts than 2,000 bytes travel as
// a file of at most 64 KiB, which all clients show as text; the margin is for
// the padding of tables.
func (o *options) caps() chat.Caps {
	c := chat.Caps{
		MaxChars: 48_000, Unit: markdown.Bytes,
		Typing: 10 * time.Second, MaxMedia: maxInline, Together: 10,
		Rate: chat.Rate{Total: chat.Limit{Count: 2, Per: time.Second}},
	}
	if o.local() {
		c.MaxMedia = maxUpload
	}
	return c
}

// rules returns those of dm and group.
func (o *options) rules() access.Rules {
	dm := newList(o.DM.AllowFrom)
	everyone := o.DM.Policy == policyOpen || slices.Contains(o.DM.AllowFrom, anyone)
	person := func(v access.Visitor) access.Decision {
		if everyone || dm.has(v.IDs) {
			return access.Admit
		}
		return ""
	}

	r := access.Rules{Direct: person, Group: person, History: o.GroupMessageBufferSize, Entries: readEntry}
	if o.GroupHistory > 0 {
		r.History = o.GroupHistory
	}

	if o.GroupPolicy == "" { // else it stands for the whole of group
		r.ForUs = func(v access.Visitor) bool {
			g := o.Group
			here := g.Policy == policyOpen || slices.Contains(g.AllowFrom, anyone) || slices.Contains(g.AllowFrom, v.Route.ChatID) ||
				slices.Contains(g.AllowFrom, groupPrefix+v.Route.ChatID)
			return g.Enabled && here && (v.Mentioned || !g.RequireMention)
		}
	}

	return r
}
