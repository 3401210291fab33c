package mochat

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mochat/mochattest"
)

// A wrong token is a reason to wait for another one, also while we run.
func TestTokenRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, fields{"clawToken": "claw_wrong"})
	err := r.Run(t.Context(), r.Submit)
	if !chat.IsFatal(err) || !strings.Contains(err.Error(), "channels.mochat.clawToken") || strings.Contains(err.Error()+r.Log.String(), "claw_wrong") {
		t.Errorf("Run: %v", err)
	}

	r = newRig(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx, r.Submit) }()
	r.Await("a connection", func() bool { return r.live() > 0 })
	r.fake.Become(mochattest.Self, "claw_other")
	r.fake.Cut()
	if err := <-result; !chat.IsFatal(err) {
		t.Errorf("a revoked token: %v", err)
	}
}

// What the server should not send is named once in the log, each cause, and does
// nothing; the connection stays.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		r := newRig(t, fields{"socketDisableMsgpack": plain})
		r.fake.Plain(plain)
		end := r.begin()
		since := len(r.States())
		bomb := []byte(strings.Repeat("\x91", 1<<20))
		for range 2 {
			for _, data := range []string{"", "x", "4", "42", "42{", `42[]`, `42[7]`, `4`, `49["x"]`, `451-["x",{"_placeholder":true,"num":0}]`, `42/other,["x"]`, `4399999999999999999999[]`, `43[]`, "6", "5"} {
				r.fake.Raw(false, []byte(data))
			}
			for _, data := range []string{"", "\xc1", "\x93\x01", "\xdf\xff\xff\xff\xff", "\x81\xa4type\x07", "\x82\xa4type\x02\xa4data\xc0", string(bomb)} {
				r.fake.Raw(true, []byte(data))
			}
			for _, body := range []any{
				nil, 7, "x",
				[]any{},
				fields{},
				fields{"sessionId": 7, "events": "x"},
				fields{"sessionId": annSession, "events": []any{nil, 7, "x", fields{}, fields{"type": "message.add"}}},
				fields{"sessionId": annSession, "cursor": -5, "events": []any{fields{"type": "message.add", "payload": 7}, fields{"type": "message.add", "payload": fields{"author": "", "content": "x"}}, fields{"type": "new.kind", "payload": fields{}}}},
			} {
				for _, name := range []string{"claw.session.events", "claw.panel.events", "notify:chat.message.add", "notify:chat.inbox.append", "no.such.event"} {
					r.fake.Emit(name, body)
				}
			}
			r.fake.Emit("notify:chat.message.recall", fields{"groupId": mochattest.Group, "converseId": mochattest.Panel, "_id": "r", "author": mochattest.Ann, "content": "recalled"})
			r.fake.Emit("notify:chat.message.update", fields{"groupId": mochattest.Group, "converseId": mochattest.Panel, "_id": "r", "author": mochattest.Ann, "content": "updated"})
		}
		in := r.say(mochattest.Message{Text: strings.Repeat("long ", 200_000)})
		if len(in.Text) != 999_999 || len(r.Inbound()) != 1 {
			t.Errorf("the agent got %d messages, the first of %d bytes", len(r.Inbound()), len(in.Text))
		}
		if states := r.States()[since:]; len(states) > 0 {
			t.Errorf("the connection ended: %q", states)
		}
		log := r.Log.String()
		for _, cause := range []string{"a packet cannot be read", "an event without a name", "an unknown event", "events cannot be read", "an event cannot be read", "a message cannot be read", "without an author", "events without a session", "an entry of the inbox cannot be read"} {
			if n := strings.Count(log, cause); n != 1 {
				t.Errorf("%q is in the log %d times", cause, n)
			}
		}
		end()
	}
}

