package napcat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/channeltest"
	"github.com/nanobot-go/nanobot/internal/channel/napcattest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) channeltest.Fixture {
		f, second := fixture(t, napcattest.Self), fixture(t, 10002)
		f.Second = &second
		return f
	})
}

func fixture(t *testing.T, self int64) channeltest.Fixture {
	t.Helper()
	fake := napcattest.New()
	t.Cleanup(fake.Close)
	fake.Become(self)
	fail := func(code int, text string) func() {
		return func() { fake.Fail("send_msg", code, text) }
	}
	return channeltest.Fixture{
		Driver:  Driver(),
		Section: func(c channel.Common) json.RawMessage { return commonSection(t, c, fake) },
		Options: func(o *channel.Options) {
			o.Client = func(string) (*http.Client, error) { return loopback(t), nil }
			o.Fetch = func() (*http.Client, error) { return loopback(t), nil }
		},
		Owner: fmt.Sprint(napcattest.Ann), Stranger: "20666", Group: groupPrefix + fmt.Sprint(napcattest.Group),
		Chat:    func(sender string) string { return privatePrefix + sender },
		Deliver: func(t *testing.T, in channeltest.In) { deliver(t, fake, self, in) },
		Seen:    func() []channeltest.Seen { return seen(fake) },
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
		Frame: func(_ *testing.T, frame []byte) { fake.Raw(string(frame)) },
	}
}

// loopback is a client without the guards of the program.
func loopback(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func commonSection(t *testing.T, c channel.Common, fake *napcattest.Server) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	all["wsUrl"], all["accessToken"] = fake.Socket(), napcattest.Token
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return data
}

func deliver(t *testing.T, fake *napcattest.Server, self int64, in channeltest.In) {
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

func seen(fake *napcattest.Server) []channeltest.Seen {
	var out []channeltest.Seen
	for _, m := range fake.Sent() {
		chat := privatePrefix + fmt.Sprint(m.To)
		if m.Group != 0 {
			chat = groupPrefix + fmt.Sprint(m.Group)
		}
		out = append(out, channeltest.Seen{Chat: chat, Text: strings.TrimSpace(m.Words()), Files: m.Files})
	}
	return out
}
