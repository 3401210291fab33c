package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// browser is a page of the gateway in a browser.
type browser struct {
	t      *testing.T
	url    string // of the document
	origin string
	cookie string
}

func (b *browser) do(method, path, body string, header http.Header) (int, http.Header, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header = http.Header{"X-Nanobot-Page": {"1"}, "Origin": {b.origin}, "Content-Type": {"application/json"}}
	if b.cookie != "" {
		req.Header.Set("Cookie", b.cookie)
	}
	maps.Copy(req.Header, header)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		b.cookie = c.Name + "=" + c.Value
	}
	return resp.StatusCode, resp.Header, string(data)
}

// signIn uses a link.
func (b *browser) signIn(link string) {
	b.t.Helper()
	if code, _, body := b.do(http.MethodPost, "webui/login", `{"code":"`+link+`"}`, nil); code != http.StatusOK {
		b.t.Fatalf("login = %d %s", code, body)
	}
}

// page is a browser that is signed in, and its socket.
func (h *host) page() (*browser, socket) {
	h.t.Helper()
	server := httptest.NewServer(h.g.Handler())
	h.t.Cleanup(server.Close)
	b := &browser{t: h.t, url: server.URL + "/", origin: server.URL}
	b.signIn(gateway.PageLink(h.g))
	s, _, err := b.dial()
	h.must(err)
	s.until("ready")
	return b, s
}

// dial opens the socket of the page, once the channel runs.
func (b *browser) dial() (s socket, status int, err error) {
	header := http.Header{"Origin": {b.origin}}
	if b.cookie != "" {
		header.Set("Cookie", b.cookie)
	}
	for {
		conn, resp, err := websocket.Dial(b.t.Context(), b.url+"webui/socket?client_id=page", &websocket.DialOptions{HTTPHeader: header}) //nolint:bodyclose // closed by Dial
		if resp != nil {
			status = resp.StatusCode
		}
		if status == http.StatusServiceUnavailable {
			continue
		}
		if err == nil {
			b.t.Cleanup(func() { _ = conn.CloseNow() })
			conn.SetReadLimit(-1)
		}
		return socket{b.t, conn}, status, err
	}
}

const pagesConfig = `{"agents": {"defaults": {"model": "m"}}, "gateway": {"heartbeat": {"enabled": false}}}`

// A browser signs in, talks, and is signed out, without any section for it, also
// below a path that a proxy added.
func TestPages(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(pagesConfig)
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	b := &browser{t: t, url: server.URL + "/a/b/", origin: server.URL}

	if code, header, body := b.do(http.MethodGet, "", "", http.Header{"X-Nanobot-Page": nil}); code != http.StatusOK || !strings.Contains(body, "<!doctype html>") ||
		!strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Fatalf("document = %d %v", code, header)
	}
	if code, _, body := b.do(http.MethodGet, "webui/state", "", nil); code != http.StatusOK || !strings.Contains(body, `"signed_in":false`) {
		t.Errorf("state = %d %s", code, body)
	}
	if code, _, body := b.do(http.MethodGet, "api/sessions", "", nil); code != http.StatusUnauthorized || !strings.Contains(body, "signed_out") {
		t.Errorf("a read without a session = %d %s", code, body)
	}
	if _, status, err := b.dial(); err == nil || status != http.StatusUnauthorized {
		t.Errorf("a socket without a session: %v", err)
	}

	b.signIn(gateway.PageLink(h.g))
	s, _, err := b.dial()
	if err != nil {
		t.Fatal(err)
	}
	s.until("ready")
	s.say(`{"type":"message","chat_id":"yard","content":"say #one","turn_id":"1"}`)
	if m := s.until("stream_end", "message"); m["event"] == "error" {
		t.Errorf("answer: %v", m)
	}
	s.until("turn_end")
	if code, _, body := b.do(http.MethodGet, "api/sessions/websocket%3Ayard/webui-thread", "", nil); code != http.StatusOK || !strings.Contains(body, "say #one") {
		t.Errorf("thread = %d %s", code, body)
	}
	b.readsFiles(s)
	for _, c := range h.g.Status().Channels {
		t.Errorf("the socket of the pages is shown as a platform: %+v", c)
	}

	if err := gateway.RevokePages(t.Context(), h.g); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for err = nil; err == nil; {
		_, _, err = s.conn.Read(ctx)
	}
	if got := websocket.CloseStatus(err); got != 4401 {
		t.Errorf("the socket of a revoked device ends with %v: %v", got, err)
	}
	if code, _, _ := b.do(http.MethodGet, "api/sessions", "", nil); code != http.StatusUnauthorized {
		t.Errorf("a revoked device reads: %d", code)
	}
	h.must(h.end())
}

