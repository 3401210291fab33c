package httpsafe_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

func guarded(t *testing.T, o httpsafe.GuardOptions) *http.Client {
	t.Helper()
	c, err := httpsafe.Guarded(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func get(t *testing.T, c *http.Client, rawURL string, header http.Header) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rawURL, http.NoBody)
	if err != nil {
		return "", err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func blocked(err error) bool {
	_, ok := errors.AsType[*httpsafe.BlockedError](err)
	return ok
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// refusedURLs are hostile spellings; each is tried directly and as the target
// of a redirect. The name resolver of these tests knows nothing, so a URL that
// got as far as a lookup does not count as refused.
func refusedURLs() []string {
	return []string{
		"http://10.0.0.1", "http://10.1", "http://167772161", "http://0x0a000001", "http://012.0.0.1", "http://0", "http://0x0a.0.0.1",
		"http://[::]", "http://[::1]", "http://[::ffff:a00:1]", "http://[::10.0.0.1]", "http://[::ffff:0:10.0.0.1]",
		"http://[64:ff9b::a9fe:a9fe]", "http://[64:ff9b:1::1]", "http://[2002:a00:1::]", "http://[2001:0:0:0:0:0:f5ff:fffe]",
		"http://[2001:470::5efe:10.0.0.1]", "http://[2001:470::200:5efe:10.0.0.1]", "http://[fe80::1%25eth0]", "http://[fe80::1]",
		"http://[fc00::1]", "http://[fd12::1]", "http://[fec0::1]", "http://[ff02::1]", "http://[100::1]", "http://[2001:2::1]",
		"http://[2001:10::1]", "http://[2001:20::1]", "http://[2001:db8::1]", "http://[3fff::1]", "http://[5f00::1]",
		"http://169.254.169.254/", "http://168.63.129.16/", "http://100.100.100.200/", "http://172.31.255.255", "http://192.168.0.1",
		"http://192.0.0.1", "http://192.0.2.1", "http://192.88.99.1", "http://198.51.100.1", "http://203.0.113.9", "http://224.0.0.1",
		"http://255.255.255.255", "http://240.0.0.1", "http://metadata.google.internal/", "http://localhost./", "http://localhost", "http://foo.localhost",
		"http://LOCALHOST", "http://printer.local", "http://example.com@10.0.0.1/", "http://10.0.0.1#@example.com/", "http://10.0.0.1./",
		"http://１０.０.０.１/", "http://10。0。0。1/", "http://10｡0.0.1/", "http://ｌｏｃａｌｈｏｓｔ/",
		"http://8.8.8.8:22/", "http://8.8.8.8:6379/", "http://8.8.8.8:0/", "http://8.8.8.8:99999/", "http://a..b/", "http://a_b!c/",
		"file:///etc/passwd", "gopher://8.8.8.8/", "ftp://8.8.8.8/", "data:text/plain,x", "javascript:alert(1)",
	}
}

func TestGuardRefuses(t *testing.T) {
	t.Parallel()
	c := guarded(t, httpsafe.GuardOptions{Allow: loopback[:0], Resolver: resolver(t, nil)})
	for _, raw := range append(refusedURLs(), "http://127.0.0.1", "http://127.1", "http://2130706433", "http://0177.0.0.1",
		"http://[::ffff:7f00:1]", "http://[2002:7f00:1::]", "http://[2001:0:0:0:0:0:80ff:fffe]") {
		if _, err := get(t, c, raw, nil); !blocked(err) {
			t.Errorf("%s: %v, want a refusal", raw, err)
		}
	}
	for _, raw := range []string{`http://example.com\@10.0.0.1/`, `HTTP:/\\host`, "//host", "http://", "http:10.0.0.1"} {
		if _, err := get(t, c, raw, nil); err == nil || errors.Is(err, errUnknownName) {
			t.Errorf("%s: %v, want an error before any lookup", raw, err)
		}
	}
}

func TestGuardRefusesAsRedirect(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	}))
	defer srv.Close()
	c := guarded(t, httpsafe.GuardOptions{Allow: loopback, Resolver: resolver(t, nil)})
	for _, raw := range refusedURLs() {
		if u, err := url.Parse(raw); err == nil && localName(u.Hostname()) {
			continue // with loopback allowed, the address decides
		}
		_, err := get(t, c, srv.URL+"?to="+url.QueryEscape(raw), nil)
		// A Location that cannot be parsed never becomes a request.
		if !blocked(err) && (err == nil || !strings.Contains(err.Error(), "failed to parse Location")) {
			t.Errorf("302 to %s: %v, want a refusal", raw, err)
		}
	}
}

