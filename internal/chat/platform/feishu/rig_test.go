package feishu

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
)

// rig is a channel on a fake server.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *feishutest.Server
	*bot
	deps chat.Deps
}

// httpClient makes clients that leave nothing open.
func httpClient(t *testing.T) func(string) (*http.Client, error) {
	t.Helper()
	return func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
}

// newRig makes a channel that admits everybody, with changes to its section.
func newRig(t *testing.T, changes map[string]any) *rig {
	t.Helper()
	fake := feishutest.New()
	t.Cleanup(fake.Close)
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("feishu")
	r.deps.Client = httpClient(t)
	r.reopen(changes)
	return r
}

// section is one for a fake.
func section(t *testing.T, fake *feishutest.Server, changes map[string]any) json.RawMessage {
	t.Helper()
	all := map[string]any{
		"enabled": true, "appId": feishutest.AppID, "appSecret": feishutest.AppSecret, "apiBaseUrl": fake.URL(), "accountsBaseUrl": fake.URL(), "allowFrom": []string{"*"},
	}
	maps.Copy(all, changes)
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// reopen makes the channel again over the same state, as after a restart.
func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	raw := section(r.t, r.fake, changes)
	r.deps.Gate = r.Gate("feishu", raw, nil)
	b, err := newBot(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	r.bot = b
}

// begin starts the channel and waits until it is connected; end stops it, which
// must not be an error.
func (r *rig) begin() (end func()) {
	r.t.Helper()
	before := len(r.States())
	stop := r.Start(r.Run)
	r.Await("a connection", func() bool {
		return len(r.States()) > before && (r.o.Mode == modeWebhook || r.fake.Connected() > 0)
	})
	return func() {
		r.t.Helper()
		if err := stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
}

// ready lets the channel send without receiving.
func (r *rig) ready() *rig {
	r.t.Helper()
	if err := r.hello(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return r
}

// receive waits for so many messages.
func (r *rig) receive(n int) []bus.Inbound {
	r.t.Helper()
	r.Await("messages", func() bool { return len(r.Inbound()) >= n })
	return r.Inbound()
}

// said is a message in one piece: what was typed, then a line for each piece
// that was not.
func said(in bus.Inbound) string {
	lines := []string{in.Text}
	if in.Untrusted {
		lines[0] = "(untrusted) " + in.Text
	}
	for _, q := range in.Quoted {
		lines = append(lines, "> "+q.About+": "+q.Text)
	}
	return strings.Join(lines, "\n")
}

// to is where answers to Ann go.
func to(message string) bus.Route {
	return bus.Route{Channel: "feishu", ChatID: feishutest.AnnID, MessageID: message}
}

// send sends something that must arrive.
func (r *rig) send(out bus.Outbound) string {
	r.t.Helper()
	id, err := r.Send(r.t.Context(), out)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// named is a mention of the bot.
func named() []feishutest.Mention {
	return []feishutest.Mention{{Key: "@_user_1", ID: feishutest.BotID, Name: feishutest.BotName}}
}
