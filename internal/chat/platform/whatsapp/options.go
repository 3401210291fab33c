package whatsapp

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// options is the section of the configuration.
type options struct {
	chat.Common
	Transport      string            `json:"transport" doc:"How WhatsApp is reached: native starts nanobot-whatsapp, bridge connects to bridgeUrl; empty chooses bridge if bridgeUrl is set." enum:"native|bridge"`
	BridgeURL      string            `json:"bridgeUrl" doc:"Address of a bridge that runs already, such as ws://localhost:3001."`
	BridgeToken    httpsafe.Secret   `json:"bridgeToken" doc:"Token of the bridge; empty is the one in whatsapp-auth/bridge-token."`
	DatabasePath   string            `json:"databasePath" doc:"Where nanobot-whatsapp keeps the linked device; empty is neonize.db in the folder of the account."`
	LIDMappings    map[string]string `json:"lidMappings" doc:"Phone numbers of people whom WhatsApp names by a hidden id."`
	SelfChat       bool              `json:"selfChat" doc:"Answer in the chat of the account with itself; needs nanobot-whatsapp."`
	EditedMessages bool              `json:"editedMessages" doc:"Treat an edited message as a new one."`
	ReadReceipts   bool              `json:"readReceipts" doc:"Mark messages of admitted people as read; needs nanobot-whatsapp."`
}

const (
	native = "native"
	bridge = "bridge"
	anyone = "*"

	maxUpload = 100_000_000 // bytes of a file
	maxRemote = 32 << 20    // bytes of a file from an address
	maxChars  = 4000        // for people; WhatsApp takes 65,536
)

func defaults() *options {
	return &options{Common: chat.Common{Lists: access.Lists{GroupPolicy: access.Open}}, ReadReceipts: true}
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	switch o.Transport {
	case "":
		o.Transport = native
		if o.BridgeURL != "" {
			o.Transport = bridge
		}

	case native:
	case bridge:
		if o.BridgeURL == "" {
			o.BridgeURL = "ws://localhost:3001"
		}
	default:
		return fmt.Errorf("transport: %q must be native or bridge", o.Transport)
	}

	if o.Transport == native {
		return nil
	}

	u, err := url.Parse(o.BridgeURL)
	if err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
		return errors.New("bridgeUrl: an address such as ws://localhost:3001 is needed")
	}

	if u.Hostname() == "localhost" { // it may mean ::1, where bridges do not listen
		u.Host = strings.Replace(u.Host, "localhost", "127.0.0.1", 1)
	}

	if u.Scheme == "ws" && !httpsafe.IsLocal("http://"+u.Host) {
		return errors.New("bridgeUrl: a bridge on another machine needs wss, since the token and all messages pass it")
	}

	o.BridgeURL = u.String()
	return nil
}

func (o *options) caps() chat.Caps {
	return chat.Caps{
		MaxChars: maxChars, Typing: 10 * time.Second, MaxMedia: maxUpload, Group: isGroup,
		Keys: o.Transport == native,
		Rate: chat.Rate{Chat: chat.Limit{Count: 1, Per: time.Second}},
	}
}

// rules: a group may be listed itself, and groups are open unless the section
// says otherwise.
func (o *options) rules() access.Rules {
	listed := func(list []string, jid string) bool {
		user, _, _ := strings.Cut(jid, "@")
		return slices.Contains(list, jid) || slices.Contains(list, user)
	}
	return access.Rules{
		Entries: readEntry,
		Group: func(v access.Visitor) access.Decision {
			if listed(o.AllowFrom, v.Route.ChatID) {
				return access.Admit
			}
			return ""
		},
		ForUs: func(v access.Visitor) bool {
			switch o.GroupPolicy {
			case access.Mention:
				return v.Mentioned
			case access.Allowlist:
				return listed(o.GroupAllowFrom, v.Route.ChatID)
			}
			return true
		},
	}
}
