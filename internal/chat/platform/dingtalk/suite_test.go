package dingtalk

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		f := fixture(t, loopback(t), dingtalktest.ClientID, nil)
		fake := loopback(t)
		fake.SetClient("dingtest0002")
		second := fixture(t, fake, "dingtest0002", nil)
		f.Second = &second
		return f
	})
}

// The same with answers in cards.
func TestSuiteOfCards(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		changes := map[string]any{"cardTemplateId": dingtalktest.Template}
		f := fixture(t, loopback(t), dingtalktest.ClientID, changes)
		fake := loopback(t)
		fake.SetClient("dingtest0002")
		second := fixture(t, fake, "dingtest0002", changes)
		for _, f := range []*chattest.Fixture{&f, &second} {
			f.Streams = true
			delete(f.Lacks, "Streams")
		}
		f.Second = &second
		return f
	})
}

func fixture(t *testing.T, fake *dingtalktest.Server, client string, changes map[string]any) chattest.Fixture {
	t.Helper()
	return chattest.Fixture{
		Driver: Driver(),
		Hasten: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.calls.limit = time.Second
			}
		},
		Section: func(c chat.Common) json.RawMessage {
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			all, own := map[string]any{}, map[string]any{}
			if err := json.Unmarshal(data, &all); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(section(fake, changes), &own); err != nil {
				t.Fatal(err)
			}
			delete(own, "allowFrom")
			own["clientId"] = client
			maps.Copy(all, own)
			if data, err = json.Marshal(all); err != nil {
				t.Fatal(err)
			}
			return data
		},
		Owner:    "ann",
		Stranger: "eve",
		Chat:     func(sender string) string { return sender },
		Group:    groupPrefix + "cid1",
		Pose: func(_ *testing.T, in chattest.In, name string) {
			fake.Write(in.Sender, "", in.Text, object{"msgId": in.ID, "senderNick": name, "senderStaffId": name, "senderCorpId": "another corp"})
		},
		Deliver: func(_ *testing.T, in chattest.In) {
			if in.Group && !in.Mentioned {
				return // DingTalk does not send it
			}
			m := object{"msgId": in.ID}
			if in.File != "" {
				code := fake.Store([]byte("content of " + in.File))
				m["msgtype"], m["content"] = "richText", object{"richText": []object{{"text": in.Text}, {"type": "picture", "downloadCode": code, "fileName": in.File}}}
			}
			fake.Write(in.Sender, strings.TrimPrefix(strings.TrimPrefix(in.Chat, in.Sender), groupPrefix), in.Text, m)
		},
		Idle: fake.Idle,
		Seen: func() (list []chattest.Seen) {
			for _, m := range fake.Messages() {
				if m.Way == "card" && m.Text() == "" {
					continue // nothing is written yet
				}
				s := chattest.Seen{Chat: m.Chat, Text: m.Text()}
				if m.File != "" {
					s.Files = []string{m.File}
				}
				list = append(list, s)
			}
			return list
		},
		Impatient: func(ch chat.Channel) {
			b, ok := ch.(*bot)
			if !ok {
				t.Fatalf("New made a %T", ch)
			}
			b.ping, b.quiet = 500*time.Millisecond, 2*time.Second
		},
		Lacks: map[string]string{
			"Streams": "messages of bots cannot be changed",
			"Thread":  "DingTalk has no threads",
			"Tap":     "messages of bots have no buttons",
			"Typing":  "DingTalk does not show that a bot types",
			"Forge":   "we connect to DingTalk: there is no address to forge a message at",
			"Backlog": "DingTalk itself repeats what was not confirmed",
			"Alias":   "the id of a person is also their chat",
		},
		Touched: func() int { return len(fake.Calls("/download")) + len(fake.Calls("/emotion")) },
		Limit: func(time.Duration) {
			fake.Fail(dingtalktest.Failure{Path: "/robot/sendBySession", Status: 200, ErrCode: 410100, Text: "too fast"})
		},
		Break: func() { fake.Fail(dingtalktest.Failure{Path: "/robot/sendBySession", Status: 502, Garbage: true}) },
		Refuse: func() {
			fake.Fail(dingtalktest.Failure{Path: "/robot/sendBySession", Status: 200, ErrCode: 40035, Text: "no"},
				dingtalktest.Failure{Path: "/batchSend", Status: 400, Code: "invalidParameter", Text: "no"})
		},
		Cut:        fake.Cut,
		Repeats:    true,
		MediaLimit: true,
		AnyName:    true,
		Marks:      func(_, id string) []string { return fake.Reactions(id) },
		Acked:      func(id string) bool { return fake.Acked(id) == codeOK },
		Frame:      func(_ *testing.T, frame []byte) { fake.Raw(string(frame)) },
	}
}
