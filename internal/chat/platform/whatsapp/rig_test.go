package whatsapp

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/whatsapp/whatsapptest"
)

type object = map[string]any

const (
	ann    = "4917600000042"
	annJID = ann + "@s.whatsapp.net"
	annLID = "123456789012345@lid"
	bob    = "4917600000066"
	crowd  = "120363000000000001@g.us"
)

// rig is a channel on a fake bridge.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *whatsapptest.Server
	*bot
	deps chat.Deps
}

func client4(t *testing.T) func(string) (*http.Client, error) {
	t.Helper()
	return func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
}

func section(t *testing.T, fake *whatsapptest.Server, changes object) json.RawMessage {
	t.Helper()
	s := object{"enabled": true, "bridgeUrl": fake.URL(), "bridgeToken": whatsapptest.Token, "allowFrom": []string{ann}}
	maps.Copy(s, changes)
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func newRig(t *testing.T, old bool, changes object) *rig {
	t.Helper()
	fake := whatsapptest.New(t.TempDir())
	fake.Old = old
	t.Cleanup(fake.Close)
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("whatsapp")
	r.deps.Client = client4(t)
	raw := section(t, fake, changes)
	r.deps.Gate = r.Gate("whatsapp", raw, nil)
	b, err := newBot(r.deps, raw)
	if err != nil {
		t.Fatal(err)
	}
	hasten(b, old)
	r.bot = b
	return r
}

// hasten takes the pauses out of a channel. Only an old bridge does not answer
// to auth: there is nothing to wait for.
func hasten(ch chat.Channel, old bool) {
	b, ok := ch.(*bot)
	if !ok {
		return
	}
	b.jitter, b.hello = time.Millisecond, time.Minute // of a slow machine
	if old {
		b.hello = 50 * time.Millisecond
	}
}

// begin starts the channel; end stops it, which must not be an error.
func (r *rig) begin() (end func()) {
	r.t.Helper()
	stop := r.Start(r.Run)
	r.Await("the connection", func() bool { return len(r.States()) > 0 })
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

// from is a message as nanobot-whatsapp hands it over.
func from(id, jid, alt, text string) object {
	return object{"id": id, "sender": jid, "pn": alt, "participant": jid, "participantAlt": alt, "content": text, "timestamp": time.Now().Unix(), "name": "Ann"}
}

func inGroup(f object) object {
	f["sender"], f["isGroup"], f["pn"] = crowd, true, ""
	return f
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
