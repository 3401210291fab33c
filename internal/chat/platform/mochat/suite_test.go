package mochat

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mochat/mochattest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		f, second := fixture(t, mochattest.Self, false), fixture(t, "agent2", true)
		f.Second = &second
		return f
	})
}

const stranger = "eve"

func fixture(t *testing.T, self string, plain bool) chattest.Fixture {
	t.Helper()
	fake := mochattest.New()
	t.Cleanup(fake.Close)
	token := mochattest.Token + self
	fake.Become(self, token)
	fake.Plain(plain)
	fake.AddSession(mochattest.SessionOf(stranger), stranger)
	fail := func(f mochattest.Failure) func() {
		return func() { fake.Fail(sendSession, f) }
	}
	write := func(in chattest.In, at time.Time) {
		m := mochattest.Message{ID: in.ID, From: in.Sender, Text: in.Text, At: at}
		if in.Mentioned {
			m.Text = "<@" + self + "> " + m.Text
		}
		if in.Group {
			fake.Post(mochattest.Panel, m)
		} else {
			fake.Say(in.Chat, m)
		}
	}
	return chattest.Fixture{
		Driver: Driver(),
		Section: func(c chat.Common) json.RawMessage {
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			all := fields{}
			if err := json.Unmarshal(data, &all); err != nil {
				t.Fatal(err)
			}
			all["clawToken"], all["agentUserId"], all["mention"] = token, self, fields{"requireInGroups": true}
			return section(t, fake, all)
		},
		Owner: mochattest.Ann, Stranger: stranger, Group: mochattest.Panel,
		Chat: mochattest.SessionOf,
		Pose: func(_ *testing.T, in chattest.In, name string) {
			fake.Say(in.Chat, mochattest.Message{ID: in.ID, From: in.Sender, Name: name, Text: in.Text})
		},
		Deliver: func(_ *testing.T, in chattest.In) { write(in, time.Time{}) },
		Seen: func() (out []chattest.Seen) {
			for _, m := range fake.Sent() {
				out = append(out, chattest.Seen{Chat: m.Chat, Text: strings.TrimSpace(m.Text)})
			}
			return out
		},
		Touched: func() int {
			return len(fake.Calls("bind")) + len(fake.Calls("selfRegister")) + len(fake.Calls("panels/send"))
		},
		Limit: func(after time.Duration) {
			fail(mochattest.Failure{Status: http.StatusTooManyRequests, After: after})()
		},
		Break:   fail(mochattest.Failure{Status: http.StatusBadGateway}),
		Refuse:  fail(mochattest.Failure{Status: http.StatusOK, Code: http.StatusForbidden, Message: "not a member"}),
		Cut:     fake.Cut,
		Repeats: true,
		Frame:   func(_ *testing.T, frame []byte) { fake.Raw(!utf8.Valid(frame), frame) },
		Backlog: func(_ *testing.T, in chattest.In, age time.Duration) { write(in, ago(age)) },
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.silence = 2 * time.Second
			}
		},
		Lacks: map[string]string{
			"Streams":    "messages of Mochat cannot be changed by agents",
			"Thread":     "Mochat has no threads",
			"MediaLimit": "agents get no files on Mochat",
			"AnyName":    "agents get no files on Mochat",
			"Marks":      "agents cannot react to messages on Mochat",
			"Tap":        "Mochat has no buttons",
			"Typing":     "agents cannot show on Mochat that they write",
			"Acked":      "how far sessions were read is a note of ours: see TestNotTaken",
			"Forge":      "we connect to Mochat: there is no address to forge a message at",
			"Alias":      "Mochat knows a person by one id",
		},
	}
}
