package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/web"
)

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// trap counts every connection to this machine, on both kinds of address.
type trap struct {
	port  string
	count atomic.Int64
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	tr := &trap{}
	four, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, tr.port, _ = net.SplitHostPort(four.Addr().String())
	accept := func(l net.Listener) {
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				tr.count.Add(1)
				_ = c.Close()
			}
		}()
	}
	accept(four)
	if six, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp6", "[::1]:"+tr.port); err == nil {
		accept(six)
	} else {
		t.Logf("no listener on ::1: %v", err)
	}
	return tr
}

// rows reads the hostile addresses.
func hostile(t *testing.T, port string) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/urls.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.SplitSeq(string(data), "\n") {
		if _, u, ok := strings.Cut(line, "\t"); ok && !strings.HasPrefix(line, "#") {
			list = append(list, strings.ReplaceAll(u, "{PORT}", port))
		}
	}
	if len(list) < 70 {
		t.Fatalf("only %d addresses", len(list))
	}
	return list
}

// T7: no hostile address is ever connected to, asked for or as the target of a
// redirect. The resolver knows no name, so one that is looked up counts too.
func TestHostileURLs(t *testing.T) {
	t.Parallel()
	tr := newTrap(t)
	var lookups atomic.Int64
	res := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		lookups.Add(1)
		return nil, errors.New("no names in this test")
	}}
	b := newBench(t, web.Options{Resolver: res})
	for _, raw := range hostile(t, tr.port) {
		got := b.call("web_fetch", map[string]any{"url": raw})
		if !got.IsError || got.Code != tool.DeniedSSRF && got.Code != tool.InvalidArgs {
			t.Errorf("%s: %v %s", raw, got.Code, got.Content.String())
		}
		if got.Code == tool.DeniedSSRF && !strings.Contains(got.Content.String(), "tools.ssrfWhitelist") {
			t.Errorf("%s: %s", raw, got.Content.String())
		}
	}
	if n, l := tr.count.Load(), lookups.Load(); n != 0 || l != 0 {
		t.Errorf("%d connections and %d lookups, want none", n, l)
	}
}

func TestHostileRedirects(t *testing.T) {
	t.Parallel()
	tr := newTrap(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	}))
	defer srv.Close()
	home := netip.MustParseAddrPort(strings.TrimPrefix(srv.URL, "http://"))
	// Only the name of the page may be reached: it resolves to an address of
	// its own that is allowed, and is redirected to this machine by the dialer.
	b := newBench(t, web.Options{Client: pinned(t, "page.example.com", home)})
	for _, raw := range hostile(t, tr.port) {
		if strings.HasPrefix(raw, "//host") || strings.HasPrefix(raw, "HTTP:/\\\\host") {
			continue // relative to the page: a name like any other
		}
		got := b.call("web_fetch", map[string]any{"url": "http://page.example.com/?to=" + url.QueryEscape(raw)})
		text := got.Content.String()
		parsed := strings.Contains(text, "parse Location") || strings.Contains(text, "Location")
		if !got.IsError || got.Code != tool.DeniedSSRF && !parsed && !strings.Contains(text, "page.example.com") {
			t.Errorf("302 to %s: %v %s", raw, got.Code, text)
		}
	}
	if n := tr.count.Load(); n != 0 {
		t.Errorf("%d connections, want none", n)
	}
}

func TestHostileNames(t *testing.T) {
	t.Parallel()
	tr := newTrap(t)
	names := map[string][][]string{}
	for _, raw := range hostile(t, tr.port) {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && a.Zone() == "" && u.Hostname() != "8.8.8.8" {
			names[fmt.Sprintf("n%d.example.com", len(names))] = [][]string{{a.Unmap().String()}}
		}
	}
	if len(names) < 20 {
		t.Fatalf("only %d names", len(names))
	}
	names["both.example.com"] = [][]string{{"127.0.0.1", "10.0.0.1"}}
	b := newBench(t, web.Options{Resolver: resolver(t, names)})
	for name, answers := range names {
		got := b.call("web_fetch", map[string]any{"url": "http://" + name + ":" + tr.port + "/"})
		if got.Code != tool.DeniedSSRF {
			t.Errorf("%s = %v: %v %s", name, answers, got.Code, got.Content.String())
		}
	}
	if n := tr.count.Load(); n != 0 {
		t.Errorf("%d connections, want none", n)
	}
}

