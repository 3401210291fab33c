package gateway_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/web"
)

// office is a web interface of a gateway that runs.
type office struct {
	*host
	api *web.Desk
}

const settingsConfig = `{
  // kept
  "agents": {"defaults": {"model": "m", "fallbackModels": ["fast"]}},
  "gateway": {"port": 0, "heartbeat": {"enabled": false}, "reload": {"enabled": false}},
  "modelPresets": {"fast": {"model": "f"}},
  "providers": {"openai": {"apiKey": "sk-of-openai-0123456789"}, "mine": {"apiBase": "http://127.0.0.1:1/v1", "apiKey": "key-of-mine"}},
  "tools": {"mcpServers": {"files": {"command": "no-such-program-of-ours", "args": ["--token", "tok-of-files", "word-of-files"], "env": {"KEY": "env-of-files"}}}},
  "channels": {"party": {"enabled": true, "allowFrom": ["ann"]}, "telegram": {"enabled": false, "token": "123456:token-of-telegram"}}
}
`

func newOffice(t *testing.T, model llm.Model, env ...string) office {
	t.Helper()
	h := newHost(t, model)
	h.env = env
	h.configure(settingsConfig)
	h.start()
	t.Cleanup(func() {
		if err := h.end(); err != nil {
			t.Error(err)
		}
	})
	<-h.party.joined
	return office{h, gateway.SettingsAPI(t, h.g, nil)}
}

func (o office) file() string {
	o.t.Helper()
	b, err := os.ReadFile(filepath.Join(o.dir, "config.json"))
	o.must(err)
	return string(b)
}

// do carries out an action that must work.
func (o office) do(name, payload string) map[string]any {
	o.t.Helper()
	out, _, err := o.api.Do(o.t.Context(), name, json.RawMessage(payload))
	if err != nil {
		o.t.Fatalf("%s %s: %v", name, payload, err)
	}
	var m map[string]any
	o.must(json.Unmarshal(out, &m))
	return m
}

// refused carries out an action that must not work.
func (o office) refused(name, payload string, status int, want string) {
	o.t.Helper()
	before := o.file()
	out, _, err := o.api.Do(o.t.Context(), name, json.RawMessage(payload))
	e, ok := errors.AsType[*web.Error](err)
	if !ok || e.Status != status || !strings.Contains(e.Message, want) {
		o.t.Errorf("%s %s = %s %+v, want %d %q", name, payload, out, err, status, want)
	}
	if o.file() != before {
		o.t.Errorf("%s %s changed the file although it was refused", name, payload)
	}
}

func (o office) get(path string) (int, map[string]any, string) {
	o.t.Helper()
	w := httptest.NewRecorder()
	o.api.ServeHTTP(w, httptest.NewRequestWithContext(o.t.Context(), http.MethodGet, "/api/"+path, nil))
	var m map[string]any
	o.must(json.Unmarshal(w.Body.Bytes(), &m))
	return w.Code, m, w.Body.String()
}

func texts(v any) []string {
	list, _ := v.([]any)
	out := []string{}
	for _, x := range list {
		s, _ := x.(string)
		out = append(out, s)
	}
	return out
}

