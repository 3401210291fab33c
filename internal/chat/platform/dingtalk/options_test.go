package dingtalk

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ section, want string }{
		"smallest":   {`{"clientId":"c","clientSecret":"s"}`, ""},
		"no client":  {`{"clientSecret":"SECRET"}`, "clientId is missing"},
		"no secret":  {`{"clientId":"c"}`, "clientSecret is missing"},
		"blanks":     {`{"clientId":"c","clientSecret":"SECRET "}`, "without quotes and blanks"},
		"api":        {`{"clientId":"c","clientSecret":"s","apiBaseUrl":"ftp://x"}`, "apiBaseUrl"},
		"oapi":       {`{"clientId":"c","clientSecret":"s","oapiBaseUrl":"x"}`, "oapiBaseUrl"},
		"misspelled": {`{"clientID":"c","clientSecret":"SECRET"}`, `"clientId"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decode(json.RawMessage(c.section))
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
		"0.1.5": `{"enabled":true,"clientId":"c","clientSecret":"s","allowFrom":["*"]}`,
		"head": `{"enabled":true,"clientId":"c","clientSecret":"s","allowFrom":["ann"],"allowRemoteMediaRedirects":true,"remoteMediaRedirectAllowedHosts":["cdn.example.com"],
			"groupUserIsolation":true,"disablePrivateChat":true,"streaming":true,"sendProgress":true,"sendToolHints":false,"showReasoning":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := chattest.NewRig(t)
			d := r.Deps("dingtalk")
			d.Client = plainClient(t)
			d.Gate = r.Gate("dingtalk", json.RawMessage(s), nil)
			ch, err := newChannel(d, json.RawMessage(s))
			if err != nil {
				t.Fatal(err)
			}
			if c := ch.Caps(); c.MaxChars != maxText || c.EditEvery != 0 {
				t.Errorf("caps %+v", c)
			}
		})
	}
}

// Every setting has a sentence and stands in both manuals.
func TestOptionsAreDocumented(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"dingtalk.md", "dingtalk.zh-CN.md"} {
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
	d := chattest.NewRig(t).Deps("dingtalk")
	d.Client = plainClient(t)
	report, err := probe(t.Context(), d, section(fake, nil))
	if err != nil || report.Identity != dingtalktest.ClientID || len(report.Checks) != 2 {
		t.Errorf("probe: %+v, %v", report, err)
	}
	if _, err = probe(t.Context(), d, section(fake, map[string]any{"clientSecret": "wrong"})); !chat.IsFatal(err) || !strings.Contains(err.Error(), "channels.dingtalk.clientId") {
		t.Errorf("with a wrong secret: %v", err)
	}
	if fake.Opened() != 0 || len(fake.Messages()) != 0 {
		t.Error("a probe did something that people see")
	}
}
