package discord

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
)

// texts are what the agent got.
func (r *rig) texts() []string {
	var out []string
	for _, in := range r.Inbound() {
		out = append(out, in.Text)
	}
	return out
}

// A connection that is cut, or that Discord wants to replace, is resumed: what
// came in between is not lost, and no session is begun.
func TestResume(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*discordtest.Server){
		"cut":       (*discordtest.Server).Cut,
		"reconnect": (*discordtest.Server).Reconnect,
		"4000":      func(f *discordtest.Server) { f.CloseWith(4000) },
		"4008":      func(f *discordtest.Server) { f.CloseWith(4008) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			r := newRig(t, fake, nil)
			defer r.begin()()
			chatID := fake.DM("42")
			fake.Write("42", chatID, "one", nil)
			r.receive(1)
			cut(fake)
			fake.Write("42", chatID, "two", nil)
			r.receive(2)
			r.Await("the word that it is connected", func() bool { s := r.States(); return len(s) > 1 && s[len(s)-1] == "@"+discordtest.BotName })
			if got := r.texts(); !slices.Equal(got, []string{"one", "two"}) || fake.Identified() != 1 {
				t.Errorf("got %q in %d sessions", got, fake.Identified())
			}
		})
	}
}

// A session that is over begins again, and what came in between is read.
func TestSessionOver(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*discordtest.Server){
		"invalid": func(f *discordtest.Server) { f.Forget(); f.Cut() },
		"4009":    func(f *discordtest.Server) { f.Forget(); f.CloseWith(4009) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			r := newRig(t, fake, nil)
			defer r.begin()()
			chatID := fake.DM("42")
			fake.Write("42", chatID, "one", nil)
			r.receive(1)
			end(fake)
			fake.Write("42", chatID, "two", nil)
			fake.Write("42", discordtest.Thread, "<@999> three", names(nil))
			got := r.receive(3)
			if fake.Identified() != 2 || len(got) != 3 {
				t.Errorf("got %q in %d sessions", r.texts(), fake.Identified())
			}
		})
	}
}

// A connection that is only half open is noticed by its heartbeats.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Beat(time.Second)
	r := newRig(t, fake, nil)
	defer r.begin()()
	fake.Hang()
	fake.Write("42", fake.DM("42"), "one", nil)
	if got := r.receive(1); got[0].Text != "one" || fake.Identified() != 1 {
		t.Errorf("got %q in %d sessions", r.texts(), fake.Identified())
	}
	if !slices.ContainsFunc(r.States(), func(s string) bool { return strings.Contains(s, "does not answer heartbeats") }) {
		t.Errorf("the states were %q", r.States())
	}
}

// What only another configuration can mend is said in a sentence that names it.
func TestFatal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change map[string]any
		allow  int
		close  int
		want   []string
	}{
		"token":            {map[string]any{"token": "wrong"}, 37377, 0, []string{"Discord refuses the token", "channels.discord.token"}},
		"token in a run":   {nil, 37377, 4004, []string{"Discord refuses the token"}},
		"intents":          {nil, 0, 0, []string{"Message Content Intent", "developer portal"}},
		"not intents":      {map[string]any{"intents": 1 << 30}, 37377, 0, []string{"channels.discord.intents"}},
		"too many servers": {nil, 37377, 4011, []string{"too many servers"}},
		"other privileged": {map[string]any{"intents": 37379}, 37377, 0, []string{"channels.discord.intents"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			fake.Allow(c.allow)
			r := newRig(t, fake, c.change)
			done := make(chan error, 1)
			go func() { done <- r.Run(t.Context(), r.Submit) }()
			if c.close != 0 {
				r.Await("the connection", func() bool { return len(r.States()) > 0 })
				fake.CloseWith(c.close)
			}
			err := <-done
			for _, w := range c.want {
				if err == nil || !chat.IsFatal(err) || !strings.Contains(err.Error(), w) {
					t.Errorf("Run: %v, want it fatal and with %q", err, w)
				}
			}
			if n := len(fake.Calls("", "")); n > 3 {
				t.Errorf("%d calls were made", n)
			}
		})
	}
}

// A token that is revoked while the bot runs ends the channel, not in a loop of
// refused calls.
func TestRevoked(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Beat(time.Second)
	r := newRig(t, fake, nil)
	done := make(chan error, 1)
	go func() { done <- r.Run(t.Context(), r.Submit) }()
	r.Await("the connection", func() bool { return len(r.States()) > 0 })
	fake.Fail(discordtest.Failure{Method: "POST", Path: "/channels", Status: 401, Text: "401: Unauthorized"})
	for range 3 {
		if _, err := r.Send(t.Context(), answerTo(fake.DM("42"), "", "x")); err == nil || chat.IsPermanent(err) {
			t.Errorf("Send: %v", err)
		}
	}
	if err := <-done; !chat.IsFatal(err) {
		t.Errorf("Run: %v", err)
	}
	if n := len(fake.Calls("POST", "/messages")); n != 1 {
		t.Errorf("%d calls were made with a token that is refused", n)
	}
}

