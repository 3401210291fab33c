package httpsafe_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// world is all public hosts in one: it notes what reaches it.
type world struct {
	t             *testing.T
	secure, plain *httptest.Server

	mu     sync.Mutex
	dialed []string
	seen   []string
}

// newWorld serves names that the certificate of httptest covers not; so the
// proxy is given a bundle with it, and dials by us.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.seen = append(w.seen, fmt.Sprintf("%s %s %s body=%d override=%q", r.Method, r.Host, r.URL.RequestURI(), len(body), r.Header.Get("X-Http-Method-Override")))
		w.mu.Unlock()
		rw.Header().Set("Alt-Svc", `h3=":443"`)
		if r.URL.Path == "/away" {
			http.Redirect(rw, r, "http://169.254.169.254/latest/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(rw, "fine")
	})
	w.secure, w.plain = httptest.NewTLSServer(h), httptest.NewServer(h)
	t.Cleanup(w.secure.Close)
	t.Cleanup(w.plain.Close)
	return w
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	w.mu.Unlock()
	to := w.plain
	if strings.HasSuffix(address, ":443") {
		to = w.secure
	}
	return (&net.Dialer{}).DialContext(ctx, network, to.Listener.Addr().String())
}

// requests are those that arrived since the last call.
func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.seen
	w.seen = nil
	return out
}

// lists is a policy of two hosts: example.com, which the certificate of the
// test server is for, may be read, and open.example.com used.
func lists(_ context.Context, r httpsafe.HostRequest) (httpsafe.Reach, error) {
	switch {
	case r.Host == "example.com" && (r.Port == 443 || r.Port == 80), r.Host == "github.com":
		return httpsafe.ReachRead, nil
	case r.Host == "open.example.com":
		return httpsafe.ReachFull, nil
	default:
		return httpsafe.ReachNone, &httpsafe.BlockedError{Target: r.Host, Reason: "not on the list"}
	}
}

type connector struct {
	t     *testing.T
	dial  func(context.Context) (net.Conn, error)
	roots *x509.CertPool
}

func newConnector(t *testing.T, w *world, o httpsafe.ProxyOptions) (*connector, *httpsafe.Access, func()) {
	t.Helper()
	if w != nil {
		o.Dial, o.Bundle = w.dial, pemOf(w.secure)
	}
	p, err := httpsafe.NewProxy(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	a := &httpsafe.Access{Decide: lists}
	dial, stop := serve(t, p, a)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.Certificate())
	return &connector{t: t, dial: dial, roots: roots}, a, stop
}

// raw sends bytes to the proxy and reads one answer.
func (c *connector) raw(text string) (status int, conn net.Conn, r *bufio.Reader) {
	c.t.Helper()
	conn, err := c.dial(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, text)
	r = bufio.NewReader(conn)
	method := http.MethodGet
	if strings.HasPrefix(text, http.MethodConnect) {
		method = http.MethodHead // what follows is not a body
	}
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return 0, conn, r
	}
	_ = resp.Body.Close()
	return resp.StatusCode, conn, r
}

// inside opens a tunnel, speaks TLS in it and sends a request.
func (c *connector) inside(host, request string) (status int, body string, err error) {
	c.t.Helper()
	code, conn, _ := c.raw("CONNECT " + host + ":443 HTTP/1.1\r\nHost: " + host + ":443\r\n\r\n")
	if code != http.StatusOK {
		return code, "", errors.New("no tunnel")
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: c.roots, ServerName: host, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}})
	if err := secure.HandshakeContext(c.t.Context()); err != nil {
		return 0, "", err
	}
	_, _ = io.WriteString(secure, request)
	resp, err := http.ReadResponse(bufio.NewReader(secure), nil)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.Header.Get("Alt-Svc") != "" {
		c.t.Error("a way around the proxy was offered")
	}
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), nil
}

