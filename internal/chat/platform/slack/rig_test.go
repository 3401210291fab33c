package slack

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
)

type object = map[string]any

// rig is a channel on a fake server.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *slacktest.Server
	*bot
	deps chat.Deps
}

func newFake(t *testing.T) *slacktest.Server {
	t.Helper()
	fake := slacktest.New()
	t.Cleanup(fake.Close)
	return fake
}

// section is the configuration most tests use, with changes.
func section(fake *slacktest.Server, changes object) json.RawMessage {
	s := object{
		"enabled": true, "botToken": slacktest.BotToken, "appToken": slacktest.AppToken, "signingSecret": slacktest.SigningSecret,
		"apiBase": fake.URL(), "allowFrom": []string{"*"}, "owners": []string{"U0ANN"},
	}
	maps.Copy(s, changes)
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return data
}

func newRig(t *testing.T, changes object) *rig {
	t.Helper()
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: newFake(t)}
	r.deps = r.Deps("slack")
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	r.deps.Client = func(string) (*http.Client, error) { return &http.Client{Transport: transport}, nil }
	r.deps.Commands = []chat.Command{{Name: "new", About: "start afresh"}, {Name: "help", About: "list"}}
	r.reopen(changes)
	return r
}

// reopen makes the channel again over the same state, as after a restart.
func (r *rig) reopen(changes object) {
	r.t.Helper()
	raw := section(r.fake, changes)
	r.deps.Gate = r.Gate("slack", raw, nil)
	b, err := newBot(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	r.bot = b
}

// begin starts the channel; end stops it, which must be no error.
func (r *rig) begin() (end func()) {
	r.t.Helper()
	n := len(r.States())
	stop := r.Start(r.Run)
	r.Await("a connection", func() bool { return len(r.States()) > n })
	return func() {
		r.t.Helper()
		if err := stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
}

// shown is a message in one piece: what was typed, then a line for each piece
// that was not.
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

func (r *rig) texts() []string {
	out := []string{}
	for _, in := range r.Inbound() {
		out = append(out, shown(in))
	}
	return out
}

func (r *rig) receive(n int) []bus.Inbound {
	r.t.Helper()
	r.Await("messages", func() bool { return len(r.Inbound()) >= n })
	return r.Inbound()
}

// route is a conversation.
func route(chatID, thread string) bus.Route {
	return bus.Route{Channel: "slack", ChatID: chatID, ThreadID: thread}
}

func (r *rig) send(out bus.Outbound) string {
	r.t.Helper()
	id, err := r.Send(r.t.Context(), out)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}
