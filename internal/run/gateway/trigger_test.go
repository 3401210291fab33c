package gateway_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// A program on another machine sets off a trigger over HTTP, and the answer goes
// to the chat.
func TestTriggerOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(strings.Replace(partyConfig, `{"agents"`, `{"api": {"apiKey": "0123456789abcdef"}, "agents"`, 1))
	dir := filepath.Join(h.dir, "workspace", "triggers")
	h.must(os.MkdirAll(dir, 0o700))
	h.must(os.WriteFile(filepath.Join(dir, "triggers.json"), []byte(`{"version": 1, "triggers": [
		{"id": "trg_AB23CD45", "name": "builds", "enabled": true, "channel": "party", "chatId": "ann", "sessionKey": "party:ann"},
		{"id": "trg_OFFOFFOF", "name": "off", "enabled": false, "channel": "party", "chatId": "ann", "sessionKey": "party:ann"}]}`), 0o600))
	h.start()
	<-h.party.joined
	signature := ""
	post := func(id, key, body string) (int, map[string]any) {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/triggers/"+id, strings.NewReader(body))
		r.Host, r.RemoteAddr = "localhost", "203.0.113.7:1234" // another machine
		r.Header.Set("Content-Type", "application/json")
		if signature != "" {
			r.Host = "hooks.example.org"
			r.Header.Set("X-Hub-Signature-256", "sha256="+signature)
		}
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		h.g.Handler().ServeHTTP(w, r)
		var v map[string]any
		h.must(json.Unmarshal(w.Body.Bytes(), &v))
		return w.Code, v
	}
	for _, tt := range []struct {
		id, key, body string
		want          int
	}{
		{"trg_AB23CD45", "", `{"message":"x"}`, 401},
		{"trg_ZZZZZZZZ", "0123456789abcdef", `{"message":"x"}`, 404},
		{"trg_OFFOFFOF", "0123456789abcdef", `{"message":"x"}`, 409},
		{"trg_AB23CD45", "0123456789abcdef", `{"message":"` + strings.Repeat("x", 300<<10) + `"}`, 413},
	} {
		if code, v := post(tt.id, tt.key, tt.body); code != tt.want || v["error"] == nil {
			t.Errorf("%s %s: %d %v, want %d", tt.id, tt.key, code, v, tt.want)
		}
	}
	code, v := post("trg_AB23CD45", "0123456789abcdef", `{"message":"see #one"}`)
	if id, _ := v["id"].(string); code != http.StatusAccepted || !strings.HasPrefix(id, "tdl_") {
		t.Fatalf("%d %v", code, v)
	}
	if out := h.party.hear(t, "echo #one"); out.Route.ChatID != "ann" {
		t.Errorf("the answer went to %+v", out.Route)
	}
	// Signed with the key of the trigger, without that of the API.
	loaded, err := config.Load(config.Options{Home: h.dir, Env: []string{"NANOBOT_HOME=" + h.dir}})
	h.must(err)
	secret, err := schedule.TriggerSecret(loaded.DataDir, "trg_AB23CD45")
	h.must(err)
	const body = `{"action": "see #two"}`
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	signature = hex.EncodeToString(mac.Sum(nil))
	if code, v := post("trg_OFFOFFOF", "", body); code != http.StatusUnauthorized {
		t.Errorf("the key of another trigger: %d %v", code, v)
	}
	if code, v := post("trg_AB23CD45", "", body); code != http.StatusAccepted {
		t.Errorf("signed: %d %v", code, v)
	}
	h.party.hear(t, "echo #two")
	h.must(h.end())
	inbox, err := filepath.Glob(filepath.Join(h.dir, "cron", "*", "triggers", "inbox", "*.json"))
	if err != nil || len(inbox) > 0 {
		t.Errorf("left in the inbox: %v, %v", inbox, err)
	}
}
