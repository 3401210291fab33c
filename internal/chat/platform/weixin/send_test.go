package weixin

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
)

// met is a rig to which a person has written.
func met(t *testing.T, changes object) *rig {
	t.Helper()
	r := newRig(t, changes)
	end := r.begin()
	t.Cleanup(end)
	r.fake.Say(ann, "hi")
	r.receive(1)
	return r
}

func (r *rig) send(out bus.Outbound) error {
	_, err := r.Send(r.t.Context(), out)
	return err
}

func TestSend(t *testing.T) {
	t.Parallel()
	r := met(t, nil)
	id, err := r.Send(t.Context(), answer(ann, "**Hello** <b>you</b>"))
	if err != nil || id != r.fake.Messages()[0].ID {
		t.Fatalf("%q, %v", id, err)
	}
	m := r.fake.Messages()[0]
	if m.Text != "**Hello** ＜b＞you＜/b＞" || !strings.HasPrefix(m.ClientID, "nanobot-") || len(m.ClientID) != 28 || m.RunID != "" {
		t.Errorf("%+v", m)
	}
	if err := r.send(answer(ann, "**Hello** <b>you</b>")); err != nil || r.fake.Messages()[1].ClientID != m.ClientID {
		t.Errorf("the same part has another client_id: %v", err)
	}
	plain := answer(ann, "a *b* <c>")
	plain.Plain = true
	if err := r.send(plain); err != nil || r.fake.Messages()[2].Text != "a *b* <c>" {
		t.Errorf("%+v, %v", r.fake.Messages()[2], err)
	}
	if err := r.send(answer(ann, "![x](http://example.com/x.png)")); err != nil || len(r.fake.Messages()) != 3 {
		t.Errorf("nothing to say was said: %v", err)
	}
}

func TestSendFiles(t *testing.T) {
	t.Parallel()
	r := met(t, nil)
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, kind, name string }{
		"a.png":   {"\x89PNG\r\n\x1a\n and 16", "image", ""},
		"b.mp4":   {"\x00\x00\x00\x18ftypmp42", "video", ""},
		"c.mp3":   {"ID3 sound", "file", "c.mp3"},
		"d e.txt": {"", "file", "d e.txt"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		out := answer(ann, "")
		out.Media = []bus.Media{{Path: path}}
		n := len(r.fake.Messages())
		if err := r.send(out); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := &weixintest.File{Kind: c.kind, Name: c.name, Data: []byte(c.content)}
		got := r.fake.Messages()[n].File
		if len(got.Data) == 0 {
			got.Data = []byte{}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}

	out := answer(ann, "")
	out.Media = []bus.Media{{Path: filepath.Join(dir, "a.png")}}
	r.fake.LoseParam(1)
	if err := r.send(out); err == nil || chat.IsPermanent(err) {
		t.Errorf("an upload without an answer: %v", err)
	}
	r.fake.Fail(weixintest.Failure{Path: "cdn/upload", Status: 403})
	if err := r.send(out); !chat.IsPermanent(err) {
		t.Errorf("a refused upload: %v", err)
	}
	out.Media[0].Path = filepath.Join(dir, "missing")
	if err := r.send(out); !chat.IsPermanent(err) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestSendFailures(t *testing.T) {
	t.Parallel()
	r := met(t, nil)
	for name, c := range map[string]struct {
		f    weixintest.Failure
		want string // in the error; "permanent" before it says that it is
	}{
		"server":     {weixintest.Failure{Status: 503}, "503"},
		"early":      {weixintest.Failure{Status: 425}, "425"},
		"rate":       {weixintest.Failure{Status: 429, After: 7}, "rate limited for 7s"},
		"not JSON":   {weixintest.Failure{Body: "<html>"}, "not as expected"},
		"cut":        {weixintest.Failure{Cut: true}, "sendmessage"},
		"invalid":    {weixintest.Failure{Ret: -3, Text: "bad"}, "permanent sendmessage: error -3 bad"},
		"errcode":    {weixintest.Failure{Code: -5}, "permanent sendmessage: error -5"},
		"forbidden":  {weixintest.Failure{Status: 403}, "permanent sendmessage: HTTP status 403"},
		"restricted": {weixintest.Failure{Ret: -2, Text: "rate limited"}, "waits for the next message"},
	} {
		r.fake.Fail(c.f)
		err := r.send(answer(ann, "x"))
		want, permanent := strings.CutPrefix(c.want, "permanent ")
		if err == nil || !strings.Contains(err.Error(), want) || chat.IsPermanent(err) != permanent {
			t.Errorf("%s: %v", name, err)
		}
		r.account.change(ann, r.account.context(ann), func(b *budget) { b.Sent = 0 }) // a refusal uses the token up
	}
}

// A context token allows a number of messages, over restarts. Then the person is
// told once, and the rest waits for the next token. Progress leaves half of it.
func TestBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"contextMessageBudget": 4})
	end := r.begin()
	r.fake.Say(ann, "hi")
	r.receive(1)
	hint := answer(ann, "a hint")
	hint.Kind = bus.ToolHint
	for i := range 3 {
		if err := r.send(hint); (err == nil) != (i < 2) {
			t.Errorf("hint %d: %v", i, err)
		}
	}
	if err := r.send(answer(ann, "one")); err != nil {
		t.Error(err)
	}
	end()
	r.remake(section(t, r.fake, object{"contextMessageBudget": 4}))
	end = r.begin()
	defer func() { end() }()
	for i, text := range []string{"two", "three", "four"} {
		if err := r.send(answer(ann, text)); (err == nil) != (i < 1) || i > 0 && !strings.Contains(err.Error(), "waits for the next message") {
			t.Errorf("%s: %v", text, err)
		}
	}
	r.fake.Say(ann, "more")
	r.receive(2)
	if err := r.send(answer(ann, "three")); err != nil {
		t.Error(err)
	}
	var said []string
	for _, m := range r.fake.Messages() {
		said = append(said, m.Text)
	}
	if want := []string{"a hint", "a hint", "one", "two", moreFollows("en"), "three"}; !slices.Equal(said, want) {
		t.Errorf("said %q", said)
	}
	if r.fake.Over() != 0 {
		t.Errorf("%d messages too many", r.fake.Over())
	}
}

