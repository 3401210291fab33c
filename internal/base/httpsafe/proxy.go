package httpsafe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ProxyOptions describe a Proxy.
type ProxyOptions struct {
	// Guard says which targets are reachable, as for a guarded client. Redirects
	// are the business of the proxy's clients; each hop is a request of its own.
	Guard GuardOptions
	// Addresses are ports of addresses that are not public, which programs may
	// reach all the same.
	Addresses []AddressRule
	// OwnPorts lists the ports of this machine that no client reaches through
	// the proxy, not even by Addresses; nil is ListeningPorts.
	OwnPorts func() []uint16
	// Dial, when set, connects to a host in place of the network. It is meant
	// for tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Bundle holds further certificates that upstream servers are verified with,
	// as PEM. It is meant for tests.
	Bundle []byte
	// MaxConns bounds connections of one client at one time; 0 is 128. Further
	// ones wait.
	MaxConns int
	Log      *slog.Logger // hosts only, never paths; nil discards
}

// HostRequest is a host that a program wants to reach.
type HostRequest struct {
	Host string // lower case, ASCII, without a final dot; or an address
	Port uint16
	// Exposes is set for a single request to a package host that others than its
	// operator see something of: what they see. Such a request counts as one to a
	// host of a stranger.
	Exposes string
}

// String returns the target as it is written in a URL.
func (r HostRequest) String() string { return net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port))) }

// Access holds what one client of the proxy, a command or a server, may do.
// The zero value may do nothing.
type Access struct {
	// Decide says what the client may do at a host. It is asked before the name
	// is looked up, and may wait for a person. An error is a refusal whose text
	// the client sees.
	Decide func(ctx context.Context, r HostRequest) (Reach, error)
	// Spend counts what is about to be sent, and may refuse it; nil allows all.
	Spend func(ctx context.Context, u Use) error
	// Contained reports, for each request, whether what the client says may be a
	// stranger's words. Package hosts then serve it stored content only; nil never.
	Contained func() bool
	// used counts what was reached.
	used traffic
}

// Traffic holds what a client of the proxy did.
type Traffic struct {
	Hosts    []string // that were reached, sorted
	Requests int64    // connections and requests that were let through
	Sent     int64    // bytes
	Received int64
	Refused  []string // why something was not let through, the first few reasons
}

// Used reports what the client did so far.
func (a *Access) Used() Traffic {
	a.used.mu.Lock()
	defer a.used.mu.Unlock()
	return Traffic{
		Hosts:    slices.Sorted(maps.Keys(a.used.hosts)),
		Requests: a.used.requests,
		Sent:     a.used.sent.Load(),
		Received: a.used.received.Load(),
		Refused:  slices.Clone(a.used.refused),
	}
}

// traffic counts what a client does.
type traffic struct {
	mu             sync.Mutex
	hosts          map[string]bool
	requests       int64
	refused        []string
	sent, received atomic.Int64
}

// maxReasons bounds what is remembered about refusals.
const maxReasons = 5

func (t *traffic) refuse(code int, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if code == http.StatusForbidden && len(t.refused) < maxReasons && !slices.Contains(t.refused, text) {
		t.refused = append(t.refused, text)
	}
}

func (t *traffic) reach(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hosts == nil {
		t.hosts = map[string]bool{}
	}
	t.hosts[host] = true
	t.requests++
}

func (a *Access) contained() bool { return a.Contained != nil && a.Contained() }

func (a *Access) spend(ctx context.Context, u Use) error {
	if a.Spend == nil {
		return nil
	}
	return a.Spend(ctx, u)
}

// Proxy is the way out for programs that are not to be trusted with a network:
// an HTTP and SOCKS 5 proxy. Who may reach which host is decided by the Access
// of a client before the name is looked up. Every address is checked when it is
// dialled, after the only resolution there is. Hosts that may only be read are
// served with a certificate of our own, since what is asked for cannot be seen
// otherwise.
type Proxy struct {
	o         ProxyOptions
	guard     *guard
	transport *http.Transport
	authority *authority
	own       func() ([]net.Addr, error) // addresses of this machine
}

const (
	proxyHeaderTime = 10 * time.Second
	proxyIdleTime   = 2 * time.Minute
	// proxyLifetime ends what never gets idle: a command may run for 10 minutes
	// at most, a background one for half an hour without being looked at.
	proxyLifetime = time.Hour
)

