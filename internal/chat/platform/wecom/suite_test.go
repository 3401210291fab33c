package wecom

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		f := fixture(t, wecomtest.BotID)
		second := fixture(t, "aib_second")
		f.Second = &second
		return f
	})
}

// fixture is a bot on a fake of its own.
func fixture(t *testing.T, name string) chattest.Fixture {
	t.Helper()
	fake := wecomtest.New()
	t.Cleanup(fake.Close)
	if name != wecomtest.BotID {
		fake.Rename(name)
	}
	fail := func(code int, text string) func() {
		return func() { // whatever carries the text: the thinking state is not it
			fake.FailText(code, text)
		}
	}
	return chattest.Fixture{
		Driver:  Driver(),
		Section: func(c chat.Common) json.RawMessage { return commonSection(t, c, fake, name) },
		Owner:   wecomtest.Ann, Stranger: "mallory", Group: wecomtest.Group,
		Chat: func(sender string) string { return sender },
		Pose: func(_ *testing.T, in chattest.In, name string) {
			fake.Say(wecomtest.Message{ID: in.ID, From: name, Corp: "another corp", Text: in.Text})
		},
		Deliver: func(t *testing.T, in chattest.In) { inject(t, fake, in) },
		Idle:    fake.Idle,
		Seen:    func() []chattest.Seen { return seen(fake) },
		Touched: func() int { return fake.Fetched() + len(fake.Frames(cmdRespond)) },
		Break:   fail(codeBusy, "system busy"),
		Refuse:  fail(40058, "invalid parameter"),
		Cut:     fake.Cut,
		Streams: true, Repeats: true, MediaLimit: true, AnyName: true,
		Tap: func(t *testing.T, chatID, label string) {
			t.Helper()
			if err := fake.Press(wecomtest.Message{From: chatID}, label, false); err != nil {
				t.Fatal(err)
			}
		},
		Frame: func(_ *testing.T, frame []byte) { fake.Raw(string(frame)) },
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.beat = time.Second
			}
		},
		Lacks: map[string]string{
			"Limit":   "WeCom does not say how long to wait: a refusal counts for a minute",
			"Thread":  "WeCom has no threads",
			"Marks":   "WeCom has no reactions: the stream shows what happens",
			"Typing":  "WeCom has no sign of typing: the stream shows it",
			"Acked":   "WeCom asks for no acknowledgement",
			"Forge":   "we connect to WeCom: there is no address to forge a message at",
			"Backlog": "WeCom has no history",
			"Alias":   "WeCom knows a person by one id",
		},
	}
}

// loopback is a client without the guards of the program.
func loopback(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func commonSection(t *testing.T, c chat.Common, fake *wecomtest.Server, bot string) json.RawMessage {
	t.Helper()
	return chattest.Section(t, c, map[string]any{"botId": bot, "secret": wecomtest.Secret, "wsUrl": fake.Socket()})
}

func inject(t *testing.T, fake *wecomtest.Server, in chattest.In) {
	t.Helper()
	m := wecomtest.Message{ID: in.ID, From: in.Sender, Text: in.Text}
	if in.Group {
		if !in.Mentioned {
			return // WeCom passes on only what names the bot
		}
		m.Chat, m.Text = in.Chat, "@Bot "+in.Text
	}
	if in.File != "" {
		file := fake.Store(in.File, []byte("content of "+in.File))
		m.Body = map[string]any{"msgtype": "mixed", "mixed": map[string]any{"msg_item": []any{
			map[string]any{"msgtype": "text", "text": map[string]any{"content": in.Text}},
			map[string]any{"msgtype": "file", "file": file},
		}}}
	}
	fake.Say(m)
}

// seen are the messages without those that only say that the bot works.
func seen(fake *wecomtest.Server) []chattest.Seen {
	var out []chattest.Seen
	for _, m := range fake.Shown() {
		if s := strings.ReplaceAll(m.Text, thinking, ""); s != "" || len(m.Files) > 0 {
			out = append(out, chattest.Seen{Chat: m.Chat, Text: s, Files: m.Files})
		}
	}
	return out
}
