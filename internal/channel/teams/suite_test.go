package teams

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/channeltest"
	"github.com/nanobot-go/nanobot/internal/channel/teamstest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) channeltest.Fixture {
		fake := newFake(t)
		client := plainClient(t)
		fail := func(f teamstest.Failure) func() {
			f.Method, f.Part, f.Type = http.MethodPost, "/activities", "message"
			return func() { fake.Fail(f) }
		}
		return channeltest.Fixture{
			Driver:  attached(fake),
			Section: func(c channel.Common) json.RawMessage { return commonSection(t, c, fake) },
			Options: func(o *channel.Options) {
				o.Client = func(string) (*http.Client, error) { return client() }
				o.Fetch = client
			},
			Owner: "owner", Stranger: "stranger", Chat: func(sender string) string { return "a:" + sender }, Group: group,
			Deliver: func(t *testing.T, in channeltest.In) { deliver(t, fake, in) },
			Seen:    func() []channeltest.Seen { return seen(fake) },
			Touched: func() int {
				n := 0
				for _, c := range fake.Calls("", "") {
					if c.Body["type"] == "typing" || strings.Contains(c.Path, "/files/") {
						n++
					}
				}
				return n
			},
			Limit: func(after time.Duration) {
				fail(teamstest.Failure{Status: http.StatusTooManyRequests, Code: "TooManyRequests", RetryAfter: int(after.Seconds())})()
			},
			Break:   fail(teamstest.Failure{Status: http.StatusBadGateway, Garbage: true}),
			Refuse:  fail(teamstest.Failure{Status: http.StatusForbidden, Code: "BotNotInConversationRoster", Text: "The bot is not part of the conversation roster."}),
			Cut:     fake.CutAll,
			Streams: true, Repeats: true,
		}
	})
}

// attached is the driver of channels that the fake sends to.
func attached(fake *teamstest.Server) channel.Driver {
	d := Driver()
	d.New = func(deps channel.Deps, raw json.RawMessage) (channel.Channel, error) {
		ch, err := newChannel(deps, raw)
		if h, ok := ch.(channel.Handler); ok {
			fake.Attach(h.Routes()["/api/messages"])
		}
		return ch, err
	}
	return d
}

func commonSection(t *testing.T, c channel.Common, fake *teamstest.Server) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return section(fake, all)
}

func deliver(t *testing.T, fake *teamstest.Server, in channeltest.In) {
	t.Helper()
	changes := teamstest.Object{}
	if in.Group {
		changes["conversation"] = teamstest.Object{"conversationType": teamstest.Group, "id": in.Chat, "tenantId": teamstest.Tenant, "isGroup": true}
	}
	text := in.Text
	if in.Mentioned {
		text = "<at>Nano</at> " + text
		mention(changes)
	}
	if in.File != "" {
		changes["attachments"] = []any{teamstest.Object{
			"contentType": downloadInfo, "name": in.File, "contentUrl": "https://example.sharepoint.com/" + in.File,
			"content": teamstest.Object{"downloadUrl": fake.Store(in.File, []byte("content of "+in.File)), "uniqueId": "u", "fileType": "txt"},
		}}
	}
	if status, _ := fake.Post(fake.Activity(in.ID, in.Sender, in.Chat, text, changes)); status != http.StatusOK {
		t.Errorf("the bot answered %d", status)
	}
}

func seen(fake *teamstest.Server) []channeltest.Seen {
	var out []channeltest.Seen
	for _, m := range fake.Messages("") {
		s := channeltest.Seen{Chat: m.Chat, Thread: m.Thread, Text: m.Text}
		for _, f := range m.Files {
			s.Files = append(s.Files, f.Name)
		}
		out = append(out, s)
	}
	return out
}
