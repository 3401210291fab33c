package gateway_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// does carries out an action of a page and returns the response.
func (s socket) does(id, action, payload string) map[string]any {
	s.t.Helper()
	s.say(fmt.Sprintf(`{"type":"webui_request","request_id":%q,"action":%q,"payload":%s}`, id, action, payload))
	for {
		if m := s.until("webui_response"); m["request_id"] == id {
			return m
		}
	}
}

// An address of a download is good once, for a signed-in browser and for our own
// pages.
func TestPagesDownload(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(pagesConfig)
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	b := &browser{t: t, url: server.URL + "/a/b/", origin: server.URL}
	b.signIn(gateway.PageLink(h.g))
	s, _, err := b.dial()
	if err != nil {
		t.Fatal(err)
	}
	s.until("ready")
	promise := func(id, read string) (url string, refused any) {
		m := s.does(id, "download.create", `{"read":`+strconv.Quote(read)+`}`)
		data, _ := m["result"].(map[string]any)
		url, _ = data["url"].(string)
		return url, m["error"]
	}
	for _, read := range []string{"", "../webui/state", "sessions/../../x"} {
		if url, refused := promise("bad", read); refused == nil {
			t.Errorf("%q is promised as %s", read, url)
		}
	}
	follow := func(path string, header http.Header) (int, string) {
		asked := http.Header{"X-Nanobot-Page": nil, "Origin": nil}
		maps.Copy(asked, header)
		code, got, _ := b.do(http.MethodGet, path, "", asked)
		return code, got.Get("Content-Disposition")
	}
	url, refused := promise("one", "doctor")
	if refused != nil {
		t.Fatal(refused)
	}
	for name, header := range map[string]http.Header{"without a session": {"Cookie": nil}, "of a foreign page": {"Sec-Fetch-Site": {"cross-site"}}} {
		if code, _ := follow(url, header); code != http.StatusUnauthorized && code != http.StatusForbidden {
			t.Errorf("a request %s = %d", name, code)
		}
	}
	if code, as := follow(url, nil); code != http.StatusOK || !strings.HasPrefix(as, "attachment") {
		t.Errorf("download = %d %q", code, as)
	}
	for _, path := range []string{url, url[:len(url)-1]} {
		if code, _ := follow(path, nil); code != http.StatusNotFound {
			t.Errorf("%s again = %d", path, code)
		}
	}
	h.must(h.end())
}

// A device that asks is told to every page at once; one page lets it in and
// signs it out again.
func TestPagesManageDevices(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(pagesConfig)
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	b := &browser{t: t, url: server.URL + "/a/b/", origin: server.URL}
	b.signIn(gateway.PageLink(h.g))
	s, _, err := b.dial()
	if err != nil {
		t.Fatal(err)
	}
	s.until("ready")
	s.say(`{"type":"subscribe","topics":["devices"]}`)
	s.until("subscribed")

	phone := &browser{t: t, url: b.url, origin: b.origin}
	_, _, body := phone.do(http.MethodPost, "webui/login", `{"device":true}`, nil)
	var asked struct{ Digits, Poll string }
	h.must(json.Unmarshal([]byte(body), &asked))
	if m := s.until("changed"); m["topic"] != "devices" {
		t.Errorf("told %v", m)
	}
	if _, _, body := b.do(http.MethodGet, "api/devices", "", nil); !strings.Contains(body, asked.Digits) {
		t.Errorf("devices: %s", body)
	}
	if m := s.does("1", "device.approve", `{"digits":"`+asked.Digits+`"}`); m["ok"] != true {
		t.Fatalf("approve: %v", m)
	}
	if _, _, body := phone.do(http.MethodPost, "webui/login", `{"poll":"`+asked.Poll+`"}`, nil); !strings.Contains(body, `"in"`) {
		t.Fatalf("poll: %s", body)
	}
	var state struct{ Device struct{ ID string } }
	_, _, body = phone.do(http.MethodGet, "webui/state", "", nil)
	h.must(json.Unmarshal([]byte(body), &state))
	p, _, err := phone.dial()
	if err != nil {
		t.Fatal(err)
	}
	p.until("ready")
	if m := s.does("2", "device.revoke", `{"id":"`+state.Device.ID+`"}`); m["ok"] != true {
		t.Errorf("revoke: %v", m)
	}
	for err = nil; err == nil; {
		_, _, err = p.conn.Read(t.Context())
	}
	if code, _, _ := phone.do(http.MethodGet, "api/devices", "", nil); code != http.StatusUnauthorized {
		t.Errorf("a revoked device reads: %d", code)
	}
	if m := s.does("3", "device.link", `{"base":"`+server.URL+`/"}`); !strings.Contains(fmt.Sprint(m["error"]), "base_local") {
		t.Errorf("a link for this machine: %v", m)
	}
	h.must(h.end())
}

