package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

func secretsOf(l *config.Loaded) map[string]string {
	out := map[string]string{}
	for name, s := range l.Secrets() {
		out[name] = s.Reveal()
	}
	return out
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	const text = `{
		"agents": {"defaults": {"model": "some-long-model-name-2026-01-01-preview"}},
		"providers": {"openai": {"api_key": "SECRET1", "extraHeaders": {"X-Token": "SECRET2", "X-Title": "nanobot app", "X-Odd": "sk-SECRET3"},
			"extraQuery": {"api-version": "2024-10-21", "key": "SECRET4"}, "proxy": "http://u:SECRET5@p", "apiKeys": ["SECRET6", "SECRET7"],
			"apiBase": "https://u:SECRET8@h/v1", "extraBody": {"token": "SECRET9", "user": "me"}}, "my_own": {"apiBase": "https://h/v1"}},
		"channels": {"telegram": {"token": "SECRET10", "botId": "oc_0123456789abcdef0123456789", "odd": "sk-SECRET11", "allowFrom": ["ou_0123456789abcdef0123456789"]},
			"slack": {"bot_token": "SECRET12", "dm": {"secret": "SECRET13", "policy": "open"}}, "feishu": {"appId": "cli_0123456789abcdef01234567", "appSecret": "SECRET14"}},
		"api": {"apiKey": "SECRET15"},
		"tools": {"web": {"search": {"apiKey": "SECRET16"}}, "mcpServers": {"a": {"command": "npx", "env": {"GITHUB_TOKEN": "SECRET17", "MODE": "fast"},
			"headers": {"Authorization": "Bearer SECRET18", "Content-Type": "application/json"},
			"args": ["-y", "pkg", "--api-key", "SECRET19", "--token=SECRET20", "--mode=fast"], "url": "http://h/?k=SECRET21"}}},
		"apiKye": "sk-SECRET22"}`
	l := load(t, text, "NANOBOT_PROVIDERS__GROQ__API_KEY=SECRET23", "NANOBOT_CHANNELS__QQ__APP_KEY=SECRET24")
	want := map[string]string{
		"providers.openai.apiKey": "SECRET1", "providers.openai.extraHeaders.X-Token": "SECRET2", "providers.openai.extraHeaders.X-Odd": "sk-SECRET3",
		"providers.openai.extraQuery.key": "SECRET4", "providers.openai.proxy": "http://u:SECRET5@p", "providers.openai.apiKeys.0": "SECRET6",
		"providers.openai.apiKeys.1": "SECRET7", "providers.openai.apiBase": "https://u:SECRET8@h/v1", "providers.openai.extraBody.token": "SECRET9",
		"channels.telegram.token": "SECRET10", "channels.telegram.odd": "sk-SECRET11", "channels.slack.botToken": "SECRET12", "channels.slack.dm.secret": "SECRET13",
		"channels.feishu.appSecret": "SECRET14", "api.apiKey": "SECRET15", "tools.web.search.apiKey": "SECRET16",
		"tools.mcpServers.a.env.GITHUB_TOKEN": "SECRET17", "tools.mcpServers.a.headers.Authorization": "Bearer SECRET18", "tools.mcpServers.a.args.3": "SECRET19",
		"tools.mcpServers.a.args.4": "SECRET20", "tools.mcpServers.a.url": "http://h/?k=SECRET21", "apiKye": "sk-SECRET22",
		"providers.groq.apiKey": "SECRET23", "channels.qq.appKey": "SECRET24",
	}
	if d := cmp.Diff(want, secretsOf(l)); d != "" {
		t.Errorf("secrets (-want +got):\n%s", d)
	}
	for range l.Secrets() {
		break // stopping early is fine
	}
}

// Every empty setting of a complete file that is named like a credential gets
// one, and every one is found; nothing else is.
func TestSecretsOfACompleteFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"head.json", "v0.1.5.json"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for key, s := range secretsOf(load(t, text)) {
			t.Errorf("%s: %s = %q in a file without credentials", name, key, s)
		}
		planted := 0
		for _, key := range []string{"apiKey", "token", "appSecret", "botToken", "appToken", "clientSecret", "secret", "encryptKey", "imapPassword", "smtpPassword", "accessToken", "bridgeToken", "verificationToken"} {
			for _, empty := range []string{`"` + key + `": ""`, `"` + key + `": null`} {
				planted += strings.Count(text, empty)
				text = strings.ReplaceAll(text, empty, `"`+key+`": "c4nary-value-`+key+`"`)
			}
		}
		if planted < 20 {
			t.Fatalf("%s: only %d places for credentials", name, planted)
		}
		reg := &httpsafe.Registry{}
		found := 0
		for key, s := range load(t, text).Secrets() {
			found++
			if !strings.HasPrefix(s.Reveal(), "c4nary-value-") {
				t.Errorf("%s: %s is no credential", name, key)
			}
			reg.Add(key, s)
		}
		if found != planted {
			t.Errorf("%s: %d of %d found", name, found, planted)
		}
		if out := reg.Redact(text); strings.Contains(out, "c4nary") {
			t.Errorf("%s: still there after redaction", name)
		}
	}
}
