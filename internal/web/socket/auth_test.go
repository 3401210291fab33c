package socket

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	ws "github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// request is a handshake as it arrives.
type request struct {
	target, peer, host string
	header             map[string]string
}

// status runs a handshake up to the answer; 0 means that it is let in.
func (q request) status(t *testing.T, c *Channel) int {
	t.Helper()
	ctx, peer := connected(t, strings.HasPrefix(q.peer, "[::1]"))
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, q.target, nil)
	r.RemoteAddr, r.Host = peer, "localhost:8765"
	if q.peer != "" && !strings.HasPrefix(q.peer, "[::1]") {
		r.RemoteAddr = q.peer
	}
	if q.host != "" {
		r.Host = q.host
	}
	for k, v := range q.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	if _, ok := c.admit(w, r); ok {
		return 0
	}
	var body struct{ Error string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Error == "" {
		t.Errorf("%s: the refusal says nothing: %s", q.target, w.Body)
	}
	return w.Code
}

// connected is the context of a request that came over a connection of our own,
// and the address at its other end.
func connected(t *testing.T, six bool) (ctx context.Context, peer string) {
	t.Helper()
	addr := "127.0.0.1:0"
	if six {
		addr = "[::1]:0"
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	there, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return context.WithValue(t.Context(), http.LocalAddrContextKey, here.LocalAddr()), here.RemoteAddr().String()
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	const static = `{"token":"tok"}`
	const open = `{"websocketRequiresToken":false}`
	const proxied = `{"trustedProxyAuth":{"trustedPeerCidrs":["10.0.0.0/8","::ffff:192.168.0.0/112"],"assertionHeader":"X-User"}}`
	socketFile := `{"websocketRequiresToken":false,"unixSocketPath":"` + filepath.ToSlash(os.TempDir()) + `/s"}`
	h := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	for _, tt := range []struct {
		name, section string
		q             request
		want          int
	}{
		{"query", static, request{target: "/?token=tok"}, 0},
		{"header", static, request{target: "/", header: h("Authorization", "Bearer tok")}, 0},
		{"subprotocol", static, request{target: "/", header: h("Sec-WebSocket-Protocol", "nanobot, nanobot.token.tok")}, 0},
		{"remote", static, request{target: "/?token=tok", peer: "203.0.113.9:1"}, 0},
		{"wrong token", static, request{target: "/?token=tik"}, 401},
		{"no token", static, request{target: "/"}, 401},
		{"static token although not required", `{"token":"tok","websocketRequiresToken":false}`, request{target: "/"}, 401},
		{"required and none configured", `{}`, request{target: "/"}, 401},
		{"unknown issued token", `{}`, request{target: "/?token=nbwt_x"}, 401},
		{"open", open, request{target: "/"}, 0},
		{"open v6", open, request{target: "/", peer: "[::1]:5", host: "[::1]:8765"}, 0},
		{"open to nobody in particular", open, request{target: "/", peer: "127.0.0.1:5000"}, 401},
		{"open behind an unknown proxy", open, request{target: "/", header: h("X-Envoy-Internal", "1")}, 401},
		{"open to others", open, request{target: "/", peer: "192.0.2.1:7"}, 401},
		{"open behind a proxy", open, request{target: "/", header: h("X-Forwarded-For", "192.0.2.1")}, 401},
		{"open behind another proxy", open, request{target: "/", header: h("Via", "1.1 front")}, 401},
		{"open socket file", socketFile, request{target: "/", peer: "@", host: "anything"}, 0},
		{"open socket file behind a proxy", socketFile, request{target: "/", peer: "@", header: h("X-Forwarded-For", "192.0.2.1")}, 401},
		{"rebound name", open, request{target: "/", host: "evil.example:8765"}, 401},
		{"rebound name with its origin", open, request{target: "/", host: "evil.example", header: h("Origin", "http://evil.example")}, 401},
		{"other page", open, request{target: "/", header: h("Origin", "https://evil.example")}, 403},
		{"other page with token", static, request{target: "/?token=tok", header: h("Origin", "https://evil.example")}, 403},
		{"sandboxed page", static, request{target: "/?token=tok", header: h("Origin", "null")}, 403},
		{"own page", static, request{target: "/?token=tok", header: h("Origin", "http://localhost:8765")}, 0},
		{"other port", static, request{target: "/?token=tok", header: h("Origin", "http://localhost:3000")}, 403},
		{"allowed page", `{"token":"tok","allowedOrigins":["https://*.example"]}`, request{target: "/?token=tok", header: h("Origin", "https://app.example")}, 0},
		{"allowed page without TLS", `{"token":"tok","allowedOrigins":["https://*.example"]}`, request{target: "/?token=tok", header: h("Origin", "http://app.example")}, 403},
		{"public name", `{"token":"tok","publicWsUrl":"wss://bot.example/"}`, request{target: "/?token=tok", header: h("Origin", "https://bot.example")}, 0},
		{"client listed", `{"token":"tok","allowFrom":["a"]}`, request{target: "/?token=tok&client_id=a"}, 0},
		{"client not listed", `{"token":"tok","allowFrom":["a"]}`, request{target: "/?token=tok&client_id=b"}, 403},
		{"nobody listed", `{"token":"tok","allowFrom":[]}`, request{target: "/?token=tok&client_id=b"}, 403},
		{"proxy", proxied, request{target: "/", peer: "10.1.2.3:4", header: h("X-User", "ann", "X-Forwarded-For", "9.9.9.9")}, 0},
		{"proxy, mapped address", proxied, request{target: "/", peer: "[::ffff:10.1.2.3]:4", header: h("X-User", "ann")}, 0},
		{"proxy, mapped network", proxied, request{target: "/", peer: "192.168.0.7:4", header: h("X-User", "ann")}, 0},
		{"proxy without a name", proxied, request{target: "/", peer: "10.1.2.3:4"}, 401},
		{"name without the proxy", proxied, request{target: "/", peer: "11.1.2.3:4", header: h("X-User", "ann")}, 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := build(t, deps(t, time.Now), Options{}, tt.section)
			if got := tt.q.status(t, c); got != tt.want {
				t.Errorf("status %d, want %d", got, tt.want)
			}
		})
	}
}

