package discord

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		f := fixture(t, loopback(t))
		fake := loopback(t)
		fake.SetBot("998")
		second := fixture(t, fake)
		f.Second = &second
		return f
	})
}

func fixture(t *testing.T, fake *discordtest.Server) chattest.Fixture {
	t.Helper()
	fake.DM("42")
	fail := func(f discordtest.Failure) func() {
		f.Method, f.Path = http.MethodPost, "/channels/842/messages"
		return func() { fake.Fail(f) }
	}
	return chattest.Fixture{
		Driver:  Driver(),
		Section: func(c chat.Common) json.RawMessage { return commonSection(t, c, fake) },
		Owner:   "42", Stranger: "66", Chat: func(sender string) string { return "8" + sender }, Group: discordtest.Channel,
		Pose: func(_ *testing.T, in chattest.In, name string) {
			fake.Write(in.Sender, fake.DM(in.Sender), in.Text, object{"id": in.ID, "author": object{"id": in.Sender, "username": name, "global_name": name, "discriminator": "0"}})
		},
		Deliver: func(_ *testing.T, in chattest.In) { inject(fake, in) },
		Idle:    fake.Idle,
		Seen:    func() []chattest.Seen { return seen(fake) },
		Touched: func() int {
			return len(fake.Calls("", "/typing")) + len(fake.Calls("", "/reactions")) + len(fake.Calls("", "/attachments"))
		},
		Limit: func(after time.Duration) {
			fail(discordtest.Failure{Status: 429, RetryAfter: after.Seconds()})()
		},
		Break:   fail(discordtest.Failure{Status: 500, Text: "500: Internal Server Error"}),
		Refuse:  fail(discordtest.Failure{Status: 403, Code: 50007, Text: "Cannot send messages to this user"}),
		Cut:     fake.Cut,
		Streams: true, Repeats: true, Thread: discordtest.Thread, MediaLimit: true, AnyName: true,
		Marks: fake.Reactions,
		Tap:   func(t *testing.T, chatID, label string) { tap(t, fake, chatID, label) },
		Frame: func(_ *testing.T, frame []byte) { fake.Raw(string(frame)) },
		Backlog: func(_ *testing.T, in chattest.In, age time.Duration) {
			fake.Write(in.Sender, in.Chat, in.Text, object{"timestamp": time.Now().Add(-age).Format(time.RFC3339)})
		},
		Typing: func(chatID, thread string) (n int, on bool) {
			return len(fake.Calls(http.MethodPost, "/channels/"+cmp.Or(thread, chatID)+"/typing")), false
		},
		Impatient: func(chat.Channel) { fake.Beat(time.Second) },
		Lacks: map[string]string{
			"Acked": "Discord counts what it sent, and a resumed session brings what was not handled",
			"Forge": "we open the gateway's connection, which brings interactions as well: there is no address to forge one at",
			"Alias": "Discord knows a person by one id",
		},
	}
}

// tap presses the button with a label.
func tap(t *testing.T, fake *discordtest.Server, chatID, label string) {
	t.Helper()
	for _, m := range slices.Backward(fake.Messages(chatID)) {
		rows, _ := m.Body["components"].([]any)
		for _, row := range rows {
			list, _ := row.(object)["components"].([]any)
			for _, b := range list {
				if btn, _ := b.(object); btn["label"] == label {
					fake.Press("42", chatID, m.ID, fmt.Sprint(btn["custom_id"]))
					return
				}
			}
		}
	}
	t.Errorf("no message has a button %q", label)
}

func commonSection(t *testing.T, c chat.Common, fake *discordtest.Server) json.RawMessage {
	t.Helper()
	return chattest.Section(t, c, map[string]any{"token": discordtest.Token, "apiBase": fake.URL(), "workingEmojiDelay": 0.2})
}

func inject(fake *discordtest.Server, in chattest.In) {
	m := object{"id": in.ID}
	if in.Mentioned {
		in.Text = "<@" + discordtest.BotID + "> " + in.Text
		m["mentions"] = []object{{"id": discordtest.BotID, "username": discordtest.BotName}}
	}
	if in.File != "" {
		m["attachments"] = []object{fake.Store(in.File, []byte("content of "+in.File))}
	}
	if !in.Group {
		in.Chat = fake.DM(in.Sender)
	}
	if in.Thread != "" {
		in.Chat = in.Thread
	}
	fake.Write(in.Sender, in.Chat, in.Text, m)
}

func seen(fake *discordtest.Server) []chattest.Seen {
	var out []chattest.Seen
	for _, m := range fake.Messages("") {
		s := chattest.Seen{Chat: m.Channel, Text: unescape(m.Text())}
		if m.Channel == discordtest.Thread {
			s.Chat, s.Thread = discordtest.Channel, m.Channel
		}
		for _, f := range m.Files {
			s.Files = append(s.Files, f.Name)
		}
		out = append(out, s)
	}
	return out
}
