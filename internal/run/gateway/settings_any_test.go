package gateway_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/web"
)

// planted are the credentials of settingsConfig.
func planted() []string {
	return []string{"sk-of-openai", "key-of-mine", "tok-of-files", "word-of-files", "env-of-files", "token-of-telegram"}
}

// clean fails if a credential is told.
func (o office) clean(what, body string) {
	o.t.Helper()
	for _, secret := range planted() {
		if strings.Contains(body, secret) {
			o.t.Errorf("%s tells %s", what, secret)
		}
	}
}

// doErr carries out an action that must not work and returns the refusal.
func (o office) doErr(name, payload string) *web.Error {
	o.t.Helper()
	out, _, err := o.api.Do(o.t.Context(), name, json.RawMessage(payload))
	e, ok := errors.AsType[*web.Error](err)
	if !ok {
		o.t.Fatalf("%s %s = %s %v", name, payload, out, err)
	}
	b, err := json.Marshal(e)
	o.must(err)
	o.clean(name, string(b))
	return e
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAnySettingIsChanged(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	_, m, _ := o.get("settings")
	base, _ := m["base"].(string)
	if base == "" {
		t.Fatal("the settings have no version")
	}
	got := o.do("settings.check", `{"patch": {"agents.defaults.maxTokens": 77, "gateway.port": 1}}`)
	if got["valid"] != true || !slices.Equal(texts(got["changed"]), []string{"agents.defaults.maxTokens", "gateway.port"}) || !slices.Equal(texts(got["restart_required"]), []string{"gateway.port"}) {
		t.Errorf("check: %v", got)
	}
	for _, patch := range []string{`{"agents.defaults.temperature": 9}`, `{"agents.defaults.maxToken": 9}`, `{"channels": {"email": {"enabled": true}}}`} {
		got = o.do("settings.check", `{"patch": `+patch+`}`)
		issues, _ := got["issues"].([]any)
		if got["valid"] != false || len(issues) == 0 {
			t.Errorf("check of %s: %v", patch, got)
		}
	}
	if o.file() != settingsConfig {
		t.Error("a check changed the file")
	}
	got = o.do("settings.update", `{"patch": {"agents.defaults.maxTokens": 77, "providers": {"mine": {"apiKey": "***", "displayName": "Mine"}}}, "base": "`+base+`"}`)
	if !slices.Equal(texts(got["changed"]), []string{"agents.defaults.maxTokens", "providers.mine.displayName"}) || !strings.Contains(o.file(), "key-of-mine") || !strings.Contains(o.file(), "// kept") {
		t.Errorf("update: %v\n%s", got, o.file())
	}

	if _, m, _ := o.get("settings"); m["base"] != got["base"] {
		t.Errorf("the version is %v, the change says %v", m["base"], got["base"])
	}

	// Another page read the file before.
	before := o.file()
	e := o.doErr("settings.update", `{"patch": {"agents.defaults.maxTokens": 78, "providers.mine.apiKey": "key-of-mine-2"}, "base": "`+base+`"}`)
	if e.Status != http.StatusConflict || e.Code != "settings_stale" || o.file() != before {
		t.Errorf("a stale base: %+v", e)
	}
	if s := asJSON(t, e.Params["conflicts"]); !strings.Contains(s, `{"path":"agents.defaults.maxTokens","current":77,"yours":78}`) || !strings.Contains(s, `"current":"***","yours":"***"`) {
		t.Errorf("conflicts: %s", s)
	}
	version, _ := e.Params["version"].(string)
	o.do("settings.update", `{"patch": {"agents.defaults.maxTokens": 78}, "base": "`+version+`"}`)
	// What is there already is no conflict.
	o.do("settings.update", `{"patch": {"agents.defaults.maxTokens": 78}, "base": "`+base+`"}`)

	for _, c := range []struct {
		payload string
		status  int
		want    string
	}{
		{`{"patch": null}`, 400, "must be an object"},
		{`{"patch": {"a..b": 1}}`, 400, "empty part"},
		{`{"patch": {"agents": {"defaults": {}}, "agents.defaults.model": "x"}}`, 400, "changed twice"},
		{`{"patch": {"agents.defaults.maxToken": 1}}`, 400, "did you mean maxTokens?"},
		{`{"patch": {"agents.defaults.temperature": 9}}`, 422, "between 0 and 2"},
		{`{"patch": {"channels.telegram": {"enabled": true, "token": "x", "allowFrm": []}}}`, 400, "allowFrom"},
	} {
		o.refused("settings.update", c.payload, c.status, c.want)
	}
	if e := o.doErr("settings.update", `{"patch": {"agents.defaults.temperature": 9}}`); !strings.Contains(asJSON(t, e.Params["issues"]), `"path":"agents.defaults.temperature"`) {
		t.Errorf("issues: %+v", e)
	}
}

func TestRawText(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	code, m, body := o.get("settings/raw")
	shown, _ := m["text"].(string)
	base, _ := m["base"].(string)
	o.clean("settings/raw", body)
	if code != 200 || !strings.Contains(shown, "// kept") || !strings.Contains(shown, `"apiKey": "***"`) {
		t.Fatalf("raw: %d %s", code, body)
	}
	update := func(text, base string) string { return asJSON(t, map[string]string{"text": text, "base": base}) }

	got := o.do("settings.raw.update", update(strings.Replace(shown, `"model": "m"`, `"model": "n"`, 1), base))
	if !slices.Equal(texts(got["changed"]), []string{"agents.defaults"}) || o.file() != strings.Replace(settingsConfig, `"model": "m"`, `"model": "n"`, 1) {
		t.Errorf("update: %v\n%s", got, o.file())
	}
	before := o.file()
	if e := o.doErr("settings.raw.update", update(shown, base)); e.Code != "settings_stale" {
		t.Errorf("a stale base: %+v", e)
	}
	_, m, _ = o.get("settings/raw")
	shown, _ = m["text"].(string)
	base, _ = m["base"].(string)
	for text, line := range map[string]string{
		strings.Replace(shown, `"modelPresets"`, `"modelPresets" "oops"`, 1): `"line":5`,
		strings.Replace(shown, `"port": 0`, `"port": "key-of-mine"`, 1):      `"line":4`,
		strings.Replace(shown, `"model": "n"`, `"model": "***"`, 1):          `"line":3`,
	} {
		if e := o.doErr("settings.raw.update", update(text, base)); e.Status != 422 || e.Code != "settings_invalid" || !strings.Contains(asJSON(t, e.Params["issues"]), line) {
			t.Errorf("want %s: %+v", line, e)
		}
	}
	if o.file() != before {
		t.Errorf("a refused text was written:\n%s", o.file())
	}
	// A comment alone is a change of the file, and of no setting.
	got = o.do("settings.raw.update", update(strings.Replace(shown, "// kept", "// noted", 1), base))
	if len(texts(got["changed"])) != 0 || !strings.Contains(o.file(), "// noted") {
		t.Errorf("a comment: %v\n%s", got, o.file())
	}
	o.configure(`{"agents": {"x": "key-of-mine`)
	_, _, body = o.get("settings/raw")
	o.clean("a broken file", body)
	if !strings.Contains(body, `"settings_invalid"`) {
		t.Errorf("a broken file: %s", body)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	o.do("settings.update", `{"patch": {"agents.defaults.botName": "Ada"}}`)
	o.do("settings.update", `{"patch": {"providers.mine.apiKey": "key-of-mine-2"}}`)
	o.do("settings.update", `{"patch": {"agents.defaults.botName": "Eve"}}`)
	_, m, body := o.get("settings/versions")
	o.clean("settings/versions", body)
	list, _ := m["versions"].([]any)
	ids, changed := []string{}, ""
	for _, v := range list {
		state, _ := v.(map[string]any)
		id, _ := state["id"].(string)
		ids = append(ids, id)
		changed += " " + strings.Join(texts(state["changed"]), ",")
	}
	if len(ids) != 4 || ids[0] != "current" || changed != " agents.defaults providers.mine agents.defaults " {
		t.Fatalf("versions: %q %s", changed, body)
	}
	_, m, body = o.get("settings/versions?limit=2")
	cursor, _ := m["cursor"].(string)
	if _, m, _ := o.get("settings/versions?cursor=" + cursor); cursor == "" || len(m["versions"].([]any)) != 2 {
		t.Errorf("pages: %s", body)
	}
	for path, want := range map[string]string{
		"settings/versions?cursor=x":                                 `"status":400`,
		"settings/diff?version=" + ids[1]:                            `-  \"agents\": {\"defaults\": {\"model\": \"m\", \"fallbackModels\": [\"fast\"], \"botName\": \"Ada\"}}`,
		"settings/diff?version=" + ids[2] + "&to=" + ids[1]:          `"hidden":true`,
		"settings/diff?version=none":                                 `"status":404`,
		"settings/diff?version=" + url.QueryEscape("../config.json"): `"status":404`,
		"settings/raw?version=" + ids[3]:                             `"text":"{\n  // kept`,
	} {
		_, _, body := o.get(path)
		o.clean(path, body)
		if !strings.Contains(body, want) {
			t.Errorf("%s = %s, want %s", path, body, want)
		}
	}
	got := o.do("settings.restore", `{"version": "`+ids[3]+`"}`)
	if o.file() != settingsConfig || len(texts(got["changed"])) != 2 {
		t.Errorf("restored: %v\n%s", got, o.file())
	}
	// The version that was replaced is one now.
	if _, _, body := o.get("settings/diff?version=" + ids[3]); !strings.Contains(body, `"diff":""`) || !strings.Contains(body, `"hidden":false`) {
		t.Errorf("after a restore: %s", body)
	}
	o.refused("settings.restore", `{"version": "none"}`, 404, "no such version")
	o.refused("settings.restore", `{"version": "`+ids[3]+`", "base": "0123"}`, 409, "has changed")
}

func TestSchemaForClients(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	_, _, body := o.get("settings/schema")
	for _, want := range []string{`"x-restart":true`, `"x-danger":true`, `"x-unit":"s"`, `"writeOnly":true`, `"telegram":{`, `"ticket"`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// A provider, a key and a model are tried without saving them, and nothing of
// the key comes back.
func TestSetup(t *testing.T) {
	t.Parallel()
	const key = "key-that-is-tried-0123456789"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error": {"message": "wrong key: ` + r.Header.Get("Authorization") + `"}}`))
			return
		}
		if strings.HasSuffix(r.URL.Path, "/models") {
			_, _ = w.Write([]byte(`{"data": [{"id": "small"}, {"id": "big", "context_length": 1000}]}`))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"choices\": [{\"delta\": {\"content\": \"1 2 3\"}, \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n"))
	}))
	t.Cleanup(server.Close)
	h := newHost(t, nil)
	h.env = []string{"ANTHROPIC_API_KEY=key-of-mine-in-the-environment", "HOME=" + t.TempDir(), "OLLAMA_HOST=127.0.0.1:1"}
	h.configure(strings.Replace(settingsConfig, `"model": "m"`, `"model": "m", "provider": "mine"`, 1))
	h.start()
	t.Cleanup(func() { h.must(h.end()) })
	o := office{h, gateway.SettingsAPI(t, h.g, nil)}

	_, _, body := o.get("setup")
	o.clean("setup", body)
	for _, want := range []string{`"variable":"ANTHROPIC_API_KEY"`, `"name":"openai","display":"OpenAI","kind":"file"`, `"keys_url":"https://openrouter.ai/keys"`, `"daily_usd":5`, `"demo":false`, `"missing":[]`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing in %s", want, body)
		}
	}
	before := o.file()
	try := func(key, model string) map[string]any {
		t.Helper()
		got := o.do("setup.try", asJSON(t, map[string]string{"provider": "custom", "base": server.URL + "/v1", "key": key, "model": model}))
		if strings.Contains(asJSON(t, got), key) {
			t.Errorf("the key comes back: %v", got)
		}
		return got
	}
	if got := try(key, ""); got["ok"] != true || !strings.Contains(asJSON(t, got["models"]), `{"context_window":1000,"id":"big"}`) {
		t.Errorf("list: %v", got)
	}
	if got := try(key, "big"); got["ok"] != true || got["status"] != "ok" {
		t.Errorf("answer: %v", got)
	}
	if got := try("key-that-is-wrong-9876543210", ""); got["ok"] != false || got["status"] != "auth" || got["hint"] == "" {
		t.Errorf("a wrong key: %v", got)
	}
	if o.file() != before {
		t.Errorf("a trial was saved:\n%s", o.file())
	}
	o.refused("setup.try", `{"provider": "nobody"}`, 404, "nobody")
}
