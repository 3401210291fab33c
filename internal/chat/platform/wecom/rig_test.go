package wecom

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
)

// rig is a channel on a fake.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *wecomtest.Server
	*bot
	deps  chat.Deps
	ahead atomic.Int64 // how far our clock is ahead, in ns
}

// newRig makes a channel that admits everybody, with changes to its section.
func newRig(t *testing.T, changes map[string]any) *rig {
	t.Helper()
	fake := wecomtest.New()
	t.Cleanup(fake.Close)
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("wecom")
	r.deps.Client = func(string) (*http.Client, error) { return loopback(t), nil }
	r.deps.Fetch = func() (*http.Client, error) { return loopback(t), nil }
	r.deps.Now = func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
	r.reopen(changes)
	return r
}

// reopen makes the channel again over the same state, as after a restart.
func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	all := map[string]any{"enabled": true, "botId": wecomtest.BotID, "secret": wecomtest.Secret, "wsUrl": r.fake.Socket(), "allowFrom": []string{"*"}}
	maps.Copy(all, changes)
	raw, err := json.Marshal(all)
	if err != nil {
		r.t.Fatal(err)
	}
	r.deps.Gate = r.Gate("wecom", raw, nil)
	ch, err := newChannel(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	r.bot = ch.(*bot)
}

// begin starts the channel and waits until it is connected; end stops it, which
// must not be an error.
func (r *rig) begin() (end func()) {
	r.t.Helper()
	before := len(r.States())
	stop := r.Start(r.Run)
	r.Await("a connection", func() bool { return len(r.States()) > before && r.fake.Connected() > 0 })
	return func() {
		r.t.Helper()
		if err := stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
}

// say lets Ann write and waits for the message.
func (r *rig) say(m wecomtest.Message) bus.Inbound {
	r.t.Helper()
	if m.From == "" {
		m.From = wecomtest.Ann
	}
	n := len(r.Inbound())
	r.fake.Say(m)
	r.Await("the message", func() bool { return len(r.Inbound()) > n })
	return r.Inbound()[n]
}

// opened is say, and waits until the stream of the answer is there.
func (r *rig) opened(m wecomtest.Message) bus.Inbound {
	r.t.Helper()
	n := len(r.fake.Shown())
	in := r.say(m)
	r.Await("the stream", func() bool { return len(r.fake.Shown()) > n })
	return in
}

// reply is what an agent says to a message.
func reply(in bus.Inbound, kind bus.Kind, text string) bus.Outbound {
	return bus.Outbound{Kind: kind, Route: in.Route, Meta: in.Meta, Text: text}
}

func (r *rig) send(out bus.Outbound) string {
	r.t.Helper()
	id, err := r.Send(r.t.Context(), out)
	if err != nil {
		r.t.Fatalf("send %q: %v", out.Text, err)
	}
	return id
}

// seen are the messages of the bot: kind, text and whether a stream is open.
func (r *rig) seen() (out []string) {
	for _, m := range r.fake.Shown() {
		s := m.Kind + ": " + m.Text + strings.Join(m.Files, ",")
		if m.Kind == "stream" && !m.Finished {
			s += " (open)"
		}
		out = append(out, s)
	}
	return out
}

// told is a message in one piece: what was typed, then a line for each piece
// that was not.
func told(in bus.Inbound) string {
	lines := []string{in.Text}
	if in.Untrusted {
		lines[0] = "(untrusted) " + in.Text
	}
	for _, q := range in.Quoted {
		lines = append(lines, "> "+q.About+": "+q.Text)
	}
	return strings.Join(lines, "\n")
}
