package weixin

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		t.Helper()
		f, second := fixture(t, weixintest.Token), fixture(t, "bot-token-two")
		f.Second = &second
		delete(f.Lacks, "Second")
		return f
	})
}

// impatient is the platform with a channel that does not wait after failures.
func impatient() chat.Driver {
	d := Driver()
	d.New = func(deps chat.Deps, section json.RawMessage) (chat.Channel, error) {
		b, err := newBot(deps, section)
		if err == nil {
			quick(b)
		}
		return b, err
	}
	return d
}

// typed is how often the service was told that we type.
func typed(fake *weixintest.Server, chatID string) (n int) {
	for _, c := range fake.Calls("sendtyping") {
		if c.Body["ilink_user_id"] == chatID && c.Body["status"] == 1.0 {
			n++
		}
	}
	return n
}

func fixture(t *testing.T, token string) chattest.Fixture {
	t.Helper()
	fake := weixintest.New()
	fake.Tokens(token)
	t.Cleanup(fake.Close)
	return chattest.Fixture{
		Driver: impatient(),
		Section: func(c chat.Common) json.RawMessage {
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			all := object{}
			if err := json.Unmarshal(data, &all); err != nil {
				t.Fatal(err)
			}
			all["token"] = token
			return section(t, fake, all)
		},
		Owner: ann, Stranger: bob, Chat: func(sender string) string { return sender },
		Deliver: func(_ *testing.T, in chattest.In) {
			m := object{"from_user_id": in.Sender, "message_id": json.Number(in.ID), "item_list": []any{weixintest.Text(in.Text)}}
			if in.File != "" {
				file := object{"type": itemFile, "file_item": object{"media": fake.Store([]byte("content of "+in.File), "hex"), "file_name": in.File}}
				m["item_list"] = []any{weixintest.Text(in.Text), file}
			}
			fake.Post(m)
		},
		Seen: func() []chattest.Seen {
			var out []chattest.Seen
			for _, m := range fake.Messages() {
				s := chattest.Seen{Chat: m.To, Text: m.Text}
				if m.File != nil {
					s.Files = []string{m.File.Name}
				}
				out = append(out, s)
			}
			return out
		},
		Touched: func() int { return fake.Downloads() + len(fake.Calls("sendtyping")) + len(fake.Calls("getconfig")) },
		Limit: func(after time.Duration) {
			fake.Fail(weixintest.Failure{Status: 429, After: int(after.Seconds())})
		},
		Break:   func() { fake.Fail(weixintest.Failure{Status: 502}) },
		Refuse:  func() { fake.Fail(weixintest.Failure{Ret: weixintest.Invalid}) },
		Cut:     fake.Drop,
		Repeats: true, MediaLimit: true, AnyName: true,
		Acked:  fake.Acked,
		Typing: func(chatID, _ string) (int, bool) { return typed(fake, chatID), false },
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.longest, b.extra = time.Second, time.Second
			}
		},
		Lacks: map[string]string{
			"Pose":    "Weixin tells nothing of a person but the id",
			"Group":   "WeChat does not offer groups to bots",
			"Thread":  "WeChat has no threads",
			"Streams": "what was sent cannot be changed",
			"Marks":   "WeChat has no reactions",
			"Tap":     "WeChat has no buttons",
			"Forge":   "messages come only in answers of the service",
			"Backlog": "the service keeps what was not read, by its cursor",
			"Alias":   "a person has one id",
			"Second":  "filled in below, except for the second itself",
		},
		Frame: func(_ *testing.T, data []byte) { fake.Raw(data) },
	}
}
