package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool/mcptest"
)

func TestMCPSettings(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	address := mcptest.Server(t, false)
	o.do("settings.mcp.custom", `{"name": "web", "settings": {"url": "`+address+`", "headers": {"X-Key": "key-of-web"}, "toolTimeout": 5}}`)
	if got := o.do("settings.mcp.test", `{"name": "web"}`); got["ok"] != true || len(got["tools"].([]any)) != 2 {
		t.Errorf("test: %v", got)
	}
	if got := o.do("settings.mcp.test", `{"name": "files"}`); got["ok"] != false || !strings.Contains(got["error"].(string), "not in PATH") || got["target"] != "no-such-program-of-ours" {
		t.Errorf("test of one that is missing: %v", got)
	}
	if got := o.do("settings.mcp.tools", `{"name": "web"}`); len(got["tools"].([]any)) != 2 || texts(got["enabled_tools"])[0] != "*" {
		t.Errorf("tools: %v", got)
	}
	o.do("settings.mcp.tools", `{"name": "web", "enabled_tools": ["look"]}`)
	o.do("settings.mcp.reconnect", `{"name": "web"}`)

	// A turn starts the servers; from then on they are told by name.
	o.must(o.party.write(t, "ann", "1", "say #one"))
	o.party.hear(t, "echo #one")
	var body string
	for end := time.Now().Add(10 * time.Minute); !strings.Contains(body, `"state":"ready"`) && time.Now().Before(end); {
		_, _, body = o.get("settings/mcp-presets") // a turn waits three seconds at most
	}
	for _, want := range []string{`"name":"web"`, `"state":"ready"`, `"tool_names":["look"]`, `"name":"files"`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing in %s", want, body)
		}
	}
	for _, secret := range []string{"key-of-web", "tok-of-files", "word-of-files", "env-of-files"} {
		if strings.Contains(body, secret) {
			t.Errorf("%s is told", secret)
		}
	}

	// The owner accepts the definitions that were shown, and no others.
	shown := o.do("settings.mcp.test", `{"name": "web"}`)
	o.refused("settings.mcp.accept", `{"name": "web"}`, 400, "digest")
	o.refused("settings.mcp.accept", `{"name": "web", "digest": "0123"}`, 409, "look at them again")
	if !strings.Contains(body, `"unaccepted":1`) {
		t.Errorf("before it was accepted: %s", body)
	}
	if got := o.do("settings.mcp.accept", `{"name": "web", "digest": "`+shown["digest"].(string)+`"}`); got["accepted"] != 1.0 {
		t.Errorf("accept: %v", got)
	}
	for end := time.Now().Add(10 * time.Minute); !strings.Contains(body, `"unaccepted":0,"since"`); _, _, body = o.get("settings/mcp-presets") {
		if time.Now().After(end) {
			t.Fatalf("after it was accepted: %s", body)
		}
	}
	if _, _, body := o.get("settings/mcp-log?name=web"); !strings.Contains(body, `"name":"web"`) {
		t.Errorf("log: %s", body)
	}

	// To replace leaves nothing but what is hidden and repeated.
	o.do("settings.mcp.custom", `{"name": "web", "replace": true, "settings": {"url": "`+address+`", "headers": {"X-Key": "***", "X-More": "1"}}}`)
	if text := o.file(); !strings.Contains(text, "key-of-web") || strings.Contains(text, "toolTimeout") || strings.Contains(text, "enabledTools") {
		t.Errorf("replaced:\n%s", text)
	}
	o.do("settings.mcp.disable", `{"name": "web"}`)
	if _, _, body := o.get("settings/mcp-presets"); !strings.Contains(body, `"state":"disabled"`) {
		t.Errorf("disabled: %s", body)
	}
	o.refused("settings.mcp.reconnect", `{"name": "web"}`, 409, "switched off")
	o.do("settings.mcp.enable", `{"name": "web"}`)
	if got := o.do("settings.mcp.remove", `{"name": "web"}`); got["login_forgotten"] != false || strings.Contains(o.file(), "key-of-web") {
		t.Errorf("removed: %v\n%s", got, o.file())
	}

	got := o.do("settings.mcp.import", `{"mcpServers": {"a": {"command": "x", "odd": 1}, "files": {"command": "y"}, "b c": {"command": "z"}, "d": {}}}`)
	if !slices.Equal(texts(got["imported"]), []string{"a"}) || len(got["skipped"].([]any)) != 3 {
		t.Errorf("import: %v", got)
	}
	link := "cursor://anysphere.cursor-deeplink/mcp/install?name=cur&config=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(`{"command":"npx -y thing"}`)))
	o.do("settings.mcp.import_cursor", `{"link": "`+link+`"}`)
	if !strings.Contains(strings.Join(strings.Fields(o.file()), ""), `"cur":{"args":["-y","thing"],"command":"npx"}`) {
		t.Errorf("from a link:\n%s", o.file())
	}
	for _, c := range []struct {
		action, payload string
		status          int
		want            string
	}{
		{"settings.mcp.custom", `{"name": "files", "settings": {"command": "x"}}`, 409, "already"},
		{"settings.mcp.custom", `{"name": "new", "settings": {"comand": "x"}}`, 422, "neither a command nor a url"},
		{"settings.mcp.custom", `{"name": "new", "settings": {"command": "x", "argz": []}}`, 400, "did you mean args?"},
		{"settings.mcp.custom", `{"name": "new", "settings": {"command": "x", "env": {"A": "${NO_SUCH_VARIABLE}"}}}`, 422, "NO_SUCH_VARIABLE"},
		{"settings.mcp.custom", `{"name": "a.b", "settings": {"command": "x"}}`, 400, "cannot be a name"},
		{"settings.mcp.custom", `{"name": "new"}`, 400, "settings must be"},
		{"settings.mcp.enable", `{"name": "none"}`, 404, "none"},
		{"settings.mcp.remove", `{"name": "none"}`, 404, "none"},
		{"settings.mcp.test", `{"name": "none"}`, 404, "none"},
		{"settings.mcp.tools", `{"name": "files"}`, 502, "not in PATH"},
		{"settings.mcp.tools", `{"name": "none", "enabled_tools": []}`, 404, "none"},
		{"settings.mcp.reconnect", `{"name": "none"}`, 404, "none"},
		{"settings.mcp.import", `{}`, 400, "mcpServers"},
		{"settings.mcp.import_cursor", `{"link": "cursor://x?name=y"}`, 400, "link must be"},
		{"settings.mcp.oauth_start", `{"name": "files"}`, 409, "keys in its env"},
		{"settings.mcp.oauth_start", `{"name": "none"}`, 404, "none"},
		{"settings.mcp.oauth_complete", `{"name": "files"}`, 404, "no login is under way"},
		{"settings.mcp.oauth_cancel", `{"name": "files"}`, 404, "under way"},
	} {
		o.refused(c.action, c.payload, c.status, c.want)
	}
}

