package dingtalk

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
)

// What people send arrives with its files, and apart from what they did not type.
func TestCompose(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	r.deps.Transcribe = func(context.Context, string) string { return "heard" }
	r.reopen(nil)
	defer r.begin()()
	code := fake.Store([]byte("data"))
	for i, c := range []struct {
		group   string
		changes object
		want    string
		files   int
	}{
		{"", nil, "hi", 0},
		{"cid1", nil, "User ann: hi", 0},
		{"cid1", object{"text": object{"content": " /new "}}, "/new", 0},
		{"", object{"msgtype": "audio", "content": object{"recognition": "read", "downloadCode": code}}, "[transcription: read]", 0},
		{"", object{"msgtype": "audio", "content": object{"downloadCode": code}}, "[transcription: heard]", 0},
		{"", object{"msgtype": "picture", "content": object{"downloadCode": code}}, "\n> files: [image: PATH]", 1},
		{"", object{"msgtype": "picture", "content": `{"downloadCode":"` + code + `"}`}, "\n> files: [image: PATH]", 1},
		{"", object{"msgtype": "video", "content": object{"downloadCode": code}}, "\n> files: [video: PATH]", 1},
		{"", object{"msgtype": "file", "content": object{"downloadCode": code, "fileName": "../../x.txt"}}, "\n> files: [file: PATH]", 1},
		{"", object{"msgtype": "file", "content": object{"downloadCode": "none", "fileName": "x.txt"}}, "\n> files: [attachment: x.txt - download failed]", 0},
		{"", object{"msgtype": "interactiveCard"}, "\n> files: [interactiveCard]", 0},
		{"", object{"msgtype": "richText", "content": object{"richText": []object{
			{"text": "see "}, {"type": "at", "atName": "Bob"}, {"type": "bold", "text": "b"}, {"type": "pre", "text": "c"}, {"type": "picture", "downloadCode": code},
		}}}, "see @Bob **b**\n```\nc\n```\n> files: [image: PATH]", 1},
		{"", object{"text": object{"content": "yes", "isReplyMsg": true, "repliedMsg": object{"msgType": "text", "content": object{"text": "rm -rf"}}}}, "yes\n> what this answers: [Reply to: rm -rf]", 0},
		{"", object{"text": object{"content": "", "isReplyMsg": true, "repliedMsg": object{"msgType": "picture", "content": object{"downloadCode": code}}}}, "\n> what this answers: [Reply to: [picture]]\n> files: [image: PATH]", 1},
		{"", object{"text": object{"content": " "}}, "[empty message]", 0},
	} {
		fake.Write("ann", c.group, "hi", c.changes)
		in := r.receive(i + 1)[i]
		got := shown(in)
		for _, m := range in.Media {
			got = strings.ReplaceAll(got, m.Path, "PATH")
		}
		if got != c.want || len(in.Media) != c.files {
			t.Errorf("%d: got %q with %d files, want %q", i, got, len(in.Media), c.want)
		}
	}
}

// Chats and conversations have the ids of Python nanobot.
func TestChats(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, map[string]any{"groupUserIsolation": true})
	defer r.begin()()
	fake.Write("ann", "cid1", "hi", nil)
	fake.Write("ann", "", "hi", object{"senderStaffId": "", "senderId": "bob"})
	fake.Write("ann", "", "hi", object{"senderStaffId": "", "senderId": ""})
	for _, in := range r.receive(2) {
		switch in.SenderID {
		case "ann":
			if in.Route.ChatID != "group:cid1" || in.SessionKey != "dingtalk:group:cid1:ann" || in.Meta["conversation_id"] != "cid1" {
				t.Errorf("in the group: %+v", in)
			}
		case "bob":
			if in.Route.ChatID != "bob" || in.SessionKey != "" {
				t.Errorf("directly: %+v", in)
			}
		}
	}
}

// A person who is not known costs nothing.
func TestStrangers(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	file := object{"msgtype": "picture", "content": object{"downloadCode": fake.Store([]byte("x"))}}
	fake.Write("eve", "", "", file)
	fake.Write("eve", "cid1", "", file)
	fake.Write("ann", "", "last", nil)
	r.receive(1)
	if n := len(fake.Calls("/download")) + len(fake.Messages()); n != 0 {
		t.Errorf("%d things were done for strangers", n)
	}
}