// If WeChat takes less than we thought, a newer token is asked for, or none is
// used; else the message waits, and the service is not asked again.
func TestRestricted(t *testing.T) {
	t.Parallel()
	r := met(t, nil)
	r.fake.UseUp(ann)
	if err := r.send(answer(ann, "x")); err == nil || !strings.Contains(err.Error(), "waits for the next message") {
		t.Error(err)
	}
	n := len(r.fake.Calls("sendmessage"))
	if err := r.send(answer(ann, "x")); err == nil || len(r.fake.Calls("sendmessage")) != n {
		t.Errorf("the service was asked again: %v", err)
	}

	r.fake.Say(ann, "again")
	r.receive(2)
	r.fake.UseUp(ann)
	fresh := r.fake.Refresh(ann)
	if err := r.send(answer(ann, "with another token")); err != nil || r.account.context(ann) != fresh {
		t.Errorf("%v, token %q", err, r.account.context(ann))
	}
}

// Some bots may write without a token.
func TestProactive(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fake.Free = true
	defer r.begin()()
	r.fake.Say(bob, "hi") // so that the service knows him
	r.Await("the message", func() bool { return r.account.context(bob) != "" })
	r.account.strangers.Delete(bob)
	if err := r.send(answer(bob, "good morning")); err != nil || r.fake.Messages()[0].Context != "" {
		t.Errorf("%+v, %v", r.fake.Messages(), err)
	}
	if err := r.send(answer("unknown@im.wechat", "hello")); !chat.IsPermanent(err) {
		t.Errorf("to an unknown person: %v", err)
	}
}

// A stale token that sending finds ends the login at once.
func TestStaleWhileSending(t *testing.T) {
	t.Parallel()
	r := met(t, nil)
	r.fake.Fail(weixintest.Failure{Ret: weixintest.Stale})
	if err := r.send(answer(ann, "x")); err == nil || !strings.Contains(err.Error(), chat.ErrNotReady.Error()) {
		t.Error(err)
	}
	r.Await("the end of the login", func() bool { s := r.States(); return strings.Contains(s[len(s)-1], "has expired") })
	n := len(r.fake.Calls("sendmessage"))
	if err := r.send(answer(ann, "x")); !errors.Is(err, chat.ErrNotReady) || len(r.fake.Calls("sendmessage")) != n {
		t.Errorf("the service was asked with a stale token: %v", err)
	}
}