// What the pages about the gateway read, and the files of an installed page.
func TestPagesOperate(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(pagesConfig)
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	b := &browser{t: t, url: server.URL + "/a/b/", origin: server.URL}
	for _, path := range []string{"api/status", "api/log", "api/doctor", "api/devices", "api/backup", "api/push"} {
		if code, _, _ := b.do(http.MethodGet, path, "", nil); code != http.StatusUnauthorized {
			t.Errorf("%s without a session = %d", path, code)
		}
	}
	for path, kind := range map[string]string{"sw.js": "text/javascript", "manifest.webmanifest": "application/manifest+json"} {
		code, header, body := b.do(http.MethodGet, path, "", http.Header{"X-Nanobot-Page": nil})
		if code != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), kind) || header.Get("Cache-Control") != "no-cache" || strings.Contains(body, "BUILD") || !strings.Contains(body, "assets/") {
			t.Errorf("%s = %d %v", path, code, header)
		}
	}
	b.signIn(gateway.PageLink(h.g))
	for path, want := range map[string]string{
		"api/status": `"version":"test"`, "api/log?level=error": `"lines":[]`, "api/doctor": `"running":false`, "api/push": `"enabled":true`,
	} {
		if code, _, body := b.do(http.MethodGet, path, "", nil); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s = %d %s", path, code, body)
		}
	}
	if code, header, body := b.do(http.MethodGet, "api/backup", "", nil); code != http.StatusOK || !strings.HasPrefix(body, "\x1f\x8b") || !strings.Contains(header.Get("Content-Disposition"), "nanobot-backup-") {
		t.Errorf("backup = %d %v", code, header)
	}
	if left, _ := filepath.Glob(filepath.Join(h.dir, "run", "backup-*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if info, err := os.Stat(filepath.Join(h.dir, "webui", "push.json")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("push.json: %v %v", info, err)
	}
	h.must(h.end())
}

// A turn that waits for an answer notifies devices; the message has no content.
func TestQuestionIsPushed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for a POSIX shell")
	}
	h := newHost(t, llmtest.NewScript(t, llmtest.Call("exec", map[string]any{"command": "touch first"}), llmtest.Reply("done")))
	h.configure(strings.Replace(askConfig, `"channels": {"websocket": {"enabled": true, SOCKET}}`, `"channels": {}`, 1))
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	pushed := make(chan int64, 8)
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pushed <- r.ContentLength
		w.WriteHeader(http.StatusCreated)
	}))
	defer service.Close()
	gateway.PushTo(h.g, service.Client())

	b := &browser{t: t, url: server.URL + "/", origin: server.URL}
	b.signIn(gateway.PageLink(h.g))
	s, _, err := b.dial()
	if err != nil {
		t.Fatal(err)
	}
	s.until("ready")
	var state struct{ Device struct{ ID string } }
	_, _, body := b.do(http.MethodGet, "webui/state", "", nil)
	h.must(json.Unmarshal([]byte(body), &state))
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	h.must(err)
	if m := s.does("1", "push.subscribe", fmt.Sprintf(`{"device":%q,"endpoint":%q,"p256dh":%q,"auth":"AAAAAAAAAAAAAAAAAAAAAA"}`, state.Device.ID, service.URL+"/1", base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()))); m["ok"] != true {
		t.Fatalf("subscribe: %v", m)
	}
	s.say(`{"type":"message","chat_id":"yard","content":"go","turn_id":"1"}`)
	if n := <-pushed; n != 86+int64(len(`{"kind":"question"}`))+1+16 {
		t.Errorf("a message of %d bytes", n)
	}
	var id string
	for id == "" {
		if q, ok := s.until("message")["question"].(map[string]any); ok {
			id, _ = q["id"].(string)
		}
	}
	s.say(`{"type":"answer","chat_id":"yard","question_id":"` + id + `","option":"yes"}`)
	s.until("turn_end")
	h.must(h.end())
}
