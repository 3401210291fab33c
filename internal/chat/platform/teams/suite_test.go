package teams

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		fake, second := newFake(t), newFake(t)
		second.App = "99999999-2222-4333-8444-555555555555"
		second.Endpoint("http://" + second.Front() + "/two")
		f, two := fixture(t, fake, nil), fixture(t, second, map[string]any{"path": "/two"})
		f.Second = &two
		f.Serve = func(h http.Handler) {
			fake.Attach(h)
			second.Attach(h)
		}
		return f
	})
}

// fixture is one bot on its fake.
func fixture(t *testing.T, fake *teamstest.Server, changes map[string]any) chattest.Fixture {
	t.Helper()
	fail := func(f teamstest.Failure) func() {
		f.Method, f.Part, f.Type = http.MethodPost, "/activities", "message"
		return func() { fake.Fail(f) }
	}
	return chattest.Fixture{
		Driver:  Driver(),
		Section: func(c chat.Common) json.RawMessage { return commonSection(t, c, fake, changes) },
		Owner:   "owner", Stranger: "stranger", Chat: func(sender string) string { return "a:" + sender }, Group: team, Thread: "1700",
		Pose: func(_ *testing.T, in chattest.In, name string) {
			fake.Post(fake.Activity(in.ID, in.Sender, in.Chat, in.Text, teamstest.Object{
				"from": teamstest.Object{"id": "29:" + in.Sender, "name": name, "aadObjectId": in.Sender, "userPrincipalName": name},
			}))
		},
		Deliver: func(t *testing.T, in chattest.In) { inject(t, fake, in) },
		Idle:    fake.Idle,
		Seen:    func() []chattest.Seen { return seen(fake) },
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
		Streams: true, Repeats: true, MediaLimit: true, AnyName: true,
		Tap:   func(t *testing.T, chatID, label string) { tapLast(t, fake, chatID, label) },
		Acked: fake.Accepted,
		Frame: func(_ *testing.T, frame []byte) { fake.Deliver(fake.Sign(teamstest.KeyID, fake.Claims(nil)), frame) },
		Forge: func(t *testing.T, in chattest.In) {
			body, err := json.Marshal(fake.Activity(in.ID, in.Sender, in.Chat, in.Text, nil))
			if err != nil {
				t.Error(err)
			}
			fake.Deliver(fake.Sign(teamstest.OtherKey, fake.Claims(nil)), body)
		},
		Typing: func(chatID, thread string) (n int, on bool) {
			for _, c := range fake.Calls(http.MethodPost, "/activities") {
				if c.Body["type"] == "typing" && strings.Contains(c.Path, chatID) && strings.Contains(c.Path, thread) {
					n++
				}
			}
			return n, false
		},
		Alias: func(sender string) string { return "29:" + sender },
		Lacks: map[string]string{
			"Marks":     "bots of Teams cannot react to messages",
			"Backlog":   "Teams calls us, and bots cannot read what was said before",
			"Impatient": "Teams calls us: no connection is kept",
		},
	}
}

func commonSection(t *testing.T, c chat.Common, fake *teamstest.Server, changes map[string]any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, changes)
	all["appId"] = fake.App
	return section(fake, all)
}

func inject(t *testing.T, fake *teamstest.Server, in chattest.In) {
	t.Helper()
	changes := teamstest.Object{}
	if in.Group {
		place := in.Chat
		if in.Thread != "" {
			place += ";messageid=" + in.Thread
		}
		changes["conversation"] = teamstest.Object{"conversationType": teamstest.Channel, "id": place, "tenantId": teamstest.Tenant, "isGroup": true}
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
	if strings.HasPrefix(in.Sender, "29:") { // a person whom Teams names by this id only
		changes["from"] = teamstest.Object{"id": in.Sender, "name": "Ann"}
	}
	if status, _ := fake.Post(fake.Activity(in.ID, in.Sender, in.Chat, text, changes)); status != http.StatusOK {
		t.Errorf("the bot answered %d", status)
	}
}

func seen(fake *teamstest.Server) []chattest.Seen {
	var out []chattest.Seen
	for _, m := range fake.Messages("") {
		s := chattest.Seen{Chat: m.Chat, Thread: m.Thread, Text: m.Text}
		for _, f := range m.Files {
			s.Files = append(s.Files, f.Name)
		}
		out = append(out, s)
	}
	return out
}

// tapLast taps a button of the last message that has any, as Teams reports it.
func tapLast(t *testing.T, fake *teamstest.Server, chatID, label string) {
	t.Helper()
	var card struct {
		Attachments []struct {
			Content struct {
				Body []struct {
					Actions []struct {
						Title string `json:"title"`
						Data  struct {
							Teams struct {
								Text  string `json:"text"`
								Value any    `json:"value"`
							} `json:"msteams"`
						} `json:"data"`
					} `json:"actions"`
				} `json:"body"`
			} `json:"content"`
		} `json:"attachments"`
	}
	for _, m := range slices.Backward(fake.Messages(chatID)) {
		data, err := json.Marshal(m.Activity)
		if err != nil || json.Unmarshal(data, &card) != nil || len(card.Attachments) == 0 {
			continue
		}
		for _, row := range card.Attachments[0].Content.Body {
			for _, a := range row.Actions {
				if a.Title == label {
					fake.Post(fake.Activity("tap"+m.ID, "owner", chatID, a.Data.Teams.Text, teamstest.Object{"value": a.Data.Teams.Value, "replyToId": m.ID}))
					return
				}
			}
		}
	}
	t.Errorf("no message in %s has the button %q", chatID, label)
}
