package napcat

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/napcat/napcattest"
)

// rig is a channel on a fake.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *napcattest.Server
	*bot
	deps chat.Deps
}

// newRig makes a channel that admits everybody, with changes to its section.
func newRig(t *testing.T, changes map[string]any) *rig {
	t.Helper()
	fake := napcattest.New()
	t.Cleanup(fake.Close)
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("napcat")
	r.deps.Client = func(string) (*http.Client, error) { return loopback(t), nil }
	r.deps.Fetch = func() (*http.Client, error) { return loopback(t), nil }
	r.reopen(changes)
	return r
}

func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	all := map[string]any{"enabled": true, "wsUrl": r.fake.Socket(), "accessToken": napcattest.Token, "allowFrom": []string{"*"}}
	maps.Copy(all, changes)
	raw, err := json.Marshal(all)
	if err != nil {
		r.t.Fatal(err)
	}
	common := maps.Clone(all)
	delete(common, "groupPolicy") // as the manager does with policies of a platform's own
	shared, err := json.Marshal(common)
	if err != nil {
		r.t.Fatal(err)
	}
	r.deps.Gate = r.Gate("napcat", shared, nil)
	ch, err := newChannel(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	r.bot = ch.(*bot)
}

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
func (r *rig) say(m napcattest.Message) bus.Inbound {
	r.t.Helper()
	if m.From == 0 {
		m.From = napcattest.Ann
	}
	n := len(r.Inbound())
	r.fake.Say(m)
	r.Await("the message", func() bool { return len(r.Inbound()) > n })
	return r.Inbound()[n]
}

func seg(kind string, pairs ...any) napcattest.Segment {
	s := napcattest.Segment{Type: kind, Data: map[string]any{}}
	for i := 0; i < len(pairs); i += 2 {
		s.Data[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return s
}

// told is a message in one piece: what was typed, then a line for each piece that
// was not.
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
