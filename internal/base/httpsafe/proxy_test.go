package httpsafe_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// noPorts says that the servers of this test are not ours.
func noPorts() []uint16 { return nil }

// startProxy serves a client that may reach every public host.
func startProxy(t *testing.T, o httpsafe.ProxyOptions) (dial func(context.Context) (net.Conn, error), stop func()) {
	t.Helper()
	p, err := httpsafe.NewProxy(o)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, p, &httpsafe.Access{Decide: httpsafe.Anywhere})
}

// serve answers on a Unix socket, as the sandbox uses it.
func serve(t *testing.T, p *httpsafe.Proxy, a *httpsafe.Access) (dial func(context.Context) (net.Conn, error), stop func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, l, a) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		done <- nil
	}
	t.Cleanup(stop)
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}, stop
}

func proxyClient(t *testing.T, dial func(context.Context) (net.Conn, error), srv *httptest.Server) *http.Client {
	t.Helper()
	tr := &http.Transport{
		Proxy:       http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.invalid:1"}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
	if srv != nil && srv.TLS != nil {
		base, ok := srv.Client().Transport.(*http.Transport)
		if !ok {
			t.Fatal("no transport")
		}
		tr.TLSClientConfig = base.TLSClientConfig
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestProxyPasses(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Connection", "x-hop")
		w.Header().Set("X-Hop", "1")
		fmt.Fprintf(w, "%s %s %s [%s] [%s]", r.Method, r.URL.Path, body, r.Header.Get("Proxy-Authorization"), r.Header.Get("X-Mine"))
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	for name, srv := range map[string]*httptest.Server{"absolute URL": plain, "tunnel": secure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dial, _ := startProxy(t, httpsafe.ProxyOptions{Guard: httpsafe.GuardOptions{Allow: loopback}, OwnPorts: noPorts})
			c := proxyClient(t, dial, srv)
			for range 3 {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/p", strings.NewReader("body"))
				req.Header.Set("X-Mine", "kept")
				if srv == plain {
					req.Header.Set("Proxy-Authorization", "secret")
				}
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if want := "POST /p body [] [kept]"; string(got) != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if srv == plain && resp.Header.Get("X-Hop") != "" {
					t.Error("a header of one hop was passed on")
				}
			}
		})
	}
}

// TestProxyRefuses asks for every hostile spelling, both ways, with a canary
// listening on this machine.
func TestProxyRefuses(t *testing.T) {
	t.Parallel()
	canary, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Int64
	go func() {
		for {
			c, err := canary.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = c.Close()
		}
	}()
	defer func() { _ = canary.Close() }()
	_, port, _ := net.SplitHostPort(canary.Addr().String())
	res := resolver(t, map[string][][]string{"rebind.example.com": {{"127.0.0.1"}}, "both.example.com": {{"127.0.0.1", "10.0.0.1"}}})
	dial, _ := startProxy(t, httpsafe.ProxyOptions{Guard: httpsafe.GuardOptions{Resolver: res}})
	hosts := []string{
		"127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "[::]", "[::1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
		"[2002:7f00:1::]", "[64:ff9b::7f00:1]", "localhost", "localhost.", "foo.localhost", "LOCALHOST", "rebind.example.com",
		"both.example.com", "169.254.169.254", "[::ffff:169.254.169.254]", "[2002:a9fe:a9fe::]", "10.0.0.5", "metadata.google.internal",
		"１２７.０.０.１", "127。0。0。1",
	}
	ask := func(line string) string {
		t.Helper()
		c, err := dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, line)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.Status
	}
	for _, h := range hosts {
		target := h + ":" + port
		for _, line := range []string{
			"CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n",
			"CONNECT " + target + " HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
			"GET http://" + target + "/ HTTP/1.1\r\nHost: " + target + "\r\nConnection: close\r\n\r\n",
			"GET http://" + target + "/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
			"GET http://x@" + target + "/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
		} {
			if got := ask(line); !strings.HasPrefix(got, "403") && !strings.HasPrefix(got, "400") {
				t.Errorf("%q: %s, want 403", line, got)
			}
		}
	}
	for _, target := range []string{"8.8.8.8:0", "8.8.8.8:99999", "8.8.8.8", "8.8.8.8:", ":80", ""} {
		if got := ask("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n"); !strings.HasPrefix(got, "403") && !strings.HasPrefix(got, "400") {
			t.Errorf("CONNECT %q: %s, want a refusal", target, got)
		}
	}
	if got := ask("GET / HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "400") {
		t.Errorf("a relative request: %s, want 400", got)
	}
	if got := ask("GET gopher://127.0.0.1:" + port + "/_INFO HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "403") {
		t.Errorf("gopher: %s, want 403", got)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the canary was reached %d times", n)
	}
}

// TestProxyUsesAnother checks that a proxy of the user's network is asked for
// the tunnel, and never for a private target.
func TestProxyUsesAnother(t *testing.T) {
	t.Parallel()
	var asked atomic.Value
	asked.Store("")
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.Host + " " + r.Header.Get("Proxy-Authorization"))
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhello")
		_ = c.Close()
	}))
	defer upstream.Close()
	dial, _ := startProxy(t, httpsafe.ProxyOptions{Guard: httpsafe.GuardOptions{
		Proxy: strings.Replace(upstream.URL, "http://", "http://u:p@", 1), Resolver: resolver(t, map[string][][]string{"lan.example.com": {{"10.0.0.1"}}}),
	}})
	for target, want := range map[string]string{"8.8.8.8:443": "CONNECT 8.8.8.8:443 Basic dTpw", "10.0.0.1:443": "", "lan.example.com:443": ""} {
		asked.Store("")
		c, err := dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
		_, _ = io.ReadAll(c)
		_ = c.Close()
		if got := asked.Load(); got != want {
			t.Errorf("%s: the other proxy was asked %q, want %q", target, got, want)
		}
	}
	if _, err := httpsafe.NewProxy(httpsafe.ProxyOptions{Guard: httpsafe.GuardOptions{Proxy: "socks5://127.0.0.1:1"}}); err == nil {
		t.Error("a socks5 proxy was accepted")
	}
}

// TestProxyStops checks that the end of the context ends tunnels, idle
// connections and waiting ones, and that no more than the limit are served.
func TestProxyStops(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	var logs bytes.Buffer
	dial, stop := startProxy(t, httpsafe.ProxyOptions{
		Guard: httpsafe.GuardOptions{Allow: loopback}, MaxConns: 2, OwnPorts: noPorts,
		Log: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	var open []net.Conn
	for range 2 {
		c, err := dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n\r\nearly", l.Addr())
		buf := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\nearly"))
		if _, err := io.ReadFull(c, buf); err != nil || !strings.HasSuffix(string(buf), "early") {
			t.Fatalf("%q, %v", buf, err)
		}
		open = append(open, c)
	}
	third, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(third, "CONNECT %s HTTP/1.1\r\n\r\n", l.Addr())
	_ = open[0].Close()
	if _, err := io.ReadFull(third, make([]byte, 12)); err != nil {
		t.Fatalf("no answer after a slot became free: %v", err)
	}
	stop()
	for _, c := range []net.Conn{open[1], third} {
		if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("after the end: %v", err)
		}
		_ = c.Close()
	}
	if !strings.Contains(logs.String(), "host=127.0.0.1") {
		t.Errorf("log %q does not name the host", logs.String())
	}
}
