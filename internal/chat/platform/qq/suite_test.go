package qq

import (
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/qq/qqtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	for _, format := range []string{formatPlain, formatMarkdown} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			chattest.Run(t, func(t *testing.T) chattest.Fixture {
				f := fixture(t, loopback(t), qqtest.AppID, format)
				fake := loopback(t)
				fake.SetApp("102000002")
				second := fixture(t, fake, "102000002", format)
				f.Second = &second
				return f
			})
		})
	}
}

func fixture(t *testing.T, fake *qqtest.Server, app, format string) chattest.Fixture {
	t.Helper()
	fake.Permit(true, false, true)
	fake.Beat(time.Second)
	fail := func(f qqtest.Failure) func() {
		f.Method, f.Path = http.MethodPost, "/messages"
		if format == formatMarkdown && f.Code > 300000 {
			f.Times = 2 // as plain text, too
		}
		return func() { fake.Fail(f) }
	}
	out := chattest.Fixture{
		Driver: Driver(),
		Section: func(c chat.Common) json.RawMessage {
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]any{}
			if err := json.Unmarshal(data, &all); err != nil {
				t.Fatal(err)
			}
			var own map[string]any
			if err := json.Unmarshal(section(fake, map[string]any{"appId": app, "msgFormat": format}), &own); err != nil {
				t.Fatal(err)
			}
			delete(own, "allowFrom")
			maps.Copy(all, own)
			if data, err = json.Marshal(all); err != nil {
				t.Fatal(err)
			}
			return data
		},
		Owner:    "ann",
		Stranger: "eve",
		Chat:     func(sender string) string { return sender },
		Group:    "G1",
		Pose: func(_ *testing.T, in chattest.In, name string) {
			fake.Write(qqtest.Direct, in.Sender, in.Chat, in.Text, object{"id": in.ID, "author": object{"id": in.Sender, "user_openid": in.Sender, "username": name}})
		},
		Deliver: func(_ *testing.T, in chattest.In) {
			m := object{"id": in.ID}
			if in.File != "" {
				m["attachments"] = []object{fake.Store(in.File, []byte("content of "+in.File))}
			}
			kind := qqtest.Direct
			if in.Group {
				kind = qqtest.Group
				if !in.Mentioned {
					m["event"] = "GROUP_MESSAGE_CREATE"
				}
			}
			fake.Write(kind, in.Sender, in.Chat, in.Text, m)
		},
		Seen: func() (list []chattest.Seen) {
			for _, m := range fake.Messages() {
				s := chattest.Seen{Chat: m.Chat, Text: m.Text()}
				if m.File != "" {
					s.Files = []string{m.File}
				}
				list = append(list, s)
			}
			return list
		},
		Touched: func() int {
			n := len(fake.Calls("", "/download"))
			for _, c := range fake.Calls("", "/messages") {
				if c.Body["msg_type"] == 6.0 {
					n++
				}
			}
			return n
		},
		Typing: func(chatID, _ string) (n int, on bool) {
			for _, c := range fake.Calls("", "/v2/users/"+chatID+"/messages") {
				if c.Body["msg_type"] == 6.0 {
					n++
				}
			}
			return n, false
		},
		Impatient: func(ch chat.Channel) {
			b, ok := ch.(*bot)
			if !ok {
				t.Fatalf("New made a %T", ch)
			}
			b.quiet = 2 * time.Second
		},
		Lacks: map[string]string{
			"Streams": "messages of bots cannot be changed",
			"Thread":  "QQ has no threads for bots",
			"Marks":   "bots cannot mark messages of direct chats",
			"Acked":   "the gateway is not told: a session is resumed behind the last event",
			"Forge":   "we connect to QQ: there is no address to forge a message at",
			"Backlog": "QQ itself sends what a session missed, without a limit of age",
			"Alias":   "a message always has the openid that is also its chat",
		},
		Limit: func(after time.Duration) {
			fail(qqtest.Failure{Status: 429, Code: codeTooMany, RetryAfter: int(after.Seconds())})()
		},
		Break:      fail(qqtest.Failure{Status: 500, Text: "internal error"}),
		Refuse:     fail(qqtest.Failure{Status: 400, Code: 40054004, Text: "not a friend"}),
		Cut:        fake.Cut,
		Repeats:    true,
		MediaLimit: true,
		AnyName:    true,
		Frame:      func(_ *testing.T, frame []byte) { fake.Raw(string(frame)) },
	}
	out.Lacks["Tap"] = "plain messages have no buttons"
	if format == formatMarkdown {
		delete(out.Lacks, "Tap")
		out.Tap = func(t *testing.T, chatID, label string) {
			t.Helper()
			if _, ok := fake.Tap(qqtest.Direct, "ann", chatID, label); !ok {
				t.Errorf("no message has a button %q", label)
			}
		}
	}
	return out
}
