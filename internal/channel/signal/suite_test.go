package signal

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/channeltest"
	"github.com/nanobot-go/nanobot/internal/channel/signaltest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) channeltest.Fixture {
		f, second := fixture(t, signaltest.New(crowd)), fixture(t, signaltest.NewAccount("+4915100000002", crowd))
		f.Second = &second
		return f
	})
}

func fixture(t *testing.T, fake *signaltest.Server) channeltest.Fixture {
	t.Helper()
	t.Cleanup(fake.Close)
	began := time.Now().UnixMilli()
	return channeltest.Fixture{
		Driver:  Driver(),
		Section: func(c channel.Common) json.RawMessage { return suiteSection(t, fake, c) },
		Options: func(o *channel.Options) { o.Client = client4(t) },
		Owner:   ann, Stranger: bob, Chat: func(sender string) string { return sender }, Group: crowd,
		Deliver: func(t *testing.T, in channeltest.In) { deliver(t, fake, began, in) },
		Seen: func() []channeltest.Seen {
			var out []channeltest.Seen
			for _, m := range fake.Messages() {
				s := channeltest.Seen{Chat: m.Chat, Text: m.Text}
				for _, f := range m.Files {
					s.Files = append(s.Files, f.Name)
				}
				out = append(out, s)
			}
			return out
		},
		Touched: func() int { return len(fake.Calls("sendTyping")) + len(fake.Calls("getAttachment")) },
		Limit: func(after time.Duration) {
			fake.Fail(signaltest.Failure{Method: "send", Code: -5, Text: "Failed to send message due to rate limiting", RetryAfter: int(after.Seconds())})
		},
		Break:      func() { fake.Fail(signaltest.Failure{Method: "send", Code: -3, Text: "Connection closed!"}) },
		Refuse:     func() { fake.Fail(signaltest.Failure{Method: "send", Code: -1, Text: "Unregistered user"}) },
		Cut:        fake.Drop,
		Repeats:    true,
		MediaLimit: true, AnyName: true,
		Frame: func(_ *testing.T, data []byte) {
			fake.PostRaw("data:" + strings.ReplaceAll(string(data), "\n", "\ndata:") + "\n\n")
		},
	}
}

func suiteSection(t *testing.T, fake *signaltest.Server, c channel.Common) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := object{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	all["dm"], all["phoneNumber"] = object{}, fake.Number()
	return section(t, fake.Host(), fake.Port(), all)
}

func deliver(t *testing.T, fake *signaltest.Server, began int64, in channeltest.In) {
	t.Helper()
	n, err := strconv.ParseInt(in.ID, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	data := object{"message": in.Text}
	if in.Mentioned {
		data["message"] = "\uFFFC " + in.Text
		data["mentions"] = []object{{"number": fake.Number(), "uuid": signaltest.UUID, "start": 0, "length": 1}}
	}
	if in.Group {
		data["groupInfo"] = object{"groupId": in.Chat, "type": "DELIVER"}
	}
	if in.File != "" {
		fake.Store("id-"+in.File, []byte("content of "+in.File))
		data["attachments"] = []object{{"contentType": "text/plain", "filename": in.File, "id": "id-" + in.File, "size": 10}}
	}
	fake.Post(from(in.Sender, "", "Ann", began+n, data))
}
