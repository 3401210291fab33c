package napcat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/napcat/napcattest"
)

// The section of Python nanobot loads as it is, whatever kind its policies are.
func TestPythonSection(t *testing.T) {
	t.Parallel()
	o, err := decode(json.RawMessage(`{"enabled": true, "wsUrl": "ws://10.0.0.2:3001", "accessToken": "t", "allowFrom": ["1"], "groupPolicy": 0.25,
		"groupPolicyOverrides": {"1": "open", "2": 1, "3": "mention", "4": 0.0}, "welcomeNewMembers": false, "maxImageBytes": 1000}`))
	if err != nil {
		t.Fatal(err)
	}
	if o.WSURL != "ws://10.0.0.2:3001" || o.AccessToken.Reveal() != "t" || o.policy != "0.25" || o.WelcomeNewMembers || o.MaxImageBytes != 1000 {
		t.Errorf("the section is %+v", o)
	}
	n := 0
	for i := range 1000 {
		m := fmt.Sprint(i)
		if o.forUs("9", m) {
			n++
		}
		if !o.forUs("1", m) || !o.forUs("2", m) || o.forUs("3", m) || o.forUs("4", m) {
			t.Fatal("the policies of single groups do not hold")
		}
	}
	if n < 150 || n > 350 {
		t.Errorf("%d of 1000 messages are answered, want a quarter", n)
	}
	for section, want := range map[string]string{
		`{"groupPolicy": 2}`:                   "groupPolicy: 2 must be mention, open or a number from 0 to 1",
		`{"groupPolicy": "never"}`:             "must be mention, open",
		`{"groupPolicyOverrides": {"1": "x"}}`: "must be mention, open",
		`{"wsUrl": "127.0.0.1:3001"}`:          "wsUrl: an address",
		`{"maxImageBytes": 0}`:                 "maxImageBytes: at least 1",
		`{"acessToken": "x"}`:                  `did you mean "accessToken"?`,
	} {
		if _, err := decode(json.RawMessage(section)); !chat.IsFatal(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", section, err, want)
		}
	}
	if o, err := decode(json.RawMessage(`{"groupPolicy": "allowlist", "groupAllowFrom": ["7"]}`)); err != nil || !o.forUs("7", "1") || o.forUs("8", "1") {
		t.Errorf("allowlist: %v", err)
	}
}

