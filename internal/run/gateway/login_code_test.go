package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
	"github.com/nanobot-go/nanobot/internal/cli"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/web"
)

// What the phone does with a code. Platforms lack some of it.
const (
	waits   = "wait"
	expires = "expired"
	scans   = "scanned"
	asks    = "asks" // for a number that is typed in here
	refuses = "refused"
	agrees  = "agreed"
	others  = "other" // another person agrees, or the same with another account
)

// codePlatform is a platform on which an account is connected by a QR code.
type codePlatform struct {
	name    string
	section string                 // without an account
	phone   func(does string)      // until it is told otherwise
	say     func(who, text string) // a person writes to the bot
	texts   func() []string        // what the bot said
	owner   string                 // may write after the first login
	other   string                 // may write after that of another person; "": must pair
	keeps   bool                   // the owner may go on writing after that
	kept    []string               // parts of the file after the first login
	gone    []string               // what stands nowhere in the file after that of another person
	lacks   []string               // of what the phone does
	refusal string                 // what is said when the phone refuses
	no      string                 // what is typed then
	seen    string                 // a part of the note that the code was scanned
}

func codeWeixin(t *testing.T) codePlatform {
	t.Helper()
	fake := weixintest.New()
	t.Cleanup(fake.Close)
	const eve = "o9cq-eve@im.wechat"
	return codePlatform{
		name: "weixin", section: fmt.Sprintf(`{"baseUrl": %q, "cdnBaseUrl": %q}`, fake.URL(), fake.CDN()),
		phone: func(does string) {
			states := map[string][]weixintest.State{
				expires: {{Status: "expired"}}, scans: {{Status: "scaned"}}, asks: {{Status: "need_verifycode", Code: "42"}},
				agrees: {{Status: "confirmed"}}, others: {{Status: "confirmed", User: eve}}, refuses: {{Status: "confirmed", User: eve}},
			}
			fake.Script(states[does]...)
		},
		say: func(who, text string) { fake.Say(who, text) },
		texts: func() (out []string) {
			for _, m := range fake.Messages() {
				out = append(out, m.Text)
			}
			return out
		},
		owner: weixintest.Owner, other: eve, keeps: true,
		kept: []string{weixintest.Owner}, gone: []string{"bot-token"},
		refusal: "another person", no: "no\n", seen: "was scanned",
	}
}

func codeFeishu(t *testing.T) codePlatform {
	t.Helper()
	fake := feishutest.New()
	t.Cleanup(fake.Close)
	made := func(app, who string) map[string]any {
		return map[string]any{"client_id": app, "client_secret": feishutest.AppSecret, "user_info": map[string]any{"open_id": who, "tenant_brand": "feishu"}}
	}
	return codePlatform{
		name: "feishu", section: fmt.Sprintf(`{"apiBaseUrl": %q, "accountsBaseUrl": %q}`, fake.URL(), fake.URL()),
		phone: func(does string) {
			pending := map[string]any{"error": "authorization_pending"}
			answers := map[string][]map[string]any{
				waits: {pending}, expires: {{"error": "expired_token"}, pending}, refuses: {{"error": "access_denied"}},
				agrees: {made(feishutest.AppID, "ou_me")}, others: {made("cli_second", "ou_eve")},
			}
			fake.Register(0, answers[does]...)
		},
		say: func(who, text string) {
			fake.Say(feishutest.Message{Sender: who, Content: fmt.Sprintf(`{"text": %q}`, text)})
		},
		texts: func() (out []string) {
			for _, m := range fake.Messages("") {
				out = append(out, m.Plain)
			}
			return out
		},
		owner: "ou_me", other: "ou_eve",
		kept: []string{"ou_me", feishutest.AppID}, gone: []string{"ou_me", feishutest.AppID},
		lacks: []string{scans, asks}, refusal: "refused on the phone",
	}
}

func codeDingTalk(t *testing.T) codePlatform {
	t.Helper()
	fake := dingtalktest.New()
	t.Cleanup(fake.Close)
	return codePlatform{
		name: "dingtalk", section: fmt.Sprintf(`{"apiBaseUrl": %q, "oapiBaseUrl": %q, "allowFrom": ["staff1"]}`, fake.URL(), fake.URL()),
		phone: func(does string) {
			if does == others {
				fake.SetClient("dingtest0002")
			}
			fake.Scan(map[string][]string{waits: {"wait"}, expires: {"expired", "wait"}, refuses: {"refused"}, agrees: {"success"}, others: {"success"}}[does]...)
		},
		say: func(who, text string) { fake.Write(who, "", text, nil) },
		texts: func() (out []string) {
			for _, m := range fake.Messages() {
				out = append(out, m.Text())
			}
			return out
		},
		owner: "staff1", kept: []string{dingtalktest.ClientID}, gone: []string{"staff1", dingtalktest.ClientID},
		lacks: []string{scans, asks}, refusal: "refused on the phone",
	}
}

