package python

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
)

const ann = "o9cq-ann@im.wechat"

// phone is a person who scans whatever is shown.
type phone struct{}

func (phone) Tell(chat.Step)                                     {}
func (phone) Ask(context.Context, chat.Question) (string, error) { return "yes", nil }

// gateway is our channel on the fake, with its data in a folder.
func gateway(t *testing.T, fake *weixintest.Server, dir string) *deliver.Manager {
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
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Store: disk.Open(dir, nil), DataDir: dir, Drivers: map[string]chat.Driver{"weixin": weixin.Driver()},
		Sections: map[string]json.RawMessage{"weixin": section},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// connected reports whether the login in a folder works with our channel.
func connected(t *testing.T, m *deliver.Manager) bool {
	t.Helper()
	r, err := m.Probe(t.Context(), "weixin")
	if err != nil {
		t.Fatal(err)
	}
	return len(r.Checks) == 1 && r.Checks[0].OK
}

// weixinAccount: a login of Python nanobot is ours, and the other way round.
func weixinAccount(t *testing.T) {
	t.Parallel()
	fake := weixintest.New()
	t.Cleanup(fake.Close)
	dir := t.TempDir()
	plan := object{
		"channel": "weixin", "wheel": "", "folder": t.TempDir(), "messages": -1, "redirect": nil, "certificate": "",
		"config": object{"allowFrom": []string{"*"}, "baseUrl": fake.URL(), "cdnBaseUrl": fake.CDN(), "stateDir": filepath.Join(dir, "weixin")},
	}
	quiet := func() bool { return true }

	fake.Script(weixintest.State{Status: "wait"}, weixintest.State{Status: "expired"}, weixintest.State{Status: "confirmed"})
	if got := run(t, plan, quiet); !got.Login || fake.Codes() != 2 {
		t.Fatalf("login with %d codes: %+v", fake.Codes(), got)
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
	fake.Post(object{"from_user_id": ann, "message_id": json.Number("18446744073709551615"), "item_list": []any{weixintest.Text("hi")}})
	fake.Post(object{"from_user_id": ann, "item_list": []any{object{"type": 4, "file_item": object{"media": fake.Store([]byte("file"), "hex"), "file_name": "in.txt", "len": "4"}}}})
	plan["messages"] = 2
	want := []object{
		received(ann, ann, "[file: in.txt]\n[File: source: /.nanobot/media/weixin/in.txt]", "file"),
		received(ann, ann, "hi"),
	}
	got := run(t, plan, quiet)
	if d := cmp.Diff(want, got.Got); d != "" {
		t.Errorf("Python nanobot received (-want +got):\n%s", d)
	}
	var sent []string
	for _, m := range fake.Messages() {
		if m.File != nil {
			m.Text = m.File.Kind + " " + m.File.Name
		}
		sent = append(sent, m.Text)
	}
	if d := cmp.Diff([]string{"file out.txt", "image ", "hello **Ann**"}, sent); d != "" || len(got.Complaints) > 0 {
		t.Errorf("people received, with the complaints %q (-want +got):\n%s", got.Complaints, d)
	}
	if !connected(t, m) {
		t.Error("our login does not work any more after Python nanobot used it")
	}
}