func TestSettingsAreChanged(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	o.must(o.party.write(t, "ann", "1", "say #one")) // where the owner is
	o.party.hear(t, "echo #one")

	cases := []struct {
		action, payload string
		changed         []string
		has             string // in the file
	}{
		{"settings.agent.update", `{"maxTokens": 77, "bot_name": "Ada"}`, []string{"agents.defaults.maxTokens", "agents.defaults.botName"}, `"maxTokens": 77`},
		{"settings.agent.update", `{"maxTokens": 77}`, nil, "// kept"},
		{"settings.agent.update", `{"maxTokens": null}`, []string{"agents.defaults.maxTokens"}, ""},
		{"settings.model_configuration.create", `{"name": "big", "settings": {"model": "b", "temperature": 1}}`, []string{"modelPresets.big.model", "modelPresets.big.temperature"}, `"big"`},
		{"settings.model_configuration.update", `{"name": "big", "settings": {"model": "bb"}}`, []string{"modelPresets.big.model"}, `"bb"`},
		{"settings.model_call_order.update", `{"fallbacks": ["big", {"model": "x"}]}`, []string{"agents.defaults.fallbackModels"}, `["big"`},
		{"settings.model_call_order.update", `{"preset": "big", "fallbacks": ["fast"]}`, []string{"modelPresets.big.fallbacks"}, `"fallbacks"`},
		{"settings.model_call_order.update", `{"fallbacks": []}`, []string{"agents.defaults.fallbackModels"}, `"fallbackModels": []`},
		{"settings.model_configuration.delete", `{"name": "big"}`, []string{"modelPresets.big"}, ""},
		{"settings.provider.update", `{"name": "openai", "settings": {"apiKey": "***", "apiBase": "http://127.0.0.1:1/v1"}}`, []string{"providers.openai.apiBase"}, "sk-of-openai-0123456789"},
		{"settings.provider.update", `{"name": "groq", "settings": {"apiKey": "gsk-new"}}`, []string{"providers.groq.apiKey"}, "gsk-new"},
		{"settings.provider.create", `{"name": "my-own", "settings": {"apiBase": "http://127.0.0.1:2/v1"}}`, []string{"providers.my_own.apiBase"}, "http://127.0.0.1:2/v1"},
		{"settings.web_search.update", `{"search": {"maxResults": 3}}`, []string{"tools.web.search.maxResults"}, `"maxResults"`},
		{"settings.image_generation.update", `{"enabled": false, "model": "p"}`, []string{"tools.imageGeneration.enabled", "tools.imageGeneration.model"}, `"imageGeneration"`},
		{"settings.transcription.update", `{"language": "de"}`, []string{"transcription.language"}, `"de"`},
		{"settings.network_safety.update", `{"ssrfWhitelist": ["10.0.0.0/8"], "exec": {"network": "none"}}`, []string{"tools.ssrfWhitelist", "tools.exec.network"}, "10.0.0.0/8"},
		{"settings.api_service.stop", ``, []string{"gateway.api"}, `"api": false`},
		{"settings.api_service.start", `{"settings": {"apiKey": "a-key-of-16-chars-or-more"}}`, []string{"api.apiKey", "gateway.api"}, "a-key-of-16-chars-or-more"},
		{"settings.channel.configure", `{"name": "telegram", "settings": {"allowFrom": ["7"], "token": "***"}}`, []string{"channels.telegram.allowFrom"}, "123456:token-of-telegram"},
		{"settings.feature.disable", `{"name": "telegram"}`, nil, ""},
	}
	for _, c := range cases {
		got := o.do(c.action, c.payload)
		changed := texts(got["changed"])
		slices.Sort(changed)
		slices.Sort(c.changed)
		if !slices.Equal(changed, c.changed) || got["restart_required"] == nil {
			t.Errorf("%s %s: %v, want %v", c.action, c.payload, got, c.changed)
		}
		if text := o.file(); !strings.Contains(text, c.has) || strings.Contains(text, "***") {
			t.Errorf("%s %s: %q is not in\n%s", c.action, c.payload, c.has, text)
		}
	}
	out := o.party.hear(t, "agents.defaults.maxTokens, agents.defaults.botName")
	if out.Route.ChatID != "ann" {
		t.Errorf("told to %+v", out.Route)
	}
	o.must(o.party.write(t, "ann", "2", "say #two")) // it still works
	o.party.hear(t, "echo #two")
	if _, m, _ := o.get("settings"); len(texts(m["problems"])) > 0 {
		t.Errorf("problems %v", m["problems"])
	}
}

