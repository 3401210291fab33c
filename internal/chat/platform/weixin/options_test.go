package weixin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// Sections of Python nanobot work as they are.
func TestPythonSections(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": `{}`,
		"0.1.5": `{"enabled": false, "allowFrom": [], "baseUrl": "https://ilinkai.weixin.qq.com", "cdnBaseUrl": "https://novac2c.cdn.weixin.qq.com/c2c",
			"routeTag": null, "token": "", "stateDir": "", "pollTimeout": 35}`,
		"0.1.5, by hand": `{"enabled": true, "allowFrom": ["*"], "routeTag": 7, "token": "t", "stateDir": "~/.nanobot/weixin", "pollTimeout": "20"}`,
		"head": `{"enabled": true, "allowFrom": ["o9cq@im.wechat"], "baseUrl": "https://idc3.weixin.qq.com/", "cdnBaseUrl": "https://novac2c.cdn.weixin.qq.com/c2c",
			"routeTag": "x", "token": "t", "stateDir": "", "pollTimeout": 35, "sendProgress": false, "sendToolHints": false, "replyProgressMessages": true,
			"replyProgressMaxMessages": 4, "contextMessageBudget": 10, "streaming": true, "blockStreaming": false, "blockStreamingMinChars": 1200, "blockStreamingMaxMessages": 3}`,
	} {
		if _, err := chat.Read(json.RawMessage(text), defaults()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	o, err := chat.Read(json.RawMessage(`{"routeTag": 7, "baseUrl": "", "cdnBaseUrl": ""}`), defaults())
	if err != nil || o.RouteTag != "7" || o.BaseURL != defaultBase || o.CDNBaseURL != defaultCDN || o.codeBase() != defaultBase {
		t.Errorf("%+v, %v", o, err)
	}
	if o, _ = chat.Read(json.RawMessage(`{"baseUrl": "https://idc3.weixin.qq.com"}`), defaults()); o.codeBase() != defaultBase {
		t.Errorf("codes are asked for at %s", o.codeBase())
	}
}

func TestWrongSections(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"baseUrl": "http://ilinkai.weixin.qq.com"}`: "baseUrl",
		`{"cdnBaseUrl": "novac2c"}`:                   "cdnBaseUrl",
		`{"baseUrl": "https://u:p@weixin.qq.com"}`:    "baseUrl",
		`{"contextMessageBudget": 11}`:                "contextMessageBudget",
		`{"contextMessageBudget": 0}`:                 "contextMessageBudget",
		`{"pollTimeout": 0}`:                          "pollTimeout",
		`{"replyProgressMaxMessages": 5}`:             "replyProgressMaxMessages",
		`{"routeTag": "a\nb"}`:                        "routeTag",
		`{"pollTimeOut": 5}`:                          `did you mean "pollTimeout"?`,
	} {
		if _, err := chat.Read(json.RawMessage(text), defaults()); err == nil || !strings.Contains(err.Error(), want) || !chat.IsFatal(err) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Progress is quiet, unless WeChat itself shows it.
func TestQuiet(t *testing.T) {
	t.Parallel()
	if !Driver().Quiet {
		t.Error("progress uses up messages")
	}
	for text, want := range map[string]string{
		`{"enabled":true}`: `{"enabled":true}`,
		`{"replyProgressMessages":true,"sendProgress":false}`: `{"replyProgressMessages":true,"sendProgress":true,"sendToolHints":true}`,
		`{`: `{`,
	} {
		got, err := expand(json.RawMessage(text))
		if err != nil || string(got[""]) != want || len(got) != 1 {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

func TestTrusts(t *testing.T) {
	t.Parallel()
	o, err := chat.Read(json.RawMessage(`{"baseUrl": "http://127.0.0.1:8080"}`), defaults())
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"http://127.0.0.1:8080/x":                     true,
		"http://127.0.0.1:8081/x":                     false,
		"https://127.0.0.1:8080/x":                    false,
		"http://u@127.0.0.1:8080/x":                   false,
		"https://novac2c.cdn.weixin.qq.com/c2c/x?y=z": true,
		"https://szshort.weixin.qq.com":               true,
		"https://hk.wechat.com":                       true,
		"http://szshort.weixin.qq.com":                false,
		"https://weixin.qq.com.example.com":           false,
		"https://evilweixin.qq.com":                   false,
		"https://u:p@a.weixin.qq.com":                 false,
		"":                                            false,
		"https://%zz":                                 false,
	} {
		if got := o.trusts(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
