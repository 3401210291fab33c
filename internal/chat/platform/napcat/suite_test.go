package napcat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/napcat/napcattest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(t *testing.T) chattest.Fixture {
		f, second := fixture(t, napcattest.Self), fixture(t, 10002)
		f.Second = &second
		return f
	})
}

func fixture(t *testing.T, self int64) chattest.Fixture {
	t.Helper()
	fake := napcattest.New()
	t.Cleanup(fake.Close)
	fake.Become(self)
	fail := func(code int, text string) func() {
		return func() { fake.Fail("send_msg", code, text) }
	}
	return chattest.Fixture{
		Driver:  Driver(),
		Section: func(c chat.Common) json.RawMessage { return commonSection(t, c, fake) },
		Owner:   fmt.Sprint(napcattest.Ann), Stranger: "20666", Group: groupPrefix + fmt.Sprint(napcattest.Group),
		Chat: func(sender string) string { return privatePrefix + sender },
		Pose: func(t *testing.T, in chattest.In, name string) {
			id, err := strconv.ParseInt(in.ID, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			from, err := strconv.ParseInt(in.Sender, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			fake.Say(napcattest.Message{ID: id, From: from, CQ: in.Text, Name: name})
		},
		Deliver: func(t *testing.T, in chattest.In) { inject(t, fake, self, in) },
		Seen:    func() []chattest.Seen { return seen(fake) },
		Touched: func() int {
			n := 0
			for _, c := range fake.Calls("") {
				if c.Action != "get_login_info" && c.Action != "send_msg" {
					n++
				}
			}
			return n
		},
		Break:   fail(1200, "Timeout: NTEvent"),
		Refuse:  fail(1200, "发送失败"),
		Cut:     fake.Cut,
		Repeats: true, MediaLimit: true, AnyName: true,
		Typing: func(chatID, _ string) (n int, on bool) {
			for _, c := range fake.Calls("set_input_status") {
				if user, ok := c.Params["user_id"].(float64); ok && chatID == privatePrefix+strconv.Itoa(int(user)) {
					n++
				}
			}
			return n, false
		},
		Frame: func(_ *testing.T, frame []byte) { fake.Raw(string(frame)) },
		Impatient: func(ch chat.Channel) {
			if b, ok := ch.(*bot); ok {
				b.silence = 2 * time.Second
			}
		},
		Lacks: map[string]string{
			"Limit":   "NapCat names no time to wait",
			"Streams": "messages of QQ cannot be changed",
			"Thread":  "QQ has no threads",
			"Marks":   "QQ has reactions in groups only: see TestSend",
			"Tap":     "OneBot has no buttons",
			"Acked":   "OneBot asks for no acknowledgement",
			"Forge":   "we connect to NapCat: there is no address to forge a message at",
			"Backlog": "nanobot reads no history of QQ",
			"Alias":   "QQ knows a person by one number",
		},
	}
}

// loopback is a client without the guards of the program.
func loopback(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func commonSection(t *testing.T, c chat.Common, fake *napcattest.Server) json.RawMessage {
	t.Helper()
	return chattest.Section(t, c, map[string]any{"wsUrl": fake.Socket(), "accessToken": napcattest.Token})
}

func inject(t *testing.T, fake *napcattest.Server, self int64, in chattest.In) {
	t.Helper()
	whole := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	m := napcattest.Message{ID: whole(in.ID), From: whole(in.Sender), Segments: []napcattest.Segment{napcattest.Text(in.Text)}}
	if in.Group {
		m.Group = napcattest.Group
	}
	if in.Mentioned {
		m.Segments = append([]napcattest.Segment{{Type: "at", Data: map[string]any{"qq": fmt.Sprint(self)}}}, m.Segments...)
	}
	if in.File != "" {
		m.Segments = append(m.Segments, napcattest.Segment{Type: "file", Data: map[string]any{"file": in.File, "url": fake.Store([]byte("content of " + in.File))}})
	}
	fake.Say(m)
}

func seen(fake *napcattest.Server) []chattest.Seen {
	var out []chattest.Seen
	for _, m := range fake.Sent() {
		chatID := privatePrefix + fmt.Sprint(m.To)
		if m.Group != 0 {
			chatID = groupPrefix + fmt.Sprint(m.Group)
		}
		out = append(out, chattest.Seen{Chat: chatID, Text: strings.TrimSpace(m.Words()), Files: m.Files})
	}
	return out
}