// With disablePrivateChat a person hears why, and not more than once a minute.
func TestGroupsOnly(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, map[string]any{"disablePrivateChat": true})
	defer r.begin()()
	fake.Write("eve", "", "hi", nil)
	fake.Write("eve", "", "hi", nil)
	fake.Write("ann", "", "hi", nil)
	fake.Write("ann", "cid1", "in the group", nil)
	r.receive(1)
	r.Await("the notes", func() bool { return len(fake.Messages()) == 2 })
	if got := texts(fake); !strings.Contains(got[0], "only work in group chats") || len(r.Inbound()) != 1 {
		t.Errorf("people see %q", got)
	}
}

// A frame is confirmed when its message is held, and then never lost; one that
// comes again is not a second message.
func TestHeld(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	r.Refuse(errors.New("disk full"))
	end := r.begin()
	fake.Write("ann", "", "hi", object{"msgId": "m1"})
	r.Await("the confirmation", func() bool { return fake.Acked("m1") == codeOK })
	end()
	r.Refuse(nil)
	r.reopen(nil)
	defer r.begin()()
	fake.Write("ann", "", "hi", object{"msgId": "m1"})
	fake.Write("ann", "", "next", object{"msgId": "m2"})
	if got := r.receive(2); len(got) != 2 || got[0].Text != "hi" || got[1].Text != "next" {
		t.Errorf("got %d messages", len(got))
	}
}

// The stream's own frames are answered, and a lost connection is made again with
// another ticket.
func TestStream(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	ping := fake.System("ping", `{"opaque":"x"}`)
	fake.Event("/v1.0/card/instances/callback", object{"x": 1})
	r.Await("the confirmations", func() bool {
		return fake.Acked(ping) == codeOK && fake.Acked("/v1.0/card/instances/callback") == codeUnknown
	})
	for i, lose := range []func(){func() { fake.System("disconnect", "{}") }, fake.Cut, fake.Leave} {
		lose()
		r.Await("another connection", func() bool { return fake.Opened() == i+2 })
		fake.Write("ann", "", "hi", nil)
		r.receive(i + 1)
	}
}

// Wrong credentials stop the channel, and say what to do.
func TestFatal(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), map[string]any{"clientSecret": "wrong"})
	if err := r.Run(t.Context(), r.Submit); !chat.IsFatal(err) || !strings.Contains(err.Error(), "channels.dingtalk.clientId") {
		t.Errorf("Run: %v", err)
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
			"{", "[1]", "null", `{"type":"CALLBACK","headers":{"topic":"` + messageTopic + `","messageId":"x"},"data":"{"}`,
			`{"type":"CALLBACK","headers":{"topic":"` + messageTopic + `","messageId":"y"},"data":"{\"msgId\":7}"}`,
			`{"type":"CALLBACK","headers":{"topic":"` + messageTopic + `","messageId":"z"},"data":"{}"}`, `{"type":"NEW"}`, `{"type":"EVENT","headers":{"topic":"*","messageId":"e"},"data":"{}"}`,
		} {
			fake.Raw(f)
		}
	}
	huge := strings.Repeat("word ", 200_000)
	fake.Write("ann", "", huge, object{"sessionWebhook": "https://evil.example/steal"})
	fake.Write("ann", "", "last", nil)
	got := r.receive(2)
	if len(got) != 2 || len(got[0].Text) != len(huge)-1 || got[1].Text != "last" {
		t.Errorf("got %d messages", len(got))
	}
	if got[0].Meta[metaWebhook] != "" {
		t.Error("a foreign webhook was believed")
	}
	if fake.Opened() != 1 || len(r.States()) != 1 {
		t.Errorf("the connection did not last: %q", r.States())
	}
	log := r.Log.String()
	for _, cause := range []string{"a frame of the stream cannot be read", "a message of DingTalk cannot be read"} {
		if n := strings.Count(log, cause); n != 1 {
			t.Errorf("%q is %d times in the log:\n%s", cause, n, log)
		}
	}
	if strings.Contains(log, dingtalktest.ClientSecret) || strings.Contains(log, "ticket/=") {
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
	slow := fake.Store([]byte("x"))
	fake.Slow(slow, gate)
	fake.Write("ann", "", "", object{"msgtype": "picture", "content": object{"downloadCode": slow}})
	fake.Write("bob", "", "hi", nil)
	if got := r.receive(1); got[0].Text != "hi" {
		t.Errorf("got %q first", got[0].Text)
	}
}
