package gateway_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/weixintest"
	"github.com/nanobot-go/nanobot/internal/gateway"
)

// scanner is a person at a terminal who notes what is shown and asked.
type scanner struct {
	answers []string
	shown   []string
}

func (s *scanner) Tell(step channel.Step) {
	s.shown = append(s.shown, step.QR[strings.LastIndex(step.QR, "/")+1:])
}

func (s *scanner) Ask(_ context.Context, q channel.Question) (string, error) {
	a := s.answers[0]
	s.answers = s.answers[1:]
	s.shown = append(s.shown, "? "+q.Text[:18])
	return a, nil
}

// answered waits for a message of the bot.
func answered(t *testing.T, fake *weixintest.Server, want string) {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		changed := fake.Changed()
		for _, m := range fake.Messages() {
			if m.Text == want {
				return
			}
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("the bot said %+v", fake.Messages())
		}
	}
}

// WeChat is connected while the gateway runs: first on a page, then at a
// terminal, where a stranger scans the code.
func TestWeixinLogin(t *testing.T) {
	t.Parallel()
	fake := weixintest.New()
	t.Cleanup(fake.Close)
	h := newHost(t, echo(t))
	h.configure(strings.Replace(settingsConfig, `"telegram":`, fmt.Sprintf(`"weixin": {"enabled": true, "baseUrl": %q, "cdnBaseUrl": %q}, "telegram":`, fake.URL(), fake.CDN()), 1))
	h.start()
	t.Cleanup(func() {
		if err := h.end(); err != nil {
			t.Error(err)
		}
	})
	<-h.party.joined
	o := office{h, gateway.SettingsAPI(h.g, nil)}

	fake.Script(weixintest.State{Status: "wait"}, weixintest.State{Status: "expired"}, weixintest.State{Status: "need_verifycode", Code: "42"}, weixintest.State{Status: "confirmed"})
	s, err := o.connect("start", `{"name": "weixin"}`)
	codes := []string{}
	for o.must(err); s.Ask == ""; o.must(err) {
		if s.QR != "" && (len(codes) == 0 || codes[len(codes)-1] != s.QR) {
			codes = append(codes, s.QR)
		}
		s, err = o.connect("poll", `{"name": "weixin"}`)
	}
	if len(codes) == 0 || !strings.HasSuffix(codes[len(codes)-1], "/qr-2") {
		t.Errorf("the page showed %q", codes)
	}
	for s, err = o.connect("poll", `{"name": "weixin", "answer": "42"}`); s.State != "done"; s, err = o.connect("poll", `{"name": "weixin"}`) {
		o.must(err)
	}
	if !strings.Contains(o.file(), weixintest.Owner) || strings.Contains(o.file(), "bot-token-2") {
		t.Errorf("the file is %s", o.file())
	}
	fake.Say(weixintest.Owner, "say #one")
	answered(t, fake, "echo #one")

	account := filepath.Join(h.dir, "weixin", "account.json")
	fake.Script(weixintest.State{Status: "scaned"}, weixintest.State{Status: "confirmed", User: "o9cq-eve@im.wechat"})
	who := &scanner{answers: []string{"no"}}
	if _, err := h.accounts().Login(t.Context(), "weixin", who, false); err == nil || !strings.Contains(err.Error(), "another person") {
		t.Errorf("a stranger scanned: %v", err)
	}
	if want := "qr-3  ? The code was scann"; strings.Join(who.shown, " ") != want {
		t.Errorf("the terminal showed %q, want %q", who.shown, want)
	}
	if data, err := os.ReadFile(account); err != nil || !strings.Contains(string(data), "bot-token-2") || strings.Contains(o.file(), "eve") {
		t.Errorf("the account was replaced: %s, %v", data, err)
	}
	fake.Say(weixintest.Owner, "say #two")
	answered(t, fake, "echo #two")

	fake.Tokens() // WeChat ends the login
	fake.Script(weixintest.State{Status: "confirmed"})
	if _, err := h.accounts().Login(t.Context(), "weixin", &scanner{}, false); err != nil {
		t.Fatal(err)
	}
	fake.Say(weixintest.Owner, "say #three")
	answered(t, fake, "echo #three")
}