// NewProxy makes a proxy; Serve runs it for one client.
func NewProxy(o ProxyOptions) (*Proxy, error) {
	c, err := Guarded(o.Guard)
	if err != nil {
		return nil, err
	}

	g, ok := c.Transport.(*guard)
	if !ok {
		return nil, errors.New("guarded client without a guard")
	}
	if strings.HasPrefix(o.Guard.Proxy, "socks5") {
		return nil, errors.New("commands cannot use a socks5 proxy: set an http one, or network \"none\"")
	}

	if o.MaxConns == 0 {
		o.MaxConns = 128
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.OwnPorts == nil {
		o.OwnPorts = ListeningPorts
	}

	p := &Proxy{o: o, guard: g, own: net.InterfaceAddrs}
	if p.authority, err = newAuthority(); err != nil {
		return nil, err
	}

	p.transport = g.transport(nil, func(ctx context.Context, _, address string) (net.Conn, error) {
		r, err := parseTarget(address)
		if err != nil {
			return nil, err
		}
		return p.dial(ctx, r)
	})

	p.transport.ResponseHeaderTimeout = proxyIdleTime
	p.transport.TLSClientConfig, err = upstreamTLS(o.Bundle)
	return p, err
}

// Certificate returns the one that clients have to trust, as PEM.
func (p *Proxy) Certificate() []byte { return p.authority.pem }

// Close drops connections that are kept for later.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }

// Serve answers one client on a listener, which it closes, until the context
// ends. It returns when the last connection is closed.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, a *Access) error {
	slots := make(chan struct{}, p.o.MaxConns)
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		for range p.o.MaxConns {
			slots <- struct{}{} // every connection gives its slot back
		}
	}()

	s := &service{p: p, a: a, ctx: ctx}
	web := &handover{conns: make(chan net.Conn), done: ctx.Done(), addr: l.Addr()}
	srv := p.server(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			s.connect(w, r)
			return
		}
		s.pass(w, r)
	}))

	var served sync.WaitGroup
	served.Go(func() { _ = srv.Serve(web) }) // ends with its context
	defer served.Wait()
	stop := context.AfterFunc(ctx, func() { _, _ = srv.Close(), l.Close() })
	defer stop()
	defer cancel()

	bounded := &boundedListener{Listener: l, slots: slots, done: ctx.Done()}
	for {
		c, err := bounded.Accept()
		if err != nil {
			_ = l.Close()
			if ctx.Err() != nil {
				return nil
			}
			return err
		}

		served.Go(func() { s.greet(c, web) }) //nolint:contextcheck // the tunnel lives as long as the service
	}
}

// server makes an HTTP server with the bounds of a proxy.
func (p *Proxy) server(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: proxyHeaderTime,
		ReadTimeout:       proxyLifetime,
		WriteTimeout:      proxyLifetime,
		IdleTimeout:       proxyIdleTime,
		MaxHeaderBytes:    maxGuardHeader,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // they name what a client sent
	}
}

// service is the proxy for one client.
type service struct {
	p   *Proxy
	a   *Access
	ctx context.Context //nolint:containedctx // the life of the client, which outlasts single requests
}

// greet finds out by the first byte whether a connection speaks SOCKS or HTTP.
func (s *service) greet(c net.Conn, web *handover) {
	first := make([]byte, 1)
	_ = c.SetReadDeadline(time.Now().Add(proxyIdleTime))
	stop := context.AfterFunc(s.ctx, func() { _ = c.Close() })
	_, err := io.ReadFull(c, first)
	stop()

	if err != nil {
		_ = c.Close()
		return
	}

	_ = c.SetReadDeadline(time.Time{})
	in := &resumed{Conn: c, early: first}
	if first[0] == socksVersion {
		defer func() { _ = in.Close() }()
		s.socks(in)
		return
	}

	if !web.pass(in) {
		_ = in.Close()
	}
}

// refused answers in a way that a person or a model can act on.
func (s *service) refused(w http.ResponseWriter, r *http.Request, host string, err error) {
	if r.Method != http.MethodConnect {
		s.answerRefused(w, r, host, err)
		return
	}

	code, text := s.recordRefusal(r, host, err)
	// Of a refused tunnel most programs show the status line at most.
	in, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}

	defer func() { _ = in.Close() }()
	_ = in.SetDeadline(time.Now().Add(proxyHeaderTime))
	_, _ = fmt.Fprintf(in, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s\n",
		code, oneLine(text), len(text)+1, text)
}

