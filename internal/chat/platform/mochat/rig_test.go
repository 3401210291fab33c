package mochat

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mochat/mochattest"
)

// rig is a channel on a fake.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *mochattest.Server
	*bot
	deps chat.Deps
}

// object of a section or a request.
type fields = map[string]any

// newRig makes a channel that admits everybody, with changes to its section.
func newRig(t *testing.T, changes fields) *rig {
	t.Helper()
	fake := mochattest.New()
	t.Cleanup(fake.Close)
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("mochat")
	r.deps.Client = func(string) (*http.Client, error) { return loopback(t), nil }
	r.reopen(changes)
	return r
}

func section(t *testing.T, fake *mochattest.Server, changes fields) json.RawMessage {
	t.Helper()
	all := fields{
		"enabled": true, "baseUrl": fake.URL(), "clawToken": mochattest.Token, "agentUserId": mochattest.Self, "allowFrom": []string{"*"},
		"sessions": []string{"*"}, "panels": []string{"*"}, "replyDelayMode": "off", "refreshIntervalMs": 1000, "retryDelayMs": 100, "socketReconnectDelayMs": 100,
	}
	maps.Copy(all, changes)
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// reopen makes the channel again, as after a restart.
func (r *rig) reopen(changes fields) {
	r.t.Helper()
	raw := section(r.t, r.fake, changes)
	r.deps.Gate = r.Gate("mochat", raw, nil)
	ch, err := newChannel(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	r.bot = ch.(*bot)
}

// begin runs the channel until its socket delivers everything.
func (r *rig) begin() (end func()) {
	r.t.Helper()
	before := r.live()
	end = r.start()
	r.Await("the subscriptions", func() bool { return r.live() > before })
	return end
}

// live is how often the socket began to deliver everything.
func (r *rig) live() int { return strings.Count(r.Log.String(), liveNote) }

// start runs the channel until it is connected in any way.
func (r *rig) start() (end func()) {
	r.t.Helper()
	before := len(r.States())
	stop := r.Start(r.Run)
	r.Await("a connection", func() bool {
		states := r.States()
		return len(states) > before && !strings.Contains(states[len(states)-1], ": ")
	})
	return func() {
		r.t.Helper()
		if err := stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
}

// say lets Ann write to us and waits for the message.
func (r *rig) say(m mochattest.Message) bus.Inbound {
	r.t.Helper()
	m.From = mochattest.Ann
	n := len(r.Inbound())
	r.fake.Say(mochattest.SessionOf(mochattest.Ann), m)
	r.Await("the message", func() bool { return len(r.Inbound()) > n })
	return r.Inbound()[n]
}

// texts are what the agent got.
func (r *rig) texts() (out []string) {
	for _, in := range r.Inbound() {
		out = append(out, told(in))
	}
	return out
}

// told is a message in one piece: what was typed, then a line for each piece that
// was not.
func told(in bus.Inbound) string {
	lines := []string{in.Text}
	if in.Untrusted {
		lines[0] = "(untrusted) " + in.Text
	}
	for _, q := range in.Quoted {
		lines = append(lines, "> "+q.Text)
	}
	return strings.Join(lines, "\n")
}

// loopback is a client without the guards of the program.
func loopback(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ago is a time in the past.
func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

func frameOf(s string) socket.Frame { return socket.Frame{Data: []byte(s)} }
