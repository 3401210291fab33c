package mattermost

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
)

// A connection that is lost is taken up again: the server sends what was missed,
// and nothing is read from the channels.
func TestResume(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	r.say(post0{Message: "one"})
	r.receive(1)
	before := len(r.fake.Calls("GET /users/me/channels"))
	r.fake.Cut()
	r.say(post0{Message: "two"})
	r.say(post0{Message: "three"})
	r.receive(3)
	if d := cmp.Diff([]string{"one", "two", "three"}, r.texts()); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
	dials := r.fake.Dials()
	if last := dials[len(dials)-1]; len(dials) != 2 || !strings.Contains(last, "sequence_number=2") || strings.Contains(last, "connection_id=&") {
		t.Errorf("connections %q, want a second one that goes on with event 2", dials)
	}
	if n := len(r.fake.Calls("GET /users/me/channels")); n != before {
		t.Errorf("the channels were read %d times more", n-before)
	}
}

// A server that has forgotten the connection, and one that skips events: what
// was posted is read from the channels, once and in order.
func TestMissed(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(r *rig){
		"restart": func(r *rig) {
			r.fake.Restart()
			r.fake.SayUnseen(post0{UserID: mattermosttest.AnnID(), ChannelID: r.fake.Direct(mattermosttest.AnnID()), Message: "two"})
		},
		"gap": func(r *rig) {
			r.fake.Skip()
			r.fake.SayUnseen(post0{UserID: mattermosttest.AnnID(), ChannelID: r.fake.Direct(mattermosttest.AnnID()), Message: "two"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			defer r.begin()()
			r.say(post0{Message: "one"})
			r.receive(1)
			lose(r)
			r.say(post0{Message: "three"})
			r.receive(3)
			if d := cmp.Diff([]string{"one", "two", "three"}, r.texts()); d != "" {
				t.Errorf("messages (-want +got):\n%s", d)
			}
		})
	}
}

// What was posted while the program was down is answered, if it is not too old,
// and not if the settings say so. A first start answers nothing old.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes map[string]any
		want    []string
	}{
		"on":  {nil, []string{"before", "recent", "now"}},
		"off": {map[string]any{"catchUp": false}, []string{"before", "now"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.changes)
			ann := mattermosttest.AnnID()
			unseen := func(text string, age time.Duration) {
				r.fake.SayUnseen(post0{UserID: ann, ChannelID: r.fake.Direct(ann), Message: text, CreateAt: time.Now().Add(-age).UnixMilli()})
			}
			unseen("before the first start", time.Second)
			end := r.begin()
			r.say(post0{Message: "before"})
			r.receive(1)
			end()
			unseen("too old", time.Hour)
			unseen("recent", 0)
			r.reopen(c.changes)
			defer r.begin()()
			r.say(post0{Message: "now"})
			r.receive(len(c.want))
			if d := cmp.Diff(c.want, r.texts()); d != "" {
				t.Errorf("messages (-want +got):\n%s", d)
			}
		})
	}
}

// The clock of the server may be wrong: what was posted a moment ago is new.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		r := newRig(t, nil)
		r.fake.Skew(skew)
		end := r.begin()
		r.say(post0{Message: "before"})
		r.receive(1)
		end()
		ann := mattermosttest.AnnID()
		r.fake.SayUnseen(post0{UserID: ann, ChannelID: r.fake.Direct(ann), Message: "missed"})
		r.reopen(nil)
		end = r.begin()
		r.say(post0{Message: "now"})
		r.receive(3)
		if d := cmp.Diff([]string{"before", "missed", "now"}, r.texts()); d != "" {
			t.Errorf("skew %v (-want +got):\n%s", skew, d)
		}
		end()
	}
}

// What an account was sent is not handed over for another one.
func TestHeldByAnotherAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	r.Refuse(errDisk)
	r.say(post0{Message: "hi"})
	r.Await("the try", func() bool { return strings.Contains(r.Log.String(), "disk full") })
	end()
	r.Refuse(nil)
	other := mattermosttest.New()
	t.Cleanup(other.Close)
	r.fake = other
	r.reopen(nil)
	defer r.begin()()
	r.say(post0{ID: mattermosttest.ID("elsewhere"), Message: "at another server"})
	r.receive(1)
	if d := cmp.Diff([]string{"at another server"}, r.texts()); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
}