// After a restart what was written meanwhile is read, in order and before what
// comes live, as far back as the settings say.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change map[string]any
		want   []string
	}{
		"usual": {nil, []string{"before", "away 1", "away 2", "live"}},
		"off":   {map[string]any{"catchUp": false}, []string{"before", "live"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			r := newRig(t, fake, c.change)
			end := r.begin()
			chatID := fake.DM("42")
			fake.Write("42", chatID, "before", nil)
			r.receive(1)
			end()
			ago := time.Now().Add(-15 * time.Minute)
			fake.Write("42", chatID, "too old", object{"id": fmt.Sprint(snowflake(ago)), "timestamp": ago.Format(time.RFC3339)})
			fake.Write("42", chatID, "away 1", nil)
			fake.Write("66", chatID, "a stranger", nil)
			fake.Write("42", chatID, "away 2", object{"attachments": []object{fake.Store("a.txt", []byte("x"))}})
			r.reopen(c.change)
			defer r.begin()()
			fake.Write("42", chatID, "live", nil)
			r.Await("the last one", func() bool { got := r.texts(); return got[len(got)-1] == "live" })
			if diff := cmp.Diff(c.want, r.texts()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// In servers only channels in which something was written are read, and threads.
func TestCatchUpServers(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	end := r.begin()
	fake.Write("42", discordtest.Channel, "<@999> before", names(nil))
	r.receive(1)
	end()
	fake.Write("42", discordtest.Thread, "<@999> away", names(nil))
	fake.Write("42", discordtest.Thread, "for others", nil)
	r.reopen(nil)
	defer r.begin()()
	in := r.receive(2)[1]
	if !strings.HasSuffix(in.Text, ": away") || in.SessionKey != "discord:600:thread:700" {
		t.Errorf("got %q in %q", in.Text, in.SessionKey)
	}
	r.Await("the end of reading", func() bool { return len(fake.Calls("GET", "/channels/700/messages")) > 0 })
	if n := len(fake.Calls("GET", "/channels/701/messages")); n != 0 {
		t.Error("a channel in which nothing was written was read")
	}
}

// An event that cannot be accepted yet comes when it can, and nothing overtakes it.
func TestHeldUntilAccepted(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	end := r.begin()
	r.Refuse(errors.New("disk full"))
	chatID := fake.DM("42")
	fake.Write("42", chatID, "one", nil)
	fake.Write("42", chatID, "two", nil)
	r.Await("a refusal", func() bool { return strings.Contains(r.Log.String(), "could not be accepted yet") })
	end()
	r.Refuse(nil)
	r.reopen(nil)
	defer r.begin()()
	r.receive(2)
	if got := r.texts(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q", got)
	}
}

// More than can be held is read again from Discord, in order and once; the
// connection stays.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	r.Refuse(errors.New("disk full"))
	chatID := fake.DM("42")
	var want []string
	for i := range 550 {
		want = append(want, fmt.Sprint("message ", i))
		fake.Write("42", chatID, want[i], nil)
	}
	r.Await("the limit", func() bool { return strings.Contains(r.Log.String(), "cannot be held") })
	r.Refuse(nil)
	r.Await("all of them", func() bool { return len(r.Inbound()) >= len(want) })
	if diff := cmp.Diff(want, r.texts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if fake.Identified() != 1 || len(r.States()) != 1 {
		t.Errorf("the connection did not last: %q", r.States())
	}
}

// stored is a cursor on the disk.
func (r *rig) stored(key string) string {
	r.t.Helper()
	c, err := kit.OpenCursors(r.deps, discordtest.BotID)
	if err != nil {
		r.t.Fatal(err)
	}
	return c.Get(key)
}

// A crash at any time leaves a cursor for every chat that must be read after it.
func TestCursorsAtOnce(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, map[string]any{"allowFrom": []string{"42", "43", "*", "ann"}})
	defer r.begin()()
	fake.Write("44", fake.DM("44"), "hi", nil)
	r.receive(1)
	r.Await("the direct chats of the list", func() bool { return r.stored(personMark+"43") != "" })
	for _, key := range []string{allChats, "844", "842", "843"} {
		if r.stored(key) == "" {
			t.Errorf("there is no cursor of %s on the disk", key)
		}
	}
}

// The first message of a person on the list is answered, too, if it came while
// the bot was away.
func TestFirstWordsWhileAway(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	end := r.begin()
	r.Await("the direct chat", func() bool { return r.stored(personMark+"42") != "" })
	end()
	fake.Write("42", fake.DM("42"), "anybody there?", nil)
	r.reopen(nil)
	defer r.begin()()
	if got := r.receive(1); got[0].Text != "anybody there?" {
		t.Errorf("got %q", got[0].Text)
	}
	if n := len(fake.Calls("POST", "/users/@me/channels")); n != 1 {
		t.Errorf("the direct chat was looked up %d times", n)
	}
}