func TestSettingsAreRefused(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	for _, c := range []struct {
		action, payload string
		status          int
		want            string
	}{
		{"settings.agent.update", `{"maxToken": 1}`, 400, "did you mean maxTokens?"},
		{"settings.agent.update", `null`, 400, "must be an object"},
		{"settings.agent.update", `[]`, 400, "must be an object"},
		{"settings.agent.update", `{"temperature": 9}`, 422, "between 0 and 2"},
		{"settings.agent.update", `{"modelPreset": "none"}`, 422, "modelPreset"},
		{"settings.model_configuration.create", `{"name": "fast", "settings": {"model": "x"}}`, 409, "already"},
		{"settings.model_configuration.create", `{"name": "a b", "settings": {"model": "x"}}`, 400, "cannot be a name"},
		{"settings.model_configuration.create", `{"name": "new", "settings": {"provider": "auto"}}`, 422, "model"},
		{"settings.model_configuration.create", `{"name": "new", "settings": {"model": "x"}, "more": 1}`, 400, "more"},
		{"settings.model_configuration.create", `{"name": "new"}`, 400, "settings must be an object"},
		{"settings.model_configuration.update", `{"name": "none", "settings": {"model": "x"}}`, 404, "none"},
		{"settings.model_configuration.delete", `{"name": "none"}`, 404, "none"},
		{"settings.model_configuration.delete", `{"name": "fast"}`, 422, "modelPresets"}, // in the call order
		{"settings.model_configuration.delete", `{"name": "fast", "settings": {}}`, 400, "name only"},
		{"settings.model_configuration.migrate", ``, 501, "nothing to migrate"},
		{"settings.model_call_order.update", `{"fallbacks": ["none"]}`, 422, "modelPresets"},
		{"settings.model_call_order.update", `{"fallbacks": "fast"}`, 400, "list"},
		{"settings.model_call_order.update", `{"preset": "none", "fallbacks": []}`, 404, "none"},
		{"settings.provider.update", `{"name": "nobody", "settings": {"apiKey": "x"}}`, 404, "nobody"},
		{"settings.provider.update", `{"name": "openai", "settings": null}`, 400, "settings must be"},
		{"settings.provider.update", `{"name": "mine", "settings": {"apiKeys": ["***", "new"]}}`, 422, "hidden value"},
		{"settings.provider.create", `{"name": "mine", "settings": {"apiBase": "http://h/v1"}}`, 409, "already"},
		{"settings.provider.create", `{"name": "openai", "settings": {"apiBase": "http://h/v1"}}`, 409, "already"},
		{"settings.provider.create", `{"name": "other", "settings": {"apiKey": "x"}}`, 422, "apiBase"},
		{"settings.network_safety.update", `{"web": {"enable": false}}`, 400, "cannot be changed by this action"},
		{"settings.network_safety.update", `{"exec": {"sandbox": "glass"}}`, 422, "must be one of"},
		{"settings.feature.enable", `{"name": "icq"}`, 404, "known channels"},
		{"settings.feature.enable", `{"name": "email"}`, 422, "channels.email"},
		{"settings.feature.disable", `{"name": "email"}`, 404, "not configured"},
		{"settings.channel.configure", `{"name": "party", "settings": {"allowFrm": ["ann"]}}`, 400, "allowFrom"},
		{"settings.channel.configure", `{"name": "telegram", "settings": {"enabled": true, "token": "${NO_SUCH_VARIABLE}"}}`, 422, "NO_SUCH_VARIABLE"},
		{"settings.channel.connect.start", `{"name": "telegram"}`, 501, "needs no login"},
		{"settings.channel.connect.poll", `{"name": "icq"}`, 404, "known channels"},
		{"settings.api_service.start", `{"settings": 1}`, 400, "settings must be"},
		{"settings.pairing.approve", `{"code": "ABCD-EFGH"}`, 404, "no open request"},
		{"settings.pairing.deny", `{"code": "x", "owner": true}`, 400, "approve"},
		{"settings.pairing.revoke", `{"sender_id": "nobody"}`, 404, "not let in"},
		{"settings.pairing.revoke", `{}`, 400, "sender_id"},
		{"settings.cli_app.install", `{}`, 501, "no CLI apps"},
		{"workspace.pick_folder", `{}`, 501, "type its path"},
	} {
		o.refused(c.action, c.payload, c.status, c.want)
	}
	if s := o.g.Status(); len(s.Problems) > 0 {
		t.Errorf("a refusal left %v", s.Problems)
	}
}

