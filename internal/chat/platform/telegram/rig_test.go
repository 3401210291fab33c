package telegram

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

// rig is a channel on a fake server.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *telegramtest.Server
	*bot
	deps chat.Deps
}

// section is the configuration most tests use, with changes.
func section(changes map[string]any) json.RawMessage {
	s := map[string]any{"enabled": true, "token": telegramtest.Token, "allowFrom": []string{"*"}}
	maps.Copy(s, changes)
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return data
}

// newRig makes a channel on a fake server that is reached by loopback, or
// directly if it has no listener.
func newRig(t *testing.T, fake *telegramtest.Server, changes map[string]any) *rig {
	t.Helper()
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("telegram")
	r.deps.Client = func(string) (*http.Client, error) { return &http.Client{Transport: fake.Transport()}, nil }
	r.deps.Commands = []chat.Command{{Name: "new", About: "start afresh"}, {Name: "dream-log", About: "what changed"}, {Name: "help", About: "list"}}
	r.reopen(changes)
	return r
}

// reopen makes the channel anew over the same state, as after a restart.
func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	all := map[string]any{"apiBase": r.fake.URL()}
	maps.Copy(all, changes)
	raw := section(all)
	r.deps.Gate = r.Gate("telegram", raw, nil)
	ch, err := newChannel(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	b, ok := ch.(*bot)
	if !ok {
		r.t.Fatalf("New made a %T", ch)
	}
	r.bot = b
}

// begin starts the channel; end stops it, which must be no error.
func (r *rig) begin() (end func()) {
	stop := r.Start(r.Run)
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
	var out []string
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

var errDisk = errors.New("disk full")

func loopback(t *testing.T) *telegramtest.Server {
	t.Helper()
	fake := telegramtest.New()
	t.Cleanup(fake.Close)
	return fake
}
