package slack

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
)

// A connection that ends, or that Slack wants to have made again, is made
// again; nothing is lost or comes twice.
func TestReconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	var want []string
	for i, lose := range []func(){
		r.fake.Cut,
		func() { r.fake.Refresh("refresh_requested") },
		func() { r.fake.Refresh("something new") },
	} {
		text := strings.Repeat("x", i+1)
		want = append(want, text)
		n := len(r.States())
		lose()
		r.fake.Say("U0ANN", text)
		r.receive(i + 1)
		r.Await("the news of it", func() bool { return len(r.States()) >= n+2 })
	}
	if d := cmp.Diff(want, r.texts()); d != "" {
		t.Errorf("the agent got (-want +got):\n%s", d)
	}
	if s := r.States(); !strings.Contains(s[1], ": ") || s[len(s)-1] != "@nb_bot in Fake" {
		t.Errorf("the states are %q", s)
	}
}

// An event that cannot be kept is not confirmed: Slack sends it again.
func TestRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	ts := r.fake.Say("U0ANN", "hi")
	r.receive(1)
	for range 3 {
		r.fake.Event(object{"type": "message", "user": "U0ANN", "channel": r.fake.DM("U0ANN"), "text": "hi", "ts": ts, "channel_type": "im"})
	}
	r.fake.Say("U0ANN", "next")
	r.receive(2)
	r.Await("all to be confirmed", func() bool { return r.fake.Pending() == 0 })
	if d := cmp.Diff([]string{"hi", "next"}, r.texts()); d != "" {
		t.Errorf("the agent got (-want +got):\n%s", d)
	}
}

