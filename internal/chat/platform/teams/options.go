package teams

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
)

// options is the section of the configuration.
type options struct {
	chat.Common
	AppID                  string          `json:"appId" setup:"yes" doc:"Application (client) id of the bot."`
	AppPassword            httpsafe.Secret `json:"appPassword" setup:"yes" doc:"Value of a client secret of the application."`
	TenantID               string          `json:"tenantId" setup:"yes" doc:"Directory (tenant) id; required for bots of the type single tenant."`
	Host                   string          `json:"host" doc:"Address that the bot listens on."`
	Port                   int             `json:"port" doc:"Port that the bot listens on; 0 uses the port of the gateway." min:"0" max:"65535"`
	Path                   string          `json:"path" doc:"Path of the messaging endpoint."`
	ReplyInThread          bool            `json:"replyInThread" doc:"Answer in the thread of the message."`
	MentionOnlyResponse    string          `json:"mentionOnlyResponse" doc:"Text that stands for a message that only mentions the bot; an empty text ignores such messages."`
	EditedMessages         bool            `json:"editedMessages" doc:"Answer messages again after they were edited."`
	ValidateInboundAuth    bool            `json:"validateInboundAuth" doc:"Check the signature of requests; if off, only programs on this machine can send them."`
	RefTTLDays             int             `json:"refTtlDays" doc:"Days after which an unused conversation is forgotten." min:"1"`
	RefTouchIntervalS      int             `json:"refTouchIntervalS" doc:"Seconds between two notes that a conversation is in use." min:"0"`
	TrustedServiceURLHosts []string        `json:"trustedServiceUrlHosts" doc:"Hosts that receive the bot's token."`
	ServiceURL             string          `json:"serviceUrl" doc:"Address for conversations that the bot has not received a message from."`
	LoginBase              string          `json:"loginBase" doc:"Address that issues tokens."`
	OpenIDURL              string          `json:"openIdUrl" doc:"Address that lists the keys that Teams signs with."`

	// Read for the sake of old files.
	PruneWebChatRefs     json.RawMessage `json:"pruneWebChatRefs" doc:"Ignored; conversations of Web Chat are never kept."`
	PruneNonPersonalRefs json.RawMessage `json:"pruneNonPersonalRefs" doc:"Ignored; group chats and channels are kept as well."`
}

func defaults() *options {
	return &options{
		Host:                "127.0.0.1",
		Port:                3978,
		Path:                "/api/messages",
		ReplyInThread:       true,
		MentionOnlyResponse: "Hi — what can I help with?",
		ValidateInboundAuth: true,
		RefTTLDays:          30,
		RefTouchIntervalS:   300,
		TrustedServiceURLHosts: []string{
			"smba.trafficmanager.net", "smba.infra.gcc.teams.microsoft.com", "smba.infra.gov.teams.microsoft.us",
			"smba.infra.dod.teams.microsoft.us", "*.botframework.com",
		},
		ServiceURL: "https://smba.trafficmanager.net/teams/",
		LoginBase:  "https://login.microsoftonline.com",
		OpenIDURL:  "https://login.botframework.com/v1/.well-known/openidconfiguration",
	}
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	o.AppID, o.TenantID = strings.TrimSpace(o.AppID), strings.TrimSpace(o.TenantID)
	switch {
	case o.AppID == "":
		return errors.New("appId is missing: create an Azure Bot and copy its Microsoft App ID")
	case o.AppPassword.IsZero():
		return errors.New("appPassword is missing: create a client secret of the application and copy its value")
	case strings.ContainsAny(o.TenantID, "/?# "):
		return errors.New("tenantId: not the id of a directory")
	case !strings.HasPrefix(o.Path, "/") || strings.ContainsAny(o.Path, " {}"):
		return errors.New("path: must begin with / and hold no blanks or braces")
	case o.Port < 0 || o.Port > 65535:
		return errors.New("port: 0 to 65535")
	case o.RefTTLDays < 1:
		return errors.New("refTtlDays: at least 1")
	case o.RefTouchIntervalS < 0:
		return errors.New("refTouchIntervalS: at least 0")
	}

	o.LoginBase = strings.TrimRight(o.LoginBase, "/")
	for key, address := range map[string]string{"loginBase": o.LoginBase, "openIdUrl": o.OpenIDURL} {
		if u, err := url.Parse(address); err != nil || !safe(u) {
			return fmt.Errorf("%s: not an https address", key)
		}
	}

	// Who trusts another cloud alone has no address for conversations that wrote nothing yet.
	if chosen := o.ServiceURL != defaults().ServiceURL; !o.trusted(o.ServiceURL) && (chosen || len(o.TrustedServiceURLHosts) == 0) {
		return errors.New("serviceUrl: its host is not in trustedServiceUrlHosts")
	}
	return nil
}

// safe reports whether what is sent to an address cannot be read on the way.
func safe(u *url.URL) bool {
	return u.Hostname() != "" && (u.Scheme == "https" || u.Scheme == "http" && httpsafe.LoopbackHost(u.Hostname()))
}

// trusted reports whether the bot's token may go to an address. A pattern with a
// star stands for the hosts below a domain.
func (o *options) trusted(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}

	host := strings.TrimRight(strings.ToLower(u.Hostname()), ".")
	if !safe(u) {
		return false
	}
	return slices.ContainsFunc(o.TrustedServiceURLHosts, func(pattern string) bool {
		pattern = strings.TrimRight(strings.ToLower(strings.TrimSpace(pattern)), ".")
		if below, ok := strings.CutPrefix(pattern, "*"); ok {
			return strings.HasPrefix(below, ".") && strings.HasSuffix(host, below) && host != below[1:] && u.Scheme == "https"
		}
		return pattern != "" && host == pattern
	})
}

const (
	maxText  = 25_000     // bytes of Markdown; Teams takes about 40,000 characters of what becomes of it
	maxFile  = 50_000_000 // bytes of a file that is offered
	maxImage = 1 << 20    // bytes of a picture inside of a message
)

// caps returns the limits of the platform. Of one conversation Teams takes 7
// messages in a second and 60 in half a minute.
func (o *options) caps() chat.Caps {
	c := chat.Caps{
		MaxChars: maxText, Unit: markdown.Bytes,
		EditEvery: 1500 * time.Millisecond, GroupEditEvery: 3 * time.Second,
		Previewed: func(to bus.Route, words string) bool { // in direct chats a stream must end
			return isGroup(to) && preview(words) == render(words)
		},
		Typing: 5 * time.Second, MaxMedia: maxFile, Buttons: true, Quotes: true, Group: isGroup,
		Rate: chat.Rate{
			Total: chat.Limit{Count: 40, Per: time.Second},
			Chat:  chat.Limit{Count: 6, Per: 4 * time.Second},
		},
	}
	if o.Streaming != nil && !*o.Streaming {
		c.EditEvery, c.GroupEditEvery = 0, 0
	}
	return c
}

// isGroup reports whether several people read a conversation, which its id
// tells: those of personal chats begin with "a:".
func isGroup(route bus.Route) bool {
	return strings.HasPrefix(route.ChatID, "19:") && !strings.HasSuffix(route.ChatID, "@unq.gbl.spaces")
}