// TestReadOnlyRequests tries to do more than read at a host that may be read.
func TestReadOnlyRequests(t *testing.T) {
	w := newWorld(t)
	c, _, _ := newConnector(t, w, httpsafe.ProxyOptions{})
	const host = "Host: example.com\r\n"
	for name, tt := range map[string]struct {
		request string
		status  int    // 0: any refusal
		arrives string // what reaches the host; "" is nothing
	}{
		"get":                      {"GET /a?b=c HTTP/1.1\r\n" + host + "\r\n", 200, `GET example.com /a?b=c body=0 override=""`},
		"head":                     {"HEAD /a HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n", 200, `HEAD example.com /a body=0 override=""`},
		"host with its port":       {"GET /p HTTP/1.1\r\nHost: example.com:443\r\n\r\n", 200, `GET example.com /p body=0 override=""`},
		"absolute form":            {"GET https://example.com/abs HTTP/1.1\r\n" + host + "\r\n", 200, `GET example.com /abs body=0 override=""`},
		"another method by header": {"GET /m HTTP/1.1\r\n" + host + "X-HTTP-Method-Override: DELETE\r\n\r\n", 200, `GET example.com /m body=0 override=""`},
		"post":                     {"POST /a HTTP/1.1\r\n" + host + "Content-Length: 4\r\n\r\nbody", 403, ""},
		"put":                      {"PUT /a HTTP/1.1\r\n" + host + "Content-Length: 4\r\n\r\nbody", 403, ""},
		"delete":                   {"DELETE /a HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		"options":                  {"OPTIONS /a HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		"made-up method":           {"PROPFIND /a HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		"lower case":               {"get /a HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		"get with a body":          {"GET /a HTTP/1.1\r\n" + host + "Content-Length: 4\r\n\r\nbody", 403, ""},
		"get with chunks":          {"GET /a HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 403, ""},
		"websocket":                {"GET /ws HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n", 403, ""},
		"upgrade to http2":         {"GET / HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n", 403, ""},
		"http2 preface":            {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, ""},
		"another host":             {"GET /x HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", 403, ""},
		"another host, absolute":   {"GET https://evil.example.com/x HTTP/1.1\r\nHost: example.com\r\n\r\n", 403, ""},
		"another port":             {"GET /x HTTP/1.1\r\nHost: example.com:8443\r\n\r\n", 403, ""},
		"a tunnel in the tunnel":   {"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n", 403, ""},
		"two hosts":                {"GET /x HTTP/1.1\r\nHost: example.com\r\nHost: evil.example.com\r\n\r\n", 0, ""},
		"two lengths":              {"POST /x/git-upload-pack HTTP/1.1\r\n" + host + "Content-Length: 4\r\nContent-Length: 0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n", 0, ""},
		"length and chunks":        {"GET /x HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /smuggled HTTP/1.1\r\n" + host + "\r\n", 0, ""},
		"git at a package host":    {"POST /r/git-upload-pack HTTP/1.1\r\n" + host + "Content-Type: application/x-git-upload-pack-request\r\nContent-Length: 4\r\n\r\n0000", 403, ""},
		"announce a push":          {"GET /r/info/refs?service=git-receive-pack HTTP/1.1\r\n" + host + "\r\n", 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w.requests()
			status, body, err := c.inside("example.com", tt.request)
			if tt.status != 0 && status != tt.status || tt.status == 0 && status < 400 && err == nil {
				t.Errorf("status %d %q, %v", status, body, err)
			}
			if got := strings.Join(w.requests(), "; "); got != tt.arrives {
				t.Errorf("arrived: %s, want %s", got, tt.arrives)
			}
		})
	}
}

// TestGitFetch lets through what git needs to fetch, and nothing like it.
func TestGitFetch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The certificate of the test server is not for this name, so plain HTTP is used.
	c, _, _ := newConnector(t, w, httpsafe.ProxyOptions{})
	head := func(method, path, kind string, n int) string {
		return fmt.Sprintf("%s http://github.com%s HTTP/1.1\r\nHost: github.com\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			method, path, kind, n, strings.Repeat("x", n))
	}
	const kind = "application/x-git-upload-pack-request"
	for name, tt := range map[string]struct {
		request string
		status  int
	}{
		"fetch":           {head("POST", "/o/r.git/git-upload-pack", kind, 100), 200},
		"push":            {head("POST", "/o/r.git/git-receive-pack", "application/x-git-receive-pack-request", 100), 403},
		"encoded slash":   {head("POST", "/o%2Fgit-upload-pack", kind, 100), 403},
		"in the query":    {head("POST", "/o?x=/git-upload-pack", kind, 100), 403},
		"another kind":    {head("POST", "/o/git-upload-pack", "application/json", 100), 403},
		"with a put":      {head("PUT", "/o/git-upload-pack", kind, 100), 403},
		"too much":        {head("POST", "/o/git-upload-pack", kind, 2<<20), 403},
		"a login instead": {head("POST", "/session", "application/x-www-form-urlencoded", 10), 403},
	} {
		w.requests()
		status, _, _ := c.raw(tt.request)
		if arrived := w.requests(); status != tt.status || (len(arrived) == 1) != (tt.status == 200) {
			t.Errorf("%s: status %d, arrived %q", name, status, arrived)
		}
	}
}

// TestOtherWays looks for ways to a host that is not on the list.
func TestOtherWays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, a, _ := newConnector(t, w, httpsafe.ProxyOptions{})
	for _, line := range []string{
		"CONNECT evil.example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
		"CONNECT example.com.evil.example.com:443 HTTP/1.1\r\n\r\n",
		"CONNECT example.com:22 HTTP/1.1\r\n\r\n",   // the port of another service
		"CONNECT example.com:8443 HTTP/1.1\r\n\r\n", // and a port that anybody may use
		"CONNECT evil.example.com.:443 HTTP/1.1\r\n\r\n",
		"CONNECT exаmple.com:443 HTTP/1.1\r\n\r\n", // a letter of another script
		"CONNECT xn--exmple-4nf.com:443 HTTP/1.1\r\n\r\n",
		"CONNECT example.com%00.evil.example.com:443 HTTP/1.1\r\n\r\n",
		"CONNECT example.com@evil.example.com:443 HTTP/1.1\r\n\r\n",
		"CONNECT 93.184.216.34:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", // by its address
		"GET http://example.com@evil.example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET http://evil.example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET https://evil.example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET ftp://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1\r\n\r\nx",
	} {
		if status, _, _ := c.raw(line); status != http.StatusForbidden && status != http.StatusBadRequest {
			t.Errorf("%q: %d", line, status)
		}
	}
	if got := w.requests(); len(got) != 0 || len(w.dialed) != 0 {
		t.Errorf("arrived %q, connected to %q", got, w.dialed)
	}
	if hosts := a.Used().Hosts; len(hosts) > 1 { // the last one was refused by its method
		t.Errorf("counted as reached: %q", hosts)
	}

	// A tunnel to port 80 of a host that may be read is looked into as well.
	status, conn, r := c.raw("CONNECT example.com:80 HTTP/1.1\r\n\r\n")
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	_, _ = io.WriteString(conn, "POST /x HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1\r\n\r\nx")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a POST in a tunnel to port 80: %d", resp.StatusCode)
	}

	// The name in the handshake has to be that of the tunnel.
	_, conn, _ = c.raw("CONNECT example.com:443 HTTP/1.1\r\n\r\n")
	if err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: "evil.example.com"}).HandshakeContext(t.Context()); err == nil {
		t.Error("a handshake for another name worked")
	}

	// Final dots and capitals are the same host, not another one.
	if status, body, err := c.inside("Example.COM.", "GET /dot HTTP/1.1\r\nHost: EXAMPLE.com.\r\n\r\n"); err == nil && (status != 200 || body != "fine") {
		t.Errorf("%d %q", status, body)
	}

	// A redirect comes back to the client, whose next request is asked about.
	if status, _, err := c.inside("example.com", "GET /away HTTP/1.1\r\nHost: example.com\r\n\r\n"); status != http.StatusFound || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	if status, _, _ := c.raw("GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: x\r\n\r\n"); status != http.StatusForbidden {
		t.Errorf("metadata: %d", status)
	}
}