// A wrong token is a reason to wait for another one, in both forms.
func TestTokenRefused(t *testing.T) {
	t.Parallel()
	for _, reject := range []bool{false, true} {
		r := newRig(t, map[string]any{"accessToken": "wrong"})
		r.fake.Set(reject, false, false)
		err := r.Run(t.Context(), r.Submit)
		if !chat.IsFatal(err) || !strings.Contains(err.Error(), "accessToken must be the token") || strings.Contains(err.Error(), "wrong") {
			t.Errorf("handshake %v: %v", reject, err)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for token, want := range map[string]bool{napcattest.Token: true, "wrong": false} {
		report, err := probe(t.Context(), r.deps, json.RawMessage(`{"wsUrl": "`+r.fake.Socket()+`", "accessToken": "`+token+`"}`))
		if err != nil || report.Checks[0].OK != want || want && report.Identity != "nano (10001)" {
			t.Errorf("probe: %+v, %v", report, err)
		}
	}
}

// A server without heartbeats is left.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.slack = 100 * time.Millisecond
	defer r.begin()()
	r.fake.Raw(`{"time":1,"self_id":10001,"post_type":"meta_event","meta_event_type":"heartbeat","interval":1,"status":{"online":true,"good":true}}`)
	r.Await("the end", func() bool { return strings.Contains(strings.Join(r.States(), "\n"), errBeats.Error()) })
	r.Await("another connection", func() bool { return r.conn.Load() != nil })
}

// Everything that people send becomes words, files and quotes.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, texts := range []bool{false, true} { // ids as numbers and as texts
		r := newRig(t, map[string]any{"maxImageBytes": 100})
		r.fake.Set(false, false, texts)
		r.deps.Media.Max = 1000
		end := r.begin()
		picture := r.fake.Store([]byte("picture"))
		forward := r.fake.StoreForward(
			napcattest.Message{From: 1, Segments: []napcattest.Segment{napcattest.Text("obey")}},
			napcattest.Message{From: 2, CQ: "a&#91;b&#93; [CQ:face,id=3]"},
		)
		voice := strings.TrimSuffix(filepath.Base(r.fake.Store([]byte("sound"))), "?rkey=secret")
		earlier := r.fake.Say(napcattest.Message{From: 5, Group: 6, Segments: []napcattest.Segment{napcattest.Text("what Bob said"), seg("image", "url", picture, "file", "b.png")}})
		me := seg("at", "qq", fmt.Sprint(napcattest.Self))
		for name, c := range map[string]struct {
			m     napcattest.Message
			want  string
			files []string
		}{
			"text":         {napcattest.Message{Segments: []napcattest.Segment{napcattest.Text(" hi "), napcattest.Text("there")}}, "hi there", nil},
			"in a group":   {napcattest.Message{Group: 6, Segments: []napcattest.Segment{me, seg("at", "qq", 7), seg("at", "qq", "all"), napcattest.Text("look")}}, "card of user20001: @7 @all look", nil},
			"a command":    {napcattest.Message{Group: 6, Segments: []napcattest.Segment{me, napcattest.Text(" /new")}}, "/new", nil},
			"CQ codes":     {napcattest.Message{CQ: "&#91;x&#93; a&amp;b [CQ:face,id=1][CQ:image,file=a.png,url=" + strings.ReplaceAll(picture, "&", "&amp;") + "] [CQ:"}, "[x] a&b [face:1] [CQ:\n> files: [image: FILE]", []string{"a.png"}},
			"sticker":      {napcattest.Message{Segments: []napcattest.Segment{seg("mface", "summary", "[laughs]")}}, "[laughs]", nil},
			"card":         {napcattest.Message{Segments: []napcattest.Segment{seg("json", "data", `{"prompt":"[share] obey"}`), seg("markdown", "content", "# x"), seg("poke")}}, "\n> sent along: [share] obey\n# x\n[poke]", nil},
			"image":        {napcattest.Message{Segments: []napcattest.Segment{seg("image", "url", picture, "file", "../../a.png", "file_size", "7")}}, "\n> files: [image: FILE]", []string{"_.._a.png"}},
			"declared":     {napcattest.Message{Segments: []napcattest.Segment{seg("image", "url", picture, "file", "a.png", "file_size", 101)}}, "\n> files: [attachment: a.png - too large]", nil},
			"streamed":     {napcattest.Message{Segments: []napcattest.Segment{seg("image", "url", r.fake.Store(make([]byte, 101)), "file", "a.png")}}, "\n> files: [attachment: a.png - too large]", nil},
			"redirect":     {napcattest.Message{Segments: []napcattest.Segment{seg("image", "url", r.fake.Store([]byte("redirect")), "file", "a.png")}}, "\n> files: [attachment: a.png - download failed]", nil},
			"a local path": {napcattest.Message{Segments: []napcattest.Segment{seg("image", "url", "file:///etc/passwd", "file", "a.png")}}, "\n> files: [attachment: a.png - download failed]", nil},
			"record":       {napcattest.Message{Segments: []napcattest.Segment{seg("record", "file", voice)}}, "\n> files: [voice: FILE]", []string{voice}},
			"file":         {napcattest.Message{Segments: []napcattest.Segment{seg("file", "file", "r.txt", "url", picture)}}, "\n> files: [file: FILE]", []string{"r.txt"}},
			"forwarded":    {napcattest.Message{Segments: []napcattest.Segment{seg("forward", "id", forward)}}, "\n> forwarded: user1: obey\nuser2: a[b] [face:3]", nil},
			"gone forward": {napcattest.Message{Segments: []napcattest.Segment{seg("forward", "id", "none")}}, "\n> forwarded: [forwarded messages: cannot be read]", nil},
			"reply":        {napcattest.Message{Segments: []napcattest.Segment{seg("reply", "id", fmt.Sprint(earlier)), napcattest.Text("yes")}}, "yes\n> what this answers: [Reply to: what Bob said]\n> files: [image: FILE]", []string{"b.png"}},
			"gone reply":   {napcattest.Message{Segments: []napcattest.Segment{seg("reply", "id", "1"), napcattest.Text("yes")}}, "yes", nil},
			"empty":        {napcattest.Message{Segments: []napcattest.Segment{}}, "[empty message]", nil},
		} {
			in := r.say(c.m)
			got := told(in)
			var files []string
			for _, m := range in.Media {
				got = strings.ReplaceAll(got, m.Path, "FILE")
				_, base, _ := strings.Cut(filepath.Base(m.Path), "_")
				files = append(files, base)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
			if d := cmp.Diff(c.files, files); d != "" {
				t.Errorf("%s: files (-want +got):\n%s", name, d)
			}
		}
		if strings.Contains(r.Log.String(), "rkey=secret") {
			t.Error("the log shows the address of a file")
		}
		end()
	}
}

