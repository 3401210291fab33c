package discord

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ section, want string }{
		"smallest":        {`{"token":"a.b.c"}`, ""},
		"no token":        {`{}`, "token is missing"},
		"with the scheme": {`{"token":"Bot SECRET"}`, "token: enter only"},
		"one credential":  {`{"token":"a","proxy":"http://p","proxyUsername":"u"}`, "set both or none"},
		"no proxy":        {`{"token":"a","proxyUsername":"u","proxyPassword":"p"}`, ""},
		"long delay":      {`{"token":"a","workingEmojiDelay":60}`, ""},
		"base":            {`{"token":"a","apiBase":"ftp://x"}`, "apiBase"},
		"unknown":         {`{"token":"a","allowChannel":[]}`, "allowChannels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := chat.Read(json.RawMessage(c.section), defaults())
			switch {
			case c.want == "" && err != nil:
				t.Errorf("decode: %v", err)
			case c.want != "" && (err == nil || !chat.IsFatal(err) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("decode: %v, want it fatal and about %q", err, c.want)
			case err != nil && strings.Contains(err.Error(), "SECRET"):
				t.Errorf("a secret is in %v", err)
			}
		})
	}
}

// The sections that Python nanobot writes work as they are.
func TestPythonSections(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"0.1.5": `{"enabled":true,"token":"a.b.c","allowFrom":["42"],"intents":37377,"groupPolicy":"mention","readReceiptEmoji":"👀","workingEmoji":"🔧","workingEmojiDelay":2.0,
			"streaming":true,"proxy":null,"proxyUsername":null,"proxyPassword":null}`,
		"head": `{"enabled":true,"token":"a.b.c","allowFrom":[],"allowChannels":["600"],"intents":37377,"groupPolicy":"open","readReceiptEmoji":"✅","workingEmoji":"⏳","workingEmojiDelay":1.5,
			"streaming":false,"proxy":"http://127.0.0.1:7890","proxyUsername":"u","proxyPassword":"p w","sendProgress":true,"sendToolHints":false,"showReasoning":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := chattest.NewRig(t)
			d := r.Deps("discord")
			proxy := ""
			d.Client = func(p string) (*http.Client, error) { proxy = p; return &http.Client{}, nil }
			d.Gate = r.Gate("discord", json.RawMessage(s), nil)
			ch, err := newChannel(d, json.RawMessage(s))
			if err != nil {
				t.Fatal(err)
			}
			if head := name == "head"; head != (proxy == "http://u:p%20w@127.0.0.1:7890") || head != (ch.Caps().EditEvery == 0) {
				t.Errorf("proxy %q, caps %+v", proxy, ch.Caps())
			}
		})
	}
}

// Every setting has a sentence and stands in the manual.
func TestOptionsAreDocumented(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("../../../../docs/how-to/channels/discord.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[options]().Fields() {
		if f.Anonymous {
			continue
		}
		if key := f.Tag.Get("json"); f.Tag.Get("doc") == "" || !strings.Contains(string(manual), "`"+key+"`") {
			t.Errorf("%s has no sentence, or is not in docs/how-to/channels/discord.md", key)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	d := chattest.NewRig(t).Deps("discord")
	d.Client = plainClient(t)
	report, err := probe(t.Context(), d, section(fake, nil))
	if err != nil || report.Identity != "@"+discordtest.BotName || len(report.Checks) != 3 || !report.Checks[1].OK || !strings.Contains(report.Checks[2].Detail, "client_id=999&scope=bot%20applications.commands&permissions=274878008384") {
		t.Errorf("probe: %+v, %v", report, err)
	}
	fake.Allow(1)
	if report, err = probe(t.Context(), d, section(fake, nil)); err != nil || report.Checks[1].OK {
		t.Errorf("without the intent: %+v, %v", report, err)
	}
	if _, err = probe(t.Context(), d, section(fake, map[string]any{"token": "wrong"})); err == nil || !strings.Contains(err.Error(), "channels.discord.token") {
		t.Errorf("with a wrong token: %v", err)
	}
	if n := len(fake.Calls("POST", "")) + len(fake.Calls("PUT", "")); n != 0 || fake.Identified() != 0 {
		t.Error("a probe did something that people see")
	}
}
