package wecom

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
)

// TestDecrypt checks the vector of the specification, and what is not a file.
func TestDecrypt(t *testing.T) {
	t.Parallel()
	const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	data, err := hex.DecodeString("c54d4f4fa8e5d276dce2099fc73677295d2d2596dca11d05638885ab14044444")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{key, strings.TrimRight(key, "=")} {
		if got, err := decrypt(k, data); err != nil || string(got) != "nanobot" {
			t.Errorf("%s: %q, %v", k, got, err)
		}
	}
	other := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	for name, c := range map[string]struct {
		key  string
		data []byte
	}{
		"wrong key":   {other, data},
		"short key":   {"AAEC", data},
		"no key":      {"%%%", data},
		"cut off":     {key, data[:31]},
		"empty":       {key, nil},
		"other bytes": {key, append(data[:31:31], data[31]^1)},
	} {
		if got, err := decrypt(c.key, c.data); !errors.Is(err, errCipher) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// Everything that people send becomes words, files and quotes.
func TestMessages(t *testing.T) {
	t.Parallel()
	type obj = map[string]any
	r := newRig(t, nil)
	r.deps.Media.Max = 100
	defer r.begin()()
	text := func(s string) obj { return obj{"msgtype": "text", "text": obj{"content": s}} }
	picture := r.fake.Store("", []byte("\x89PNG\r\n\x1a\n0123456789"))
	for name, c := range map[string]struct {
		m     wecomtest.Message
		want  string
		files []string
	}{
		"text":          {wecomtest.Message{Text: " hi "}, "hi", nil},
		"a command":     {wecomtest.Message{Text: "@Bot /new", Chat: wecomtest.Group}, "/new", nil},
		"in a group":    {wecomtest.Message{Text: "@Bot\u2005look", Chat: wecomtest.Group}, "ann: look", nil},
		"only the name": {wecomtest.Message{Text: "@Bot", Chat: wecomtest.Group}, "ann:", nil},
		"voice":         {wecomtest.Message{Body: obj{"msgtype": "voice", "voice": obj{"content": "good morning"}}}, "[voice] good morning", nil},
		"image":         {wecomtest.Message{Body: obj{"msgtype": "image", "image": picture}}, "\n> files: [image: FILE]", []string{"image.png"}},
		"file":          {wecomtest.Message{Body: obj{"msgtype": "file", "file": r.fake.Store("报告 1.txt", []byte("x"))}}, "\n> files: [file: FILE]", []string{"报告 1.txt"}},
		"not encrypted": {wecomtest.Message{Body: obj{"msgtype": "video", "video": r.fake.StoreRaw("v.mp4", []byte("movie"), "")}}, "\n> files: [video: FILE]", []string{"v.mp4"}},
		"mixed": {
			wecomtest.Message{Body: obj{"msgtype": "mixed", "mixed": obj{"msg_item": []any{text("see"), obj{"msgtype": "image", "image": picture}, text("this")}}}},
			"see\nthis\n> files: [image: FILE]",
			[]string{"image.png"},
		},
		"quote":           {wecomtest.Message{Text: "yes", Body: obj{"quote": text("obey the quote")}}, "yes\n> what this answers: [Reply to: obey the quote]", nil},
		"quoted image":    {wecomtest.Message{Text: "what is it?", Body: obj{"quote": obj{"msgtype": "image", "image": picture}}}, "what is it?\n> what this answers: [Reply to: [image: FILE]]", []string{"image.png"}},
		"wrong key":       {wecomtest.Message{Body: obj{"msgtype": "image", "image": r.fake.StoreRaw("a.png", make([]byte, 32), "AAAA")}}, "\n> files: [image: download failed]", nil},
		"gone":            {wecomtest.Message{Body: obj{"msgtype": "file", "file": obj{"url": r.fake.URL() + "/files/none?sign=secret", "aeskey": ""}}}, "\n> files: [file: download failed]", nil},
		"no address":      {wecomtest.Message{Body: obj{"msgtype": "file", "file": obj{"url": "file:///etc/passwd"}}}, "\n> files: [file: download failed]", nil},
		"too large":       {wecomtest.Message{Body: obj{"msgtype": "file", "file": r.fake.Store("big", make([]byte, 1000))}}, "\n> files: [file: too large]", nil},
		"empty":           {wecomtest.Message{}, "[empty message]", nil},
		"another company": {wecomtest.Message{Text: "hi", Corp: "wwOther"}, "hi", nil},
	} {
		in := r.say(c.m)
		got := told(in)
		var files []string
		for _, m := range in.Media {
			got = strings.ReplaceAll(got, m.Path, "FILE")
			_, base, _ := strings.Cut(filepath.Base(m.Path), "_")
			files = append(files, base)
			if _, err := os.Stat(m.Path); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(c.files, files); d != "" {
			t.Errorf("%s: files (-want +got):\n%s", name, d)
		}
		if c.m.Corp != "" && in.SenderID != "wwOther/ann" {
			t.Errorf("a person of another company is %q", in.SenderID)
		}
	}
	if strings.Contains(r.Log.String(), "sign=secret") {
		t.Error("the log shows the address of a file")
	}
}

// The name of the bot is taken out wherever it stands, if it is known.
func TestBotName(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"botName": "@My Bot"})
	for from, want := range map[string]string{"@My Bot hi": "hi", "hi @My Bot": "hi", "@bob @My Bot hi": "@bob  hi"} {
		if got := r.withoutUs(from); got != want {
			t.Errorf("%q: %q, want %q", from, got, want)
		}
	}
}

// The same message comes once, and what it says to us stands in its Meta.
func TestOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	in := r.say(wecomtest.Message{ID: "m1", Text: "hi"})
	r.fake.Say(wecomtest.Message{ID: "m1", From: wecomtest.Ann, Text: "hi"})
	r.say(wecomtest.Message{ID: "m2", Text: "next"})
	if n := len(r.Inbound()); n != 2 {
		t.Errorf("%d messages", n)
	}
	delete(in.Meta, "req_id")
	delete(in.Meta, "received")
	if d := cmp.Diff(map[string]string{"message_id": "m1", "msg_type": "text", "chat_type": "single"}, in.Meta); d != "" {
		t.Errorf("Meta (-want +got):\n%s", d)
	}
}

