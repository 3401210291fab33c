package mattermost

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/channeltest"
	"github.com/nanobot-go/nanobot/internal/channel/mattermosttest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) channeltest.Fixture {
		fake := mattermosttest.New()
		t.Cleanup(fake.Close)
		fail := func(f mattermosttest.Failure) func() {
			f.Name = "POST /posts"
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
			Owner: mattermosttest.AnnID(), Stranger: mattermosttest.ID("mallory"), Chat: fake.Direct, Group: mattermosttest.TownID(),
			Deliver: func(t *testing.T, in channeltest.In) { deliver(t, fake, in) },
			Seen:    func() []channeltest.Seen { return seen(fake) },
			Touched: func() int {
				n := len(fake.Typing())
				for _, name := range []string{"GET /files/{file}", "GET /files/{file}/info", "POST /reactions", "GET /posts/{post}", "GET /posts/{post}/thread", "GET /users/{user}"} {
					n += len(fake.Calls(name))
				}
				return n
			},
			Limit: func(after time.Duration) {
				fail(mattermosttest.Failure{Code: 429, RetryAfter: int(after.Seconds()), Text: "limit exceeded"})()
			},
			Break:   fail(mattermosttest.Failure{Code: 500, ID: "app.post.save.app_error", Text: "Unable to save the Post."}),
			Refuse:  fail(mattermosttest.Failure{Code: 403, ID: "api.context.permissions.app_error", Text: "You do not have the appropriate permissions."}),
			Cut:     fake.Cut,
			Streams: true, Repeats: true,
		}
	})
}

func commonSection(t *testing.T, c channel.Common, fake *mattermosttest.Server) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	all["token"], all["serverUrl"] = mattermosttest.Token, fake.URL()
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return data
}

func deliver(t *testing.T, fake *mattermosttest.Server, in channeltest.In) {
	t.Helper()
	p := mattermosttest.Post{ID: mattermosttest.ID(in.ID), UserID: in.Sender, ChannelID: in.Chat, Message: in.Text}
	if in.Thread != "" {
		p.RootID = mattermosttest.ID(in.Thread)
	}
	if in.Mentioned {
		p.Message = "@" + mattermosttest.BotName + " " + in.Text
	}
	if in.File != "" {
		p.FileIDs = []string{fake.Store(in.Sender, in.Chat, in.File, []byte("content of "+in.File))}
	}
	fake.Say(p)
}

func seen(fake *mattermosttest.Server) []channeltest.Seen {
	var out []channeltest.Seen
	for _, p := range fake.Posts("") {
		out = append(out, channeltest.Seen{
			Chat: p.ChannelID, Thread: strings.TrimRight(p.RootID, "x"), Text: p.Message, Files: fake.Files(p),
		})
	}
	return out
}