func TestTyping(t *testing.T) {
	t.Parallel()
	r := met(t, nil)
	route := bus.Route{Channel: "weixin", ChatID: ann, MessageID: "1"}
	for _, phase := range []chat.Phase{chat.Seen, chat.Working, chat.Working, chat.Answered} {
		if err := r.Signal(t.Context(), route, phase); err != nil {
			t.Errorf("%s: %v", phase, err)
		}
	}
	var got []any
	for _, c := range r.fake.Calls("sendtyping") {
		got = append(got, c.Body["status"])
	}
	if !slices.Equal(got, []any{1.0, 1.0, 2.0}) || len(r.fake.Calls("getconfig")) > 2 {
		t.Errorf("typing %v, %d times asked for the right to", got, len(r.fake.Calls("getconfig")))
	}
}

// What fails is asked for less and less often.
func TestTypingFails(t *testing.T) {
	t.Parallel()
	r := met(t, nil)
	now := r.deps.Now()
	r.account.now = r.deps.Now
	s, _ := r.account.session()
	for i, delay := range []float64{2, 4, 8} {
		r.fake.Fail(weixintest.Failure{Path: "getconfig", Status: 500})
		if _, err := r.ticket(t.Context(), s, ann); err == nil {
			t.Errorf("try %d worked", i)
		}
		r.account.mu.Lock()
		got := r.account.record.Tickets[ann]
		if got.Delay != delay || got.Next < float64(now.Unix()) || got.Ever {
			t.Errorf("try %d: %+v", i, got)
		}
		if i < 2 {
			got.Next = 1
		}
		r.account.mu.Unlock()
	}
	n := len(r.fake.Calls("getconfig"))
	if s, err := r.ticket(t.Context(), s, ann); s != "" || err != nil || len(r.fake.Calls("getconfig")) != n {
		t.Errorf("%q, %v", s, err)
	}
}

// Tools can be shown as WeChat shows them, a few of each turn.
func TestReplyProgress(t *testing.T) {
	t.Parallel()
	r := met(t, object{"replyProgressMessages": true})
	hint := answer(ann, "exec(\"ls\")")
	hint.Kind = bus.ToolHint
	for range 3 {
		if err := r.send(hint); err != nil {
			t.Error(err)
		}
	}
	if err := r.send(answer(ann, "done")); err != nil {
		t.Error(err)
	}
	got := r.fake.Messages()
	if len(got) != 3 || got[0].Item["type"] != 11.0 || got[0].RunID == "" || got[0].RunID != got[2].RunID || got[2].Text != "done" {
		t.Errorf("%+v", got)
	}
}

func TestAES(t *testing.T) {
	t.Parallel()
	key := weixintest.Key()
	data, err := encrypt(key, []byte("nanobot"))
	if err != nil || hex.EncodeToString(data) != "34d8eb4c1091760ab65957fe9e3be8e6" {
		t.Errorf("%x, %v", data, err)
	}
	for _, form := range []string{"AAECAwQFBgcICQoLDA0ODw==", "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGY="} {
		if got, err := parseKey("", form); err != nil || !bytes.Equal(got, key) {
			t.Errorf("%s: %x, %v", form, got, err)
		}
	}
	for _, form := range []string{"?", "AAEC", "MDAwMQ=="} {
		if _, err := parseKey("", form); err == nil {
			t.Errorf("%s is a key", form)
		}
	}
	for n := range 40 {
		plain := bytes.Repeat([]byte{7}, n)
		coded, err := encrypt(key, bytes.Clone(plain))
		if err != nil || len(coded) != (n/16+1)*16 {
			t.Fatal(err)
		}
		if back, err := decrypt(key, coded); err != nil || !bytes.Equal(back, plain) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, bad := range [][]byte{nil, []byte("short"), make([]byte, 16), make([]byte, 17)} {
		if _, err := decrypt(key, bad); err == nil {
			t.Errorf("%x was decrypted", bad)
		}
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"# One\n\n##### Five\n\ntext":           "# One\n\nFive\n\ntext",
		"**b** *i* ~~s~~ `c<d>`":                "**b** *i* s `c<d>`",
		"*中文* **粗体**":                           "中文 **粗体**",
		"a < b > c":                             "a ＜ b ＞ c",
		"> quoted\n> more":                      "＞ quoted\n＞ more",
		"see ![x](http://e.com/x.png) here":     "see  here",
		"[name](https://e.com) https://e.com/b": "[name](https://e.com) https://e.com/b",
		"- one\n- two\n  - three":               "• one\n• two\n  • three",
		"```go\na < b\n```":                     "```go\na < b\n```",
		"| a | b |\n| - | - |\n| 1 | **2** |":   "| a | b |\n| --- | --- |\n| 1 | **2** |",
		"one\n\n---\n\ntwo":                     "one\n\n---\n\ntwo",
	} {
		if got := render(source); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}