func TestClientID(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	long := strings.Repeat("ü", 100)
	for id, check := range map[string]func(string) bool{
		"":   func(s string) bool { return strings.HasPrefix(s, "anon-") && len(s) == 17 },
		long: func(s string) bool { return s == strings.Repeat("ü", 64) },
	} {
		c := r.dial("token=" + testToken + "&client_id=" + id)
		c.say("x")
		if got := r.inbound().SenderID; !check(got) {
			t.Errorf("client_id %q became %q", id, got)
		}
	}
}

func TestIssuedTokens(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	c := build(t, deps(t, func() time.Time { return now }), Options{}, `{"tokenIssuePath":"/issue","tokenIssueSecret":"S","tokenTtlS":60}`)
	issue := func(header, value string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/issue", nil)
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		c.serveToken(w, r)
		var body struct {
			Token     string
			ExpiresIn int `json:"expires_in"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Errorf("answer %s: %v", w.Body, err)
		}
		if w.Code == 200 && (body.ExpiresIn != 60 || !strings.HasPrefix(body.Token, "nbwt_") || len(body.Token) != 5+43) {
			t.Errorf("answer %s", w.Body)
		}
		return w.Code, body.Token
	}
	for _, h := range [][2]string{{"Authorization", "Bearer X"}, {"X-Nanobot-Auth", "X"}, {"X-Other", "S"}} {
		if code, _ := issue(h[0], h[1]); code != 401 {
			t.Errorf("%v: status %d, want 401", h, code)
		}
	}
	_, a := issue("Authorization", "Bearer S")
	_, b := issue("X-Nanobot-Auth", "S")
	use := func(token string) int { return request{target: "/?token=" + token}.status(t, c) }
	if code := (request{target: "/?token=" + a, header: map[string]string{"Origin": "http://evil"}}).status(t, c); code != 403 {
		t.Errorf("wrong origin: %d", code)
	}
	if got := [2]int{use(a), use(a)}; got != [2]int{0, 401} {
		t.Errorf("a token used twice: %v, want it good once, and not wasted by a refusal before", got)
	}
	now = now.Add(60 * time.Second)
	if got := use(b); got != 401 {
		t.Errorf("an expired token: %d", got)
	}
	roomFor(c.issued, now)
	if code, _ := issue("X-Nanobot-Auth", "S"); code != 429 {
		t.Errorf("with too many tokens: %d, want 429", code)
	}
	now = now.Add(time.Hour)
	if code, _ := issue("X-Nanobot-Auth", "S"); code != 200 {
		t.Errorf("after they expired: %d, want 200", code)
	}
}

// Without a secret tokens are for programs of this machine. A page of somebody
// else cannot read one, and must not use them up either.
func TestIssueWithoutSecret(t *testing.T) {
	t.Parallel()
	c := build(t, deps(t, time.Now), Options{}, `{"tokenIssuePath":"/issue"}`)
	for _, tt := range []struct {
		name, header, value string
		want                int
	}{
		{"program", "User-Agent", "curl/8", 200},
		{"unknown header", "X-None", "", 401},
		{"own page", "Sec-Fetch-Site", "same-origin", 200},
		{"typed address", "Sec-Fetch-Site", "none", 200},
		{"picture in a page", "Sec-Fetch-Site", "cross-site", 401},
		{"other port", "Sec-Fetch-Site", "same-site", 401},
		{"page", "Origin", "https://evil.example", 401},
		{"sandboxed page", "Origin", "null", 401},
		{"proxy", "X-Forwarded-For", "192.0.2.1", 401},
	} {
		ctx, peer := connected(t, false)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/issue", nil)
		r.RemoteAddr, r.Host = peer, "localhost:8765"
		r.Header.Set(tt.header, tt.value)
		w := httptest.NewRecorder()
		c.serveToken(w, r)
		if w.Code != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, w.Code, tt.want)
		}
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	r := start(t, `{"token":"t","path":"/ws/","tokenIssuePath":"/issue"}`)
	for path, want := range map[string]int{"/ws": 426, "/ws/": 426, "/": 404, "/ws/x": 404, "/issue": 200, "/api/media/a/b": 404} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestOversizeFrame(t *testing.T) {
	t.Parallel()
	r := start(t, `{"token":"`+testToken+`","maxMessageBytes":1024}`)
	c := r.login()
	c.say(strings.Repeat("x", 2000))
	_, _, err := c.conn.Read(t.Context())
	if got := ws.CloseStatus(err); got != ws.StatusMessageTooBig {
		t.Errorf("closed with %v, want 1009", got)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ section, want string }{
		{`{"tokn":"x"}`, `unknown key "tokn", did you mean "token"`},
		{`{"path":"ws"}`, "path"},
		{`{"path":"/x","tokenIssuePath":"/x/"}`, "tokenIssuePath"},
		{`{"path":"/webui/bootstrap/"}`, "path"},
		{`{"path":"/health"}`, "path"},
		{`{"path":"/api"}`, "path"},
		{`{"tokenIssuePath":"/api/token"}`, "tokenIssuePath"},
		{`{"tokenIssuePath":"/v1/models"}`, "tokenIssuePath"},
		{`{"tokenTtlS":29}`, "tokenTtlS"},
		{`{"maxMessageBytes":1023}`, "maxMessageBytes"},
		{`{"pingIntervalS":4.9}`, "pingIntervalS"},
		{`{"pingTimeoutS":301}`, "pingTimeoutS"},
		{`{"port":70000}`, "port"},
		{`{"sslCertfile":"a"}`, "sslKeyfile"},
		{`{"unixSocketPath":"a"}`, "unixSocketPath"},
		{`{"publicWsUrl":"https://a/"}`, "publicWsUrl"},
		{`{"publicWsUrl":"ws://u:p@a/"}`, "publicWsUrl"},
		{`{"publicWsUrl":"ws://a/other"}`, "publicWsUrl"},
		{`{"allowedOrigins":["[a"]}`, "allowedOrigins"},
		{`{"host":"0.0.0.0"}`, "host"},
		{`{"host":"192.168.1.5","websocketRequiresToken":false}`, "host"},
		{`{"host":"0.0.0.0","token":"short"}`, "at least 16"},
		{`{"host":"0.0.0.0","tokenIssueSecret":"short"}`, "at least 16"},
		{`{"trustedProxyAuth":{"trustedPeerCidrs":["10.0.0.0/8"]}}`, "assertionHeader"},
		{`{"trustedProxyAuth":{"trustedPeerCidrs":["0.0.0.0/0"],"assertionHeader":"X-User"}}`, "covers all addresses"},
		{`{"trustedProxyAuth":{"trustedPeerCidrs":["::ffff:0.0.0.0/96"],"assertionHeader":"X-User"}}`, "covers all addresses"},
		{`{"trustedProxyAuth":{"trustedPeerCidrs":["10.0.0.0/8"],"assertionHeader":"X-Forwarded-User"}}`, "assertionHeader"},
		{`{"trustedProxyAuth":{"trustedPeerCidrs":["ten"],"assertionHeader":"X-User"}}`, "trustedPeerCidrs"},
	} {
		_, err := decode(json.RawMessage(tt.section))
		if err == nil || !chat.IsFatal(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want a fatal one about %q", tt.section, err, tt.want)
		}
	}
	for _, tt := range []struct {
		section string
		own     bool
	}{
		{``, false},
		{`{"path":"/ws"}`, false},
		{`{"port":9000}`, true},
		{`{"host":"::1"}`, true},
		{`{"host":"0.0.0.0","token":"0123456789abcdef"}`, true},
		{`{"unixSocketPath":"` + filepath.ToSlash(os.TempDir()) + `/x"}`, true},
	} {
		s, err := decode(json.RawMessage(tt.section))
		if err != nil {
			t.Errorf("%s: %v", tt.section, err)
			continue
		}
		if s.own != tt.own || s.Port == 0 || s.Host == "" || !s.streaming() || s.MaxMessageBytes != 37748736 {
			t.Errorf("%s: %+v", tt.section, s)
		}
	}
}

// serveOwn runs a channel with a listener of its own.
func serveOwn(t *testing.T, section string) (stop func()) {
	t.Helper()
	c := build(t, deps(t, time.Now), Options{}, section)
	if len(c.Routes()) != 0 {
		t.Error("a channel with its own listener has routes for the gateway")
	}
	ready := make(chan struct{})
	c.d.Ready = func(string, error) { close(ready) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, func(context.Context, bus.Inbound) error { return nil }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// On the listener of the gateway a secret must be as good as on one of our own.
func TestExposedHouse(t *testing.T) {
	t.Parallel()
	const long = "long-enough-to-try-0"
	for _, tt := range []struct {
		section string
		exposed bool
		want    string
	}{
		{`{"token":"short"}`, false, ""},
		{`{"token":"short"}`, true, "token: the gateway"},
		{`{"token":"` + long + `"}`, true, ""},
		{`{"token":"` + long + `","tokenIssueSecret":"short"}`, true, "tokenIssueSecret: the gateway"},
		{`{"token":"short","port":8765}`, true, ""},
		{`{"websocketRequiresToken":false}`, true, ""},
	} {
		_, err := Driver(Options{Exposed: func() bool { return tt.exposed }}).New(deps(t, time.Now), json.RawMessage(tt.section))
		if tt.want == "" && err != nil || tt.want != "" && (!chat.IsFatal(err) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s, exposed %t: error %v, want %q", tt.section, tt.exposed, err, tt.want)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("file modes are different there")
	}
	dir, err := os.MkdirTemp("", "ws") //nolint:usetesting // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s")
	for range 2 { // the second finds what the first may have left
		stop := serveOwn(t, `{"unixSocketPath":"`+path+`","websocketRequiresToken":false}`)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("socket %v %v, want mode 0600", info, err)
		}
		tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}}
		conn, err := dial(t.Context(), "ws://anything/", &ws.DialOptions{HTTPClient: &http.Client{Transport: tr}})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _, _ = conn.Read(t.Context()); _, _, _ = conn.Read(t.Context()) }()
		stop()
		_ = conn.CloseNow()
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := build(t, deps(t, time.Now), Options{}, `{"unixSocketPath":"`+path+`"}`)
	if err := c.Run(t.Context(), nil); !chat.IsFatal(err) {
		t.Errorf("a file in the place of the socket: %v, want a fatal error", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, pool := certificate(t, dir)
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a free port
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close()
	stop := serveOwn(t, `{"port":`+port+`,"token":"t","sslCertfile":"`+cert+`","sslKeyfile":"`+key+`"}`)
	defer stop()
	try := func(cfg *tls.Config) error {
		tr := &http.Transport{TLSClientConfig: cfg}
		defer tr.CloseIdleConnections()
		conn, err := dial(t.Context(), "wss://127.0.0.1:"+port+"/?token=t", &ws.DialOptions{HTTPClient: &http.Client{Transport: tr}})
		if err == nil {
			_ = conn.CloseNow()
		}
		return err
	}
	if err := try(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}); err != nil {
		t.Errorf("dial: %v", err)
	}
	if err := try(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

func certificate(t *testing.T, dir string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &priv.PublicKey, priv)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return cert, key, pool
}

// roomFor issues tokens until there is no room for more, and counts them.
func roomFor(tokens *auth.Tokens, now time.Time) (n int) {
	for ; ; n++ {
		if _, ok := tokens.Issue(now, time.Minute, true); !ok {
			return n
		}
	}
}