func codeWeCom(t *testing.T) codePlatform {
	t.Helper()
	fake := wecomtest.New()
	t.Cleanup(fake.Close)
	return codePlatform{
		name: "wecom", section: fmt.Sprintf(`{"wsUrl": %q, "loginUrl": %q, "allowFrom": [%q]}`, fake.Socket(), fake.URL(), wecomtest.Ann),
		phone: func(does string) {
			if does == others {
				fake.Rename("aib_second")
			}
			fake.Scan(map[string][]string{waits: {"wait"}, expires: {"expired", "wait"}, scans: {"scaned"}, agrees: {"success"}, others: {"success"}}[does]...)
		},
		say: func(who, text string) { fake.Say(wecomtest.Message{From: who, Text: text}) },
		texts: func() (out []string) {
			for _, m := range fake.Shown() {
				out = append(out, m.Text)
			}
			return out
		},
		owner: wecomtest.Ann, kept: []string{wecomtest.BotID}, gone: []string{wecomtest.BotID},
		lacks: []string{asks, refuses}, seen: "Scanned",
	}
}

// codeRig is a gateway with such a platform.
type codeRig struct {
	office
	codePlatform
}

// writes lets a person write to a bot that is there: on some platforms what comes
// between two connections is lost.
func (r *codeRig) writes(who, word string) {
	r.t.Helper()
	r.until("the connection", func() bool {
		return slices.ContainsFunc(r.g.Status().Channels, func(s deliver.Status) bool { return s.Name == r.name && s.State == deliver.Running })
	})
	r.say(who, "say "+word)
}

// answers waits until the bot answers a word of a person.
func (r *codeRig) answers(who, word string) {
	r.t.Helper()
	r.writes(who, word)
	r.until("the answer "+word, func() bool { return slices.Contains(r.texts(), "echo "+word) })
}

func (r *codeRig) until(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(10 * time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-limit:
			r.t.Fatalf("waited in vain for %s; the bot said %q; the channels are %+v", what, r.texts(), r.g.Status().Channels)
		}
	}
}

// page looks at the page of a login until it shows something.
func (r *codeRig) page(s step, shows func(s step) bool) step {
	r.t.Helper()
	for limit := time.Now().Add(10 * time.Minute); !shows(s); {
		if time.Now().After(limit) {
			r.t.Fatalf("the page shows %+v", s)
		}
		var err error
		s, err = r.connect("poll", fmt.Sprintf(`{"name": %q}`, r.name))
		r.must(err)
	}
	return s
}

// terminal runs nanobot channels login, and calls shown with each line.
func (r *codeRig) terminal(typed string, shown func(line string, leave func())) (code int, out string) {
	r.t.Helper()
	in := filepath.Join(r.t.TempDir(), "in")
	r.must(os.WriteFile(in, []byte(typed), 0o600))
	stdin, err := os.Open(in)
	r.must(err)
	defer stdin.Close()
	read, write, err := os.Pipe()
	r.must(err)
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	done := make(chan string)
	go func() {
		var b strings.Builder
		for lines := bufio.NewScanner(read); lines.Scan(); {
			b.WriteString(lines.Text() + "\n")
			if shown != nil {
				shown(lines.Text(), cancel)
			}
		}
		done <- b.String()
	}()
	env := []string{"NANOBOT_HOME=" + r.dir, "HOME=" + r.dir, "USERPROFILE=" + r.dir, "NANOBOT_NO_KEYRING=1"}
	code = cli.Main(ctx, []string{"channels", "login", r.name, "--force"}, cli.Stdio{In: stdin, Out: write, Err: write, Env: env, Dir: r.dir})
	r.must(write.Close())
	out = <-done
	r.must(read.Close())
	return code, out
}

// Accounts are connected by a code while the gateway runs, on a page and at a
// terminal: the code is shown, expires and is shown again, is scanned, refused,
// left alone, and scanned by another person.
func TestLoginByCode(t *testing.T) {
	t.Parallel()
	for _, platform := range []func(*testing.T) codePlatform{codeWeixin, codeFeishu, codeDingTalk, codeWeCom} {
		p := platform(t)
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, echo(t))
			h.configure(strings.Replace(settingsConfig, `"telegram":`, fmt.Sprintf(`%q: %s, "telegram":`, p.name, p.section), 1))
			h.start()
			t.Cleanup(func() {
				if err := h.end(); err != nil {
					t.Error(err)
				}
			})
			<-h.party.joined
			r := &codeRig{office{h, gateway.SettingsAPI(t, h.g, nil)}, p}
			r.onPage()
			r.answers(r.owner, "#one")
			r.left()
			r.answers(r.owner, "#two")
			r.atTerminal()
		})
	}
}