func TestMCPLoginInTheBrowser(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	o.do("settings.mcp.custom", `{"name": "locked", "settings": {"url": "`+mcptest.Server(t, true)+`"}}`)
	first := o.do("settings.mcp.oauth_start", `{"name": "locked"}`)
	if address, _ := first["url"].(string); first["state"] != "waiting" || first["paste"] != true || !strings.Contains(address, "/authorize?") {
		t.Fatalf("start: %v", first)
	}
	if _, _, body := o.get("settings/mcp-oauth/status?name=locked"); !strings.Contains(body, `"logged_in":false`) || !strings.Contains(body, `"pending":{"state":"waiting"`) {
		t.Errorf("pending: %s", body)
	}
	if got := o.do("settings.mcp.oauth_complete", `{"name": "locked", "pasted": "http://127.0.0.1/?state=wrong&code=1"}`); got["state"] != "waiting" || got["note"] == nil {
		t.Errorf("a useless address: %v", got)
	}
	o.do("settings.mcp.oauth_cancel", `{"name": "locked"}`)
	second := o.do("settings.mcp.oauth_start", `{"name": "locked"}`)
	mcptest.Browse(t, second["url"].(string))
	if got := o.do("settings.mcp.oauth_complete", `{"name": "locked"}`); got["state"] != "done" {
		t.Errorf("complete: %v", got)
	}
	_, _, body := o.get("settings/mcp-oauth/status")
	if !strings.Contains(body, `"logged_in":true`) || strings.Contains(body, mcptest.Token) {
		t.Errorf("logged in: %s", body)
	}
	if !strings.Contains(o.file(), `"auth": "oauth"`) {
		t.Errorf("the login is not used:\n%s", o.file())
	}
	if got := o.do("settings.mcp.test", `{"name": "locked"}`); got["ok"] != true {
		t.Errorf("test: %v", got)
	}
	if got := o.do("settings.mcp.remove", `{"name": "locked"}`); got["login_forgotten"] != true {
		t.Errorf("remove: %v", got)
	}
	if code, _, body := o.get("settings/mcp-oauth/status?name=locked"); code != 404 {
		t.Errorf("removed: %d %s", code, body)
	}
}

func TestSignInAtAProvider(t *testing.T) {
	t.Parallel()
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/oauth/token" || r.FormValue("code") != "pasted-code" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		account := base64.RawURLEncoding.EncodeToString([]byte(`{"https://api.openai.com/auth":{"chatgpt_account_id":"acc"}}`))
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "e30." + account + ".x", "refresh_token": "r", "expires_in": 3600})
	}))
	defer issuer.Close()
	o := newOffice(t, echo(t), "NANOBOT_OPENAI_CODEX_AUTH_URL="+issuer.URL, "NANOBOT_OPENAI_CODEX_CALLBACK_PORT=0", "NANOBOT_NO_KEYRING=1")
	if got := o.do("settings.provider.oauth_login", `{"provider": "openai_codex"}`); got["paste"] != true || !strings.HasPrefix(got["url"].(string), issuer.URL+"/oauth/authorize?") {
		t.Fatalf("login: %v", got)
	}
	if got := o.do("settings.provider.oauth_complete", `{"provider": "openai-codex", "pasted": "pasted-code"}`); got["state"] != "done" {
		t.Errorf("complete: %v", got)
	}
	if _, _, body := o.get("settings"); !strings.Contains(body, `"name":"openai_codex","problem":"","signed_in":true`) {
		t.Errorf("settings: %s", body)
	}
	if got := o.do("settings.provider.oauth_logout", `{"provider": "openai_codex"}`); got["signed_out"] != true {
		t.Errorf("logout: %v", got)
	}
	o.do("settings.provider.oauth_login", `{"provider": "openai_codex"}`)
	o.refused("settings.provider.oauth_complete", `{"provider": "openai_codex", "pasted": "wrong-code"}`, 502, "not accepted")
	o.refused("settings.provider.oauth_complete", `{"provider": "openai_codex"}`, 404, "under way")
	o.refused("settings.provider.oauth_login", `{"provider": "anthropic"}`, 409, "has keys")
	o.refused("settings.provider.oauth_login", `{"provider": "nobody"}`, 404, "nobody")
	o.refused("settings.provider.oauth_logout", `{"name": "nobody"}`, 400, "name")
}