// TestSOCKS makes the same decisions for SOCKS 5.
func TestSOCKS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _, _ := newConnector(t, w, httpsafe.ProxyOptions{})
	ask := func(command byte, host string, port uint16) byte {
		t.Helper()
		conn, err := c.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Write([]byte{5, 1, 0})
		answer := make([]byte, 2)
		if _, err := io.ReadFull(conn, answer); err != nil || answer[1] != 0 {
			t.Fatalf("%v, %v", answer, err)
		}
		_, _ = conn.Write(append(append([]byte{5, command, 0, 3, byte(len(host))}, host...), byte(port>>8), byte(port)))
		reply := make([]byte, 10)
		if _, err := io.ReadFull(conn, reply); err != nil {
			return 0xff
		}
		return reply[1]
	}
	const connect, bind, udp = 1, 2, 3
	for _, tt := range []struct {
		command byte
		host    string
		port    uint16
		fine    bool
	}{
		{connect, "open.example.com", 443, true},
		{connect, "open.example.com", 5432, true},
		{connect, "example.com", 443, true},
		{connect, "evil.example.com", 443, false},
		{connect, "example.com", 22, false},
		{connect, "127.0.0.1", 443, false},
		{connect, "localhost", 443, false},
		{connect, "169.254.169.254", 80, false},
		{connect, "::1", 80, false},
		{connect, "fd00:ec2::254", 80, false},
		{connect, "168.63.129.16", 80, false},
		{bind, "open.example.com", 443, false},
		{udp, "open.example.com", 53, false},
		{connect, "open.example.com", 0, false},
	} {
		if got := ask(tt.command, tt.host, tt.port); (got == 0) != tt.fine {
			t.Errorf("command %d to %s:%d: %d", tt.command, tt.host, tt.port, got)
		}
	}
}

