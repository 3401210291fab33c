package weixin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
)

// person is the user during a login.
type person struct {
	answers []string

	mu    sync.Mutex
	steps []chat.Step
	asked []string
	shown func(chat.Step) // nil: nothing happens
}

func (p *person) Tell(s chat.Step) {
	p.mu.Lock()
	p.steps = append(p.steps, s)
	f := p.shown
	p.mu.Unlock()
	if f != nil {
		f(s)
	}
}

func (p *person) Ask(_ context.Context, q chat.Question) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q.Text)
	if len(p.answers) == 0 {
		return "", errors.New("the person has left")
	}
	a := p.answers[0]
	p.answers = p.answers[1:]
	return a, nil
}

// notes are what was shown: the last part of a code's address, and the note.
func (p *person) notes() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.steps {
		out = append(out, s.QR[strings.LastIndex(s.QR, "/")+1:]+" "+s.Note)
	}
	return out
}

// scanning logs in without a pause between polls.
func (r *rig) scanning(ctx context.Context, p *person, force bool) (chat.Result, error) {
	s := &scan{bot: r.bot, dialog: p, force: force, every: time.Millisecond}
	return s.run(ctx)
}

func states(list ...string) (out []weixintest.State) {
	for _, s := range list {
		out = append(out, weixintest.State{Status: s})
	}
	return out
}

func TestLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"token": "", "allowFrom": []string{}})
	r.fake.Script(states("wait", "expired", "wait", "scaned", "scaned", "confirmed")...)
	p := &person{}
	got, err := r.scanning(t.Context(), p, false)
	if err != nil || got.Identity != "b07000000002@im.bot" || got.Owner != weixintest.Owner || len(got.Patch) > 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if want := []string{"qr-1 " + noteScan, "qr-2 " + noteFresh, " " + noteScanned}; !slices.Equal(p.notes(), want) {
		t.Errorf("the person saw %q", p.notes())
	}
	kept := r.kept()
	if kept["token"] != "bot-token-2@im.bot:secret" || kept["base_url"] != r.fake.URL() || kept["ilink_user_id"] != weixintest.Owner {
		t.Errorf("account.json: %v", kept)
	}
	if info, err := os.Stat(r.path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	defer r.begin()()
	if r.States()[0] != "b07000000002@im.bot" {
		t.Errorf("connected as %q", r.States())
	}
}

// The number that WeChat shows must be typed, and typed right.
func TestLoginVerifyCode(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"token": "", "allowFrom": []string{}})
	r.fake.Script(weixintest.State{Status: "need_verifycode", Code: "42"}, weixintest.State{Status: "confirmed"})
	p := &person{answers: []string{"41", " 42 "}}
	if _, err := r.scanning(t.Context(), p, false); err != nil || !slices.Equal(p.asked, []string{askCode, askCodeMore}) {
		t.Errorf("%q, %v", p.asked, err)
	}

	r.fake.Script(weixintest.State{Status: "need_verifycode", Code: "42"}, weixintest.State{Status: "confirmed"})
	p = &person{answers: []string{"1", "2", "3"}}
	if _, err := r.scanning(t.Context(), p, true); err != nil || !strings.HasSuffix(p.notes()[1], noteBlocked) {
		t.Errorf("%q, %v", p.notes(), err)
	}
}

// A login that fails leaves the account so far as it was.
func TestLoginFails(t *testing.T) {
	t.Parallel()
	const old = `{"token":"old","get_updates_buf":"buf-0","context_tokens":{"u":"c"},"typing_tickets":{},"base_url":"","ilink_user_id":"o9cq-owner@im.wechat"}`
	for name, c := range map[string]struct {
		states  []weixintest.State
		answers []string
		force   bool
		want    string
	}{
		"expired":         {states: states("expired", "expired", "expired", "expired"), want: "expired too often"},
		"no token":        {states: []weixintest.State{{Status: "confirmed", Empty: true}}, want: "no token"},
		"bound elsewhere": {states: states("binded_redirect"), force: true, want: "--force"},
		"another person":  {states: []weixintest.State{{Status: "confirmed", User: bob}}, answers: []string{"no"}, want: "another person"},
		"person left":     {states: []weixintest.State{{Status: "need_verifycode", Code: "1"}}, want: "has left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, object{"token": "", "allowFrom": []string{}})
			r.written(old)
			r.fake.Script(c.states...)
			_, err := r.scanning(t.Context(), &person{answers: c.answers}, c.force)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if data, err := os.ReadFile(r.path); err != nil || string(data) != old {
				t.Errorf("account.json: %s, %v", data, err)
			}
		})
	}
}

