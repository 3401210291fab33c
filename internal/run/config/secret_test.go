package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Every kind of place a credential can stand in, and every way to print it.
func TestSecretsCannotBePrinted(t *testing.T) {
	t.Parallel()
	const text = `{
		"providers": {"openai": {"apiKey": "SECRET1", "extraHeaders": {"X-Any": "SECRET2"}, "extraQuery": {"k": "SECRET3"},
			"proxy": "http://u:SECRET4@p", "apiKeys": ["SECRET5"], "apiKee": {"any": ["SECRET22"]}, "apiBase": "https://h/", "extraBody": {"token": "SECRET6"}}},
		"channels": {"telegram": {"token": "SECRET7", "odd": "sk-SECRET24", "tokn": "12345:SECRET25abcdefghijklm", "proxy": "http://u:SECRET8@p"}, "slack": {"bot_token": "SECRET9", "dm": {"secret": "SECRET10"}},
			"feishu": [{"appSecret": "SECRET11"}]},
		"api": {"apiKey": "SECRET12"},
		"tools": {"web": {"proxy": "SECRET13", "search": {"apiKey": "SECRET14"}},
			"mcpServers": {"a": {"env": {"ANY": "SECRET15"}, "headers": {"Any": "SECRET16"}, "args": ["--key", "SECRET17"], "url": "http://h/?k=SECRET18"}}},
		"apiKye": "SECRET23", "gateway": {"password": "SECRET19"}}`
	l := load(t, text, "NANOBOT_PROVIDERS__GROQ__API_KEY=SECRET20", "NANOBOT_CHANNELS__QQ__APP_KEY=SECRET21")
	if l.Config.Providers["openai"].APIKey.Reveal() != "SECRET1" || l.Config.Providers["groq"].APIKey.Reveal() != "SECRET20" {
		t.Fatal("the credentials did not arrive")
	}
	if got := string(l.Config.Channels.Each["qq"].Raw.JSON()); got != `{"appKey":"SECRET21"}` {
		t.Fatalf("channel = %s", got)
	}
	outputs := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		outputs["Config "+verb] = fmt.Sprintf(verb, l.Config)
		outputs["Loaded "+verb] = fmt.Sprintf(verb, l)
		outputs["Raw "+verb] = fmt.Sprintf(verb, l.Config.Channels.Each["telegram"].Raw)
	}
	b, err := json.Marshal(l.Config)
	if err != nil {
		t.Fatal(err)
	}
	outputs["json"] = string(b)
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("config", "all", l.Config, "loaded", l, "raw", l.Config.Channels.Each["slack"].Raw, "key", l.Config.API.APIKey)
	}
	outputs["slog"] = log.String()
	outputs["Show"] = string(l.Show(false))
	outputs["Show set"] = string(l.Show(true))
	for _, section := range []string{"providers", "channels", "tools", "api", "gateway"} {
		es, err := l.Explain(section)
		if err != nil {
			t.Fatal(err)
		}
		outputs["Explain "+section] = fmt.Sprintf("%+v %v", es, es)
		for _, e := range es {
			v, err := l.Get(e.Path)
			if err != nil {
				t.Errorf("Get(%s): %v", e.Path, err)
			}
			outputs["Get "+e.Path] = v
			outputs["sources of "+e.Path] = fmt.Sprint(e.Source.Value, e.Shadowed)
		}
	}
	outputs["warnings"] = fmt.Sprintf("%+v", l.Warnings)
	for name, out := range outputs {
		if i := strings.Index(out, "SECRET"); i >= 0 {
			t.Errorf("%s shows %s", name, out[max(0, i-40):i+8])
		}
		if strings.Contains(out, fmt.Sprintf("%x", "SECRET")) || strings.Contains(out, "83 69 67 82") {
			t.Errorf("%s shows the bytes of a credential", name)
		}
	}
	if !strings.Contains(outputs["Show"], `"maxTokens": 8192`) || !strings.Contains(outputs["Show set"], `"enabled"`) && !strings.Contains(outputs["Show set"], `"***"`) {
		t.Error("nothing left to see")
	}
}

// An address may carry a password although it is no credential by type.
func TestShowHidesPasswordsInAddresses(t *testing.T) {
	t.Parallel()
	l := load(t, `{"providers": {"mine": {"apiBase": "https://u:SECRET@h/v1"}}, "tools": {"web": {"search": {"baseUrl": "http://h/?k=SECRET"}}}}`)
	value, err := l.Get("providers.mine.apiBase")
	if err != nil || value != `"***"` {
		t.Errorf("Get = %s, %v", value, err)
	}
	for _, out := range [][]byte{l.Show(true), l.Show(false)} {
		if strings.Contains(string(out), "SECRET") {
			t.Errorf("shown: %s", out)
		}
	}
	if l.Config.Providers["mine"].APIBase != "https://u:SECRET@h/v1" {
		t.Error("the value itself was changed")
	}
}

func TestSecretsAreTrimmed(t *testing.T) {
	t.Parallel()
	c := loadOne(t, `{"providers": {"mine": {"apiKey": " key\n"}}}`)
	if got := c.Providers["mine"].APIKey.Reveal(); got != "key" {
		t.Errorf("key = %q", got)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	file := write(t, "{\"agents\": {\"defaults\": {\n  \"max_tokens\": 1, \"model\": \"${M}\"}},\n\"providers\": {\"groq\": {\"apiKey\": \"k1\"}}}")
	l, err := config.Load(config.Options{
		Path: file, Env: []string{"NANOBOT_AGENTS__DEFAULTS__MAX_TOKENS=2", "M=m", "NANOBOT_PROVIDERS__GROQ__API_KEY=k2"},
		Overrides: []config.Override{{Path: "agents.defaults.max_tokens", Value: "3"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	show := func(path string) string {
		es, err := l.Explain(path)
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for _, e := range es {
			fmt.Fprintf(&b, "%s=%s <- %s", e.Path, e.Value, e.Source)
			for _, s := range e.Shadowed {
				fmt.Fprintf(&b, " < %s %s", s, s.Value)
			}
			b.WriteString("\n")
		}
		return strings.ReplaceAll(b.String(), file, "FILE")
	}
	for path, want := range map[string]string{
		"agents.defaults.max_tokens": "agents.defaults.maxTokens=3 <- command line < environment variable NANOBOT_AGENTS__DEFAULTS__MAX_TOKENS 2 < FILE:2:17 1 < default 8192\n",
		"agents.defaults.model":      "agents.defaults.model=\"m\" <- FILE:2:29, through a ${...} reference < default \"anthropic/claude-opus-4-5\"\n",
		"providers":                  "providers.groq.apiKey=\"***\" <- environment variable NANOBOT_PROVIDERS__GROQ__API_KEY < FILE:3:34 \"***\" < default \"\"\n",
		"api.port":                   "api.port=8900 <- default\n",
		"api":                        "",
		"agents.defaults.modle":      "unknown setting agents.defaults.modle; did you mean model?",
		"api.port.deep":              "unknown setting api.port.deep; api.port is a single value",
		"api..port":                  "the path has an empty part",
		"channels.telegram.token":    "channels.telegram.token=null <- default\n",
	} {
		if got := show(path); got != want {
			t.Errorf("Explain(%s) = %s\nwant %s", path, got, want)
		}
	}
}