// Whoever else changes the file is not overwritten, and edits at the same time
// all arrive.
func TestSettingsSideBySide(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	o.configure(strings.Replace(settingsConfig, `"model": "m"`, `"model": "m", "botIcon": "!"`, 1))
	var all sync.WaitGroup
	for _, payload := range []string{`{"maxTokens": 11}`, `{"botName": "Eve"}`, `{"temperature": 1}`, `{"maxToolIterations": 5}`} {
		all.Go(func() { o.do("settings.agent.update", payload) })
	}
	all.Wait()
	for _, want := range []string{`"botIcon": "!"`, `"maxTokens": 11`, `"Eve"`, `"temperature": 1`, `"maxToolIterations": 5`} {
		if !strings.Contains(o.file(), want) {
			t.Errorf("%s is lost:\n%s", want, o.file())
		}
	}
	// Another program writes while we do.
	calls := 0
	api := gateway.SettingsAPI(t, o.g, func() {
		if calls++; calls == 1 {
			o.configure(strings.Replace(settingsConfig, `"model": "m"`, `"model": "m", "botIcon": "?"`, 1))
		}
	})
	_, _, err := api.Do(t.Context(), "settings.agent.update", json.RawMessage(`{"maxTokens": 12}`))
	o.must(err)
	if calls != 2 || !strings.Contains(o.file(), `"botIcon": "?"`) || !strings.Contains(o.file(), `"maxTokens": 12`) {
		t.Errorf("after %d tries:\n%s", calls, o.file())
	}
	o.configure(`{"agents": {`)
	o.refused("settings.agent.update", `{"maxTokens": 5}`, 409, "cannot be edited")
}

func TestSettingsRead(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	code, m, body := o.get("settings")
	if code != 200 || m["file"] != filepath.Join(o.dir, "config.json") || m["version"] != "test" {
		t.Errorf("settings: %d %v", code, m)
	}
	for _, secret := range []string{"sk-of-openai", "key-of-mine", "tok-of-files", "word-of-files", "env-of-files", "token-of-telegram"} {
		if strings.Contains(body, secret) {
			t.Errorf("%s is told", secret)
		}
	}
	for _, want := range []string{`"path":"providers.mine.apiBase"`, `"layer":"file"`, `"maxToolIterations":200`, `"name":"openrouter"`, `"apiKey":"***"`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for path, want := range map[string]string{
		"settings/api-service":                     `"enabled":true,"served":true,"key_required":false`,
		"settings/pairing":                         `{"approved":[],"pending":[]}`,
		"settings/version-check":                   `{"checked":false,"version":"test"}`,
		"settings/nanobot-features":                `{"name":"party","title":"Party","login":true,"logout":true,"configured":true,"enabled":true,"state":"running","identity":"guest",`,
		"settings/channel-schema?name=party":       `"ticket":{"type":["string","null"],"description":"What the door asks for."}`,
		"settings/channel-schema?name=icq":         `"status":404`,
		"settings/usage":                           `"days":[]`,
		"settings/cli-apps":                        `"status":501`,
		"settings/provider-models":                 `"status":400`,
		"settings/provider-models?provider=nobody": `"status":404`,
		"settings/provider-models?provider=mine":   `"status":502`,
	} {
		if _, _, body := o.get(path); !strings.Contains(body, want) {
			t.Errorf("%s = %s, want %s", path, body, want)
		}
	}
}

// What the environment says is stronger than the file, and a model that cannot
// be used is never put in place of one that can.
func TestSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	h.env = []string{"NANOBOT_AGENTS__DEFAULTS__BOT_NAME=Env"}
	h.configure(strings.Replace(settingsConfig, `"model": "m"`, `"model": "m", "provider": "mine"`, 1))
	h.start()
	o := office{h, gateway.SettingsAPI(t, h.g, nil)}
	o.refused("settings.agent.update", `{"provider": "anthropic", "model": "claude-x"}`, 422, "anthropic")
	o.refused("settings.provider.update", `{"name": "mine", "settings": {"apiBase": null, "wire": "none"}}`, 422, "wire")
	if got := o.do("settings.agent.update", `{"botName": "File", "botIcon": ""}`); !slices.Equal(texts(got["overridden"]), []string{"agents.defaults.botName: environment variable NANOBOT_AGENTS__DEFAULTS__BOT_NAME"}) {
		t.Errorf("overridden: %v", got)
	}
	if got := o.do("settings.channel.configure", `{"name": "party", "settings": {"owners": ["ann"]}}`); len(texts(got["restart_required"])) > 0 {
		t.Errorf("a channel: %v", got)
	}
	if s := h.g.Status(); len(s.Problems) > 0 || s.Model != "m" {
		t.Errorf("model %q, problems %v", s.Model, s.Problems)
	}
	h.must(h.end())
	o.refused("settings.agent.update", `{"botName": "Late"}`, 503, "not running")
}