// Another person takes the account over only if the person at the terminal says
// so, also when the section lists who may be here.
func TestLoginByAnotherPerson(t *testing.T) {
	t.Parallel()
	for _, changes := range []object{{"token": "", "allowFrom": []string{ann}}, {"token": "", "allowFrom": []string{}, "owners": []string{ann}}} {
		r := newRig(t, changes)
		r.fake.Script(weixintest.State{Status: "confirmed", User: bob})
		if _, err := r.scanning(t.Context(), &person{answers: []string{"n"}}, true); err == nil {
			t.Errorf("%v: another person became the owner", changes)
		}
		r.fake.Script(weixintest.State{Status: "confirmed", User: bob})
		p := &person{answers: []string{"Yes"}}
		if got, err := r.scanning(t.Context(), p, true); err != nil || got.Owner != bob || !strings.Contains(p.asked[0], bob) {
			t.Errorf("%+v, %q, %v", got, p.asked, err)
		}
	}
}

// A cancelled login changes nothing, even if the phone confirms at that time.
func TestLoginCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"token": "", "allowFrom": []string{}})
	ctx, cancel := context.WithCancel(t.Context())
	r.fake.Script(states("scaned", "confirmed", "confirmed")...)
	p := &person{}
	p.shown = func(s chat.Step) {
		if s.Note == noteScanned {
			cancel()
		}
	}
	if _, err := r.scanning(ctx, p, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(r.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("account.json: %v", err)
	}
}

// The account may live in another data centre, if that is WeChat's.
func TestLoginRedirect(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"token": "", "allowFrom": []string{}, "baseUrl": "https://idc9.weixin.qq.com"})
	r.fake.Script(
		weixintest.State{Status: "scaned_but_redirect", Host: "idc1.weixin.qq.com"},
		weixintest.State{Status: "scaned_but_redirect", Host: "evil.example"},
		weixintest.State{Status: "scaned_but_redirect", Host: "http://idc2.weixin.qq.com"},
		weixintest.State{Status: "scaned_but_redirect"},
		weixintest.State{Status: "expired"},
		weixintest.State{Status: "scaned_but_redirect", Host: "https://idc3.wechat.com/"},
		weixintest.State{Status: "confirmed", Base: "https://weixin.qq.com.evil.example"},
	)
	if _, err := r.scanning(t.Context(), &person{}, false); err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, c := range r.fake.Calls("get_qrcode_status") {
		hosts = append(hosts, c.Host)
	}
	const first, second = "ilinkai.weixin.qq.com", "idc1.weixin.qq.com"
	if want := []string{first, second, second, second, second, first, "idc3.wechat.com"}; !slices.Equal(hosts, want) {
		t.Errorf("asked at %q, want %q", hosts, want)
	}
	if got := r.kept()["base_url"]; got != "https://idc9.weixin.qq.com" {
		t.Errorf("the account lives at %v", got)
	}
}

// Old tokens are shown to the service, which may not know them any more.
func TestLoginKnownTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"token": "from the section", "allowFrom": []string{}})
	r.written(`{"token":"` + weixintest.Token + `"}`)
	r.fake.Script(states("binded_redirect")...)
	if _, err := r.scanning(t.Context(), &person{}, false); err != nil {
		t.Fatal(err)
	}
	calls := r.fake.Calls("get_bot_qrcode")
	if len(calls) != 2 || len(calls[0].Body["local_token_list"].([]any)) != 2 || len(calls[1].Body["local_token_list"].([]any)) != 0 {
		t.Errorf("asked with %v", calls)
	}

	// A scan replaces the token of the section, as long as that stays the same.
	r.fake.Script(states("confirmed")...)
	if _, err := r.scanning(t.Context(), &person{}, true); err != nil {
		t.Fatal(err)
	}
	if n := len(r.fake.Calls("get_bot_qrcode")[2].Body["local_token_list"].([]any)); n != 0 {
		t.Errorf("a forced login told %d tokens", n)
	}
	disk, err := readRecord(r.path)
	if err != nil || disk.Replaced != fingerprint("from the section") || effective(disk, r.o).Token != disk.Token {
		t.Errorf("%+v, %v", disk, err)
	}
	other, err := chat.Read(section(t, r.fake, object{"token": "a later one"}), defaults())
	if err != nil || effective(disk, other).Token != "a later one" || effective(disk, other).Cursor != "" {
		t.Errorf("a later token of the section does not count: %v", err)
	}
}

func TestLogoutAndProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"token": ""})
	raw := section(t, r.fake, object{"token": ""})
	check := func() chat.Check {
		t.Helper()
		got, err := probe(t.Context(), r.deps, raw)
		if err != nil || len(got.Checks) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got.Checks[0]
	}
	if c := check(); c.OK || !strings.Contains(c.Detail, "channels login weixin") {
		t.Errorf("without a login: %+v", c)
	}
	r.written(`{"token":"` + weixintest.Token + `","ilink_user_id":"` + weixintest.Owner + `"}`)
	if c := check(); !c.OK {
		t.Errorf("with a login: %+v", c)
	}
	r.fake.Tokens()
	if c := check(); c.OK || !strings.Contains(c.Detail, "expired") {
		t.Errorf("with a stale login: %+v", c)
	}
	if err := logout(t.Context(), r.deps, raw); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("account.json: %v", err)
	}
	if err := logout(t.Context(), r.deps, section(t, r.fake, nil)); err == nil || !strings.Contains(err.Error(), "channels.weixin.token") {
		t.Errorf("logout with a token in the section: %v", err)
	}
}

// house is a running gateway's channels.
type house struct {
	t    *testing.T
	dir  string
	fake *weixintest.Server
	q    *journal.Journal
	m    *deliver.Manager
	end  func()
}

func newHouse(t *testing.T, fake *weixintest.Server, changes object, filters chat.Filters) *house {
	t.Helper()
	dir := t.TempDir()
	q, err := journal.Open(disk.Open(filepath.Join(dir, "bus"), nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Store: disk.Open(dir, nil), DataDir: dir, MaxRetries: 3, Drivers: map[string]chat.Driver{"weixin": impatient()},
		Sections: map[string]json.RawMessage{"weixin": section(t, fake, changes)}, Client: client4(t, fake), Defaults: filters,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	h := &house{t: t, dir: dir, fake: fake, q: q, m: m}
	h.end = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, q.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(h.end)
	return h
}

func (h *house) await(what string, ok func() bool) {
	h.t.Helper()
	chattest.NewRig(h.t).Await(what, ok)
}

func (h *house) state() deliver.Status { return h.m.Status()[0] }

// A login inside the running gateway brings a channel back whose login has
// expired, and so does one of another program.
func TestLoginWhileRunning(t *testing.T) {
	t.Parallel()
	fake := weixintest.New()
	t.Cleanup(fake.Close)
	h := newHouse(t, fake, object{"token": ""}, chat.Filters{})
	h.await("the reason", func() bool { return strings.Contains(h.state().Error, "no WeChat account is connected") })

	fake.Script(states("scaned", "confirmed")...)
	if _, err := h.m.Login(t.Context(), "weixin", &person{answers: []string{"yes"}}, false); err != nil {
		t.Fatal(err)
	}
	h.await("the connection", func() bool { return h.state().State == deliver.Running })
	fake.Say(ann, "hi")
	h.await("the message", func() bool { return h.state().Received == 1 })

	fake.Tokens()
	h.await("the end of the login", func() bool { return strings.Contains(h.state().Error, "has expired") })
	fake.Tokens("by hand")
	if err := os.WriteFile(filepath.Join(h.dir, "weixin", "account.json"), []byte(`{"token":"by hand"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h.await("the connection again", func() bool { return h.state().State == deliver.Running })
	if _, err := h.q.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	fake.Say(ann, "still there?")
	in, err := h.q.Receive(t.Context())
	if err != nil || in.Text != "still there?" || in.Scope != "" {
		t.Errorf("%+v, %v", in, err)
	}
	if err := h.q.Publish(t.Context(), bus.Outbound{Kind: bus.Message, Route: in.Route, Text: "yes"}); err != nil {
		t.Fatal(err)
	}
	h.await("the answer", func() bool { return len(fake.Messages()) == 1 })
}