func localName(host string) bool {
	for _, part := range []string{"localhost", "ｌｏｃａｌｈｏｓｔ", ".local", ".internal"} {
		if strings.Contains(strings.ToLower(host), part) {
			return true
		}
	}
	return false
}

// Names of this machine and its network are reachable if their address is
// listed, and only then.
func TestAllowedNames(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	defer srv.Close()
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	res := resolver(t, map[string][][]string{"nas.local": {{"127.0.0.1"}}, "box.internal": {{"127.0.0.1"}}, "metadata.google.internal": {{"169.254.169.254"}}})
	for name, want := range map[string]bool{"nas.local": true, "box.internal": true, "metadata.google.internal": false} {
		target := fmt.Sprintf("http://%s:%s/", name, port)
		_, err := get(t, guarded(t, httpsafe.GuardOptions{Allow: loopback, Resolver: res}), target, nil)
		if want != (err == nil) || !want && !blocked(err) {
			t.Errorf("%s with loopback allowed: %v", name, err)
		}
		if _, err := get(t, guarded(t, httpsafe.GuardOptions{Resolver: res}), target, nil); !blocked(err) {
			t.Errorf("%s without: %v", name, err)
		}
	}
}

func TestCheckAddr(t *testing.T) {
	t.Parallel()
	lan := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct {
		addr  string
		o     httpsafe.GuardOptions
		allow bool
	}{
		{"8.8.8.8", httpsafe.GuardOptions{}, true},
		{"2606:4700::1111", httpsafe.GuardOptions{}, true},
		{"64:ff9b::808:808", httpsafe.GuardOptions{}, true},
		{"2002:808:808::1", httpsafe.GuardOptions{}, true},
		{"198.18.0.5", httpsafe.GuardOptions{}, true},
		{"198.18.0.5", httpsafe.GuardOptions{Strict: true}, false},
		{"198.19.255.255", httpsafe.GuardOptions{Strict: true}, false},
		{"::ffff:198.18.0.5", httpsafe.GuardOptions{Strict: true}, false},
		{"64:ff9b::c612:5", httpsafe.GuardOptions{Strict: true}, false},
		{"198.20.0.1", httpsafe.GuardOptions{Strict: true}, true},
		{"10.0.0.1", httpsafe.GuardOptions{Allow: lan}, true},
		{"::ffff:10.0.0.1", httpsafe.GuardOptions{Allow: lan}, true},
		{"64:ff9b::a00:1", httpsafe.GuardOptions{Allow: lan}, true},
		{"192.168.0.1", httpsafe.GuardOptions{Allow: lan}, false},
		{"::ffff:192.168.0.1", httpsafe.GuardOptions{Allow: lan}, false},
		{"fc00::5efe:10.0.0.1", httpsafe.GuardOptions{Allow: lan}, false},
		{"10.0.0.1", httpsafe.GuardOptions{Allow: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}}, true},
		{"::1", httpsafe.GuardOptions{Allow: []netip.Prefix{netip.MustParsePrefix("::1/128")}}, true},
		{"fd00::1%eth0", httpsafe.GuardOptions{Allow: []netip.Prefix{netip.MustParsePrefix("fc00::/7")}}, false},
		{"172.15.255.255", httpsafe.GuardOptions{}, true},
		{"172.32.0.0", httpsafe.GuardOptions{}, true},
		{"100.63.255.255", httpsafe.GuardOptions{}, true},
		{"100.128.0.0", httpsafe.GuardOptions{}, true},
		{"223.255.255.255", httpsafe.GuardOptions{}, true},
	} {
		err := tt.o.CheckAddr(netip.MustParseAddr(tt.addr))
		if (err == nil) != tt.allow || err != nil && !blocked(err) {
			t.Errorf("%s with %+v: %v, want allowed %v", tt.addr, tt.o, err, tt.allow)
		}
	}
}

var errUnknownName = errors.New("no such name in this test")

