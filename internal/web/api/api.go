// Package api holds the HTTP surfaces of the agent and the protocols other
// programs talk to it with. It hides wire formats and everything a listener
// needs before a stranger may not use it: tokens, checks of Host and Origin,
// limits. It knows the agent only as funcs that are handed in.
package api

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// Gate says who may talk to a listener.
type Gate struct {
	// Token must come with every request, as a bearer token. It is required:
	// other users of this machine and pages in a browser reach loopback too.
	Token httpsafe.Secret
	// Hosts are further names the listener may be called by. Names of this
	// machine and literal addresses always work; other names do not, so that a
	// page cannot point its own name at this machine.
	Hosts []string
	// MaxBody bounds a request body in bytes; 0 is 1 MiB.
	MaxBody int64
}

// guard lets only requests through that carry the token, name us by a name of
// ours, come from no foreign page and bring JSON.
func (g Gate) guard(h http.Handler) (http.Handler, error) {
	if !auth.Strong(g.Token) {
		return nil, fmt.Errorf("the token must have at least %d characters", auth.MinSecret)
	}

	if g.MaxBody == 0 {
		g.MaxBody = 1 << 20
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case !g.named(r.Host):
			http.Error(w, "this host name is not served here", http.StatusForbidden)
		case foreign(r):
			http.Error(w, "requests of other pages are refused", http.StatusForbidden)
		case !g.authorized(r):
			w.Header().Set("WWW-Authenticate", `Bearer realm="nanobot"`)
			http.Error(w, "a bearer token is required", http.StatusUnauthorized)
		case r.Method == http.MethodPost && !isJSON(r.Header.Get("Content-Type")):
			http.Error(w, "send application/json", http.StatusUnsupportedMediaType)
		default:
			r.Body = http.MaxBytesReader(w, r.Body, g.MaxBody)
			h.ServeHTTP(w, r)
		}
	}), nil
}

// named reports whether a Host header names us.
func (g Gate) named(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}

	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true // a page cannot make an address its own
	}
	return slices.ContainsFunc(g.Hosts, func(name string) bool { return strings.EqualFold(name, host) })
}

// foreign reports whether a browser sent the request for a page that we did
// not serve.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return true
	}

	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}

	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}

// authorized reports whether a request brings the token.
func (g Gate) authorized(r *http.Request) bool {
	return auth.Same(g.Token, auth.Bearer(r))
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == "application/json"
}

// Loopback reports whether a listener can only be reached from this machine.
func Loopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// drainTime is how long a client may take to send what is not read.
const drainTime = 10 * time.Second

// Hurried keeps clients from holding a connection with a body that they promise
// and do not send: before the next request the rest of a body is read, which
// nothing else limits. Handlers that read bodies see to their own time.
func Hurried(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			h.ServeHTTP(w, r)
			return
		}

		rc := http.NewResponseController(w)
		hurry := func() { _ = rc.SetReadDeadline(time.Now().Add(drainTime)) } // not every connection can
		if r.Method != http.MethodPost {
			hurry()
		}

		h.ServeHTTP(w, r)
		hurry()
	})
}

// serve answers on l until ctx ends, then lets requests finish for grace.
func serve(ctx context.Context, l net.Listener, h http.Handler, grace time.Duration) error {
	srv := &http.Server{
		Handler:           Hurried(h),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}

	ended := make(chan error, 1) // the one result of Serve
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}

	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(late)
	if err != nil {
		_ = srv.Close() // what did not finish in time is cut off
	}

	<-ended
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
