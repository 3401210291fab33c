package api_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// T13: a listener of ours answers nobody without the token, no foreign page
// and no borrowed name.
func TestGate(t *testing.T) {
	t.Parallel()
	g := api.Gate{Token: httpsafe.NewSecret(token), Hosts: []string{"Agent.example"}, MaxBody: 16}
	reached := false
	h, err := g.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached = true
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"right", func(*http.Request) {}, 200},
		{"scheme in capitals", func(r *http.Request) { r.Header.Set("Authorization", "BEARER "+token) }, 200},
		{"named host", func(r *http.Request) { r.Host = "agent.EXAMPLE:80" }, 200},
		{"IPv6", func(r *http.Request) { r.Host = "[::1]:8080" }, 200},
		{"own page", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8080") }, 200},
		{"charset", func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") }, 200},
		{"no token", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"wrong token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+"x") }, 401},
		{"part of the token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token[:8]) }, 401},
		{"basic", func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token) }, 401},
		{"token in the URL", func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "token=" + token }, 401},
		{"rebound name", func(r *http.Request) { r.Host = "evil.example:8080" }, 403},
		{"name that ends like ours", func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, 403},
		{"no host", func(r *http.Request) { r.Host = "" }, 403},
		{"foreign page", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"page of another port", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:9") }, 403},
		{"sandboxed page", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"cross-site", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"form", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		{"no type", func(r *http.Request) { r.Header.Del("Content-Type") }, 415},
		{"large", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 17))) }, 413},
	} {
		reached = false
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8080/", bytes.NewReader([]byte("{}")))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		tt.change(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want || reached != (tt.want == 200 || tt.want == 413) {
			t.Errorf("%s: status %d, reached %v, want %d", tt.name, w.Code, reached, tt.want)
		}
		if tt.want == 401 && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: no challenge", tt.name)
		}
		if strings.Contains(w.Body.String(), token) {
			t.Errorf("%s: the token is told", tt.name)
		}
	}
}

func TestGateNeedsToken(t *testing.T) {
	t.Parallel()
	for _, weak := range []string{"", "short"} {
		if _, err := (api.Gate{Token: httpsafe.NewSecret(weak)}).Guard(http.NotFoundHandler()); err == nil {
			t.Errorf("token %q was accepted", weak)
		}
	}
}

// The real listener, as a browser page of somebody else would talk to it.
func TestServeRefusesStrangers(t *testing.T) {
	t.Parallel()
	a := newAgent()
	address := listen(t, newServer(t, a))
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi"}}}`
	for _, tt := range []struct {
		name, token, origin, kind, host string
		want                            int
	}{
		{"no-cors page", "", "https://evil.example", "text/plain", "", 403},
		{"other user", "", "", "application/json", "", 401},
		{"rebound", token, "", "application/json", "evil.example", 403},
		{"page with the token", token, "https://evil.example", "application/json", "", 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt.host
		r.Header.Set("Content-Type", tt.kind)
		r.Header.Set("Accept", "application/json, text/event-stream")
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, resp.StatusCode, tt.want)
		}
	}
	if len(a.got) != 0 {
		t.Errorf("a stranger's message reached the agent: %v", a.got)
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]bool{"127.0.0.1": true, "::1": true, "127.9.9.9": true, "0.0.0.0": false, "::": false, "192.168.1.2": false} {
		if got := api.Loopback(&net.TCPAddr{IP: net.ParseIP(ip)}); got != want {
			t.Errorf("Loopback(%s) = %v, want %v", ip, got, want)
		}
	}
}