func TestSettingsOfPeople(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	code := func() string {
		t.Helper()
		_, m, _ := o.get("settings/pairing")
		pending, _ := m["pending"].([]any)
		if len(pending) != 1 {
			t.Fatalf("pairing: %v", m)
		}
		if _, told := pending[0].(map[string]any)["code"]; told {
			t.Errorf("the list tells a code: %v", m)
		}
		return regexp.MustCompile(`[A-Z0-9]{4}-[A-Z0-9]{4}`).FindString(o.party.hear(t, "pairing approve").Text)
	}
	if o.party.write(t, "eve", "1", "hello") == nil {
		t.Fatal("a stranger was admitted")
	}
	if got := o.do("settings.pairing.deny", `{"code": "`+code()+`"}`); got["sender_id"] != "eve" {
		t.Errorf("deny: %v", got)
	}
	if o.party.write(t, "bob", "2", "hello") == nil {
		t.Fatal("a stranger was admitted")
	}
	o.do("settings.pairing.approve", `{"code": "`+code()+`", "owner": true}`)
	if _, _, body := o.get("settings/pairing"); body != `{"approved":[{"channel":"party","sender_id":"bob","owner":true}],"pending":[]}` {
		t.Errorf("approved: %s", body)
	}
	o.must(o.party.write(t, "bob", "3", "say #hello"))
	o.party.hear(t, "echo #hello")
	o.do("settings.pairing.revoke", `{"sender_id": "bob"}`)
	if o.party.write(t, "bob", "4", "hello") == nil {
		t.Error("bob is still let in")
	}
}

func TestSettingsOfChannels(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	before := o.file()
	for payload, want := range map[string]any{
		`{"name": "party"}`: nil,
		`{"name": "party", "settings": {"allowFrom": ["bob"], "groupPolicy": "open"}}`: nil,
		`{"name": "party", "settings": {"groupPolicy": "wild"}}`:                       `channels.party: groupPolicy: "wild" must be mention, open or allowlist`,
		`{"name": "telegram.work", "settings": {}}`:                                    "channels.telegram.work",
	} {
		got := o.do("settings.channel.validate", payload)
		text, _ := got["error"].(string)
		if want == nil && got["valid"] != true || want != nil && (got["valid"] != false || !strings.Contains(text, want.(string))) {
			t.Errorf("%s: %v", payload, got)
		}
	}
	if o.file() != before {
		t.Error("to validate changes the file")
	}
	o.do("settings.feature.disable", `{"name": "party"}`)
	if s := o.g.Status().Channels; s[0].Name != "party" || s[0].Enabled {
		t.Errorf("switched off: %+v", s)
	}
	o.do("settings.feature.enable", `{"name": "party"}`)
	<-o.party.joined
	o.do("settings.channel.configure", `{"name": "party", "settings": {"allowFrom": ["bob"]}}`)
	<-o.party.joined
	o.must(o.party.write(t, "bob", "1", "say #one"))
	o.party.hear(t, "echo #one")
	if got := o.do("settings.api_service.stop", `{}`); got["service"].(map[string]any)["served"] != false {
		t.Errorf("stopped: %v", got)
	}
	if got := o.do("settings.api_service.start", `{}`); got["service"].(map[string]any)["served"] != true {
		t.Errorf("started: %v", got)
	}
}

