// Package weixin certifies our fake of iLink, the service behind Weixin, by
// Tencent's own plug-in and by the channel of Python nanobot.
package weixin

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/weixin"
	"github.com/nanobot-go/nanobot/internal/channel/weixintest"
	"github.com/nanobot-go/nanobot/internal/store/disk"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

const ann = "o9cq-ann@im.wechat"

type object = map[string]any

// talk leaves one of each thing that a bot receives for the next poll.
func talk(fake *weixintest.Server) {
	fake.Post(object{"from_user_id": ann, "message_id": json.Number("18446744073709551615"), "item_list": []any{weixintest.Text("hi")}})
	image := fake.Store([]byte("image"), "raw")
	delete(image, "aes_key")
	fake.Post(object{"from_user_id": ann, "item_list": []any{object{"type": 2, "image_item": object{"media": image, "aeskey": hex.EncodeToString(weixintest.Key())}}}})
	fake.Post(object{"from_user_id": ann, "item_list": []any{object{"type": 4, "file_item": object{"media": fake.Store([]byte("file"), "hex"), "file_name": "in.txt", "len": "4"}}}})
	fake.Post(object{"from_user_id": ann, "item_list": []any{object{"type": 5, "video_item": object{"media": fake.Store([]byte("video"), "raw")}}}})
}

func understood(t *testing.T, out []byte) (got object) {
	t.Helper()
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return got
}

// sent are what the library wrote, in short.
func sent(fake *weixintest.Server) (out []string) {
	for _, m := range fake.Messages() {
		s := m.Text
		switch {
		case m.File != nil:
			s = m.File.Kind + " " + m.File.Name + ": " + string(m.File.Data)
		case s == "":
			s = "item of " + m.RunID
		}
		out = append(out, s)
	}
	return out
}

func TestPlugin(t *testing.T) {
	t.Setenv("npm_config_legacy_peer_deps", "true") // its host is large and not needed
	fake := weixintest.New()
	t.Cleanup(fake.Close)
	fake.Script(weixintest.State{Status: "wait"}, weixintest.State{Status: "scaned"}, weixintest.State{Status: "confirmed"})
	talk(fake)
	got := understood(t, certify.Script(t, ".", "client.mjs", fake.URL()))

	from := func(id, what, text string) object { return object{"id": id, "from": ann, what: text} }
	want := object{
		"code":  "https://liteapp.weixin.qq.com/q/qr-1",
		"login": object{"connected": true, "bot": "b07000000001@im.bot", "user": weixintest.Owner, "home": true},
		"start": 0.0, "stop": 0.0, "sent": "string", "ticket": "ticket-" + ann, "again": 0.0,
		"got": []any{
			from("18446744073709551615", "text", "hi"), from("9223372036854775850", "file", ":image"),
			from("9223372036854775851", "file", "in.txt:file"), from("9223372036854775852", "file", ":video"),
		},
		"errors": []any{"sendMessage ret=-2 errmsg=prep", "sendMessage ret=-3 errmsg=to_u", "sendMessage ret=-3 errmsg=text", -14.0, "sendMessage ret=-2 errmsg=unkn"},
		"quotes": []any{"bcd", "bcd", "bcd", nil},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the plug-in understood (-want +got):\n%s", d)
	}
	wrote := []string{"hello", "image : an image of 16by", "video : a video", "with words", "file a.txt: a file", "item of run", "n0", "n1", "n2", "n3"}
	if d := cmp.Diff(wrote, sent(fake)); d != "" {
		t.Errorf("the plug-in sent (-want +got):\n%s", d)
	}
	if n := len(fake.Calls("sendtyping")); n != 2 {
		t.Errorf("%d signals of typing", n)
	}
}

// phone is a person who scans whatever is shown.
type phone struct{}

func (phone) Tell(channel.Step)                                     {}
func (phone) Ask(context.Context, channel.Question) (string, error) { return "yes", nil }

// gateway is our channel on the fake, with its data in a folder.
func gateway(t *testing.T, fake *weixintest.Server, dir string) *channel.Manager {
	t.Helper()
	q, err := journal.Open(disk.Open(filepath.Join(dir, "bus"), nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	section, err := json.Marshal(object{"enabled": true, "baseUrl": fake.URL(), "cdnBaseUrl": fake.CDN()})
	if err != nil {
		t.Fatal(err)
	}
	m, err := channel.NewManager(channel.Options{
		Queue: q, Store: disk.Open(dir, nil), DataDir: dir, Drivers: map[string]channel.Driver{"weixin": weixin.Driver()},
		Sections: map[string]json.RawMessage{"weixin": section},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// connected reports whether the login in a folder works with our channel.
func connected(t *testing.T, m *channel.Manager) bool {
	t.Helper()
	r, err := m.Probe(t.Context(), "weixin")
	if err != nil {
		t.Fatal(err)
	}
	return len(r.Checks) == 1 && r.Checks[0].OK
}

func TestPythonChannel(t *testing.T) {
	t.Setenv("PIP_NO_DEPS", "1") // of the agent only the channel is needed
	fake := weixintest.New()
	t.Cleanup(fake.Close)
	dir := t.TempDir()
	state := filepath.Join(dir, "weixin")
	fake.Script(weixintest.State{Status: "wait"}, weixintest.State{Status: "expired"}, weixintest.State{Status: "confirmed"})
	got := understood(t, certify.Script(t, ".", "channel.py", fake.URL(), state, "login"))
	if d := cmp.Diff(object{"login": true}, got); d != "" || fake.Codes() != 2 {
		t.Fatalf("login with %d codes: %s", fake.Codes(), d)
	}
	m := gateway(t, fake, dir)
	if !connected(t, m) {
		t.Error("the login of Python nanobot does not work with ours")
	}

	// Python nanobot goes on with our login.
	fake.Script(weixintest.State{Status: "confirmed"})
	if _, err := m.Login(t.Context(), "weixin", phone{}, true); err != nil {
		t.Fatal(err)
	}
	fake.Tokens("bot-token-3@im.bot:secret")
	talk(fake)
	got = understood(t, certify.Script(t, ".", "channel.py", fake.URL(), state, "run"))
	files := func(text, content string) object { return object{"from": ann, "text": text, "files": []any{content}} }
	want := []any{
		object{"from": ann, "text": "hi", "files": []any{}},
		got["got"].([]any)[1], // its name has the time
		files("[file: in.txt]\n[File: source: /in.txt]", "file"),
		got["got"].([]any)[3],
	}
	if d := cmp.Diff(want, got["got"]); d != "" {
		t.Errorf("Python nanobot understood (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"file out.txt: a file", "hello"}, sent(fake)); d != "" {
		t.Errorf("Python nanobot sent (-want +got):\n%s", d)
	}
	if !connected(t, m) {
		t.Error("our login does not work any more after Python nanobot used it")
	}
}
