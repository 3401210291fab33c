package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// Who changes the token of the socket that they use gets an answer, and comes
// back with the new one.
func TestSettingsOfTheSocket(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(strings.Replace(socketConfig, `"heartbeat"`, `"reload": {"enabled": false}, "heartbeat"`, 1))
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	dial := func(token string) (*websocket.Conn, int) {
		for { // the channel starts beside the rest
			conn, resp, err := websocket.Dial(t.Context(), server.URL+"/?token="+token, nil) //nolint:bodyclose // closed by Dial
			if err == nil {
				return conn, http.StatusSwitchingProtocols
			}
			if resp == nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusNotFound {
				return nil, resp.StatusCode
			}
		}
	}
	conn, code := dial("correct-token-of-the-socket")
	if conn == nil {
		t.Fatalf("status %d", code)
	}
	defer conn.CloseNow() // closed by the server
	s := socket{t, conn}
	s.until("ready")
	ask := func(id, action, payload string) map[string]any {
		t.Helper()
		s.say(`{"type":"webui_request","request_id":"` + id + `","action":"` + action + `","payload":` + payload + `}`)
		m := s.until("webui_response")
		if m["ok"] != true {
			t.Fatalf("%s: %v", action, m)
		}
		result, _ := m["result"].(map[string]any)
		return result
	}
	if got := ask("1", "settings.agent.update", `{"maxToolIterations": 9}`); got["reconnect"] != nil || len(texts(got["changed"])) != 1 {
		t.Errorf("another setting: %v", got)
	}
	for id, settings := range []string{`{"allowFrom": []}`, `{"token": null}`, `{"token": "", "websocketRequiresToken": false}`} {
		s.say(fmt.Sprintf(`{"type":"webui_request","request_id":"no%d","action":"settings.channel.configure","payload":{"name": "websocket", "settings": %s}}`, id, settings))
		if m := s.until("webui_response"); m["ok"] != false || !strings.Contains(fmt.Sprint(m["error"]), "no client could") {
			t.Errorf("%s locks the owner out: %v", settings, m)
		}
	}
	if got := ask("2", "settings.channel.configure", `{"name": "websocket", "settings": {"token": "another-token-of-the-socket"}}`); got["reconnect"] != true || got["note"] == "" {
		t.Errorf("the token: %v", got)
	}
	for { // until it is cut off
		if _, _, err := conn.Read(t.Context()); err != nil {
			break
		}
	}
	if conn, code := dial("correct-token-of-the-socket"); conn != nil || code != http.StatusUnauthorized {
		t.Errorf("the old token: status %d", code)
	}
	again, code := dial("another-token-of-the-socket")
	if again == nil {
		t.Fatalf("the new token: status %d", code)
	}
	_ = again.CloseNow()

	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/webui/bootstrap", nil)
	req.Header.Set("Authorization", "Bearer another-token-of-the-socket")
	w := httptest.NewRecorder()
	h.g.Handler().ServeHTTP(w, req)
	var b struct {
		Token string `json:"api_token"`
	}
	h.must(json.Unmarshal(w.Body.Bytes(), &b))
	req = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/settings", nil)
	req.Header.Set("Authorization", "Bearer "+b.Token)
	w = httptest.NewRecorder()
	h.g.Handler().ServeHTTP(w, req)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"maxToolIterations":9`) || strings.Contains(w.Body.String(), "another-token") {
		t.Errorf("settings: %d %s", w.Code, w.Body)
	}
	h.must(h.end())
}
