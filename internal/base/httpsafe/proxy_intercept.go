package httpsafe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// authority signs the certificates by which the proxy stands in for hosts that
// may only be read. Its key lives in this process alone and only confined
// programs trust it.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

const (
	authorityYears = 10
	leafLife       = 30 * 24 * time.Hour
)

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certificate of the proxy: %w", err)
	}

	now := time.Now()
	t := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "nanobot proxy for commands"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(authorityYears, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}

	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the proxy: %w", err)
	}

	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate of the proxy: %w", err)
	}
	return &authority{
		cert:   cert,
		key:    key,
		pem:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		leaves: map[string]*tls.Certificate{},
	}, nil
}

func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}

// leaf returns the certificate for a host. There are as many as package hosts.
func (a *authority) leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()

	now := time.Now()
	if c := a.leaves[host]; c != nil && now.Before(c.Leaf.NotAfter.Add(-leafLife/2)) {
		return c, nil
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}

	t := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: host},
		DNSNames:              []string{host},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(leafLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}

	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}

	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}

	c := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: parsed}
	a.leaves[host] = c
	return c, nil
}

// upstreamTLS verifies hosts with the roots of the system and with extra ones.
func upstreamTLS(bundle []byte) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(bundle) == 0 {
		return c, nil
	}

	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}

	if !pool.AppendCertsFromPEM(bundle) {
		return nil, errors.New("the further certificates of the proxy cannot be read")
	}

	c.RootCAs = pool
	return c, nil
}

// intercept serves a client that wants to talk to a host that may only be
// read: each request is looked at and sent on by us.
func (s *service) intercept(ctx context.Context, in net.Conn, target HostRequest) {
	scheme := "http"
	if target.Port == 443 {
		scheme = "https"
		secure := tls.Server(in, &tls.Config{
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"http/1.1"},
			GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				if name := normalHost(hello.ServerName); name != "" && name != target.Host {
					return nil, errors.New("the name in the handshake is not that of the tunnel")
				}
				return s.p.authority.leaf(target.Host)
			},
		})

		_ = in.SetDeadline(time.Now().Add(proxyHeaderTime))
		if secure.HandshakeContext(ctx) != nil {
			return
		}

		_ = in.SetDeadline(time.Time{})
		in = secure
	}

	over := make(chan struct{})
	srv := s.p.server(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := sameHost(r, target); err != nil {
			s.answerRefused(w, r, target.Host, err) // without Hijack: the server would close the connection
			return
		}
		s.relay(w, r, scheme, target, ReachRead)
	}))

	var once sync.Once
	srv.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateClosed {
			once.Do(func() { close(over) })
		}
	}

	one := &handover{conns: make(chan net.Conn, 1), done: over, addr: in.LocalAddr()}
	one.conns <- in
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	_ = srv.Serve(one) // ends with its connection
}

// sameHost refuses a request that means another host than the tunnel: the name
// that was decided about is the name that is served.
func sameHost(r *http.Request, target HostRequest) error {
	other := &BlockedError{Target: target.Host, Reason: "the request names another host than its tunnel"}
	if r.Method == http.MethodConnect || r.URL.Opaque != "" {
		return other
	}

	for _, name := range []string{r.Host, r.URL.Host} {
		if name == "" {
			continue
		}

		if !strings.Contains(strings.TrimPrefix(name, "["), ":") {
			name = net.JoinHostPort(name, fmt.Sprint(target.Port))
		}

		if t, err := parseTarget(name); err != nil || t != target {
			return other
		}
	}

	return nil
}

// maxFetchBody bounds what git says about the commits it has.
const maxFetchBody = 1 << 20

// readOnly refuses what is more than reading.
func readOnly(r *http.Request) error {
	no := func(reason string) error { return &BlockedError{Target: r.Host, Reason: reason} }
	const more = " The owner can allow everything at this host: nanobot config set tools.exec.allowedHosts."
	if r.Header.Get("Upgrade") != "" || strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") {
		return no("commands only read from this host, without upgrades of the connection.")
	}

	body := r.ContentLength != 0 || len(r.TransferEncoding) > 0
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/info/refs") && r.URL.Query().Get("service") != "git-upload-pack" && r.URL.Query().Has("service"):
		return no("commands only read from this host; they do not push." + more)
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && body:
		return no("commands only read from this host; a request to read has no body.")
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return nil
	case r.Method == http.MethodPost && codeHost(r.Host) && strings.HasSuffix(r.URL.EscapedPath(), "/git-upload-pack") &&
		r.Header.Get("Content-Type") == "application/x-git-upload-pack-request":
		if r.ContentLength > maxFetchBody {
			return no("the request of git is too long")
		}
		return nil

	default:
		return no(r.Method + " is not allowed: commands only read from this host." + more)
	}
}

// readHeaders returns what a request to read may say about itself. Others are
// left out: among them are some by which a server takes it for another method.
func readHeaders(h http.Header) http.Header {
	const list = `Accept Accept-Encoding Accept-Language Authorization Cache-Control Content-Encoding Content-Type Git-Protocol
		If-Match If-Modified-Since If-None-Match If-Range If-Unmodified-Since Pragma Range User-Agent`
	out := http.Header{}
	for name := range strings.FieldsSeq(list) {
		if v := h.Values(name); len(v) > 0 {
			out[name] = v
		}
	}
	return out
}

// uploadLimit bounds the body of one request.
func uploadLimit(reach Reach) int64 {
	if reach == ReachRead {
		return maxFetchBody
	}
	return 1 << 40
}

// handover is a listener for connections that were accepted elsewhere.
type handover struct {
	conns chan net.Conn
	done  <-chan struct{}
	addr  net.Addr
}

func (h *handover) pass(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.done:
		return false
	}
}

// Accept implements net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handover) Close() error { return nil }

// Addr implements net.Listener.
func (h *handover) Addr() net.Addr { return h.addr }
