package teams

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
)

const (
	mine  = "a:owner"              // a personal chat
	group = "19:group@thread.v2"   // a group chat
	team  = "19:team@thread.tacv2" // a channel of a team
)

// rig is a channel on a fake server.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *teamstest.Server
	*bot
	deps chat.Deps
}

func newFake(t *testing.T) *teamstest.Server {
	t.Helper()
	fake := teamstest.New()
	t.Cleanup(fake.Close)
	return fake
}

// section is the configuration for a fake, with changes; nil removes a key.
func section(fake *teamstest.Server, changes map[string]any) json.RawMessage {
	s := map[string]any{
		"enabled": true, "appId": teamstest.AppID, "appPassword": teamstest.Password, "tenantId": teamstest.Tenant, "port": 0,
		"allowFrom": []string{"*"}, "loginBase": fake.URL(), "openIdUrl": fake.OpenIDURL(), "serviceUrl": fake.ServiceURL(),
		"trustedServiceUrlHosts": []string{"127.0.0.1"},
	}
	maps.Copy(s, changes)
	maps.DeleteFunc(s, func(_ string, v any) bool { return v == nil })
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return data
}

// plainClient reaches loopback.
func plainClient(t *testing.T) func() (*http.Client, error) {
	t.Helper()
	return func() (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
}

func newRig(t *testing.T, fake *teamstest.Server, changes map[string]any) *rig {
	t.Helper()
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("msteams")
	client := plainClient(t)
	r.deps.Client = func(string) (*http.Client, error) { return client() }
	r.deps.Fetch = client
	r.reopen(changes)
	return r
}

// reopen makes the channel again over the same state, as after a restart.
func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	raw := section(r.fake, changes)
	r.deps.Gate = r.Gate("msteams", raw, nil)
	ch, err := newChannel(r.deps, raw)
	if err != nil {
		r.t.Fatal(err)
	}
	b, ok := ch.(*bot)
	if !ok {
		r.t.Fatalf("the channel is a %T", ch)
	}
	r.bot = b
	r.fake.Attach(b.Routes()["/api/messages"])
}

// begin starts the channel; end stops it, which must not be an error.
func (r *rig) begin() (end func()) {
	r.t.Helper()
	n := len(r.States())
	stop := r.Start(r.Run)
	r.Await("the channel to run", func() bool { return len(r.States()) > n })
	return func() {
		r.t.Helper()
		if err := stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
}

// post sends an activity and expects that it is accepted.
func (r *rig) post(a teamstest.Object) {
	r.t.Helper()
	if status, answer := r.fake.Post(a); status != http.StatusOK || string(answer) != "{}" {
		r.t.Fatalf("the bot answered %d %s", status, answer)
	}
}

// say is a message of the owner in the personal chat.
func (r *rig) say(id, text string, changes teamstest.Object) {
	r.t.Helper()
	r.post(r.fake.Activity(id, "owner", mine, text, changes))
}

func (r *rig) receive(n int) []bus.Inbound {
	r.t.Helper()
	r.Await("messages", func() bool { return len(r.Inbound()) >= n })
	return r.Inbound()
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

func to(chatID string) bus.Route { return bus.Route{Channel: "msteams", ChatID: chatID} }

// in is a conversation of several people, for an activity.
func in(kind, id string) teamstest.Object {
	return teamstest.Object{"conversation": teamstest.Object{"conversationType": kind, "id": id, "tenantId": teamstest.Tenant, "isGroup": true}}
}

// mention is an activity that names us.
func mention(changes teamstest.Object) teamstest.Object {
	changes["entities"] = []any{teamstest.Object{"type": "mention", "text": "<at>Nano</at>", "mentioned": teamstest.Object{"id": teamstest.BotID, "name": "Nano"}}}
	return changes
}
