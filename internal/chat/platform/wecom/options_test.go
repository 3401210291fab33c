package wecom

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// Sections of Python nanobot, of 0.1.5 and of its head, load as they are.
func TestPythonSection(t *testing.T) {
	t.Parallel()
	o, err := decode(json.RawMessage(`{"enabled": true, "botId": "aib1", "secret": "s", "allowFrom": ["zhangsan"], "welcomeMessage": "你好",
		"sendProgress": true, "sendToolHints": false, "streaming": false}`))
	if err != nil {
		t.Fatal(err)
	}
	if o.BotID != "aib1" || o.Secret.Reveal() != "s" || o.WelcomeMessage != "你好" || o.AllowFrom[0] != "zhangsan" || o.WSURL != "wss://openws.work.weixin.qq.com" {
		t.Errorf("the section is %+v", o)
	}
	if c := o.caps(); c.EditEvery != 0 || !c.OneMessage {
		t.Errorf("caps %+v", c)
	}
	if _, err := decode(json.RawMessage(`{"enabled": false, "botId": "", "secret": "", "allowFrom": [], "welcomeMessage": ""}`)); err == nil || !strings.Contains(err.Error(), "botId is missing") {
		t.Errorf("the defaults: %v", err)
	}
}

func TestBadSections(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		`{"botId": "a"}`:  "secret is missing",
		`{"secret": "s"}`: "botId is missing",
		`{"botId": "a", "secret": "s", "wsUrl": "openws.work.weixin.qq.com"}`: "wsUrl: an address that begins with wss:// is needed",
		`{"botId": "a", "secret": "s", "loginUrl": "ftp://x"}`:                "loginUrl: an address that begins with https:// is needed",
		`{"botId": "a", "secret": "s", "welcomeMesage": "x"}`:                 `did you mean "welcomeMessage"?`,
		`{"botId": "a", "secret": "s", "welcomeMessage": ["x"]}`:              "welcomeMessage: a text is needed",
	} {
		_, err := newChannel(chat.Deps{}, json.RawMessage(section))
		if !chat.IsFatal(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", section, err, want)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	section := func(address string) json.RawMessage {
		return json.RawMessage(`{"botId": "aib_bot", "secret": "s", "wsUrl": "` + address + `"}`)
	}
	report, err := probe(t.Context(), r.deps, section(r.fake.Socket()))
	if err != nil || !report.Checks[0].OK {
		t.Errorf("probe: %+v, %v", report, err)
	}
	if n := len(r.fake.Frames("")); n != 0 {
		t.Errorf("a probe made %d commands", n)
	}
	report, err = probe(t.Context(), r.deps, section(r.fake.Socket()+"/nothing"))
	if err != nil || report.Checks[0].OK || !strings.Contains(report.Checks[0].Detail, "HTTP status 404") {
		t.Errorf("a wrong address: %+v, %v", report, err)
	}
}
