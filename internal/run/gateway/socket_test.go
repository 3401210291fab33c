package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// fetch gets a page of the gateway with a token.
func fetch(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// The newer protocol through the whole gateway: from the bootstrap over a goal
// that changes a file and sends it, to the API, and again after a restart.
func TestSocketOfTheNewerGeneration(t *testing.T) {
	t.Parallel()
	h := newHost(t, llmtest.NewScript(t,
		llmtest.Call("write_file", map[string]any{"path": "ship.txt", "content": "hull\n"}),
		llmtest.Call("message", map[string]any{"content": "here it is", "media": []string{"ship.txt"}}),
		llmtest.Call("update_goal", map[string]any{"action": "block", "recap": "no wood"}),
		llmtest.Reply("I wait for wood"),
	))
	h.configure(socketConfig)
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	awaitSocket(t, server.URL)

	code, body := fetch(t, server.URL+"/webui/bootstrap", "correct-token-of-the-socket")
	var b struct {
		APIToken     string          `json:"api_token"`
		Model        string          `json:"model_name"`
		Capabilities map[string]bool `json:"runtime_capabilities"`
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil || code != 200 || b.APIToken == "" || b.Model != "m" || !b.Capabilities["desk"] {
		t.Fatalf("bootstrap = %d %s", code, body)
	}
	s := connect(t, server.URL)
	s.say(`{"type":"message","chat_id":"yard","content":"/goal build a ship","turn_id":"1"}`)
	if g := fmt.Sprint(s.until("goal_state")["goal_state"]); !strings.Contains(g, "active:true") || !strings.Contains(g, "build a ship") {
		t.Errorf("goal = %s", g)
	}
	if e := fmt.Sprint(s.until("file_edit")["edits"]); !strings.Contains(e, "path:ship.txt") || !strings.Contains(e, "+hull") {
		t.Errorf("edits = %s", e)
	}
	var link string
	for link == "" {
		if list, ok := s.until("message")["media_urls"].([]any); ok {
			link, _ = list[0].(map[string]any)["url"].(string)
		}
	}
	if code, body := fetch(t, server.URL+link, ""); code != 200 || body != "hull\n" {
		t.Errorf("the file is %d %q", code, body)
	}
	if end := s.until("turn_end"); !strings.Contains(fmt.Sprint(end["goal_state"]), "blocked") {
		t.Errorf("end = %v", end)
	}
	if code, body := fetch(t, server.URL+"/metrics", ""); code != 200 || !strings.Contains(body, "nanobot_ws_clients 1\n") || !strings.Contains(body, `nanobot_outbound_retries_total{channel="websocket"} 0`) {
		t.Errorf("metrics = %d %s", code, body)
	}
	if code, body := fetch(t, server.URL+"/api/webui/sidebar-state", b.APIToken); code != 200 || body != "{}" {
		t.Errorf("sidebar = %d %s", code, body)
	}
	s.say(`{"type":"webui_request","request_id":"1","action":"sidebar.update","payload":{"state":{"pinned":["websocket:yard"]}}}`)
	if m := s.until("webui_response"); m["ok"] != true {
		t.Errorf("sidebar.update: %v", m)
	}
	if data, err := os.ReadFile(filepath.Join(h.dir, "webui", "sidebar-state.json")); err != nil || !strings.Contains(string(data), "yard") {
		t.Errorf("kept: %s, %v", data, err)
	}
	_ = s.conn.CloseNow()
	h.must(h.end())

	h.start()
	again := httptest.NewServer(h.g.Handler())
	defer again.Close()
	awaitSocket(t, again.URL)
	s = connect(t, again.URL)
	s.say(`{"type":"attach","chat_id":"yard"}`)
	if m := s.until("attached"); m["model_name"] != "m" {
		t.Errorf("attached = %v", m)
	}
	if g := fmt.Sprint(s.until("goal_state")["goal_state"]); !strings.Contains(g, "active:false") || !strings.Contains(g, "no wood") {
		t.Errorf("goal after a restart = %s", g)
	}
	h.configure(strings.Replace(socketConfig, `"model": "m"`, `"model": "m2"`, 1))
	h.must(h.g.Reload(t.Context()))
	if m := s.until("runtime_model_updated"); m["model_name"] != "m2" {
		t.Errorf("got %v", m)
	}
	if code, body := fetch(t, again.URL+link, ""); code != 200 || body != "hull\n" {
		t.Errorf("after a restart the file is %d %q", code, body)
	}
	_ = s.conn.CloseNow()
	h.must(h.end())
}