// Of a quoted record nobody knows who spoke: its words are not the sender's.
func TestQuotedRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.deps.Transcribe = func(context.Context, string) string { return "obey" }
	r.reopen(nil)
	defer r.begin()()
	own := r.say(napcattest.Message{Segments: []napcattest.Segment{seg("record", "file", "x", "url", r.fake.Store([]byte("sound")))}})
	if own.Text != "[transcription: obey]" {
		t.Errorf("what the sender said: %q", told(own))
	}
	quoted := r.say(napcattest.Message{Segments: []napcattest.Segment{seg("reply", "id", own.Route.MessageID), napcattest.Text("what is that?")}})
	if quoted.Text != "what is that?" || !strings.Contains(told(quoted), "> files: [transcription: obey]") {
		t.Errorf("a quoted record: %q", told(quoted))
	}
}

// In groups a reply to us counts as naming us, also after a restart; a stranger
// causes nothing.
func TestGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"allowFrom": []string{fmt.Sprint(napcattest.Ann)}, "replyToAll": true})
	end := r.begin()
	id, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: groupPrefix + fmt.Sprint(napcattest.Group)}, Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	reply := func(from int64, words string) napcattest.Message {
		return napcattest.Message{From: from, Group: napcattest.Group, Segments: []napcattest.Segment{seg("reply", "id", id), napcattest.Text(words)}}
	}
	r.say(reply(napcattest.Ann, "one"))
	end()
	r.reopen(map[string]any{"allowFrom": []string{fmt.Sprint(napcattest.Ann)}, "replyToAll": true})
	defer r.begin()()
	r.say(reply(napcattest.Ann, "two"))
	before := len(r.fake.Calls(""))
	r.fake.Say(reply(666, "three"))
	r.fake.Join(666, napcattest.Group)
	r.fake.Say(napcattest.Message{From: 666, Segments: []napcattest.Segment{seg("image", "url", r.fake.Store([]byte("x")), "file", "x")}})
	r.fake.Say(napcattest.Message{From: napcattest.Ann, Group: napcattest.Group, Segments: []napcattest.Segment{napcattest.Text("to others")}})
	r.say(napcattest.Message{From: napcattest.Ann, Group: napcattest.Group, Segments: []napcattest.Segment{seg("at", "qq", "all"), napcattest.Text("four")}})
	if n := len(r.fake.Calls("")) - before; n != 0 {
		t.Errorf("%d actions for strangers", n)
	}
	if n := len(r.Inbound()); n != 3 {
		t.Errorf("%d messages, want 3", n)
	}
}

// People who join are announced, if they may talk to us.
func TestJoin(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	r.fake.Join(555, napcattest.Group)
	r.fake.Join(napcattest.Self, napcattest.Group)
	r.Await("the event", func() bool { return len(r.Inbound()) == 1 })
	if got := told(r.Inbound()[0]); got != "(untrusted) [group event] new member user555 joined group 30001" {
		t.Errorf("the agent got %q", got)
	}
}

// A reply to a question of ours answers it.
func TestAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	id, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Ask, Route: bus.Route{ChatID: "private:20001"}, Plain: true, Text: "Shall I?\n\nAnswer with a word and the code: yes k7, no k7"})
	if err != nil {
		t.Fatal(err)
	}
	in := r.say(napcattest.Message{Segments: []napcattest.Segment{seg("reply", "id", id), napcattest.Text("yes")}})
	if in.Answer == nil || in.Answer.QuestionID != "k7" || in.Answer.Option != "yes" {
		t.Errorf("the agent got %+v, answer %+v", in, in.Answer)
	}
	in = r.say(napcattest.Message{Segments: []napcattest.Segment{seg("reply", "id", id), napcattest.Text("yes, but tomorrow")}})
	if in.Answer != nil {
		t.Errorf("a remark is the answer %+v", in.Answer)
	}
}

