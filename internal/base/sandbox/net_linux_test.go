package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// countConnections listens, and says where and how many connections came.
func countConnections(t *testing.T, network, address string) (addr string, count func() int64) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	var own int64
	return l.Addr().String(), func() int64 {
		t.Helper()
		// One of ours is taken after all that were made before, and closed then.
		c, err := (&net.Dialer{}).DialContext(t.Context(), network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, _ = c.Read(make([]byte, 1))
		own++
		return n.Load() - own
	}
}

// connectors are the network rows of the adversarial inputs, with the port of a
// canary where they name this machine.
func connectors(port string) []string {
	return []string{
		`curl -m 2 -s 169.254.169.254/latest/meta-data/; curl -m 2 -s 127.0.0.1:` + port,
		`u=169.254.169.254; curl -m 2 -s $u; u=127.0.0.1:` + port + `; curl -m 2 -s $u; curl -m 2 -s --noproxy '*' $u`,
		`curl -m 2 -s "ht""tp://169.254.169.254/"; curl -m 2 -s "ht""tp://127.0.0.1:` + port + `/"`,
		`curl -m 2 -s gopher://127.0.0.1:` + port + `/_INFO; curl -m 2 -s telnet://127.0.0.1:` + port + ` </dev/null; nc -w 2 127.0.0.1 ` + port + ` </dev/null`,
		`curl -m 2 -s http://[::ffff:127.0.0.1]:` + port + `/; curl -m 2 -s http://[::]:` + port + `/; curl -m 2 -s http://0:` + port + `/`,
		`curl -m 2 -s http://[2002:7f00:1::]:` + port + `/; curl -m 2 -s http://localhost:` + port + `/; curl -m 2 -s http://2130706433:` + port + `/`,
		`echo 'exec 3<>/dev/tcp/127.0.0.1/` + port + ` && echo connected' > s.sh; bash s.sh 2>/dev/null`,
		`unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY; curl -m 2 -s http://127.0.0.1:` + port + `/`,
		`curl -m 2 -s -x http://127.0.0.1:3128 -p http://127.0.0.1:` + port + `/; curl -m 2 -s -x http://127.0.0.1:3128 http://127.0.0.1:` + port + `/`,
		`curl -m 2 -s -x socks5h://127.0.0.1:3128 http://127.0.0.1:` + port + `/; curl -m 2 -s -k -x http://127.0.0.1:3128 https://127.0.0.1:` + port + `/`,
	}
}

func TestNetworkNone(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		addr, reached := countConnections(t, "tcp", "127.0.0.1:0")
		_, port, _ := net.SplitHostPort(addr)
		p := b.profile()
		p.Network = sandbox.NetNone
		if out, _ := b.run(t, p, "("+strings.Join(connectors(port), ") &\n(")+") &\nwait"); strings.Contains(out, "connected") {
			t.Errorf("got %s", out)
		}
		if n := reached(); n > 0 {
			t.Errorf("the canary was reached %d times", n)
		}
		skipWithout(t, "python3")
		udp, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = udp.Close() }()
		b.run(t, p, fmt.Sprintf(`/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b"x",("127.0.0.1",%d))'`,
			udp.LocalAddr().(*net.UDPAddr).Port))
		// A datagram to this machine is there as soon as it was sent, so the first
		// to arrive would be the command's.
		if c, err := (&net.Dialer{}).DialContext(t.Context(), "udp", udp.LocalAddr().String()); err == nil {
			_, _ = c.Write([]byte("ours"))
			_ = c.Close()
		}
		buf := make([]byte, 8)
		if n, _, _ := udp.ReadFrom(buf); string(buf[:n]) != "ours" {
			t.Errorf("a datagram left the sandbox: %q", buf[:n])
		}
		if b.Level().NetNS {
			out := b.must(t, p, `/usr/bin/python3 -c '
import socket
l = socket.create_server(("127.0.0.1", 8080)); c = socket.create_connection(("127.0.0.1", 8080)); print("inside works")'`)
			if !strings.Contains(out, "inside works") {
				t.Errorf("got %s", out)
			}
		}
	})
}

func TestNetworkHost(t *testing.T) {
	t.Parallel()
	everyBox(t, func(t *testing.T, b *box) {
		addr, reached := countConnections(t, "tcp", "127.0.0.1:0")
		_, port, _ := net.SplitHostPort(addr)
		b.must(t, b.profile(), `exec 3<>/dev/tcp/127.0.0.1/`+port)
		if reached() != 1 {
			t.Error("the network of the machine was not reached")
		}
	})
}

func TestNetworkProxy(t *testing.T) {
	t.Parallel()
	skipWithout(t, "curl")
	everyBox(t, func(t *testing.T, b *box) {
		p := b.profile()
		p.Network = sandbox.NetProxy
		if !b.Level().NetNS {
			p.ProxySocket = "/x"
			if _, err := b.Wrap(b.command(t.Context(), "true"), p); err == nil || !strings.Contains(err.Error(), "namespaces") {
				t.Errorf("got %v, want a refusal", err)
			}
			return
		}
		secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "allowed page") }))
		defer secure.Close()
		addr, reached := countConnections(t, "tcp", "127.0.0.1:0")
		_, port, _ := net.SplitHostPort(addr)

		p.ProxySocket = serveProxy(t, httpsafe.GuardOptions{})
		if out, _ := b.run(t, p, "("+strings.Join(connectors(port), ") &\n(")+") &\nwait"); strings.Contains(out, "connected") {
			t.Errorf("got %s", out)
		}
		if n := reached(); n > 0 {
			t.Errorf("the canary was reached %d times", n)
		}
		out, _ := b.run(t, p, `curl -sS -k -m 5 -o /dev/null --noproxy '' `+secure.URL)
		if !strings.Contains(out, "403") {
			t.Errorf("a refused address: %s, want 403", out)
		}

		p.ProxySocket = serveProxy(t, httpsafe.GuardOptions{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		u, _ := url.Parse(secure.URL)
		for _, script := range []string{
			`curl -sS -k -m 10 --noproxy '' ` + secure.URL,
			`for i in 1 2 3 4; do curl -sS -k -m 10 --noproxy '' ` + secure.URL + ` & done; wait`,
			`/usr/bin/python3 -c '
import urllib.request, ssl, os
os.environ.pop("no_proxy", None); os.environ.pop("NO_PROXY", None)
c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
print(urllib.request.urlopen("https://127.0.0.1:` + u.Port() + `/", context=c, timeout=10).read())'`,
		} {
			if out := b.must(t, p, script); !strings.Contains(out, "allowed page") {
				t.Errorf("%s: %s", script, out)
			}
		}
	})
}

// serveProxy runs the product's proxy on a socket.
func serveProxy(t *testing.T, o httpsafe.GuardOptions) string {
	t.Helper()
	proxy, err := httpsafe.NewProxy(httpsafe.ProxyOptions{Guard: o, OwnPorts: func() []uint16 { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "proxy.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	anywhere := func(context.Context, httpsafe.HostRequest) (httpsafe.Reach, error) { return httpsafe.ReachFull, nil }
	go func() { done <- proxy.Serve(ctx, l, &httpsafe.Access{Decide: anywhere}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return path
}
