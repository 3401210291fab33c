package matrix

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
)

// rig is a channel on a fake homeserver.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *matrixtest.Home
	*bot
	deps chat.Deps
}

func newRig(t *testing.T, fake *matrixtest.Home, changes map[string]any) *rig {
	t.Helper()
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("matrix")
	r.deps.Client = func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
	r.deps.Commands = []chat.Command{{Name: "help", About: "list"}}
	r.reopen(changes)
	return r
}

// reopen makes the channel again over the same state, as after a restart.
func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	raw := section(r.t, r.fake, changes)
	r.deps.Gate = r.Gate("matrix", raw, nil)
	r.bot = r.make(raw)
}

func (r *rig) make(raw json.RawMessage) *bot {
	r.t.Helper()
	ch, err := newChannel(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	b, ok := ch.(*bot)
	if !ok {
		r.t.Fatalf("newChannel made a %T", ch)
	}
	return b
}

// begin starts the channel and waits until it is connected; end stops it, which
// must be no error.
func (r *rig) begin() (end func()) {
	r.t.Helper()
	n := len(r.States())
	stop := r.Start(r.Run)
	r.Await("the connection", func() bool { return len(r.States()) > n && !strings.Contains(r.States()[n], ": ") })
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

func (r *rig) say(id string, content matrixtest.Object) {
	r.t.Helper()
	r.fake.Say(matrixtest.Event{ID: "$" + id, Room: annRoom, Sender: ann}, content)
}