// A message is handled once, whichever way and however often it comes.
func TestReplay(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	r.fake.Say(annSession, mochattest.Message{ID: "one", From: mochattest.Ann, Text: "hi"})
	again := func() {
		r.fake.Emit("claw.session.events", fields{"sessionId": annSession, "cursor": 1, "events": []any{said("one", mochattest.Ann, "hi")}})
		r.fake.Emit("notify:chat.inbox.append", fields{"type": "message", "payload": fields{"converseId": "c_" + annSession, "messageId": "one", "messageAuthor": mochattest.Ann, "messagePlainContent": "hi"}})
	}
	again()
	nameless := fields{"sessionId": annSession, "events": []any{fields{"type": "message.add", "timestamp": "2026-01-01T00:00:00Z", "payload": fields{"author": mochattest.Ann, "content": "nameless"}}}}
	r.fake.Emit("claw.session.events", nameless)
	r.fake.Emit("claw.session.events", nameless)
	r.fake.Say(annSession, mochattest.Message{ID: "two", From: mochattest.Ann, Text: "ho"})
	r.Await("all", func() bool { return len(r.Inbound()) == 3 })
	end()
	r.reopen(nil)
	defer r.begin()()
	again()
	r.fake.Say(annSession, mochattest.Message{ID: "three", From: mochattest.Ann, Text: "he"})
	r.Await("the next", func() bool { return len(r.Inbound()) == 4 })
	r.fake.Post(mochattest.Panel, mochattest.Message{ID: "one", From: mochattest.Ann, Text: "elsewhere"})
	r.Await("the panel's", func() bool { return len(r.Inbound()) == 5 })
	if d := cmp.Diff([]string{"hi", "nameless", "ho", "he", "elsewhere"}, r.texts()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// A server that stops to ping, closes, or ends the login is connected to again.
func TestLostSocket(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fake.Beat(time.Hour, 0)
	end := r.begin()
	for _, frame := range []string{"1", "41"} {
		before := r.live()
		r.fake.Raw(false, []byte(frame))
		r.Await("another connection", func() bool { return r.live() > before })
	}
	r.say(mochattest.Message{Text: "hi"})
	end()

	r = newRig(t, nil)
	r.fake.Beat(100*time.Millisecond, 30*time.Second)
	end = r.begin()
	r.say(mochattest.Message{Text: "hi"})
	end()

	l := newLine(r.bot, nil, nil, nil)
	if err := l.receive(t.Context(), nil, frameOf("6")); err != nil {
		t.Error(err)
	}
}

// Files have no place on Mochat: addresses are sent, of our own files only the
// names.
func TestPlan(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	secret := filepath.Join(t.TempDir(), "report.pdf")
	parts := r.Plan(bus.Outbound{Kind: bus.Final, Text: "here", Media: []bus.Media{{Path: secret}, {Path: "https://e.example/a.png"}}})
	if len(parts) != 1 || parts[0].Text != "here\nhttps://e.example/a.png\n[attachment: report.pdf - files cannot be sent here]" || len(parts[0].Media) != 0 {
		t.Errorf("%+v", parts)
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	r := newRig(t, fields{"sessions": []string{"odd"}, "panels": []string{}})
	r.fake.AddSession("odd", mochattest.Ann)
	defer r.start()()
	send := func(chatID string, meta map[string]string) error {
		_, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: chatID}, ReplyTo: "m9", Text: " **hi** ", Meta: meta})
		return err
	}
	for _, chatID := range []string{annSession, "mochat:" + annSession, "odd", mochattest.Panel, "Panel: " + mochattest.Panel, "channel:" + mochattest.Panel, "group:" + mochattest.Panel} {
		if err := send(chatID, map[string]string{"group_id": mochattest.Group}); err != nil {
			t.Errorf("%s: %v", chatID, err)
		}
	}
	s, p := mochattest.Sent{Chat: annSession, Text: "**hi**", ReplyTo: "m9"}, mochattest.Sent{Chat: mochattest.Panel, Panel: true, Text: "**hi**", ReplyTo: "m9", Group: mochattest.Group}
	odd := s
	odd.Chat = "odd"
	if d := cmp.Diff([]mochattest.Sent{s, s, odd, p, p, p, p}, r.fake.Sent()); d != "" {
		t.Errorf("sent (-want +got):\n%s", d)
	}
	for target, want := range map[string]string{"panel:x": "x", " session_1 ": "session_1", "mochat:": ""} {
		route, err := r.Address(t.Context(), target)
		if route.ChatID != want || (err != nil) != (want == "") {
			t.Errorf("%q: %+v, %v", target, route, err)
		}
	}
}

// Errors say what to do about them.
func TestSendErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	out := bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: annSession}, Text: "hi"}
	type verdict struct{ permanent, limited bool }
	for name, c := range map[string]struct {
		f    mochattest.Failure
		want verdict
	}{
		"code":       {mochattest.Failure{Status: http.StatusOK, Code: http.StatusForbidden}, verdict{permanent: true}},
		"status":     {mochattest.Failure{Status: http.StatusNotFound}, verdict{permanent: true}},
		"limit":      {mochattest.Failure{Status: http.StatusTooManyRequests, After: 7 * time.Second}, verdict{limited: true}},
		"limit code": {mochattest.Failure{Status: http.StatusOK, Code: http.StatusTooManyRequests}, verdict{limited: true}},
		"server":     {mochattest.Failure{Status: http.StatusBadGateway}, verdict{}},
		"token":      {mochattest.Failure{Status: http.StatusUnauthorized}, verdict{}},
		"other code": {mochattest.Failure{Status: http.StatusOK, Code: 500}, verdict{}},
	} {
		r.fake.Fail(sendSession, c.f)
		_, err := r.Send(t.Context(), out)
		limited, isLimited := errors.AsType[*chat.RateLimitedError](err)
		if got := (verdict{chat.IsPermanent(err), isLimited}); err == nil || got != c.want {
			t.Errorf("%s: %v is %+v, want %+v", name, err, got, c.want)
		}
		if name == "limit" && limited.After != 7*time.Second {
			t.Errorf("the pause is %v", limited.After)
		}
	}
	for _, chatID := range []string{"", "panel:", "session_none", "nowhere"} {
		out.Route.ChatID = chatID
		if _, err := r.Send(t.Context(), out); !chat.IsPermanent(err) {
			t.Errorf("%q: %v", chatID, err)
		}
	}
	if _, err := r.Send(t.Context(), bus.Outbound{Route: bus.Route{ChatID: annSession}, Text: " "}); err != nil {
		t.Errorf("an empty message: %v", err)
	}
}

// The end comes at once, whatever the server does not say.
func TestEndsInTime(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r := newRig(t, fields{"baseUrl": "http://" + silent.Addr().String()})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx, r.Submit) }()
	c, err := silent.Accept() // it asks, and gets no answer
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	if err := <-result; err != nil {
		t.Error(err)
	}
}