// resolver answers A queries from a table of successive answers; the last one
// repeats. It speaks DNS over an in-memory connection.
func resolver(t *testing.T, names map[string][][]string) *net.Resolver {
	t.Helper()
	counts := map[string]*atomic.Int64{}
	for n := range names {
		counts[n] = &atomic.Int64{}
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		if names == nil {
			return nil, errUnknownName
		}
		client, server := net.Pipe()
		go answerDNS(server, func(name string) []string {
			answers := names[name]
			if len(answers) == 0 {
				return nil
			}
			n := int(counts[name].Add(1)) - 1
			return answers[min(n, len(answers)-1)]
		})
		return client, nil
	}}
}

// answerDNS serves one query on a stream: 2 bytes of length, then the message.
func answerDNS(c net.Conn, lookup func(string) []string) {
	defer func() { _ = c.Close() }()
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return
	}
	q := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, q); err != nil {
		return
	}
	end := 12
	var labels []string
	for q[end] != 0 {
		n := int(q[end])
		labels = append(labels, string(q[end+1:end+1+n]))
		end += n + 1
	}
	kind := binary.BigEndian.Uint16(q[end+1:])
	end += 5
	var addrs []string
	if kind == 1 {
		addrs = lookup(strings.Join(labels, "."))
	}
	reply := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, byte(len(addrs)), 0, 0, 0, 0}, q[12:end]...)
	for _, a := range addrs {
		ip := netip.MustParseAddr(a).As4()
		reply = append(reply, 0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, ip[:]...)
	}
	_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
}

func TestGuardSeesThroughNames(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "page")
	}))
	defer srv.Close()
	u, _ := url.Parse(srv.URL)
	res := resolver(t, map[string][][]string{
		"turns.example.com": {{"127.0.0.1"}, {"10.0.0.1"}},
		"both.example.com":  {{"10.0.0.1", "127.0.0.1"}},
		"lan.example.com":   {{"169.254.169.254"}},
	})
	c := guarded(t, httpsafe.GuardOptions{Allow: loopback, Resolver: res})
	for i, ok := range []bool{true, false, false} {
		_, err := get(t, c, "http://turns.example.com:"+u.Port(), nil)
		if ok && err != nil || !ok && !blocked(err) {
			t.Errorf("rebinding, request %d: %v, want success %v", i, err, ok)
		}
	}
	if _, err := get(t, c, "http://both.example.com:"+u.Port(), nil); err != nil {
		t.Errorf("public and private together: %v", err)
	}
	if _, err := get(t, c, "http://lan.example.com:"+u.Port(), nil); !blocked(err) {
		t.Errorf("name of a private address: %v", err)
	}
	if got := hits.Load(); got != 2 {
		t.Errorf("server saw %d requests, want 2", got)
	}
}