// TestNoLookup checks that a name is looked up only after a yes: the lookup
// itself would carry it to a stranger.
func TestNoLookup(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked int
	res := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return nil, errors.New("no servers in this test")
	}}
	c, _, _ := newConnector(t, nil, httpsafe.ProxyOptions{Guard: httpsafe.GuardOptions{Resolver: res}})
	for _, host := range []string{"secret-data.evil.example.com", "evil.example.com", "c2VjcmV0.tunnel.example.net"} {
		c.raw("CONNECT " + host + ":443 HTTP/1.1\r\n\r\n")
		c.raw("GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	mu.Lock()
	if asked != 0 {
		t.Errorf("%d lookups for refused hosts", asked)
	}
	mu.Unlock()
	c.raw("CONNECT open.example.com:443 HTTP/1.1\r\n\r\n")
	mu.Lock()
	defer mu.Unlock()
	if asked == 0 {
		t.Error("an allowed host was not looked up, so this test shows nothing")
	}
}

// TestNeverReached checks addresses that no list of hosts opens, and that a
// listed address opens one port and never ours.
func TestNeverReached(t *testing.T) {
	t.Parallel()
	listen := func() (port uint16, hit func() bool) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		conns := make(chan struct{}, 100)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				conns <- struct{}{}
				_ = c.Close()
			}
		}()
		t.Cleanup(func() { _ = l.Close() })
		return uint16(l.Addr().(*net.TCPAddr).Port), func() bool { return len(conns) > 0 } // it is TCP
	}
	ours, oursHit := listen()
	other, otherHit := listen()
	listed, _ := listen()
	rule := func(s string) httpsafe.AddressRule {
		r, err := httpsafe.ParseAddressRule(s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	res := resolver(t, map[string][][]string{
		"open.example.com": {{"169.254.169.254"}}, "loop.example.com": {{"127.0.0.1"}}, "azure.example.com": {{"168.63.129.16"}},
	})
	p, err := httpsafe.NewProxy(httpsafe.ProxyOptions{
		Guard: httpsafe.GuardOptions{Resolver: res}, OwnPorts: func() []uint16 { return []uint16{ours} },
		Addresses: []httpsafe.AddressRule{rule(fmt.Sprintf("127.0.0.1:%d", listed)), rule(fmt.Sprintf("127.0.0.0/8:%d", ours)), rule(fmt.Sprintf("127.0.0.1:%d", ours))},
	})
	if err != nil {
		t.Fatal(err)
	}
	dial, _ := serve(t, p, &httpsafe.Access{Decide: httpsafe.Anywhere}) // as with network "host"
	c := &connector{t: t, dial: dial}
	for _, host := range []string{
		fmt.Sprintf("127.0.0.1:%d", ours), fmt.Sprintf("[::ffff:127.0.0.1]:%d", ours), fmt.Sprintf("loop.example.com:%d", ours), fmt.Sprintf("127.1.2.3:%d", ours),
		fmt.Sprintf("127.0.0.1:%d", other), fmt.Sprintf("localhost:%d", other), fmt.Sprintf("127.0.0.2:%d", listed), fmt.Sprintf("0.0.0.0:%d", listed),
		"open.example.com:80", "169.254.169.254:80", "[fd00:ec2::254]:80", "168.63.129.16:80", "azure.example.com:80",
		"10.0.0.1:443", "192.168.1.1:443", "[fe80::1]:80", "[fe80::1%25eth0]:80", "100.100.100.200:80", "metadata.google.internal:80", "[64:ff9b::a9fe:a9fe]:80",
	} {
		if status, _, _ := c.raw("CONNECT " + host + " HTTP/1.1\r\n\r\n"); status != http.StatusForbidden && status != http.StatusBadRequest {
			t.Errorf("%s: %d", host, status)
		}
	}
	if oursHit() || otherHit() {
		t.Error("a service of this machine was reached")
	}
	if status, _, _ := c.raw(fmt.Sprintf("CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n", listed)); status != http.StatusOK {
		t.Errorf("the listed address: %d", status)
	}
	// Those of this process count as ours without being told.
	if !strings.Contains(fmt.Sprint(httpsafe.ListeningPorts()), fmt.Sprint(ours)) && httpsafe.ListeningPorts() != nil {
		t.Errorf("%d is not among %v", ours, httpsafe.ListeningPorts())
	}
}

// TestTunnelsEnd checks that nothing of a client outlives it, and what it used.
func TestTunnelsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, a, stop := newConnector(t, w, httpsafe.ProxyOptions{})
	if used := a.Used(); len(used.Hosts) != 0 || used.Requests != 0 {
		t.Errorf("before anything: %+v", used)
	}
	_, idle, _ := c.raw("CONNECT open.example.com:80 HTTP/1.1\r\n\r\n")
	_, read, _ := c.raw("CONNECT example.com:443 HTTP/1.1\r\n\r\n")
	stop()
	for _, conn := range []net.Conn{idle, read} {
		if _, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("after the end: %v", err)
		}
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err == nil {
			_, err = conn.Read(make([]byte, 1))
			if err == nil {
				t.Error("a tunnel goes on after its command")
			}
		}
	}
	if used := a.Used(); strings.Join(used.Hosts, " ") != "example.com open.example.com" || used.Requests != 2 {
		t.Errorf("used %+v", used)
	}
}