// readsFiles sends a file and a long message, and looks at both as a page does:
// pictures are loaded without the header, and long answers are compressed.
func (b *browser) readsFiles(s socket) {
	b.t.Helper()
	code, _, body := b.do(http.MethodPost, "webui/upload", "words", http.Header{"X-Nanobot-Type": {"text/plain"}, "X-Nanobot-Name": {"a.txt"}})
	var up struct {
		ID string `json:"upload_id"`
	}
	if err := json.Unmarshal([]byte(body), &up); err != nil || code != http.StatusOK {
		b.t.Fatalf("upload = %d %s", code, body)
	}
	s.say(`{"type":"message","chat_id":"yard","content":"say #` + strings.Repeat("long", 500) + `","turn_id":"2","media":[{"upload_id":"` + up.ID + `"}]}`)
	s.until("turn_end")
	const thread = "api/sessions/websocket%3Ayard/webui-thread"
	_, header, packed := b.do(http.MethodGet, thread, "", http.Header{"Accept-Encoding": {"gzip"}})
	_, _, body = b.do(http.MethodGet, thread, "", http.Header{"Accept-Encoding": {"identity"}})
	if header.Get("Content-Encoding") != "gzip" || len(packed) > len(body)/2 {
		b.t.Errorf("%d bytes of %d, %v", len(packed), len(body), header)
	}
	url := regexp.MustCompile(`api/media/[^"]+`).FindString(body)
	if code, _, body := b.do(http.MethodGet, url, "", http.Header{"X-Nanobot-Page": nil, "Origin": nil}); code != http.StatusOK || body != "words" {
		b.t.Errorf("%q = %d %s", url, code, body)
	}
	if code, _, _ := b.do(http.MethodGet, "api/media/x/"+url[strings.LastIndex(url, "/")+1:], "", http.Header{"X-Nanobot-Page": nil}); code == http.StatusOK {
		b.t.Error("a file is served by an address that we did not give")
	}
}

// The socket's own listener serves the pages, too.
func TestPagesOnOwnListener(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	dir, err := os.MkdirTemp("", "own") //nolint:usetesting // a socket's name must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	section := `{"channels": {"websocket": {"enabled": true, "token": "correct-token-of-the-socket", "unixSocketPath": "` + dir + `/s"}}, `
	h.configure(strings.Replace(pagesConfig, "{", section, 1))
	h.start()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", dir+"/s")
	}}}
	defer client.CloseIdleConnections()
	get := func() (status int) {
		for status = http.StatusServiceUnavailable; status == http.StatusServiceUnavailable; { // the channel starts
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
			h.must(err)
			if resp, err := client.Do(req); err == nil {
				h.must(resp.Body.Close())
				status = resp.StatusCode
			} else if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
		return status
	}
	if code := get(); code != http.StatusOK {
		t.Errorf("document = %d", code)
	}
	h.configure(strings.NewReplacer(`"gateway": {`, `"gateway": {"webui": {"enabled": false}, `).Replace(strings.Replace(pagesConfig, "{", section, 1)))
	h.must(h.g.Reload(t.Context()))
	if code := get(); code == http.StatusOK {
		t.Error("the pages are off and answer")
	}
	h.must(h.end())
}

// Programs and other pages get nothing but the document.
func TestPagesRefuse(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.configure(pagesConfig)
	h.start()
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	b := &browser{t: t, url: server.URL + "/", origin: server.URL}
	b.signIn(gateway.PageLink(h.g))
	for name, tt := range map[string]struct {
		method, path string
		header       http.Header
		want         int
	}{
		"a page of another origin":  {http.MethodGet, "api/sessions", http.Header{"Origin": {"http://evil.example"}}, http.StatusForbidden},
		"another port":              {http.MethodPost, "webui/login", http.Header{"Origin": {"http://127.0.0.1:1"}}, http.StatusForbidden},
		"no origin":                 {http.MethodPost, "webui/logout", http.Header{"Origin": nil}, http.StatusForbidden},
		"an image":                  {http.MethodGet, "api/sessions", http.Header{"Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden},
		"without the header":        {http.MethodGet, "api/sessions", http.Header{"X-Nanobot-Page": nil}, http.StatusNotFound},
		"a change by HTTP":          {http.MethodPost, "api/sessions", nil, http.StatusMethodNotAllowed},
		"the bootstrap":             {http.MethodGet, "webui/bootstrap", nil, http.StatusNotFound},
		"a path out of the files":   {http.MethodGet, "assets/../../etc/passwd", http.Header{"X-Nanobot-Page": nil}, http.StatusNotFound},
		"an encoded path":           {http.MethodGet, "assets/%2e%2e%2fmanifest.json", http.Header{"X-Nanobot-Page": nil}, http.StatusNotFound},
		"files of another build":    {http.MethodGet, "assets/0000000000000000/main.js", http.Header{"X-Nanobot-Page": nil}, http.StatusNotFound},
		"a range of a page":         {http.MethodGet, "", http.Header{"X-Nanobot-Page": nil, "Range": {"bytes=100000000-"}}, http.StatusOK}, // the whole of it
		"another method for a page": {http.MethodDelete, "", nil, http.StatusMethodNotAllowed},
	} {
		if code, _, body := b.do(tt.method, tt.path, "{}", tt.header); code != tt.want {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	evil := &browser{t: t, url: server.URL + "/", origin: "http://evil.example", cookie: b.cookie}
	if _, status, err := evil.dial(); err == nil || status != http.StatusForbidden {
		t.Errorf("the socket of another page: %v", err)
	}
	for _, path := range []string{"/?client_id=x", "/"} { // the channel itself is not enabled
		_, resp, err := websocket.Dial(t.Context(), server.URL+path, nil) //nolint:bodyclose // closed by Dial
		if err == nil || resp == nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("a program connects: %v %v", resp, err)
		}
	}

	h.configure(strings.Replace(pagesConfig, `"gateway": {`, `"gateway": {"webui": {"enabled": false}, `, 1))
	h.must(h.g.Reload(t.Context()))
	if code, _, _ := b.do(http.MethodGet, "", "", nil); code != http.StatusNotFound {
		t.Errorf("the pages are off and answer %d", code)
	}
	h.must(h.end())
}