func TestGuardRedirects(t *testing.T) {
	t.Parallel()
	var seen http.Header
	var auth string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, auth = r.Header.Clone(), r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "other")
	}))
	defer other.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, strings.Replace(other.URL, "http://", "http://user:pw@", 1), http.StatusFound)
		case "/near":
			http.Redirect(w, r, "/headers", http.StatusFound)
		case "/headers":
			_, _ = io.WriteString(w, r.Header.Get("X-Api-Key"))
		case "/post":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		default:
			if _, err := fmt.Sscanf(r.URL.Path, "/chain/%d", &n); err == nil && n > 0 {
				http.Redirect(w, r, fmt.Sprintf("/chain/%d", n-1), http.StatusTemporaryRedirect)
			}
		}
	}))
	defer home.Close()
	c := guarded(t, httpsafe.GuardOptions{Allow: loopback})
	h := http.Header{"X-Api-Key": {"k"}, "Accept": {"image/*"}, "Authorization": {"Bearer k"}}
	if body, err := get(t, c, home.URL+"/near", h); err != nil || body != "k" {
		t.Errorf("same origin: %q, %v, want the header kept", body, err)
	}
	if _, err := get(t, c, home.URL+"/away?token=x", h); err != nil {
		t.Errorf("other origin: %v", err)
	}
	if seen.Get("X-Api-Key") != "" || auth != "" || seen.Get("Referer") != "" || seen.Get("Accept") != "image/*" {
		t.Errorf("headers at another origin: %v", seen)
	}
	if _, err := get(t, c, home.URL+"/chain/5", nil); err != nil {
		t.Errorf("5 redirects: %v", err)
	}
	if _, err := get(t, c, home.URL+"/chain/6", nil); err == nil {
		t.Error("6 redirects were followed")
	}
	if _, err := get(t, guarded(t, httpsafe.GuardOptions{Allow: loopback, MaxRedirects: -1}), home.URL+"/chain/1", nil); err == nil {
		t.Error("a redirect was followed although none may be")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, home.URL+"/post", strings.NewReader("secret"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !blocked(err) {
		t.Errorf("a body followed to another origin: %v", err)
	}
}

func TestGuardDowngrade(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer plain.Close()
	c := guarded(t, httpsafe.GuardOptions{Allow: loopback})
	first, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:8443/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	next, err := http.NewRequestWithContext(t.Context(), http.MethodGet, plain.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckRedirect(next, []*http.Request{first}); err != nil {
		t.Errorf("without headers: %v", err)
	}
	first.Header.Set("X-Api-Key", "k")
	if err := c.CheckRedirect(next, []*http.Request{first}); !blocked(err) {
		t.Errorf("with headers: %v, want a refusal", err)
	}
}

func TestGuardProxy(t *testing.T) {
	t.Parallel()
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Host)
		_, _ = io.WriteString(w, "through the proxy")
	}))
	defer proxy.Close()
	res := resolver(t, map[string][][]string{
		"public.example.com": {{"8.8.8.8"}}, "lan.example.com": {{"8.8.8.8", "10.0.0.1"}}, "proxyonly.example.com": {},
	})
	c := guarded(t, httpsafe.GuardOptions{Proxy: proxy.URL, Resolver: res})
	for raw, ok := range map[string]bool{
		"http://public.example.com/": true, "http://proxyonly.example.com/": true, "http://8.8.8.8/": true,
		"http://lan.example.com/": false, "http://10.0.0.1/": false, "http://localhost/": false, "http://2130706433/": false,
		"http://①.example.com/": false, proxy.URL: false,
	} {
		_, err := get(t, c, raw, nil)
		if ok && err != nil || !ok && !blocked(err) {
			t.Errorf("%s: %v, want success %v", raw, err, ok)
		}
	}
	if len(asked) != 3 {
		t.Errorf("the proxy was asked for %v", asked)
	}
	for _, bad := range []string{"nonsense", "ftp://proxy.example.com"} {
		if _, err := httpsafe.Guarded(httpsafe.GuardOptions{Proxy: bad}); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("proxy %q: %v", bad, err)
		}
	}
}

func TestGuardBoundsHeadersAndTime(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/big" {
			w.Header().Set("X-Big", strings.Repeat("x", 1<<20))
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(stop)
	c := guarded(t, httpsafe.GuardOptions{Allow: loopback, Timeout: 50 * time.Millisecond})
	if _, err := get(t, c, srv.URL+"/slow", nil); err == nil {
		t.Error("a body that never ends was read to its end")
	}
	c = guarded(t, httpsafe.GuardOptions{Allow: loopback})
	if _, err := get(t, c, srv.URL+"/big", nil); err == nil {
		t.Error("1 MiB of headers was accepted")
	}
}

func TestErrorsWithoutURL(t *testing.T) {
	t.Parallel()
	c := guarded(t, httpsafe.GuardOptions{})
	_, err := get(t, c, "http://10.0.0.1/?token=hidden", nil)
	if got := httpsafe.WithoutURL(err); strings.Contains(got.Error(), "hidden") || !blocked(got) {
		t.Errorf("error = %v", got)
	}
}

// A request that left its origin has lost its headers for good: the way back
// may have been chosen by a stranger.
func TestGuardHeadersDoNotComeBack(t *testing.T) {
	t.Parallel()
	var home *httptest.Server
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, home.URL+"/back", http.StatusFound)
	}))
	defer other.Close()
	home = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/back" {
			http.Redirect(w, r, other.URL, http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "key="+r.Header.Get("X-Api-Key"))
	}))
	defer home.Close()
	c := guarded(t, httpsafe.GuardOptions{Allow: loopback})
	if body, err := get(t, c, home.URL, http.Header{"X-Api-Key": {"k"}}); err != nil || body != "key=" {
		t.Errorf("after a detour: %q, %v, want no header", body, err)
	}
}