func TestSettingsUsage(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	now := time.Now().UTC()
	line := func(at time.Time, source, rest string) {
		t.Helper()
		path := filepath.Join(o.dir, "usage", at.Format("2006-01")+".jsonl")
		o.must(os.MkdirAll(filepath.Dir(path), 0o700))
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		o.must(err)
		_, err = f.WriteString(`{"time":"` + at.Format(time.RFC3339) + `","source":"` + source + `",` + rest + "}\n")
		o.must(errors.Join(err, f.Close()))
	}
	line(now.AddDate(0, 0, -500), "user", `"in":9000,"out":1,"billing":"free"`)
	line(now.AddDate(0, 0, -30), "cron", `"in":100,"out":10,"cached":60,"billing":"priced","usd":0.5,"model":"big","session":"cron:j1"`)
	line(now.AddDate(0, 0, -30), "user", `"in":50,"out":5,"billing":"unknown"`)
	line(now.AddDate(0, 0, -3), "user", `"in":1,"out":2,"billing":"free","estimated":true`)
	_, m, body := o.get("settings/usage")
	days, _ := m["days"].([]any)
	total, _ := m["total"].(map[string]any)
	if len(days) != 2 || total["total_tokens"] != 168.0 || total["requests"] != 3.0 || total["cost_usd"] != 0.5 || total["unpriced_requests"] != 1.0 {
		t.Fatalf("usage: %s", body)
	}
	first, _ := days[0].(map[string]any)
	cron, _ := first["sources"].(map[string]any)["cron"].(map[string]any)
	if first["prompt_tokens"] != 150.0 || first["cached_tokens"] != 60.0 || cron["completion_tokens"] != 10.0 || len(first["sources"].(map[string]any)) != 2 {
		t.Errorf("the first day: %v", first)
	}
	for query, want := range map[string]string{
		"by=model":         `[{"name":"big","prompt_tokens":100,`,
		"by=job":           `[{"name":"j1","prompt_tokens":100,`,
		"by=session":       `[{"name":"cron:j1",`,
		"by=source":        `[{"name":"cron",`,
		"by=provider":      `[{"name":"unknown",`,
		"by=hour":          `[{"name":"` + now.AddDate(0, 0, -3).Format("2006-01-02T15:00") + `",`,
		"by=model&days=10": `[{"name":"unknown","prompt_tokens":1,`,
	} {
		if _, _, body := o.get("settings/usage?" + query); !strings.Contains(body, `"groups":`+want) {
			t.Errorf("%s: %s, want %s", query, body, want)
		}
	}
	for _, query := range []string{"by=moon", "days=0", "days=401", "days=x"} {
		if code, _, body := o.get("settings/usage?" + query); code != 400 {
			t.Errorf("%s = %d %s", query, code, body)
		}
	}
}

func TestSettingsProviderModels(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key-of-mine" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"data": [{"id": "two", "context_length": 8000}, {"id": "one"}]}`))
	}))
	defer srv.Close()
	o := newOffice(t, echo(t))
	o.do("settings.provider.update", `{"name": "mine", "settings": {"apiBase": "`+srv.URL+`"}}`)
	if _, _, body := o.get("settings/provider-models?provider=mine"); !strings.Contains(body, `"models":[{"id":"one"},{"id":"two","context_window":8000}]`) {
		t.Errorf("models: %s", body)
	}
	o.do("settings.provider.update", `{"name": "mine", "settings": {"apiKey": "wrong-key-of-mine"}}`)
	if code, _, body := o.get("settings/provider-models?provider=mine"); code != 502 || strings.Contains(body, "wrong-key") {
		t.Errorf("refused: %s", body)
	}
	if code, _, body := o.get("settings/provider-models?provider=anthropic"); code != 409 {
		t.Errorf("no key: %d %s", code, body)
	}
}