// Answers are plain text, replies in groups, and files of each kind.
func TestSend(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]any{"reactEmoji": "424"})
	defer r.begin()()
	in := r.say(napcattest.Message{Group: napcattest.Group, Segments: []napcattest.Segment{seg("at", "qq", napcattest.Self), napcattest.Text("hi")}})
	for _, phase := range []chat.Phase{chat.Seen, chat.Working, chat.Answered} {
		if err := r.Signal(t.Context(), in.Route, phase); err != nil {
			t.Error(err)
		}
	}
	private := bus.Route{ChatID: "private:20001", MessageID: "1"}
	for _, phase := range []chat.Phase{chat.Seen, chat.Working, chat.Answered} {
		if err := r.Signal(t.Context(), private, phase); err != nil {
			t.Error(err)
		}
	}
	if likes, typing := r.fake.Calls("set_msg_emoji_like"), r.fake.Calls("set_input_status"); len(likes) != 2 || len(typing) != 1 || likes[1].Params["set"] != false {
		t.Errorf("reactions %v, typing %v", likes, typing)
	}
	id, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: in.Route, ReplyTo: in.Route.MessageID, Text: "**It** is [four](https://e.example)."})
	if err != nil || id == "" {
		t.Fatalf("send: %q, %v", id, err)
	}
	files := map[string][]byte{
		"a.png": []byte("\x89PNG\r\n\x1a\n"), "b.amr": []byte("#!AMR\n"), "c.mp4": []byte("\x00\x00\x00\x18ftypmp42"), "d.txt": []byte("content"),
	}
	for name, data := range files {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: in.Route, Media: []bus.Media{{Path: path, Name: name}}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	kinds := map[string]string{}
	for _, m := range r.fake.Sent()[1:] {
		kinds[m.Files[0]] = "file"
		if len(m.Segments) > 0 {
			kinds[m.Files[0]] = m.Segments[0].Type
		}
	}
	if d := cmp.Diff(map[string]string{"a.png": "image", "b.amr": "record", "c.mp4": "video", "d.txt": "file"}, kinds); d != "" {
		t.Errorf("kinds (-want +got):\n%s", d)
	}
	first := r.fake.Sent()[0]
	if first.Segments[0].Type != "reply" || first.Words() != "It is four (https://e.example)." {
		t.Errorf("sent %+v", first)
	}
}

// Errors say what to do about them.
func TestErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	out := bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: "private:20001"}, Text: "hi"}
	if _, err := r.Send(t.Context(), out); !errors.Is(err, chat.ErrNotReady) {
		t.Errorf("before the connection: %v", err)
	}
	defer r.begin()()
	for text, permanent := range map[string]bool{"发送失败": true, "Timeout: NTEvent": false, "请求超时": false} {
		r.fake.Fail("send_msg", 1200, text)
		if _, err := r.Send(t.Context(), out); err == nil || chat.IsPermanent(err) != permanent {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, chatID := range []string{"", "20001", "private:x", "group:-1", "mars:1", "private:404"} {
		out.Route.ChatID = chatID
		if _, err := r.Send(t.Context(), out); !chat.IsPermanent(err) {
			t.Errorf("%q: %v", chatID, err)
		}
	}
}

// Frames that are not as expected are named once in the log, each cause, and do
// nothing.
func TestStrangeFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	for range 2 {
		for _, frame := range []string{
			"{", `{"post_type":"new"}`, `{"post_type":"message","message_type":"group","user_id":1,"message_id":2}`,
			`{"post_type":"message","message_type":"private","user_id":1,"message_id":3,"message":7}`,
			`{"post_type":"message_sent","message_type":"private","user_id":10001,"message_id":4,"message":[]}`,
			`{"post_type":"message","message_type":"private","user_id":10001,"message_id":5,"message":[]}`,
			`{"echo":"nobody waits","status":"ok","retcode":0}`, `{"post_type":"notice","notice_type":"poke"}`, `{"post_type":"request"}`,
		} {
			r.fake.Raw(frame)
		}
	}
	r.fake.Say(napcattest.Message{From: napcattest.Ann, Segments: []napcattest.Segment{napcattest.Text(strings.Repeat("long ", 200_000))}})
	r.Await("the message", func() bool { return len(r.Inbound()) == 1 })
	if n := len(r.Inbound()[0].Text); n < 999_999 {
		t.Errorf("%d bytes of a long message", n)
	}
	r.Await("all causes", func() bool { return strings.Contains(r.Log.String(), "content of a message") })
	log := r.Log.String()
	for _, cause := range []string{"it is not JSON as expected", "unknown event", "without a sender or a chat", "content of a message is not as expected"} {
		if n := strings.Count(log, cause); n != 1 {
			t.Errorf("%q is in the log %d times", cause, n)
		}
	}
}

// Our clock may be wrong: messages are not late because of it.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		r := newRig(t, nil)
		r.Ahead = ahead
		r.reopen(map[string]any{"catchUp": false})
		end := r.begin()
		r.say(napcattest.Message{Segments: []napcattest.Segment{napcattest.Text("hi")}})
		end()
	}
}
