package slack

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/channeltest"
	"github.com/nanobot-go/nanobot/internal/channel/slacktest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) channeltest.Fixture {
		fake := newFake(t)
		post := func(f slacktest.Failure) func() {
			f.Method = "chat.postMessage"
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
			Owner: "U0ANN", Stranger: "U0EVE", Chat: fake.DM, Group: "C0GEN",
			Deliver: func(t *testing.T, in channeltest.In) { deliver(t, fake, in) },
			Seen:    func() []channeltest.Seen { return seen(fake) },
			Touched: func() int {
				n := 0
				for _, m := range []string{"download", "reactions.add", "users.info", "conversations.replies", "conversations.open", "assistant.threads.setStatus"} {
					n += len(fake.Calls(m))
				}
				return n
			},
			Limit: func(after time.Duration) {
				post(slacktest.Failure{Status: http.StatusTooManyRequests, RetryAfter: int(after.Seconds())})()
			},
			Break:   post(slacktest.Failure{Status: http.StatusServiceUnavailable}),
			Refuse:  post(slacktest.Failure{Error: "restricted_action"}),
			Cut:     fake.Cut,
			Streams: true, Repeats: true,
		}
	})
}

func commonSection(t *testing.T, c channel.Common, fake *slacktest.Server) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := object{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	all["botToken"], all["appToken"], all["apiBase"] = slacktest.BotToken, slacktest.AppToken, fake.URL()
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return data
}

// stamp makes a time stamp of the id of a message, so that the same id is the
// same message.
func stamp(id string) string { return "17" + "00000000"[:8-len(id)] + id + ".000100" }

func deliver(t *testing.T, fake *slacktest.Server, in channeltest.In) {
	t.Helper()
	m := object{"user": in.Sender, "channel": in.Chat, "text": in.Text, "ts": stamp(in.ID)}
	if in.Thread != "" {
		m["thread_ts"] = in.Thread
	}
	if in.Mentioned {
		m["text"] = "<@" + slacktest.BotUser + "> " + in.Text
	}
	if in.File != "" {
		m["subtype"] = "file_share"
		m["files"] = []any{fake.Store(in.File, "text/plain", []byte("content of "+in.File))}
	}
	fake.Post(m)
}

func seen(fake *slacktest.Server) []channeltest.Seen {
	var out []channeltest.Seen
	for _, m := range fake.Messages("") {
		s := channeltest.Seen{Chat: m.Channel, Thread: m.Thread, Text: m.Plain}
		for _, f := range m.Files {
			s.Files = append(s.Files, f.Name)
		}
		out = append(out, s)
	}
	return out
}