// answerRefused answers as any web server does.
func (s *service) answerRefused(w http.ResponseWriter, r *http.Request, host string, err error) {
	code, text := s.recordRefusal(r, host, err)
	w.Header().Set("Connection", "close")
	http.Error(w, text, code)
}

// recordRefusal logs and counts a refused request and returns what the command reads.
func (s *service) recordRefusal(r *http.Request, host string, err error) (code int, text string) {
	code, text = explain(err)
	s.p.o.Log.InfoContext(r.Context(), "request of a command not passed on", "host", host, "status", code)
	s.a.used.refuse(code, text)
	return code, text
}

// oneLine makes a text fit for the status line of an HTTP response, which is
// ASCII: a stricter rule than that of text.Label.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// explain words an error for the program that caused it.
func explain(err error) (code int, text string) {
	if b, ok := errors.AsType[*BlockedError](err); ok {
		return http.StatusForbidden, b.Error()
	}
	return http.StatusBadGateway, "the host cannot be reached"
}

// admit decides about a target, before anything is looked up or connected.
func (s *service) admit(ctx context.Context, r HostRequest) (Reach, error) {
	if err := s.p.checkTarget(r); err != nil {
		return ReachNone, err
	}
	if s.a.Decide == nil {
		return ReachNone, &BlockedError{Target: r.Host, Reason: "no host is allowed here"}
	}

	reach, err := s.a.Decide(ctx, r)
	if err == nil && reach == ReachNone {
		err = &BlockedError{Target: r.Host, Reason: "this host is not allowed"}
	}

	if err != nil {
		return ReachNone, err
	}

	s.a.used.reach(r.Host)
	return reach, nil
}

// connect opens a tunnel to a host, or what looks like one.
func (s *service) connect(w http.ResponseWriter, r *http.Request) {
	target, err := parseTarget(r.Host)
	if err != nil {
		s.refused(w, r, "", err)
		return
	}

	reach, err := s.admit(r.Context(), target)
	if err != nil {
		s.refused(w, r, target.Host, err)
		return
	}

	out, err := s.open(s.ctx, target, reach) //nolint:contextcheck // a tunnel outlives its request
	if err != nil {
		s.refused(w, r, target.Host, err)
		return
	}

	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		if out != nil {
			_ = out.Close()
		}
		http.Error(w, "no tunnels on this connection", http.StatusInternalServerError)
		return
	}

	defer func() { _ = in.Close() }()
	_ = in.SetDeadline(time.Time{})
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		if out != nil {
			_ = out.Close()
		}
		return
	}

	early := make([]byte, buffered.Reader.Buffered())
	_, _ = io.ReadFull(buffered, early)
	s.carry(&resumed{Conn: in, early: early}, out, target) //nolint:contextcheck // as above
}

// open makes the connection of a tunnel; a host that is only read gets none,
// since each request is looked at.
func (s *service) open(ctx context.Context, target HostRequest, reach Reach) (net.Conn, error) {
	if reach == ReachRead {
		return nil, nil // there is nothing to connect yet
	}
	if err := s.a.spend(ctx, Use{Host: target.Host, Requests: 1}); err != nil {
		return nil, err
	}
	return s.p.dial(ctx, target)
}

// carry joins a client with a host, directly or through our own eyes.
func (s *service) carry(in net.Conn, out net.Conn, target HostRequest) {
	ctx, cancel := context.WithTimeout(s.ctx, proxyLifetime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		_ = in.Close()
		if out != nil {
			_ = out.Close()
		}
	})
	defer stop()
	s.p.o.Log.DebugContext(ctx, "tunnel of a command", "host", target.Host)

	if out == nil {
		s.intercept(ctx, in, target)
		return
	}

	defer func() { _ = out.Close() }()
	join(in, &metered{Conn: out, s: s, ctx: ctx, host: target.Host})
}

// parseTarget reads host:port. Names in other scripts are refused, because
// their mapping is the client's business.
func parseTarget(hostport string) (HostRequest, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil || port == "" {
		return HostRequest{}, &BlockedError{Reason: "a tunnel needs a host and a port"}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return HostRequest{}, &BlockedError{Target: "port " + port, Reason: "not a port"}
	}
	return targetOf(host, uint16(n))
}

// resumed is a connection of which some was read already.
type resumed struct {
	net.Conn
	early []byte
}

// Read implements io.Reader.
func (c *resumed) Read(b []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(b, c.early)
		c.early = bytes.Clone(c.early[n:])
		return n, nil
	}
	return c.Conn.Read(b)
}

// CloseWrite ends one direction.
func (c *resumed) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}