// onPage connects the first account.
func (r *codeRig) onPage() {
	r.t.Helper()
	r.phone(waits)
	s, err := r.connect("start", fmt.Sprintf(`{"name": %q}`, r.name))
	r.must(err)
	first := r.page(s, func(s step) bool { return s.QR != "" })
	if !strings.HasPrefix(first.Image, "data:image/png;base64,iVBOR") {
		r.t.Errorf("the page shows no picture: %+v", first)
	}
	r.phone(expires)
	s = r.page(first, func(s step) bool { return s.QR != "" && s.QR != first.QR })
	if !slices.Contains(r.lacks, scans) {
		r.phone(scans)
		s = r.page(s, func(s step) bool { return strings.Contains(s.Note, r.seen) })
	}
	if !slices.Contains(r.lacks, asks) {
		r.phone(asks)
		r.page(s, func(s step) bool { return s.Ask != "" })
		s, err = r.connect("poll", fmt.Sprintf(`{"name": %q, "answer": "42"}`, r.name))
		r.must(err)
	}
	r.phone(agrees)
	r.page(s, func(s step) bool { return s.State == "done" })
	for _, want := range append(r.kept, `"enabled": true`) {
		if !strings.Contains(r.file(), want) {
			r.t.Errorf("the file lacks %s: %s", want, r.file())
		}
	}
}

// left is a login that a person gives up on the page.
func (r *codeRig) left() {
	r.t.Helper()
	r.phone(waits)
	s, err := r.connect("start", fmt.Sprintf(`{"name": %q, "force": true}`, r.name))
	r.must(err)
	r.page(s, func(s step) bool { return s.QR != "" })
	if _, err := r.connect("cancel", fmt.Sprintf(`{"name": %q}`, r.name)); err != nil {
		r.t.Fatal(err)
	}
	_, err = r.connect("poll", fmt.Sprintf(`{"name": %q}`, r.name))
	if e, ok := errors.AsType[*web.Error](err); !ok || e.Status != http.StatusNotFound {
		r.t.Errorf("after the end: %v", err)
	}
}

// atTerminal refuses a login, gives one up, and lets another person scan a code.
func (r *codeRig) atTerminal() {
	r.t.Helper()
	before := r.file()
	if !slices.Contains(r.lacks, refuses) {
		r.phone(refuses)
		if code, out := r.terminal(r.no, nil); code == 0 || !strings.Contains(out, r.refusal) {
			r.t.Errorf("refused: exit code %d, %s", code, out)
		}
		r.answers(r.owner, "#three")
	}

	r.phone(waits)
	code, out := r.terminal("", func(line string, leave func()) {
		if strings.HasPrefix(line, "Open http") {
			leave()
		}
	})
	if code == 0 || !strings.Contains(out, "█") {
		r.t.Errorf("left: exit code %d, %s", code, out)
	}
	r.answers(r.owner, "#four")
	if r.file() != before {
		r.t.Errorf("the file became %s", r.file())
	}

	r.phone(others)
	if code, out := r.terminal("yes\n", nil); code != 0 || !strings.Contains(out, "is logged in as") {
		r.t.Errorf("another person: exit code %d, %s", code, out)
	}
	for _, gone := range r.gone {
		if strings.Contains(r.file(), gone) {
			r.t.Errorf("the file still has %s: %s", gone, r.file())
		}
	}
	if r.other != "" {
		r.answers(r.other, "#five")
	}
	if r.keeps {
		return
	}
	r.writes(r.owner, "#six")
	r.until("the code to pair by", func() bool {
		return slices.ContainsFunc(r.texts(), func(s string) bool { return strings.Contains(s, "pairing approve") })
	})
	if slices.Contains(r.texts(), "echo #six") {
		r.t.Errorf("%s is still let in", r.owner)
	}
}

// A login that WeChat ended is renewed.
func TestWeixinLoginAgain(t *testing.T) {
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
	r := &codeRig{office: office{h, gateway.SettingsAPI(t, h.g, nil)}}
	r.name = "weixin"
	r.texts = func() (out []string) {
		for _, m := range fake.Messages() {
			out = append(out, m.Text)
		}
		return out
	}
	r.say = func(who, text string) { fake.Say(who, text) }
	for _, word := range []string{"#one", "#two"} {
		fake.Tokens() // none is valid any more
		fake.Script(weixintest.State{Status: "confirmed"})
		if _, err := h.accounts().Login(t.Context(), "weixin", &person{}, false); err != nil {
			t.Fatal(err)
		}
		r.answers(weixintest.Owner, word)
	}
}
