package mattermost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		var gate chattest.Front
		t.Cleanup(gate.Start())
		f, second := fixture(t, gate.URL, "/mattermost"), fixture(t, gate.URL, "/two")
		f.Second, f.Serve = &second, gate.Serve
		return f
	})
}

// fixture is a bot on a server of its own, whose buttons lead to a path of the
// gateway.
func fixture(t *testing.T, front, path string) chattest.Fixture {
	t.Helper()
	fake := mattermosttest.New()
	t.Cleanup(fake.Close)
	fake.Skew(-2 * time.Hour) // Backlog is between the first start and now
	fake.Say(mattermosttest.Post{ID: mattermosttest.ID("root"), UserID: mattermosttest.AnnID(), ChannelID: mattermosttest.TownID(), Message: "a topic"})
	fail := func(f mattermosttest.Failure) func() {
		f.Name = "POST /posts"
		return func() { fake.Fail(f) }
	}
	return chattest.Fixture{
		Driver: Driver(),
		Section: func(c chat.Common) json.RawMessage {
			return commonSection(t, c, fake, map[string]any{"webhookUrl": front + path, "webhookPath": path})
		},
		Owner: mattermosttest.AnnID(), Stranger: mattermosttest.ID("mallory"), Chat: fake.Direct, Group: mattermosttest.TownID(), Thread: "root",
		Pose: func(t *testing.T, in chattest.In, name string) {
			fake.AddUser(mattermosttest.User{ID: in.Sender, Username: name, Nickname: name, FirstName: name, Email: name})
			inject(t, fake, in, 0)
		},
		Deliver: func(t *testing.T, in chattest.In) { inject(t, fake, in, 0) },
		Idle:    fake.Idle,
		Seen:    func() []chattest.Seen { return seen(fake) },
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
		Streams: true, Repeats: true, MediaLimit: true, AnyName: true,
		Marks: func(_, id string) []string { return fake.Reactions(mattermosttest.ID(id)) },
		Tap:   func(t *testing.T, chatID, label string) { tap(t, fake, chatID, label) },
		Typing: func(chatID, thread string) (n int, on bool) {
			for _, at := range fake.Typing() {
				if at == chatID+" "+mattermosttest.ID(thread) {
					n++
				}
			}
			return n, false
		},
		Frame:   func(_ *testing.T, frame []byte) { fake.Raw(string(frame)) },
		Forge:   func(t *testing.T, in chattest.In) { forge(t, front+path, in) },
		Backlog: func(t *testing.T, in chattest.In, age time.Duration) { inject(t, fake, in, age) },
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.silence = 2 * time.Second
			}
		},
		Lacks: map[string]string{
			"Acked": "Mattermost asks for no acknowledgement: what was missed is read from the channels",
			"Alias": "Mattermost knows a person by one id",
		},
	}
}

// tap presses the button with a label, as Ann does.
func tap(t *testing.T, fake *mattermosttest.Server, chatID, label string) {
	t.Helper()
	for _, p := range slices.Backward(fake.Posts(chatID)) {
		list, _ := p.Props["attachments"].([]any)
		for _, raw := range list {
			actions, _ := raw.(map[string]any)["actions"].([]any)
			for _, raw := range actions {
				if action, _ := raw.(map[string]any); action["name"] == label {
					if code := push(t, fake, p.ID, fmt.Sprint(action["id"])); code != http.StatusOK {
						t.Errorf("the press is answered with %d", code)
					}
					return
				}
			}
		}
	}
	t.Errorf("no post has a button %q", label)
}

// forge posts a press without the proof of the bot.
func forge(t *testing.T, address string, in chattest.In) {
	t.Helper()
	body, err := json.Marshal(press{
		UserID: in.Sender, UserName: "ann", ChannelID: in.Chat, PostID: mattermosttest.ID(in.ID), TriggerID: "t",
		Context: offer{Label: in.Text, Clean: true, Chat: in.Chat, Proof: strings.Repeat("0", 64)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if code := postTo(t, address, body); code != http.StatusUnauthorized {
		t.Errorf("a forged press: status %d", code)
	}
}

func postTo(t *testing.T, address string, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func commonSection(t *testing.T, c chat.Common, fake *mattermosttest.Server, changes map[string]any) json.RawMessage {
	t.Helper()
	all := map[string]any{"token": mattermosttest.Token, "serverUrl": fake.URL()}
	maps.Copy(all, changes)
	return chattest.Section(t, c, all)
}

func inject(t *testing.T, fake *mattermosttest.Server, in chattest.In, age time.Duration) {
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
	if age > 0 {
		fake.Skew(0)
		p.CreateAt = time.Now().Add(-age).UnixMilli()
		fake.SayUnseen(p)
		return
	}
	fake.Say(p)
}

func seen(fake *mattermosttest.Server) []chattest.Seen {
	var out []chattest.Seen
	for _, p := range fake.Posts("") {
		out = append(out, chattest.Seen{
			Chat: p.ChannelID, Thread: strings.TrimRight(p.RootID, "x"), Text: p.Message, Files: fake.Files(p),
		})
	}
	return out
}
