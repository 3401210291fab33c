package slack

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		two := newFake(t)
		two.SetTeam("T0WORK")
		f, second := fixture(t, newFake(t), nil), fixture(t, two, nil)
		f.Second = &second
		return f
	})
}

// Events that Slack posts keep the same promises.
func TestSuiteWebhook(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		var gate chattest.Front
		t.Cleanup(gate.Start())
		two := newFake(t)
		two.SetTeam("T0WORK")
		f, second := hooked(t, newFake(t), gate.URL, "/slack/events"), hooked(t, two, gate.URL, "/two")
		f.Second, f.Serve = &second, gate.Serve
		return f
	})
}

// hooked is one workspace that posts its events to an address.
func hooked(t *testing.T, fake *slacktest.Server, front, path string) chattest.Fixture {
	t.Helper()
	fake.Hook(front + path)
	f := fixture(t, fake, object{"mode": modeWebhook, "appToken": "", "signingSecret": slacktest.SigningSecret, "webhookPath": path})
	f.Cut, f.Impatient = nil, nil
	f.Frame = func(_ *testing.T, frame []byte) {
		slacktest.Request(front+path, slacktest.Sign(frame, time.Now()), frame)
	}
	f.Forge = func(t *testing.T, in chattest.In) {
		t.Helper()
		body, err := json.Marshal(object{"type": "event_callback", "event_id": "Ev1", "event": object{
			"type": "message", "user": in.Sender, "channel": in.Chat, "text": in.Text, "ts": stamp(in.ID), "channel_type": "im",
		}})
		if err != nil {
			t.Fatal(err)
		}
		header := slacktest.Sign(body, time.Now())
		header.Set("X-Slack-Signature", "v0="+strings.Repeat("0", 64))
		if code, _ := slacktest.Request(front+path, header, body); code != http.StatusUnauthorized {
			t.Errorf("a forged event: status %d", code)
		}
	}
	f.Lacks = map[string]string{
		"Cut":       "Slack calls us: no connection is kept",
		"Impatient": "Slack calls us: no connection is kept",
		"Alias":     f.Lacks["Alias"],
	}
	return f
}

// fixture is one workspace with Socket Mode.
func fixture(t *testing.T, fake *slacktest.Server, changes object) chattest.Fixture {
	t.Helper()
	post := func(f slacktest.Failure) func() {
		f.Method = "chat.postMessage"
		return func() { fake.Fail(f) }
	}
	thread := fake.Write(object{"user": "U0ANN", "channel": "C0GEN", "text": "a topic", "ts": stamp("1")})
	var delivered sync.Map
	return chattest.Fixture{
		Driver:  Driver(),
		Section: func(c chat.Common) json.RawMessage { return commonSection(t, c, fake, changes) },
		Owner:   "U0ANN", Stranger: "U0EVE", Chat: fake.DM, Group: "C0GEN", Thread: thread,
		Pose: func(_ *testing.T, in chattest.In, name string) {
			fake.Join([]slacktest.Person{{ID: in.Sender, Handle: name, Name: name}})
			fake.Post(object{
				"user": in.Sender, "channel": in.Chat, "text": in.Text, "ts": stamp(in.ID), "username": name,
				"user_profile": object{"name": name, "display_name": name, "real_name": name},
			})
		},
		Deliver: func(t *testing.T, in chattest.In) { inject(t, fake, in); delivered.Store(in.ID, true) },
		Idle:    fake.Idle,
		Seen:    func() []chattest.Seen { return seen(fake) },
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
		Streams: true, Repeats: true, MediaLimit: true, AnyName: true,
		Marks: func(chatID, id string) []string { return fake.Reactions(chatID, stamp(id)) },
		Tap:   func(t *testing.T, chatID, label string) { tap(t, fake, chatID, label) },
		Typing: func(chatID, thread string) (n int, on bool) {
			for _, c := range fake.Calls("assistant.threads.setStatus") {
				if c.Params["channel_id"] == chatID && c.Params["thread_ts"] == thread && c.Params["status"] != "" {
					n++
				}
			}
			return n, fake.Status(chatID, thread) != ""
		},
		Acked: func(id string) bool {
			_, ok := delivered.Load(id)
			return ok && fake.Pending() == 0
		},
		Frame: func(_ *testing.T, frame []byte) { fake.Frame(frame) },
		Backlog: func(_ *testing.T, in chattest.In, age time.Duration) {
			fake.Write(object{"user": in.Sender, "channel": in.Chat, "text": in.Text, "ts": fmt.Sprintf("%d.000100", time.Now().Add(-age).Unix())})
		},
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.silence = 2 * time.Second
			}
		},
		Lacks: map[string]string{
			"Forge": "we open the connection of Socket Mode: there is no address to forge an event at",
			"Alias": "Slack knows a person by one id",
		},
	}
}

// tap presses the button with a label.
func tap(t *testing.T, fake *slacktest.Server, chatID, label string) {
	t.Helper()
	for _, m := range slices.Backward(fake.Messages(chatID)) {
		var blocks []struct {
			Elements []struct {
				Action string `json:"action_id"`
				Value  string `json:"value"`
				Text   struct {
					Text string `json:"text"`
				} `json:"text"`
			} `json:"elements"`
		}
		if m.Blocks == "" || json.Unmarshal([]byte(m.Blocks), &blocks) != nil {
			continue
		}
		for _, b := range blocks {
			for _, e := range b.Elements {
				if e.Text.Text == label {
					fake.Tap("U0ANN", chatID, m.TS, e.Action, e.Value)
					return
				}
			}
		}
	}
	t.Errorf("no message has a button %q", label)
}

func commonSection(t *testing.T, c chat.Common, fake *slacktest.Server, changes object) json.RawMessage {
	t.Helper()
	all := object{"botToken": slacktest.BotToken, "appToken": slacktest.AppToken, "apiBase": fake.URL()}
	maps.Copy(all, changes)
	return chattest.Section(t, c, all)
}

// stamp makes a time stamp of the id of a message, so that the same id is the
// same message.
func stamp(id string) string { return "17" + "00000000"[:8-len(id)] + id + ".000100" }

func inject(t *testing.T, fake *slacktest.Server, in chattest.In) {
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

func seen(fake *slacktest.Server) []chattest.Seen {
	var out []chattest.Seen
	for _, m := range fake.Messages("") {
		s := chattest.Seen{Chat: m.Channel, Thread: m.Thread, Text: m.Plain}
		for _, f := range m.Files {
			s.Files = append(s.Files, f.Name)
		}
		out = append(out, s)
	}
	return out
}
