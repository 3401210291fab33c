package httpsafe

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ProxyOptions describe a Proxy.
type ProxyOptions struct {
	// Guard says which targets are reachable, as for a guarded client. Redirects
	// are the business of the proxy's clients; each hop is a request of its own.
	Guard GuardOptions
	// MaxConns bounds connections at one time; 0 is 128. Further ones wait.
	MaxConns int
	Log      *slog.Logger // hosts only, never paths; nil discards
}

// Proxy is an HTTP proxy for programs that are not to be trusted with a
// network: CONNECT for everything encrypted, absolute URLs for the rest. Every
// address is checked by the same dialer as in a guarded client, after the only
// resolution there is.
type Proxy struct {
	o     ProxyOptions
	guard *guard
}

const (
	proxyHeaderTime = 10 * time.Second
	proxyIdleTime   = 2 * time.Minute
	// proxyLifetime ends what never gets idle: a command may run for 10 minutes
	// at most, a background one for half an hour without being looked at.
	proxyLifetime = time.Hour
)

// NewProxy makes a proxy; Serve runs it.
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
	return &Proxy{o: o, guard: g}, nil
}

// Serve answers on a listener, which it closes, until the context ends. It
// returns when the last connection is closed.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	slots := make(chan struct{}, p.o.MaxConns)
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		for range p.o.MaxConns {
			slots <- struct{}{} // every connection gives its slot back
		}
	}()
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodConnect {
				p.connect(ctx, w, r)
				return
			}
			p.pass(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: proxyHeaderTime,
		ReadTimeout:       proxyLifetime,
		WriteTimeout:      proxyLifetime,
		IdleTimeout:       proxyIdleTime,
		MaxHeaderBytes:    maxGuardHeader,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // they name what a client sent
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	defer p.guard.CloseIdleConnections()
	err := srv.Serve(&boundedListener{Listener: l, slots: slots, done: ctx.Done()})
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// refused answers in a way that a person or a model can act on.
func (p *Proxy) refused(w http.ResponseWriter, r *http.Request, host string, err error) {
	code := http.StatusBadGateway
	text := "the host cannot be reached"
	if b, ok := errors.AsType[*BlockedError](err); ok {
		code, text = http.StatusForbidden, b.Error()
	}
	p.o.Log.InfoContext(r.Context(), "request of a command not passed on", "host", host, "status", code)
	w.Header().Set("Connection", "close")
	http.Error(w, text, code)
}

// connect opens a tunnel to a host.
func (p *Proxy) connect(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	target, err := tunnelTarget(r.Host)
	if err == nil {
		err = p.o.Guard.Check(target)
	}
	if err != nil {
		p.refused(w, r, "", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, proxyLifetime)
	defer cancel()
	out, err := p.dial(ctx, target)
	if err != nil {
		p.refused(w, r, target.Hostname(), err)
		return
	}
	defer func() { _ = out.Close() }()
	hj, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "no tunnels on this connection", http.StatusInternalServerError)
		return
	}
	in, buffered, err := hj.Hijack()
	if err != nil {
		return
	}
	defer func() { _ = in.Close() }()
	p.o.Log.DebugContext(ctx, "tunnel of a command", "host", target.Hostname())
	_ = in.SetDeadline(time.Time{})
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	early := make([]byte, buffered.Reader.Buffered())
	_, _ = io.ReadFull(buffered, early)
	if _, err := out.Write(early); err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
	defer stop()
	join(in, out)
}

// tunnelTarget reads host:port. Names in other scripts are refused, because
// their mapping is the client's business.
func tunnelTarget(hostport string) (*url.URL, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil || port == "" {
		return nil, &BlockedError{Reason: "a tunnel needs a host and a port"}
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f }) {
		return nil, &BlockedError{Target: host, Reason: "the name must be in its ASCII form (xn--)"}
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}, nil
}

// dial connects to a target, or to the proxy that leads to it.
func (p *Proxy) dial(ctx context.Context, target *url.URL) (net.Conn, error) {
	g := p.guard
	if g.proxy != nil {
		via, err := g.proxy(&http.Request{URL: target})
		if err != nil {
			return nil, err
		}
		if via != nil {
			if err := g.precheck(ctx, target.Hostname()); err != nil {
				return nil, err
			}
			return Tunnel(ctx, via, target.Host)
		}
	}
	return g.dial(ctx, "tcp", target.Host)
}

// pass sends on a request for an absolute URL.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request) {
	if !r.URL.IsAbs() || r.URL.Host == "" {
		http.Error(w, "this is a proxy: ask for an absolute URL or use CONNECT", http.StatusBadRequest)
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.Host = "", r.URL.Host
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	dropHops(out.Header)
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // else Go would add its own
	}
	resp, err := p.guard.RoundTrip(out)
	if err != nil {
		p.refused(w, r, r.URL.Hostname(), err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	p.o.Log.DebugContext(r.Context(), "request of a command", "host", r.URL.Hostname())
	dropHops(resp.Header)
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(flushing{w}, resp.Body)
}

// dropHops removes what is meant for one connection only.
func dropHops(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate",
		"Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	} {
		h.Del(name)
	}
}

// flushing passes a slow stream on as it comes.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	if fl, ok := f.ResponseWriter.(http.Flusher); ok {
		fl.Flush()
	}
	return n, err
}
