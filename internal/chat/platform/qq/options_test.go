package qq

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/qq/qqtest"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ section, want string }{
		"smallest":   {`{"appId":"1","secret":"s"}`, ""},
		"a number":   {`{"appId":102000001,"secret":"s"}`, ""},
		"no app":     {`{"secret":"SECRET"}`, "appId is missing"},
		"no secret":  {`{"appId":"1"}`, "secret is missing"},
		"blanks":     {`{"appId":"1","secret":"SECRET "}`, "without quotes and blanks"},
		"format":     {`{"appId":"1","secret":"s","msgFormat":"html"}`, "msgFormat"},
		"api":        {`{"appId":"1","secret":"s","apiBaseUrl":"ftp://x"}`, "apiBaseUrl"},
		"token":      {`{"appId":"1","secret":"s","tokenBaseUrl":"x"}`, "tokenBaseUrl"},
		"misspelled": {`{"appId":"1","secrets":"SECRET"}`, `"secret"`},
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
		"0.1.5": `{"enabled":true,"appId":"102000001","secret":"s","allowFrom":["*"],"msgFormat":"plain","ackMessage":"⏳ Processing...","mediaDir":"","downloadChunkSize":262144,"downloadMaxBytes":209715200}`,
		"head": `{"enabled":true,"appId":"102000001","secret":"s","allowFrom":[],"msgFormat":"markdown","ackMessage":"","mediaDir":"/tmp/x","downloadChunkSize":1024,"downloadMaxBytes":1048576,
			"streaming":true,"sendProgress":true,"sendToolHints":false,"showReasoning":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := chattest.NewRig(t)
			d := r.Deps("qq")
			d.Client = plainClient(t)
			d.Gate = r.Gate("qq", json.RawMessage(s), nil)
			ch, err := newChannel(d, json.RawMessage(s))
			if err != nil {
				t.Fatal(err)
			}
			if c := ch.Caps(); c.Replies.Count != 5 || c.EditEvery != 0 || !c.Keys {
				t.Errorf("caps %+v", c)
			}
		})
	}
}

func TestSandbox(t *testing.T) {
	t.Parallel()
	o, err := chat.Read(json.RawMessage(`{"appId":"1","secret":"s","sandbox":true}`), defaults())
	if err != nil || o.APIBaseURL != sandboxBase {
		t.Errorf("sandbox: %q, %v", o.APIBaseURL, err)
	}
}

// Every setting has a sentence and stands in both manuals.
func TestOptionsAreDocumented(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"qq.md", "qq.zh-CN.md"} {
		manual, err := os.ReadFile("../../../../docs/how-to/channels/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for f := range reflect.TypeFor[options]().Fields() {
			if f.Anonymous {
				continue
			}
			if key := f.Tag.Get("json"); f.Tag.Get("doc") == "" || !strings.Contains(string(manual), "`"+key+"`") {
				t.Errorf("%s has no sentence, or is not in docs/how-to/channels/%s", key, file)
			}
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	d := chattest.NewRig(t).Deps("qq")
	d.Client = plainClient(t)
	report, err := probe(t.Context(), d, section(fake, nil))
	if err != nil || report.Identity != qqtest.BotName || len(report.Checks) != 2 || !report.Checks[1].OK {
		t.Errorf("probe: %+v, %v", report, err)
	}
	fake.Logins(0)
	if report, err = probe(t.Context(), d, section(fake, nil)); err != nil || report.Checks[1].OK {
		t.Errorf("without logins: %+v, %v", report, err)
	}
	if _, err = probe(t.Context(), d, section(fake, map[string]any{"secret": "wrong"})); !chat.IsFatal(err) || !strings.Contains(err.Error(), "channels.qq.appId") {
		t.Errorf("with a wrong secret: %v", err)
	}
	fake.Fail(qqtest.Failure{Path: "/users/@me", Status: 401, Code: codeAddress, Text: "ip"}, qqtest.Failure{Path: "/users/@me", Status: 401, Code: codeAddress, Text: "ip"})
	if _, err = probe(t.Context(), d, section(fake, nil)); err == nil || !strings.Contains(err.Error(), "IP whitelist") {
		t.Errorf("from an unknown address: %v", err)
	}
	if fake.Identified() != 0 || len(fake.Messages()) != 0 {
		t.Error("a probe did something that people see")
	}
}