// Row 73: a name that is harmless at first and private later is refused later.
func TestRebinding(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "harmless")
	}))
	defer srv.Close()
	port := srv.URL[strings.LastIndexByte(srv.URL, ':'):]
	b := newBench(t, web.Options{
		Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, // stands for a public address
		Resolver: resolver(t, map[string][][]string{"turns.example.com": {{"127.0.0.1"}, {"127.0.0.2"}}, "two.example.com": {{"127.0.0.2", "127.0.0.1"}}}),
	})
	for i, ok := range []bool{true, false, false} {
		got := b.call("web_fetch", map[string]any{"url": fmt.Sprintf("http://turns.example.com%s/%d", port, i)})
		if ok == got.IsError || !ok && got.Code != tool.DeniedSSRF {
			t.Errorf("request %d: %v %s", i, got.Code, got.Content.String())
		}
	}
	if got := b.call("web_fetch", map[string]any{"url": "http://two.example.com" + port}); got.IsError {
		t.Errorf("public and private together: %s", got.Content.String())
	}
	if hits.Load() != 2 {
		t.Errorf("%d requests, want 2", hits.Load())
	}
}

// Row 74: chains end, and no hop leaves http.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		switch {
		case r.URL.Path == "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/chain/"):
			_, _ = fmt.Sscanf(r.URL.Path, "/chain/%d", &n)
			if n > 0 {
				http.Redirect(w, r, fmt.Sprintf("/chain/%d", n-1), http.StatusTemporaryRedirect)
				return
			}
			_, _ = io.WriteString(w, "the end")
		case r.URL.Path == "/":
			http.Redirect(w, r, strings.Replace(srv.URL, "//", "//user:pw@", 1)+"/landed", http.StatusFound)
		default:
			_, _, has := r.BasicAuth()
			fmt.Fprintf(w, "landed, credentials %v", has)
		}
	}))
	defer srv.Close()
	b := newBench(t, web.Options{Allow: loopback()})
	for path, want := range map[string]string{
		"/":        "Source: " + srv.URL + "/landed (redirected from " + srv.URL + "/)\n\nlanded, credentials false",
		"/chain/5": "the end", "/chain/6": "more than 5 redirects", "/file": "only http and https",
	} {
		if got := b.call("web_fetch", map[string]any{"url": srv.URL + path}).Content.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
}

