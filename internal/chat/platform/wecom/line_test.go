package wecom

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
)

// A wrong secret is tried a few times and then waits for another one.
func TestSecretRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"secret": "wrong"})
	l := &line{bot: r.bot, refused: refusals - 2} // the pauses grow: these two are enough
	err := l.run(t.Context())
	if !chat.IsFatal(err) || !strings.Contains(err.Error(), "copy botId and secret again") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("Run: %v", err)
	}
	if n := len(r.fake.Frames(cmdSubscribe)); n != 2 {
		t.Errorf("%d tries, want 2", n)
	}
}

// A bot that another program took over is left alone for a while.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	other := newRig(t, map[string]any{"wsUrl": r.fake.Socket()})
	stop := other.Start(other.Run)
	r.Await("the end", func() bool {
		states := r.States()
		return strings.Contains(states[len(states)-1], "another program uses this bot")
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := len(r.fake.Frames(cmdSubscribe)); n != 2 {
		t.Errorf("%d subscriptions, want one of each", n)
	}
	l := &line{bot: r.bot}
	if err := l.lost(errTaken); !errors.Is(err, errTaken) || err.Error() != socket.After(conflictPause, errTaken).Error() {
		t.Errorf("lost: %v", err)
	}
}

// A subscription that WeCom forgot is made again, and the message arrives.
func TestUnsubscribed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	in := r.opened(wecomtest.Message{Text: "hi"})
	r.fake.Unsubscribe()
	if _, err := r.Send(t.Context(), reply(in, bus.Final, "re: hi")); refused(err) != codeUnsubscribed || chat.IsPermanent(err) {
		t.Fatalf("send: %v", err)
	}
	r.Await("another subscription", func() bool {
		return len(r.fake.Frames(cmdSubscribe)) == 2 && r.fake.Connected() == 1 && r.conn.Load() != nil
	})
	r.send(reply(in, bus.Final, "re: hi"))
	if got := r.seen(); len(got) != 1 || got[0] != "stream: re: hi" {
		t.Errorf("people see %q", got)
	}
}

// A connection whose other end is gone is given up after two pings.
func TestPings(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	l := &line{bot: r.bot}
	c := r.conn.Load()
	r.fake.Mute(true, false)
	for i := range 2 {
		if err := l.ping(t.Context(), c); err != nil {
			t.Fatalf("ping %d: %v", i, err)
		}
	}
	if err := l.ping(t.Context(), c); !errors.Is(err, errPings) {
		t.Errorf("the third ping: %v", err)
	}
	answer := []byte(`{"headers":{"req_id":"ping_1"},"errcode":0}`)
	if err := l.receive(t.Context(), c, socket.Frame{Data: answer}); err != nil {
		t.Fatal(err)
	}
	if err := l.ping(t.Context(), c); err != nil {
		t.Errorf("after an answer: %v", err)
	}
	r.Await("the pings", func() bool { return len(r.fake.Frames(cmdPing)) >= 3 })
}

// Frames that are not as expected are named once in the log, each cause, and do
// nothing.
func TestStrangeFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	for range 2 {
		for _, frame := range []string{
			"{", `{"cmd":"aibot_new_thing"}`, `{"cmd":"aibot_msg_callback","body":7}`, `{"cmd":"aibot_msg_callback","body":{"msgid":"1","msgtype":"text"}}`,
			`{"cmd":"aibot_event_callback","body":{"from":{"userid":"ann"},"event":{"eventtype":"new_event"}}}`,
			`{"cmd":"aibot_event_callback","body":{"from":{"userid":"ann"},"event":{"eventtype":"feedback_event"}}}`,
			`{"cmd":"aibot_event_callback","body":{"from":{"userid":"ann"},"event":{"eventtype":"template_card_event","event_key":"{}"}}}`,
			`{"cmd":"aibot_msg_callback","headers":{"req_id":"r"},"body":{"msgid":"9","msgtype":"hologram","from":{"userid":"ann"}}}`,
			`{"headers":{"req_id":"nobody waits"},"errcode":0}`,
		} {
			r.fake.Raw(frame)
		}
	}
	r.fake.Raw("{\"cmd\":\"aibot_msg_callback\",\"headers\":{\"req_id\":\"r\"},\"body\":{\"msgid\":\"8\",\"create_time\":\"17\x01\",\"from\":{\"userid\":\"ann\"},\"msgtype\":\"text\",\"text\":{\"content\":\"a\x02b\rc\\td\"}}}")
	r.fake.Say(wecomtest.Message{From: wecomtest.Ann, Text: strings.Repeat("long ", 200_000)})
	r.Await("the messages", func() bool { return len(r.Inbound()) == 3 })
	if n := len(r.Inbound()[2].Text); n < 999_999 {
		t.Errorf("%d bytes of a long message", n)
	}
	log := r.Log.String()
	for _, cause := range []string{"it is not JSON as expected", "unknown command", "the body of aibot_msg_callback", "a message without a sender", "unknown event", "a button that is not ours", "unknown kind of message"} {
		if n := strings.Count(log, cause); n != 1 {
			t.Errorf("%q is in the log %d times", cause, n)
		}
	}
	texts := map[string]bool{}
	for _, in := range r.Inbound() {
		texts[told(in)] = true
	}
	if !texts["abc\td"] || !texts["\n> files: [hologram: cannot be shown]"] || len(texts) != 3 {
		t.Errorf("the agent got %d messages", len(texts))
	}
}

// While the disk fails, messages are kept in memory: WeCom sends them once.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.Refuse(errors.New("disk full"))
	end := r.begin()
	r.fake.Say(wecomtest.Message{From: wecomtest.Ann, Text: "hi"})
	r.Await("a try", func() bool { return strings.Contains(r.Log.String(), "could not be accepted yet") })
	end()
	r.Refuse(nil)
	r.reopen(nil)
	defer r.begin()()
	r.Await("the message", func() bool { return len(r.Inbound()) == 1 })
}

// The end comes at once, also while WeCom does not answer.
func TestEndWhileWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	r.fake.Mute(true, true)
	in := r.say(wecomtest.Message{Text: "hi"})
	sent := make(chan error, 1)
	go func() {
		_, err := r.Send(context.WithoutCancel(t.Context()), reply(in, bus.Final, "re: hi"))
		sent <- err
	}()
	r.Await("a command", func() bool { return len(r.fake.Frames(cmdRespond)) > 0 })
	start := time.Now()
	end()
	if err := <-sent; err == nil {
		t.Error("a command without an answer succeeded")
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// Our clock may be wrong: messages are not late because of it, and their streams
// take answers.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		r := newRig(t, nil)
		r.Ahead = ahead
		r.ahead.Store(int64(ahead))
		r.reopen(map[string]any{"catchUp": false})
		end := r.begin()
		in := r.opened(wecomtest.Message{Text: "hi"})
		r.send(reply(in, bus.Final, "hello"))
		if got := r.seen(); len(got) != 1 || got[0] != "stream: hello" {
			t.Errorf("%s ahead: people see %q", ahead, got)
		}
		end()
	}
}
