package qq

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/qq/qqtest"
)

// What people write in each kind of chat arrives with the right chat and sender.
func TestKinds(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, map[string]any{"groupPolicy": "mention"})
	defer r.begin()()
	for i, c := range []struct {
		kind             qqtest.Kind
		chat, want, text string
		scope            bool
	}{
		{qqtest.Direct, "ann", "ann", "hi", false},
		{qqtest.Group, "G1", "G1", "ann: hi", true},
		{qqtest.Guild, "77", "channel:77", "user ann: hi", true},
		{qqtest.GuildDirect, "88", "dm:88", "hi", false},
	} {
		fake.Write(c.kind, "ann", c.chat, "hi", nil)
		in := r.receive(i + 1)[i]
		if in.Route.ChatID != c.want || in.SenderID != "ann" || in.Text != c.text || (in.Scope != "") != c.scope || in.Untrusted {
			t.Errorf("%s: got %+v", c.kind, in)
		}
		if _, err := r.Send(t.Context(), answer(in, "k", "re: "+string(c.kind))); err != nil {
			t.Errorf("%s: %v", c.kind, err)
		}
		list := fake.Messages()
		if m := list[len(list)-1]; m.Kind != c.kind || m.Chat != c.chat || m.ReplyTo != in.Route.MessageID {
			t.Errorf("%s: the answer is %+v", c.kind, m)
		}
	}
}

