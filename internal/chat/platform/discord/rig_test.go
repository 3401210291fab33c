package discord

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
)

type object = discordtest.Object

// The channel satisfies what the manager looks for.
var (
	_ chat.Streamer  = (*bot)(nil)
	_ chat.Signaller = (*bot)(nil)
	_ chat.Addresser = (*bot)(nil)
)

// rig is a channel on a fake server.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *discordtest.Server
	*bot
	deps chat.Deps
}

// section is the configuration most tests use, with changes.
func section(fake *discordtest.Server, changes map[string]any) json.RawMessage {
	s := map[string]any{"enabled": true, "token": discordtest.Token, "allowFrom": []string{"42"}, "apiBase": fake.URL()}
	maps.Copy(s, changes)
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return data
}

func loopback(t *testing.T) *discordtest.Server {
	t.Helper()
	fake := discordtest.New()
	t.Cleanup(fake.Close)
	return fake
}

// plainClient reaches the loopback.
func plainClient(t *testing.T) func(string) (*http.Client, error) {
	t.Helper()
	return func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
}

func newRig(t *testing.T, fake *discordtest.Server, changes map[string]any) *rig {
	t.Helper()
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("discord")
	r.deps.Client = plainClient(t)
	r.deps.Commands = []chat.Command{{Name: "new", About: "start afresh"}, {Name: "model", About: "choose", Args: "[preset|model]"}, {Name: "trigger", About: "make", Args: "<name>"}}
	r.reopen(changes)
	return r
}

// reopen makes the channel again over the same state, as after a restart.
func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	raw := section(r.fake, changes)
	r.deps.Gate = r.Gate("discord", raw, nil)
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

// begin starts the channel and waits until Discord has let it in; end stops it,
// which must not be an error.
func (r *rig) begin() (end func()) {
	r.t.Helper()
	before := len(r.States())
	stop := r.Start(r.Run)
	r.Await("the connection", func() bool { return len(r.States()) > before })
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

func (r *rig) receive(n int) []bus.Inbound {
	r.t.Helper()
	r.Await("messages", func() bool { return len(r.Inbound()) >= n })
	return r.Inbound()
}

// contents are the texts that the bot sent to a channel.
func contents(fake *discordtest.Server, channelID string) []string {
	out := []string{}
	for _, m := range fake.Messages(channelID) {
		out = append(out, m.Text())
	}
	return out
}