// A channel that cannot be read does not keep the others from being read.
func TestCatchUpGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	r.say(post0{Message: "before"})
	r.receive(1)
	end()
	ann := mattermosttest.AnnID()
	r.fake.SayUnseen(post0{UserID: ann, ChannelID: r.fake.Direct(ann), Message: "missed"})
	r.fake.SayUnseen(post0{UserID: ann, ChannelID: town(), Message: atBot + " missed"})
	r.fake.Fail(mattermosttest.Failure{Name: "GET /channels/{channel}/posts", Code: 403, ID: "api.context.permissions.app_error"})
	r.reopen(nil)
	defer r.begin()()
	r.receive(2)
	if !strings.Contains(r.Log.String(), "cannot read posts missed while offline") {
		t.Errorf("the log does not say what was not read:\n%s", r.Log)
	}
}

// A message that could not be handed over before the program ended is handed
// over after the next start, even if the server says nothing of it.
func TestHeld(t *testing.T) {
	t.Parallel()
	off := map[string]any{"catchUp": false}
	r := newRig(t, off)
	end := r.begin()
	r.Refuse(errDisk)
	r.say(post0{Message: "hi"})
	r.Await("the try", func() bool { return strings.Contains(r.Log.String(), "disk full") })
	end()
	r.Refuse(nil)
	r.reopen(off)
	defer r.begin()()
	r.receive(1)
	if d := cmp.Diff([]string{"hi"}, r.texts()); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
}

func TestTokenRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"token": "wrong"})
	err := r.Run(t.Context(), r.Submit)
	if !chat.IsFatal(err) || !strings.Contains(err.Error(), "channels.mattermost.token") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("Run: %v, want a fatal error that names the setting and hides the token", err)
	}
}

// A token that is revoked later ends the channel as well.
func TestTokenRevoked(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	done := make(chan error, 1)
	go func() { done <- r.Run(t.Context(), r.Submit) }()
	r.Await("a connection", func() bool { return r.fake.Connected() > 0 })
	r.fake.Revoke(mattermosttest.Token)
	if err := <-done; !chat.IsFatal(err) {
		t.Errorf("Run: %v, want a fatal error", err)
	}
}

// A server that is not there, or is not Mattermost, is told and tried again.
func TestServerWrong(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.reopen(map[string]any{"serverUrl": r.fake.URL() + "/elsewhere"})
	if err := r.Run(t.Context(), r.Submit); err == nil || chat.IsFatal(err) {
		t.Errorf("Run: %v, want an error that is tried again", err)
	}
	r.reopen(nil)
	r.fake.Fail(mattermosttest.Failure{Name: "GET /users/me", Garbage: true, Code: 502})
	if err := r.Run(t.Context(), r.Submit); err == nil || chat.IsFatal(err) || !strings.Contains(err.Error(), "502") {
		t.Errorf("Run: %v, want an error about the proxy", err)
	}
}

// Whatever the server sends besides, each cause is logged once and the next
// message arrives.
func TestStrangeFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	for range 3 {
		r.fake.Raw("{not JSON")
		r.fake.Raw(`[]`)
		r.fake.Raw(`{"event": 5}`)
		r.fake.Raw(`{"seq_reply": 77, "status": "OK"}`)
		r.fake.Event("no_such_event", map[string]any{"post": map[string]any{"x": 1}, "channel_type": 7})
		r.fake.Event("posted", map[string]any{"post": "{broken"})
		r.fake.Event("posted", map[string]any{"post": 7})
		r.fake.Event("posted", map[string]any{"post": "{}"})
		r.fake.Event("posted", map[string]any{})
		r.fake.Event("post_edited", map[string]any{"post": `{"id": []}`})
	}
	r.say(post0{Message: strings.Repeat("long ", 200_000)})
	r.say(post0{Message: "fine \xff\x00"})
	in := r.receive(2)
	if len(in[0].Text) < 999_999 || !strings.HasPrefix(in[1].Text, "fine") {
		t.Errorf("%d characters and %q arrived", len(in[0].Text), in[1].Text)
	}
	var warned []string
	r.Await("both causes", func() bool { // raw frames may be sent after events
		warned = slices.DeleteFunc(strings.Split(r.Log.String(), "\n"), func(l string) bool { return !strings.Contains(l, "level=WARN") })
		return len(warned) >= 2
	})
	if len(warned) != 2 {
		t.Errorf("%d causes were logged %d times:\n%s", 2, len(warned), strings.Join(warned, "\n"))
	}
	if n := len(r.fake.Dials()); n != 1 {
		t.Errorf("the connection was made %d times, want once", n)
	}
}

// An event that is told of again is handled once.
func TestRepeatedEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	p := r.say(post0{Message: "hi"})
	r.receive(1)
	r.say(p)
	r.say(post0{Message: "end"})
	r.receive(2)
	if d := cmp.Diff([]string{"hi", "end"}, r.texts()); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
}
