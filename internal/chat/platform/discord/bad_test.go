package discord

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
)

// Whatever arrives, the channel goes on, and the log says it once per cause.
func TestBadInput(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	chat := fake.DM("42")
	for range 3 {
		fake.Raw("{")
		fake.Raw(`[1]`)
		fake.Raw(`{"op":0,"t":"MESSAGE_CREATE","d":"text"}`)
		fake.Raw(`{"op":0,"t":"MESSAGE_CREATE","d":{"id":7}}`)
		fake.Raw(`{"op":0,"t":"MESSAGE_CREATE","d":{}}`)
		fake.Raw(`{"op":0,"t":"GUILD_CREATE","d":{"channels":{}}}`)
		fake.Raw(`{"op":0,"t":"INTERACTION_CREATE","d":{"type":2,"user":{},"data":null}}`)
		fake.Raw(`{"op":0,"t":"SOMETHING_NEW","d":{"x":[1,2,3]}}`)
		fake.Raw(`{"op":99,"d":null}`)
	}
	same := fake.Write("42", chat, "one", nil)
	fake.Write("42", chat, "one", object{"id": same}) // replayed
	huge := strings.Repeat("word ", 200_000)
	fake.Write("42", chat, huge, nil)
	fake.Write("66", discordtest.Channel, huge, nil)
	fake.Write("42", chat, "last", nil)
	got := r.receive(3)
	if len(got) != 3 || got[0].Text != "one" || len(got[1].Text) != len(huge)-1 || got[2].Text != "last" {
		t.Errorf("got %d messages", len(got))
	}
	if fake.Identified() != 1 || len(r.States()) != 1 {
		t.Errorf("the connection did not last: %q", r.States())
	}
	log := r.Log.String()
	for _, cause := range []string{"is not JSON", "cannot be read: MESSAGE_CREATE", "cannot be read: GUILD_CREATE"} {
		if n := strings.Count(log, cause); n != 1 {
			t.Errorf("%q is %d times in the log:\n%s", cause, n, log)
		}
	}
	if strings.Contains(log, discordtest.Token) {
		t.Error("the token is in the log")
	}
}

// One chat that cannot be handled delays no other one.
func TestChatsAreApart(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, map[string]any{"allowFrom": []string{"42", "43"}})
	gate := make(chan struct{})
	defer r.begin()()
	defer close(gate)
	slow := fake.Store("slow.txt", []byte("x"))
	fake.Slow(slow, gate)
	fake.Write("42", fake.DM("42"), "with a file", object{"attachments": []object{slow}})
	fake.Write("43", fake.DM("43"), "hi", nil)
	if got := r.receive(1); got[0].Text != "hi" {
		t.Errorf("got %q first", got[0].Text)
	}
}