// A stranger causes nothing: no stream, no download, no greeting.
func TestStranger(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"allowFrom": []string{wecomtest.Ann}, "welcomeMessage": "Hello!"})
	defer r.begin()()
	mallory := wecomtest.Message{From: "mallory", Corp: "", Body: map[string]any{"msgtype": "file", "file": r.fake.Store("x", []byte("x"))}}
	r.fake.Say(mallory)
	r.fake.Event(mallory, "enter_chat")
	r.fake.PressKey(mallory, `{"q":"q1","l":"Yes","t":"mallory"}`, "t", false)
	r.fake.Event(wecomtest.Message{From: wecomtest.Ann, Corp: "wwOther"}, "enter_chat") // a namesake
	r.say(wecomtest.Message{Text: "hi"})
	if n := r.fake.Fetched() + len(r.fake.Frames(cmdWelcome)) + len(r.fake.Frames(cmdUpdate)); n != 0 || len(r.Inbound()) != 1 {
		t.Errorf("%d things were done for a stranger, %d messages", n, len(r.Inbound()))
	}
}

// Whoever may talk to us is greeted, in time.
func TestWelcome(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"welcomeMessage": "Hello!"})
	defer r.begin()()
	r.fake.Event(wecomtest.Message{From: wecomtest.Ann}, "enter_chat")
	r.Await("the greeting", func() bool { return len(r.fake.Shown()) == 1 })
	if got := r.seen(); got[0] != "text: Hello!" {
		t.Errorf("people see %q", got)
	}
	rc := &receiver{bot: r.bot}
	var m message
	m.From.UserID = wecomtest.Ann
	rc.welcome(t.Context(), &event{ReqID: "late", At: time.Now().Add(-time.Minute).UnixMilli()}, &m)
	if n := len(r.fake.Frames(cmdWelcome)); n != 1 {
		t.Errorf("%d greetings", n)
	}
}

// A pairing code reaches a stranger, although nothing of the message is known.
func TestPairing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	r.fake.Event(wecomtest.Message{From: "mallory"}, "feedback_event")
	r.send(bus.Outbound{Kind: bus.Message, Route: bus.Route{ChatID: "mallory", MessageID: "m9"}, Plain: true, Text: "Your code is 1"})
	if got := r.seen(); len(got) != 1 || got[0] != "markdown: Your code is 1" {
		t.Errorf("people see %q", got)
	}
}
