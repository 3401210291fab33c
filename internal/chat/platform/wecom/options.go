package wecom

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	// textMost is the longest text of a message in bytes. WeCom takes 20,480 of
	// them; 4,000 Chinese characters are as much as people want to see at once.
	textMost = 12000
	fileMost = 20 << 20
)

// options is the section of the configuration.
type options struct {
	chat.Common
	BotID          string          `json:"botId" setup:"yes" doc:"Bot ID of the AI bot, from its API mode with a long connection."`
	Secret         httpsafe.Secret `json:"secret" setup:"yes" doc:"Secret of the long connection."`
	BotName        string          `json:"botName" doc:"Name of the bot in groups, to remove it from messages; if empty, the first @name of a message is removed."`
	WelcomeMessage string          `json:"welcomeMessage" doc:"Greeting for people who may talk to the bot, when they open the chat for the first time of a day."`
	WSURL          string          `json:"wsUrl" doc:"Address of the long connection."`
	LoginURL       string          `json:"loginUrl" doc:"Address of the set-up by QR code."`
}

func defaults() *options {
	return &options{WSURL: "wss://openws.work.weixin.qq.com", LoginURL: "https://work.weixin.qq.com"}
}

// decode reads a section that has the account, which is missing before a login.
func decode(section json.RawMessage) (*options, error) {
	o, err := chat.Read(section, defaults())
	switch {
	case err != nil:
		return o, err
	case o.BotID == "":
		return o, chat.Fatal(errors.New(`botId is missing: run "nanobot channels login", or copy it from the bot's API mode`))
	case o.Secret.IsZero():
		return o, chat.Fatal(errors.New(`secret is missing: run "nanobot channels login", or copy it from the bot's API mode`))
	}

	return o, nil
}

// Check says which setting is wrong or missing.
func (o *options) Check() error {
	o.BotID = strings.TrimSpace(o.BotID)
	o.BotName = strings.TrimPrefix(strings.TrimSpace(o.BotName), "@")
	o.LoginURL = strings.TrimRight(o.LoginURL, "/")
	if err := address("wsUrl", o.WSURL, "ws", "wss"); err != nil {
		return err
	}
	return address("loginUrl", o.LoginURL, "http", "https")
}

func address(key, value, plain, secure string) error {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != plain && u.Scheme != secure {
		return chat.Fatal(fmt.Errorf("%s: an address that begins with %s:// is needed", key, secure))
	}
	return nil
}

// caps returns the limits of the platform.
func (o *options) caps() chat.Caps {
	c := chat.Caps{
		MaxChars:       textMost,
		Unit:           markdown.Bytes,
		EditEvery:      500 * time.Millisecond,
		GroupEditEvery: time.Second,
		MaxMedia:       fileMost,
		Buttons:        true,
		OneMessage:     true,
		Rate:           chat.Rate{Chat: chat.Limit{Count: 20, Per: time.Minute}},
	}
	if o.Streaming != nil && !*o.Streaming {
		c.EditEvery, c.GroupEditEvery = 0, 0
	}
	return c
}
