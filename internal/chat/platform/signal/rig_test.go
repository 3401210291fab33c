package signal

import (
	"encoding/json"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
)

type object = map[string]any

const (
	ann     = "+4917600000042"
	annUUID = "aaaaaaaa-0000-4000-8000-000000000042"
	bob     = "+4917600000066"
	crowd   = "Z3JvdXBncm91cGdyb3VwZ3JvdXBncm91cGdyb3VwMDE=" // 32 bytes
)

// rig is a channel on a fake daemon.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *signaltest.Server
	*bot
	deps chat.Deps
}

func newRig(t *testing.T, changes object) *rig {
	t.Helper()
	fake := signaltest.New(crowd)
	t.Cleanup(fake.Close)
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("signal")
	r.deps.Client = client4(t)
	r.reopen(changes)
	return r
}

func client4(t *testing.T) func(string) (*http.Client, error) {
	t.Helper()
	return func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
}

// section is the configuration most tests use, with changes.
func section(t *testing.T, host string, port int, changes object) json.RawMessage {
	t.Helper()
	s := object{
		"enabled": true, "phoneNumber": signaltest.Number, "daemonHost": host, "daemonPort": port,
		"attachmentsDir": filepath.Join(t.TempDir(), "none"), "dm": object{"allowFrom": []string{ann}},
		"group": object{"enabled": true, "allowFrom": []string{crowd}},
	}
	maps.Copy(s, changes)
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// reopen makes the channel again over the same state, as after a restart.
func (r *rig) reopen(changes object) {
	r.t.Helper()
	r.open(r.fake.Host(), r.fake.Port(), changes)
}

func (r *rig) open(host string, port int, changes object) {
	r.t.Helper()
	raw := section(r.t, host, port, changes)
	r.deps.Gate = r.Gate("signal", raw, nil)
	ch, err := newBot(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	b, ok := ch.(*bot)
	if !ok {
		r.t.Fatalf("a %T was made", ch)
	}
	r.bot = b
}

// begin starts the channel; end stops it, which must not be an error.
func (r *rig) begin() (end func()) {
	stop := r.Start(r.Run)
	r.Await("the connection", r.fake.Listening)
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

// from is an envelope of a person.
func from(number, uuid, name string, at int64, data object) object {
	data["timestamp"] = at
	out := object{"source": number, "sourceName": name, "sourceDevice": 1, "timestamp": at, "dataMessage": data}
	if number != "" {
		out["sourceNumber"] = number
	}
	if uuid != "" {
		out["sourceUuid"] = uuid
		if number == "" {
			out["source"] = uuid
		}
	}
	return out
}

func inGroup(data object) object {
	data["groupInfo"] = object{"groupId": crowd, "type": "DELIVER"}
	return data
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
