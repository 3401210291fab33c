package mattermost

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
)

// rig is a channel on a fake server.
type rig struct {
	*chattest.Rig
	t    *testing.T
	fake *mattermosttest.Server
	*bot
	deps chat.Deps
}

// newRig makes a channel that admits everybody, with changes to its section.
func newRig(t *testing.T, changes map[string]any) *rig {
	t.Helper()
	fake := mattermosttest.New()
	t.Cleanup(fake.Close)
	r := &rig{Rig: chattest.NewRig(t), t: t, fake: fake}
	r.deps = r.Deps("mattermost")
	r.deps.Client = func(string) (*http.Client, error) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}, nil
	}
	r.reopen(changes)
	return r
}

// reopen makes the channel again over the same state, as after a restart.
func (r *rig) reopen(changes map[string]any) {
	r.t.Helper()
	all := map[string]any{"enabled": true, "token": mattermosttest.Token, "serverUrl": r.fake.URL(), "allowFrom": []string{"*"}}
	maps.Copy(all, changes)
	raw, err := json.Marshal(all)
	if err != nil {
		r.t.Fatal(err)
	}
	r.deps.Gate = r.Gate("mattermost", raw, nil)
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
	r.Await("a connection", func() bool { return len(r.States()) > before && r.fake.Connected() > 0 && r.hearsPresses() })
	return func() {
		r.t.Helper()
		if err := stop(); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
}

// hearsPresses reports whether presses of buttons are received, if there are any.
func (r *rig) hearsPresses() bool {
	h, ok := r.Routes()["/mattermost"]
	if !ok {
		return true
	}

	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, "/mattermost", strings.NewReader("{")))
	return w.Code != http.StatusServiceUnavailable
}

// say lets Ann write to the bot, in their direct channel unless p says another.
func (r *rig) say(p mattermosttest.Post) mattermosttest.Post {
	if p.UserID == "" {
		p.UserID = mattermosttest.AnnID()
	}
	if p.ChannelID == "" {
		p.ChannelID = r.fake.Direct(p.UserID)
	}
	return r.fake.Say(p)
}

// take handles an event without a connection.
func (r *rig) take(e event) {
	r.t.Helper()
	if _, err := r.hello(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	e.Account = r.account()
	if err := (&receiver{bot: r.bot, submit: r.Submit}).handle(r.t.Context(), e); err != nil {
		r.t.Fatal(err)
	}
}

// receive waits for so many messages.
func (r *rig) receive(n int) []bus.Inbound {
	r.t.Helper()
	r.Await("messages", func() bool { return len(r.Inbound()) >= n })
	return r.Inbound()
}

// words is a message in one piece: what was typed, then a line for each piece
// that was not.
func words(in bus.Inbound) string {
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
		out = append(out, words(in))
	}
	return out
}

var errDisk = errors.New("disk full")
