package signal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		f, second := fixture(t, signaltest.New(crowd)), fixture(t, signaltest.NewAccount("+4915100000002", crowd))
		f.Second = &second
		return f
	})
}

func fixture(t *testing.T, fake *signaltest.Server) chattest.Fixture {
	t.Helper()
	t.Cleanup(fake.Close)
	began := time.Now().UnixMilli()
	return chattest.Fixture{
		Driver:  Driver(),
		Section: func(c chat.Common) json.RawMessage { return suiteSection(t, fake, c) },
		Owner:   ann, Stranger: bob, Chat: func(sender string) string { return sender }, Group: crowd,
		Pose: func(_ *testing.T, in chattest.In, name string) {
			fake.Post(from(in.Sender, "", name, began+2100, object{"message": in.Text, "profileName": name}))
		},
		Deliver: func(t *testing.T, in chattest.In) { inject(t, fake, began, in) },
		Seen: func() []chattest.Seen {
			var out []chattest.Seen
			for _, m := range fake.Messages() {
				s := chattest.Seen{Chat: strings.Replace(m.Chat, bobUUID, bob, 1), Text: m.Text}
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
		Marks:  func(_, id string) []string { return marks(fake, began, id) },
		Typing: func(chatID, _ string) (int, bool) { return typing(fake, chatID) },
		Alias:  func(string) string { return bobUUID },
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				fake.Beat(200 * time.Millisecond)
				b.rpc.idle = 2 * time.Second
			}
		},
		Lacks: map[string]string{
			"Streams": "clients show at most ten edits of a message",
			"Thread":  "Signal has no threads",
			"Tap":     "Signal has no buttons",
			"Acked":   "signal-cli acknowledges by itself",
			"Forge":   "we ask the daemon: there is no address to forge a message at",
			"Backlog": "Signal itself keeps what was not fetched, without a limit of age",
		},
	}
}

const bobUUID = "bbbbbbbb-0000-4000-8000-000000000066"

// marks are our reactions on a message.
func marks(fake *signaltest.Server, began int64, id string) (out []string) {
	n, _ := strconv.ParseInt(id, 10, 64) // the suite's own
	for _, c := range fake.Calls("sendReaction") {
		if at, _ := c.Params["targetTimestamp"].(float64); int64(at) != began+n {
			continue
		}
		if out = nil; c.Params["remove"] != true {
			out = []string{fmt.Sprint(c.Params["emoji"])}
		}
	}
	return out
}

// typing counts how often we were shown as typing. A message ends it.
func typing(fake *signaltest.Server, chatID string) (n int, on bool) {
	for _, c := range fake.Calls("") {
		if c.Method != "send" && c.Method != "sendTyping" || !strings.Contains(fmt.Sprint(c.Params["recipient"]), chatID) {
			continue
		}
		on = c.Method == "sendTyping" && c.Params["stop"] != true
		if on {
			n++
		}
	}
	return n, on
}

func suiteSection(t *testing.T, fake *signaltest.Server, c chat.Common) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := object{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	all["dm"], all["phoneNumber"], all["reactEmoji"] = object{}, fake.Number(), "👀"
	return section(t, fake.Host(), fake.Port(), all)
}

func inject(t *testing.T, fake *signaltest.Server, began int64, in chattest.In) {
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
	person, uuid := in.Sender, in.Also
	if !strings.HasPrefix(person, "+") {
		person, uuid = uuid, person
	}
	fake.Post(from(person, uuid, "Ann", began+n, data))
}