// What a person did not type is apart from what they typed.
func TestCompose(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	r.deps.Quoted = func(_ bus.Route, id string) (chat.Quoted, bool) {
		return chat.Quoted{Text: "run this"}, id == "ours"
	}
	r.deps.Transcribe = func(_ context.Context, path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return "heard " + string(data)
	}
	r.reopen(nil)
	defer r.begin()()
	voice := fake.Store("voice.silk", []byte("silk"))
	voice["content_type"] = "voice"
	wav := fake.Store("voice.wav", []byte("wav"))
	voice["voice_wav_url"] = wav["url"]
	read := object{"url": "https://example.com/x", "content_type": "voice", "asr_refer_text": "read by QQ"}
	gone := object{"url": fake.URL() + "/download/none", "filename": "../../gone.txt", "content_type": "file", "size": "12"}
	for i, c := range []struct {
		changes object
		want    string
	}{
		{object{"message_reference": object{"message_id": "ours"}}, "hi\n> what this answers: [answers you: run this]"},
		{object{"message_reference": object{"message_id": "unknown"}}, "hi"},
		{object{"content": "", "attachments": []object{voice}}, "[transcription: heard wav]"},
		{object{"content": "", "attachments": []object{read}}, "[transcription: read by QQ]"},
		{object{"attachments": []object{gone}}, "hi\n> files: [attachment: _.._gone.txt - download failed]"},
		{object{"content": " "}, "[empty message]"},
		{object{"content": "  /new "}, "/new"},
	} {
		fake.Write(qqtest.Direct, "ann", "ann", "hi", c.changes)
		if got := shown(r.receive(i + 1)[i]); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if b := fake.Broken(); len(b) > 0 {
		t.Errorf("broken: %q", b)
	}
}

// A reply to a question answers it.
func TestReplyAnswers(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	r.deps.Quoted = func(bus.Route, string) (chat.Quoted, bool) {
		return chat.Quoted{Text: "Shall I?\n\nAnswer with a word and the code: Yes k7, No k7"}, true
	}
	r.reopen(nil)
	defer r.begin()()
	fake.Write(qqtest.Direct, "ann", "ann", "Yes", object{"message_reference": object{"message_id": "q"}})
	fake.Write(qqtest.Direct, "ann", "ann", "Yes, but later", object{"message_reference": object{"message_id": "q"}})
	got := r.receive(2)
	if a := got[0].Answer; a == nil || a.QuestionID != "k7" || a.Option != "Yes" {
		t.Errorf("answer %+v", a)
	}
	if got[1].Answer != nil {
		t.Errorf("a sentence answers: %+v", got[1].Answer)
	}
}

// A person who is not known costs nothing, and a bot is not heard.
func TestStrangers(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	file := fake.Store("x.txt", []byte("x"))
	fake.Write(qqtest.Direct, "eve", "eve", "hi", object{"attachments": []object{file}})
	fake.Write(qqtest.Group, "eve", "G1", "hi", object{"attachments": []object{file}})
	fake.Write(qqtest.Guild, "ann", "77", "hi", object{"author": object{"id": "ann", "bot": true}})
	fake.Write(qqtest.Direct, "ann", "ann", "last", nil)
	if got := r.receive(1); got[0].Text != "last" {
		t.Errorf("got %q", got[0].Text)
	}
	if n := len(fake.Calls("", "/download")) + len(fake.Messages()); n != 0 {
		t.Errorf("%d things were done for strangers", n)
	}
}

// An event that cannot be taken in yet is neither lost nor doubled.
func TestHeld(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	r.Refuse(errors.New("disk full"))
	end := r.begin()
	fake.Write(qqtest.Direct, "ann", "ann", "hi", object{"id": "m1"})
	fake.Write(qqtest.Direct, "ann", "ann", "hi", object{"id": "m1"}) // QQ repeats itself
	r.Await("a try", func() bool { return strings.Contains(r.Log.String(), "could not be accepted yet") })
	end()
	r.Refuse(nil)
	r.reopen(nil)
	defer r.begin()()
	fake.Write(qqtest.Direct, "ann", "ann", "next", object{"id": "m2"})
	if got := r.receive(2); got[0].Text != "hi" || got[1].Text != "next" {
		t.Errorf("got %q and %q", got[0].Text, got[1].Text)
	}
}

// Whatever arrives, the channel goes on, and the log says it once per cause.
func TestBadInput(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	for range 3 {
		for _, f := range []string{
			"{", "[1]", "null", `{"op":0,"t":"C2C_MESSAGE_CREATE","d":"text"}`, `{"op":0,"t":"C2C_MESSAGE_CREATE","d":{"id":7}}`,
			`{"op":0,"t":"C2C_MESSAGE_CREATE","d":{}}`, `{"op":0,"t":"C2C_MESSAGE_CREATE","d":{"id":"x"}}`, `{"op":0,"t":"GROUP_AT_MESSAGE_CREATE","d":{"id":"x","author":{"id":"ann"}}}`,
			`{"op":0,"t":"INTERACTION_CREATE","d":{"id":1}}`, `{"op":0,"t":"INTERACTION_CREATE","d":{"id":"t","chat_type":2}}`, `{"op":0,"t":"SOMETHING_NEW","d":{"x":[1]}}`, `{"op":99}`,
		} {
			fake.Raw(f)
		}
	}
	for _, kind := range []string{"FRIEND_ADD", "FRIEND_DEL", "GROUP_ADD_ROBOT", "GROUP_DEL_ROBOT", "C2C_MSG_REJECT", "C2C_MSG_RECEIVE", "GROUP_MSG_REJECT", "GROUP_MSG_RECEIVE"} {
		fake.Event(kind, object{"timestamp": 1, "openid": "ann", "group_openid": "G1"})
	}
	id := fake.Press(qqtest.Direct, "ann", "ann", "forged")
	huge := strings.Repeat("word ", 200_000)
	fake.Write(qqtest.Direct, "ann", "ann", huge, object{"timestamp": "not a time"})
	fake.Write(qqtest.Direct, "ann", "ann", "last", object{"timestamp": 1700000000})
	got := r.receive(2)
	if len(got) != 2 || len(got[0].Text) != len(huge)-1 || got[1].Text != "last" {
		t.Errorf("got %d messages", len(got))
	}
	if fake.Identified() != 1 || len(r.States()) != 1 {
		t.Errorf("the connection did not last: %q", r.States())
	}
	r.Await("the confirmation of the button", func() bool { return fake.Tapped(id) })
	log := r.Log.String()
	for _, cause := range []string{"a frame of the gateway cannot be read", "cannot be read: C2C_MESSAGE_CREATE", "cannot be read: INTERACTION_CREATE", "a button that is not ours"} {
		if n := strings.Count(log, cause); n != 1 {
			t.Errorf("%q is %d times in the log:\n%s", cause, n, log)
		}
	}
	if strings.Contains(log, qqtest.Secret) || strings.Contains(log, "token-1") {
		t.Error("a secret is in the log")
	}
}

// One chat that cannot be handled delays no other one.
func TestChatsAreApart(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	gate := make(chan struct{})
	defer r.begin()()
	defer close(gate)
	slow := fake.Store("slow.txt", []byte("x"))
	fake.Slow(slow, gate)
	fake.Write(qqtest.Direct, "ann", "ann", "with a file", object{"attachments": []object{slow}})
	fake.Write(qqtest.Direct, "bob", "bob", "hi", nil)
	if got := r.receive(1); got[0].Text != "hi" {
		t.Errorf("got %q first", got[0].Text)
	}
}

// Our clock may be wrong: messages are not late because of it, and replies are
// sent while QQ takes them.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		fake := loopback(t)
		r := newRig(t, fake, nil)
		r.Ahead = ahead
		r.reopen(map[string]any{"catchUp": false})
		end := r.begin()
		in := heardIn(r, qqtest.Group, "G1")
		mustSend(r, answer(in, "k0", "in time"))
		if m := fake.Messages()[0]; m.ReplyTo != in.Route.MessageID {
			t.Errorf("%s ahead: the answer is %+v", ahead, m)
		}
		end()
	}
}
