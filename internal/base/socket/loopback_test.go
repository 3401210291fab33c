package socket_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	ws "github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/socket"
)

// echo is a server on loopback that counts its requests.
func echo(t *testing.T, begin func(h http.Handler) *httptest.Server) (address string, srv *httptest.Server, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	srv = begin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		c, err := ws.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, data) != nil {
				return
			}
		}
	}))
	t.Cleanup(srv.Close)
	return "ws" + strings.TrimPrefix(srv.URL, "http"), srv, asked
}

var errSeen = errors.New("seen")

// once sends a frame, and ends when it is back.
func once(ctx context.Context, client *http.Client, address string) error {
	return socket.Run(ctx, socket.Options{
		Client:  client,
		Dial:    at(address),
		Open:    func(ctx context.Context, c *socket.Conn) error { return c.Send(ctx, text("hi")) },
		Receive: func(context.Context, *socket.Conn, socket.Frame) error { return errSeen },
		Lost:    socket.Fatal,
	})
}

// The client's address checks hold for a connection as for any request.
func TestGuardedClient(t *testing.T) {
	t.Parallel()
	address, _, asked := echo(t, httptest.NewServer)
	guarded, err := httpsafe.Guarded(httpsafe.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guarded.CloseIdleConnections)
	for _, target := range []string{address, strings.Replace(address, "127.0.0.1", "localhost", 1)} {
		if err := once(t.Context(), guarded, target); err == nil || errors.Is(err, errSeen) {
			t.Errorf("%s: %v, want a refusal", target, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
	open, err := httpsafe.Client(httpsafe.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(open.CloseIdleConnections)
	if err := once(t.Context(), open, address); !errors.Is(err, errSeen) {
		t.Errorf("the configured server: %v", err)
	}
}

// A connection with TLS goes through the proxy of its client.
func TestProxy(t *testing.T) {
	t.Parallel()
	address, srv, _ := echo(t, httptest.NewTLSServer)
	var tunnels atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			t.Errorf("%s %s", r.Method, r.URL)
			return
		}
		tunnels.Add(1)
		var d net.Dialer
		to, err := d.DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			t.Error(err)
			return
		}
		defer to.Close()
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer from.Close()
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}()
		_, _ = io.Copy(from, to)
		_ = from.Close()
		<-done
	}))
	t.Cleanup(proxy.Close)
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	base, ok := srv.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatalf("transport %T", srv.Client().Transport)
	}
	tr := &http.Transport{Proxy: http.ProxyURL(u), TLSClientConfig: base.TLSClientConfig, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	if err := once(t.Context(), &http.Client{Transport: tr}, address); !errors.Is(err, errSeen) || tunnels.Load() != 1 {
		t.Errorf("%v, %d tunnels", err, tunnels.Load())
	}
	strict := &http.Transport{Proxy: http.ProxyURL(u), TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13}}
	t.Cleanup(strict.CloseIdleConnections)
	if err := once(t.Context(), &http.Client{Transport: strict}, address); err == nil || errors.Is(err, errSeen) {
		t.Errorf("a certificate of an unknown authority: %v", err)
	}
}