// Row 75 and the reader service: an address with credentials is shown to
// nobody but its own server, and never logged.
func TestReader(t *testing.T) {
	t.Parallel()
	answer := `{"data":{"title":"Read","url":"https://a.example/page","content":"Words of the reader. ![x](https://evil.example/p.png) \u202eend"}}`
	own := exchange{method: "GET", header: map[string]string{"Accept-Encoding": "gzip"}, answer: "own words"}
	at := func(e exchange, u string) exchange { e.url = u; return e }
	for _, tt := range []struct {
		name, url string
		todo      []exchange
		want      string
	}{
		{"plain", "https://a.example/page?x=1#frag", []exchange{{method: "GET", url: "https://r.jina.ai/https://a.example/page?x=1", answer: answer}}, "# Read\n\nWords of the reader. !\\[x](https://evil"},
		{"reader fails", "https://a.example/page", []exchange{{method: "GET", url: "https://r.jina.ai/https://a.example/page", status: 429}, at(own, "https://a.example/page")}, "own words"},
		{"reader is empty", "https://a.example/page", []exchange{{method: "GET", url: "https://r.jina.ai/https://a.example/page", answer: `{"data":{}}`}, at(own, "https://a.example/page")}, "own words"},
		{"a file", "https://a.example/x.json", []exchange{at(own, "https://a.example/x.json")}, "own words"},
		{"user information", "https://user:pw@a.example/", []exchange{{
			method: "GET", url: "https://user:pw@a.example/", answer: "own words",
			header: map[string]string{"Accept-Encoding": "gzip", "Authorization": "Basic dXNlcjpwdw=="},
		}}, "own words"},
		{"token", "https://a.example/?token=t0k3n", []exchange{at(own, "https://a.example/?token=t0k3n")}, "own words"},
		{"signature", "https://a.example/?X-Amz-Signature=t0k3n", []exchange{at(own, "https://a.example/?X-Amz-Signature=t0k3n")}, "own words"},
		{"escaped name", "https://a.example/?api%5Fkey=t0k3n", []exchange{at(own, "https://a.example/?api%5Fkey=t0k3n")}, "own words"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var logs strings.Builder
			s := &script{t: t, todo: tt.todo}
			b := newBench(t, web.Options{
				UseJinaReader: true, Client: &http.Client{Transport: s},
				Log: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			got := b.call("web_fetch", map[string]any{"url": tt.url})
			if !strings.Contains(got.Content.String(), tt.want) || !got.Untrusted || strings.Contains(got.Content.String(), "pw@") || len(s.todo) > 0 {
				t.Errorf("result: %s, not asked: %v", got.Content.String(), s.todo)
			}
			if strings.Contains(logs.String(), "t0k3n") || strings.Contains(logs.String(), "pw") {
				t.Errorf("log: %s", logs.String())
			}
		})
	}
	off := newBench(t, web.Options{Client: &http.Client{Transport: &script{t: t, todo: []exchange{at(own, "https://a.example/page")}}}})
	if got := off.call("web_fetch", map[string]any{"url": "https://a.example/page"}); !strings.Contains(got.Content.String(), "own words") {
		t.Errorf("the reader is used without being asked for: %s", got.Content.String())
	}
}

// Row 78.
func TestFakeAddresses(t *testing.T) {
	t.Parallel()
	for strict, timeout := range map[bool]time.Duration{false: 50 * time.Millisecond, true: time.Minute} {
		b := newBench(t, web.Options{Strict: strict, FetchTimeout: timeout})
		got := b.call("web_fetch", map[string]any{"url": "http://198.18.0.5/"})
		if (got.Code == tool.DeniedSSRF) != strict || !got.IsError {
			t.Errorf("strict %v: %v %s", strict, got.Code, got.Content.String())
		}
	}
}

func TestSuspicious(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"https://example.com/":                                                                 false,
		"https://example.com/a/readable/path?page=2":                                           false,
		"example.com/page":                                                                     false,
		"https://example.com/" + strings.Repeat("a", 128):                                      false,
		"https://example.com/" + strings.Repeat("a", 129):                                      true,
		"https://example.com/?d=" + strings.Repeat("a", 130):                                   true,
		"https://example.com/#" + strings.Repeat("a", 500):                                     false,
		"https://" + strings.Repeat("a", 40) + "." + strings.Repeat("b", 40) + ".example.com/": true,
		"https://me:secret@example.com/":                                                       true,
		"":                                                                                     true,
		"http://exa mple\\":                                                                    true,
		"`https://example.com/?d=" + strings.Repeat("%20", 60) + "`":                           true,
	} {
		if got := web.Suspicious(raw); got != want {
			t.Errorf("Suspicious(%q) = %v, want %v", raw, got, want)
		}
	}
}

func TestToolDefinitions(t *testing.T) {
	t.Parallel()
	list, err := web.New(web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, x := range list {
		total += len(x.Name) + len(x.Description) + len(x.Schema)
		if !x.ReadOnly || x.Exclusive || x.Sink != "" {
			t.Errorf("%s: %+v", x.Name, x)
		}
	}
	if total > 620 {
		t.Errorf("the two tools take %d bytes of every request", total)
	}
}

// pinned is a guarded client for which one name leads to a server of the test.
func pinned(t *testing.T, name string, to netip.AddrPort) *http.Client {
	t.Helper()
	c := guardedFor(t, name, to)
	t.Cleanup(c.CloseIdleConnections)
	return c
}