func TestFatal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes object
		prepare func(f *slacktest.Server)
		says    string
	}{
		"bot token": {changes: object{"botToken": "xoxb-wrong"}, says: "invalid_auth); check channels.slack.botToken"},
		"app token": {changes: object{"appToken": "xapp-wrong"}, says: "check channels.slack.appToken"},
		"app token of another kind": {
			prepare: func(f *slacktest.Server) {
				f.Fail(slacktest.Failure{Method: "apps.connections.open", Error: "not_allowed_token_type"})
			},
			says: "check channels.slack.appToken",
		},
		"scope of the app token": {
			prepare: func(f *slacktest.Server) {
				f.Fail(slacktest.Failure{Method: "apps.connections.open", Error: "missing_scope", Needed: "connections:write"})
			},
			says: "lacks the scope connections:write",
		},
		"revoked": {
			prepare: func(f *slacktest.Server) { f.Fail(slacktest.Failure{Method: "auth.test", Error: "token_revoked"}) },
			says:    "token_revoked",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.changes)
			if c.prepare != nil {
				c.prepare(r.fake)
			}
			err := r.Run(t.Context(), r.Submit)
			if !chat.IsFatal(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// A token that is revoked while the channel runs, and Socket Mode that is
// switched off, end it with the reason.
func TestFatalWhileRunning(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, r *rig){
		"token": func(t *testing.T, r *rig) {
			r.fake.Fail(slacktest.Failure{Method: "chat.postMessage", Error: "account_inactive"})
			if _, err := r.Send(t.Context(), reply(route("C0GEN", ""), "hi")); !errors.Is(err, chat.ErrNotReady) {
				t.Errorf("Send: %v", err)
			}
		},
		"socket mode": func(_ *testing.T, r *rig) { r.fake.Refresh("link_disabled") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			result := make(chan error, 1)
			go func() { result <- r.Run(t.Context(), r.Submit) }()
			r.Await("a connection", func() bool { return len(r.States()) > 0 })
			end(t, r)
			if err := <-result; !chat.IsFatal(err) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// What is not understood is said once and harms no one.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	for range 3 {
		r.fake.Frame([]byte("{not json"))
		r.fake.Frame([]byte(`[]`))
		r.fake.Frame(object{"type": "unknown"})
		r.fake.Deliver("events_api", "text")
		r.fake.Deliver("events_api", object{"type": "event_callback", "event": "text"})
		r.fake.Deliver("events_api", object{"type": "event_callback", "event": object{"type": "message", "user": 5, "channel": object{}}})
		r.fake.Deliver("interactive", []int{1})
		r.fake.Deliver("interactive", object{"type": "block_actions", "actions": []object{}})
		r.fake.Deliver("interactive", object{"type": "view_submission", "user": object{"id": "U0ANN"}})
		r.fake.Deliver("slash_commands", 17)
		r.fake.Deliver("something_new", object{})
		r.fake.Event(object{"type": "team_join"})
		r.fake.Event(object{"type": "message"})
		r.fake.Tap("U0ANN", "C0GEN", "1.000001", "another_app", "x")
	}
	r.fake.Say("U0ANN", "still there")
	r.receive(1)
	r.Await("all to be confirmed", func() bool { return r.fake.Pending() == 0 })
	if d := cmp.Diff([]string{"still there"}, r.texts()); d != "" {
		t.Errorf("the agent got (-want +got):\n%s", d)
	}
	if n := strings.Count(r.Log.String(), "is not understood"); n != 4 { // frame, events_api, interactive, slash_commands
		t.Errorf("%d lines about what is not understood, want 4:\n%s", n, r.Log)
	}
	if n := len(r.States()); n != 1 {
		t.Errorf("the connection was lost: %q", r.States())
	}
}

func TestHugeMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	r.fake.Say("U0ANN", strings.Repeat("<", 1<<20))
	r.fake.Say("U0ANN", "small")
	got := r.receive(2)
	if len(got[0].Text) != 1<<20 || got[1].Text != "small" {
		t.Errorf("the agent got %d bytes, then %q", len(got[0].Text), got[1].Text)
	}
}

// hook is a channel in webhook mode behind a server.
func hook(t *testing.T, changes object) (*rig, string) {
	t.Helper()
	all := object{"mode": "webhook", "appToken": ""}
	maps.Copy(all, changes)
	r := newRig(t, all)
	mux := http.NewServeMux()
	for pattern, h := range r.Routes() {
		mux.Handle(pattern, h)
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return r, srv.URL + "/slack/events"
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	r, address := hook(t, nil)
	body := []byte(`{"type":"url_verification","challenge":"c0de"}`)
	if code, _ := slacktest.Request(address, slacktest.Sign(body, time.Now()), body); code != http.StatusServiceUnavailable {
		t.Errorf("before the start the answer is %d", code)
	}
	defer r.begin()()
	if code, said := slacktest.Request(address, slacktest.Sign(body, time.Now()), body); code != http.StatusOK || said != "c0de" {
		t.Errorf("the challenge is answered with %d %q", code, said)
	}
	r.fake.Hook(address)
	r.fake.Say("U0ANN", "hi")
	r.fake.Tap("U0ANN", r.fake.DM("U0ANN"), "1.000001", "option.0", "?q.Yes")
	r.fake.Slash("U0ANN", "C0GEN", "/new", "")
	r.receive(3)
	texts := strings.Join(r.texts(), " ")
	if !strings.Contains(texts, "hi") || !strings.Contains(texts, "Yes") || !strings.Contains(texts, "/new") {
		t.Errorf("the agent got %q", r.texts())
	}
	if len(r.fake.Calls("apps.connections.open")) != 0 {
		t.Error("a connection was opened in webhook mode")
	}
}

func TestWebhookRefuses(t *testing.T) {
	t.Parallel()
	r, address := hook(t, nil)
	defer r.begin()()
	event := func(ts string) []byte {
		data, err := json.Marshal(object{"type": "event_callback", "event_id": "Ev1", "event": object{
			"type": "message", "user": "U0ANN", "channel": "D0ANN", "text": "forged", "ts": ts, "channel_type": "im",
		}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	now := time.Now()
	good := event("1.000001")
	forged := slacktest.Sign(good, now)
	forged.Set("X-Slack-Signature", "v0="+strings.Repeat("0", 64))
	stamped := slacktest.Sign(good, now)
	stamped.Set("X-Slack-Request-Timestamp", "x")
	for name, c := range map[string]struct {
		header http.Header
		body   []byte
		code   int
	}{
		"no signature":     {http.Header{}, good, http.StatusUnauthorized},
		"forged":           {forged, good, http.StatusUnauthorized},
		"another body":     {slacktest.Sign(good, now), event("1.000002"), http.StatusUnauthorized},
		"bad time":         {stamped, good, http.StatusUnauthorized},
		"replayed":         {slacktest.Sign(good, now.Add(-6*time.Minute)), good, http.StatusUnauthorized},
		"from the future":  {slacktest.Sign(good, now.Add(6*time.Minute)), good, http.StatusUnauthorized},
		"not JSON":         {slacktest.Sign([]byte("{x"), now), []byte("{x"), http.StatusBadRequest},
		"too large":        {slacktest.Sign(bytes.Repeat([]byte("x"), maxHook+1), now), bytes.Repeat([]byte("x"), maxHook+1), http.StatusRequestEntityTooLarge},
		"unknown, but his": {slacktest.Sign([]byte(`{"type":"app_rate_limited"}`), now), []byte(`{"type":"app_rate_limited"}`), http.StatusOK},
	} {
		if code, said := slacktest.Request(address, c.header, c.body); code != c.code {
			t.Errorf("%s: %d %q, want %d", name, code, said, c.code)
		}
	}
	if got := r.texts(); len(got) != 0 {
		t.Errorf("the agent got %q", got)
	}
}

// A request that was recorded and comes again within the five minutes is the
// same message.
func TestWebhookReplay(t *testing.T) {
	t.Parallel()
	r, address := hook(t, nil)
	defer r.begin()()
	body, err := json.Marshal(object{"type": "event_callback", "event": object{"type": "message", "user": "U0ANN", "channel": "D0ANN", "text": "once", "ts": "5.000001"}})
	if err != nil {
		t.Fatal(err)
	}
	header := slacktest.Sign(body, time.Now())
	for range 3 {
		if code, _ := slacktest.Request(address, header, body); code != http.StatusOK {
			t.Errorf("the answer is %d", code)
		}
	}
	r.receive(1)
	if d := cmp.Diff([]string{"once"}, r.texts()); d != "" {
		t.Errorf("the agent got (-want +got):\n%s", d)
	}
}

// A server that takes the connection and says nothing does not hold up the end.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed below
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := newRig(t, nil)
	r.fake.Deaf(true)
	stop := r.Start(r.Run)
	r.Await("a refusal", func() bool { return len(r.States()) > 0 })
	if s := r.States()[0]; strings.Contains(s, "ticket-") || !strings.Contains(s, "403") {
		t.Errorf("the state is %q", s)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	silent := newRig(t, object{"apiBase": "http://" + l.Addr().String() + "/api/"})
	stop = silent.Start(silent.Run)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	rep, err := probe(t.Context(), r.deps, section(r.fake, nil))
	if err != nil || rep.Identity != "@nb_bot in Fake" || len(rep.Checks) != 3 || !rep.Checks[1].OK || !rep.Checks[2].OK {
		t.Errorf("the report is %+v, %v", rep, err)
	}
	r.fake.SetScopes("chat:write,im:history")
	r.fake.Fail(slacktest.Failure{Method: "apps.connections.open", Error: "invalid_auth"})
	rep, err = probe(t.Context(), r.deps, section(r.fake, nil))
	if err != nil || rep.Checks[1].OK || !strings.Contains(rep.Checks[1].Detail, "files:read") || rep.Checks[2].OK {
		t.Errorf("the report is %+v, %v", rep, err)
	}
	if _, err := probe(t.Context(), r.deps, section(r.fake, object{"botToken": "xoxb-wrong"})); !chat.IsFatal(err) {
		t.Errorf("a wrong token: %v", err)
	}
	if r.fake.Connected() != 0 {
		t.Error("the probe connected")
	}
}

// Words that were overheard come along with the next message for us.
func TestGroupHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"groupHistory": 5})
	defer r.begin()()
	r.fake.Post(object{"channel": "C0GEN", "user": "U0EVE", "text": "lunch at <https://x.test|noon>"})
	r.fake.Post(object{"channel": "C0GEN", "user": "U0ANN", "text": mention + " when?"})
	got := r.receive(1)[0]
	if len(got.Quoted) != 1 || !strings.Contains(got.Quoted[0].Text, "lunch at noon (https://x.test)") {
		t.Errorf("the agent got %q", shown(got))
	}
}
