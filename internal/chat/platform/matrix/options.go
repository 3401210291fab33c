package matrix

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
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
	Homeserver        string          `json:"homeserver" setup:"yes" doc:"Address of the homeserver of the bot's account."`
	UserID            string          `json:"userId" setup:"yes" doc:"Full id of the bot's account, such as @bot:example.org."`
	Password          httpsafe.Secret `json:"password" setup:"yes" doc:"Password of the account; needed for encrypted rooms unless accessToken belongs to a device of its own."`
	AccessToken       httpsafe.Secret `json:"accessToken" doc:"Access token of a device that no other program uses, instead of a password."`
	DeviceID          string          `json:"deviceId" doc:"Device that accessToken belongs to."`
	RecoveryKey       httpsafe.Secret `json:"recoveryKey" doc:"Recovery key of the account, if it has one: signs the device and opens the key backup."`
	E2EEEnabled       bool            `json:"e2eeEnabled" alias:"e2EeEnabled" doc:"Read and write encrypted rooms."`
	AllowRoomMentions bool            `json:"allowRoomMentions" doc:"Count a mention of the whole room (@room) as one of the bot."`
	MaxDownloads      int             `json:"maxConcurrentMediaDownloads" min:"1" max:"16" doc:"Files that are fetched at the same time."`

	// Read for the sake of old files.
	SyncStopGraceSeconds json.RawMessage `json:"syncStopGraceSeconds" doc:"Ignored; a sync ends at once."`
	SASVerification      json.RawMessage `json:"sasVerification" doc:"Ignored; a person compares the emoji during: nanobot channels login matrix."`
}

const (
	maxMedia  = 20 << 20 // bytes, where the section says nothing
	maxBody   = 12_000   // bytes of Markdown in one message; as HTML, encrypted and encoded that stays below maxEvent
	maxEvent  = 60_000   // bytes of the content of an event; a server refuses 65,536 of all of it
	editEvery = 2 * time.Second
)

func defaults() *options {
	o := &options{Homeserver: "https://matrix.org", E2EEEnabled: true, MaxDownloads: 2}
	o.MaxMediaBytes, o.GroupPolicy, o.Streaming = maxMedia, access.Open, new(false) // as the Python nanobot has them
	return o
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	o.Homeserver = strings.TrimRight(o.Homeserver, "/")
	if o.Homeserver != "" && !strings.Contains(o.Homeserver, "://") {
		o.Homeserver = "https://" + o.Homeserver
	}

	if u, err := url.Parse(o.Homeserver); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("homeserver: not an http address")
	}

	if o.Streaming == nil {
		o.Streaming = new(false)
	}
	if o.GroupPolicy == "" {
		o.GroupPolicy = access.Open
	}

	name, server, ok := strings.Cut(o.UserID, ":")
	switch {
	case o.UserID == "":
		return errors.New("userId is missing: the full id of the bot's account, such as @bot:example.org")
	case !ok || !strings.HasPrefix(name, "@") || len(name) < 2 || server == "":
		return fmt.Errorf("userId: %q is not a full id such as @bot:example.org", o.UserID)
	case o.Password.IsZero() && o.AccessToken.IsZero():
		return errors.New("password is missing: the password of the bot's account, or accessToken and deviceId of a device of its own")
	case o.MaxDownloads < 1 || o.MaxDownloads > 16:
		return errors.New("maxConcurrentMediaDownloads: 1 to 16")
	case o.MaxMediaBytes < 0:
		return errors.New("maxMediaBytes: 0 for no files, or a number of bytes")
	}

	return nil
}

func (o *options) caps() chat.Caps {
	c := chat.Caps{
		MaxChars: maxBody,
		Unit:     markdown.Bytes,
		Typing:   typingEvery,
		MaxMedia: o.MaxMediaBytes,
		Keys:     true,
		Rate: chat.Rate{
			Total: chat.Limit{Count: 10, Per: 5 * time.Second},
			Edit:  chat.Limit{Count: 1, Per: time.Second},
		},
	}
	if *o.Streaming {
		c.EditEvery, c.GroupEditEvery = editEvery, 2*editEvery
		c.Previewed = func(_ bus.Route, text string) bool { return *answerOf(text, false) == *answerOf(text, true) }
	}
	return c
}

// rules returns what the gate cannot know: open is our default, and ids begin as names
// do elsewhere.
func (o *options) rules() access.Rules {
	r := access.Rules{Entries: readEntry}
	if o.GroupPolicy == access.Open {
		r.ForUs = func(access.Visitor) bool { return true }
	}
	return r
}

// readEntry reads an entry of allowFrom or owners.
func readEntry(written string) []access.Entry {
	s := strings.TrimSpace(written)
	if s == "*" {
		return []access.Entry{{Kind: access.Anyone}}
	}
	e := access.Entry{Kind: access.ID, Value: s}
	if !strings.HasPrefix(s, "@") || !strings.Contains(s, ":") {
		e.Advice = "it is not a Matrix id; write @person:server"
	}
	return []access.Entry{e}
}
