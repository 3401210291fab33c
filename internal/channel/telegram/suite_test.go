package telegram

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/channeltest"
	"github.com/nanobot-go/nanobot/internal/channel/telegramtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) channeltest.Fixture {
		fake := loopback(t)
		send := func(f telegramtest.Failure) func() {
			f.Method = "sendMessage"
			return func() { fake.Fail(f) }
		}
		return channeltest.Fixture{
			Driver:  Driver(),
			Section: func(c channel.Common) json.RawMessage { return commonSection(t, c, fake) },
			Options: func(o *channel.Options) {
				o.Client = func(string) (*http.Client, error) {
					transport := &http.Transport{}
					t.Cleanup(transport.CloseIdleConnections)
					return &http.Client{Transport: transport}, nil
				}
			},
			Owner: "42", Stranger: "66", Chat: func(sender string) string { return sender }, Group: "-100123",
			Deliver: func(t *testing.T, in channeltest.In) { deliver(t, fake, in) },
			Seen:    func() []channeltest.Seen { return seen(fake) },
			Touched: func() int {
				n := 0
				for _, m := range []string{"getFile", "file", "sendChatAction", "setMessageReaction"} {
					n += len(fake.Calls(m))
				}
				return n
			},
			Limit: func(after time.Duration) {
				fake.Fail(telegramtest.Failure{Method: "sendMessage", Code: 429, RetryAfter: int(after.Seconds())})
			},
			Break:   send(telegramtest.Failure{Code: 500, Text: "Internal Server Error"}),
			Refuse:  send(telegramtest.Failure{Code: 403, Text: "Forbidden: bot was blocked by the user"}),
			Cut:     fake.CutAll,
			Streams: true, Repeats: true,
		}
	})
}

func commonSection(t *testing.T, c channel.Common, fake *telegramtest.Server) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	all["token"], all["apiBase"] = telegramtest.Token, fake.URL()
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return data
}

func atoi(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func deliver(t *testing.T, fake *telegramtest.Server, in channeltest.In) {
	t.Helper()
	m := object{
		"message_id": atoi(t, in.ID), "text": in.Text, "chat": private(atoi(t, in.Chat)),
		"from": object{"id": atoi(t, in.Sender), "first_name": "Ann"},
	}
	if in.Group {
		m["chat"] = group(object{"id": atoi(t, in.Chat)})
	}
	if in.Mentioned {
		m["text"] = "@" + telegramtest.BotName + " " + in.Text
		m["entities"] = []object{{"type": "mention", "offset": 0, "length": 1 + len(telegramtest.BotName)}}
	}
	if in.File != "" {
		delete(m, "text")
		m["caption"] = in.Text
		id := fake.Store("documents/"+in.File, []byte("content of "+in.File))
		m["document"] = object{"file_id": id, "file_unique_id": id, "file_name": in.File}
	}
	fake.Post(m)
}

func seen(fake *telegramtest.Server) []channeltest.Seen {
	var out []channeltest.Seen
	for _, m := range fake.Messages(0) {
		s := channeltest.Seen{Chat: strconv.FormatInt(m.ChatID, 10), Text: m.Plain}
		if m.Thread != 0 {
			s.Thread = strconv.FormatInt(m.Thread, 10)
		}
		if m.File != nil {
			s.Files = []string{m.File.Name}
		}
		out = append(out, s)
	}
	return out
}
