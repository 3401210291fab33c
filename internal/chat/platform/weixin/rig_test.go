package weixin

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
)

const (
	ann = "o9cq-ann@im.wechat"
	bob = "o9cq-bob@im.wechat"
)

// rig is a channel on a fake service.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *weixintest.Server
	*bot
	deps chat.Deps
	path string // of account.json
}

// client4 makes clients that find WeChat's addresses at the fake.
func client4(t *testing.T, fake *weixintest.Server) func(string) (*http.Client, error) {
	t.Helper()
	return func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: atFake{strings.TrimPrefix(fake.URL(), "http://"), transport}}, nil
	}
}

// atFake answers requests for WeChat's hosts; the fake sees which one was meant.
type atFake struct {
	fake string
	next http.RoundTripper
}

func (a atFake) RoundTrip(r *http.Request) (*http.Response, error) {
	if isWeChat(r.URL) {
		r = r.Clone(r.Context())
		r.Host = r.URL.Host
		r.URL.Scheme, r.URL.Host = "http", a.fake
	}
	return a.next.RoundTrip(r)
}

func section(t *testing.T, fake *weixintest.Server, changes object) json.RawMessage {
	t.Helper()
	s := object{"enabled": true, "baseUrl": fake.URL(), "cdnBaseUrl": fake.CDN(), "token": weixintest.Token, "allowFrom": []string{ann}, "pollTimeout": 1}
	maps.Copy(s, changes)
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func newRig(t *testing.T, changes object) *rig {
	t.Helper()
	fake := weixintest.New()
	t.Cleanup(fake.Close)
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("weixin")
	r.deps.Client = client4(t, fake)
	raw := section(t, fake, changes)
	r.deps.Gate = r.Gate("weixin", raw, nil)
	dir, err := r.deps.Dir()
	if err != nil {
		t.Fatal(err)
	}
	r.path = filepath.Join(dir, "account.json")
	r.remake(raw)
	return r
}

// remake makes the channel again, as a new process does.
func (r *rig) remake(raw json.RawMessage) {
	r.t.Helper()
	b, err := newBot(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	quick(b)
	r.bot = b
}

// quick makes a channel impatient.
func quick(b *bot) {
	b.retry, b.rest, b.watch = time.Millisecond, time.Millisecond, time.Millisecond
}

// begin starts the channel; end stops it, which must not be an error.
func (r *rig) begin() (end func()) {
	r.t.Helper()
	n := len(r.States())
	stop := r.Start(r.Run)
	r.Await("the connection", func() bool { return len(r.States()) > n })
	return func() {
		r.t.Helper()
		if err := stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
}

func (r *rig) receive(n int) []bus.Inbound {
	r.t.Helper()
	r.Await("messages", func() bool { return len(r.Inbound()) >= n })
	return r.Inbound()
}

// written writes account.json.
func (r *rig) written(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// kept is what account.json says.
func (r *rig) kept() (out object) {
	r.t.Helper()
	data, err := os.ReadFile(r.path)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// answer is a part on its way to a person.
func answer(to, text string) bus.Outbound {
	return bus.Outbound{Kind: bus.Final, Key: "final:" + text + "/0", Route: bus.Route{Channel: "weixin", ChatID: to, MessageID: "1"}, Text: text}
}

func shown(in bus.Inbound) string {
	lines := []string{in.Text}
	if in.Untrusted {
		lines[0] = "(untrusted) " + in.Text
	}
	for _, q := range in.Quoted {
		lines = append(lines, "> "+q.About+": "+q.Text)
	}
	return strings.Join(lines, "\n")
}