func TestHostRules(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"example.com": "example.com", " Example.COM. ": "example.com", "*.example.com": "*.example.com", "example.com:8443": "example.com:8443",
		"[2606:4700::1]:443": "[2606:4700::1]:443", "93.184.216.34": "93.184.216.34",
		"*": "", "*.com": "", "*.": "", "": "", "https://example.com": "", "example.com/x": "", "a.*.com": "", "localhost": "", "x.local": "", "exаmple.com": "",
		"example.com:0": "", "example.com:99999": "", "example.com:": "", "*.1.2.3.4": "", "a..b": "",
	} {
		r, err := httpsafe.ParseHostRule(entry)
		if (err == nil) != (want != "") || err == nil && r.String() != want {
			t.Errorf("%q: %q, %v, want %q", entry, r, err, want)
		}
	}
	for entry, fine := range map[string]bool{
		"127.0.0.1:5432": true, "10.1.2.0/24:443": true, "[::1]:80": true, "[fd00::/8]:80": true,
		"127.0.0.1": false, "127.0.0.1:0": false, "::1:80": false, "localhost:80": false, "10.0.0.0/8": false, "[fe80::1%eth0]:80": false, "": false,
	} {
		if _, err := httpsafe.ParseAddressRule(entry); (err == nil) != fine {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
