package httpsafe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// GuardOptions describe a guarded client. The zero value reaches public
// addresses only, uses no proxy and follows 5 redirects.
type GuardOptions struct {
	// Allow lists addresses that are reachable although they are private. It
	// is compared with the decoded address too, so 10.0.0.0/8 also allows
	// ::ffff:10.0.0.1. Names such as localhost are looked up only if it lists
	// something.
	Allow []netip.Prefix
	// Strict also refuses 198.18.0.0/15, which DNS servers of some VPN
	// programs hand out as stand-ins for public names.
	Strict bool
	// Proxy is an http, https or socks5 URL. The proxy itself may be on a
	// private address; targets are checked before it is asked. It resolves
	// names a second time, so a name that changes its address between the two
	// lookups is then the proxy's to refuse.
	Proxy string
	// EnvProxy takes the proxy from the environment when Proxy is empty.
	EnvProxy bool
	// MaxRedirects is 5 when 0; negative follows none.
	MaxRedirects int
	// Timeout bounds a whole exchange with its redirects and body; 0 leaves
	// that to the context.
	Timeout time.Duration
	// HeaderTimeout bounds the wait for response headers; 0 is 30 s.
	HeaderTimeout time.Duration
	// Resolver looks names up; nil is the system's.
	Resolver *net.Resolver
}

// BlockedError says why the guard refused a target. Target is a host or an address,
// never a whole URL, because those carry credentials.
type BlockedError struct {
	Target string
	Reason string
}

func (b *BlockedError) Error() string {
	if b.Target == "" {
		return "refused: " + b.Reason
	}
	return fmt.Sprintf("refused %s: %s", b.Target, b.Reason)
}

// maxGuardHeader bounds response headers of untrusted servers.
const maxGuardHeader = 64 << 10

// Guarded makes a client for URLs that came from a model, a web page or a
// stranger. The address is checked when the socket is opened, after the only
// resolution there is, so a name cannot pass the check and then change. Every
// redirect is checked like a first request. Refusals are a *BlockedError in the
// chain of the error. Bodies are not bounded here: their reader must be.
func Guarded(o GuardOptions) (*http.Client, error) {
	g := &guard{o: o}
	if o.Resolver == nil {
		g.o.Resolver = net.DefaultResolver
	}
	if o.HeaderTimeout == 0 {
		g.o.HeaderTimeout = 30 * time.Second
	}
	if o.MaxRedirects == 0 {
		g.o.MaxRedirects = 5
	}

	switch {
	case o.Proxy != "":
		u, err := ParseProxy(o.Proxy)
		if err != nil {
			return nil, err
		}
		g.proxy = http.ProxyURL(u)
	case o.EnvProxy:
		g.proxy = http.ProxyFromEnvironment
	}

	g.direct = g.transport(nil, g.dial)
	if g.proxy != nil {
		exempt := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Resolver: g.o.Resolver}
		g.proxied = g.transport(g.proxy, exempt.DialContext)
	}
	return &http.Client{Transport: g, CheckRedirect: g.redirect, Timeout: o.Timeout}, nil
}

// guard is the transport of a guarded client. It has two: the direct one
// checks every address it dials, the proxied one dials nothing but the proxy.
type guard struct {
	o       GuardOptions
	proxy   func(*http.Request) (*url.URL, error)
	direct  *http.Transport
	proxied *http.Transport
}

func (g *guard) transport(proxy func(*http.Request) (*url.URL, error), dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           16,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  g.o.HeaderTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxGuardHeader,
	}
}

// RoundTrip checks the URL and sends the request. http.Client calls it for
// every hop of a redirect.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	err := g.o.Check(req.URL)
	var via *url.URL
	if err == nil && g.proxy != nil {
		via, err = g.proxy(req)
	}
	if err == nil && via != nil {
		err = g.precheck(req.Context(), req.URL.Hostname())
	}

	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}

	if via != nil {
		return g.proxied.RoundTrip(req)
	}
	return g.direct.RoundTrip(req)
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach both transports.
func (g *guard) CloseIdleConnections() {
	g.direct.CloseIdleConnections()
	if g.proxied != nil {
		g.proxied.CloseIdleConnections()
	}
}

// dial checks the name as the transport spells it (international names are
// ASCII by now), then lets Control see every address it resolves to.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := g.o.checkHost(host); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Resolver: g.o.Resolver, Control: g.control}
	return d.DialContext(ctx, network, address)
}

// control runs between the creation of a socket and its connection.
func (g *guard) control(network, address string, _ syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return &BlockedError{Target: network, Reason: "only TCP is allowed"}
	}

	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &BlockedError{Reason: "the address cannot be read"}
	}
	if err := checkPort(ap.Port()); err != nil {
		return err
	}
	return g.o.checkAddr(ap.Addr())
}

// precheck looks at the addresses of a name that a proxy will resolve again. A
// name that only the proxy can resolve passes. Names in other scripts must be
// written in their ASCII form, because proxies differ in how they map them.
func (g *guard) precheck(ctx context.Context, host string) error {
	if strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f }) {
		return &BlockedError{Target: host, Reason: "through a proxy the name must be in its ASCII form (xn--)"}
	}

	host = normalHost(host)
	if _, err := netip.ParseAddr(host); err == nil {
		return nil // a literal, checked with the URL
	}

	addrs, err := g.o.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return ctx.Err() // not resolvable here, unless the context ended
	}

	for _, a := range addrs {
		if err := g.o.checkAddr(a); err != nil {
			return err
		}
	}
	return nil
}

// redirect decides about the next hop and takes from it what was meant for the
// first origin only.
func (g *guard) redirect(req *http.Request, via []*http.Request) error {
	if limit := max(g.o.MaxRedirects, 0); len(via) > limit {
		return fmt.Errorf("more than %d redirects", limit)
	}
	if err := g.o.Check(req.URL); err != nil {
		return err
	}

	req.URL.User = nil
	req.Header.Del("Referer") // its query may hold a token
	first := via[0]
	home := func(u *url.URL) bool { return origin(u) == origin(first.URL) }
	crossed := !home(req.URL) || slices.ContainsFunc(via, func(r *http.Request) bool { return !home(r.URL) })
	if !crossed {
		return nil
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme == "http" && carriesMore(first.Header) {
		return &BlockedError{Target: req.URL.Hostname(), Reason: "redirect from https to http of a request with its own headers"}
	}
	if req.Body != nil && req.Body != http.NoBody {
		return &BlockedError{Target: req.URL.Hostname(), Reason: "redirect of a request body to another origin"}
	}

	for name := range req.Header {
		if !harmless(name) {
			req.Header.Del(name)
		}
	}
	return nil
}

func carriesMore(h http.Header) bool {
	for name := range h {
		if !harmless(name) {
			return true
		}
	}
	return false
}

// harmless reports whether a header may follow a redirect to another origin.
func harmless(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "Range":
		return true
	default:
		return false
	}
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	return strings.ToLower(u.Scheme) + "://" + normalHost(u.Hostname()) + ":" + port
}

// WithoutURL removes the URL that http.Client puts before every error: it may
// hold credentials in its query.
func WithoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
