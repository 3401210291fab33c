package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// Headers of ours.
const (
	headerRequest = "X-Request-Id"
	headerSession = "X-Nanobot-Session"
	headerEvents  = "X-Nanobot-Events"
)

// Headers of Anthropic's protocol.
const (
	headerKey            = "X-Api-Key"
	headerVersion        = "Anthropic-Version"
	headerMessageRequest = "Request-Id"
)

// speaksMessages reports whether a client speaks Anthropic's protocol. All of
// its clients send the version, and its one path tells those that do not.
func speaksMessages(r *http.Request) bool {
	return r.Header.Get(headerVersion) != "" || r.URL.Path == "/v1/messages" || strings.HasPrefix(r.URL.Path, "/v1/messages/")
}

// retryAfter is when a client that was refused should come back.
const retryAfter = time.Second

// endpoint answers a request that was let in. A fault it returns is sent, if
// nothing was yet.
type endpoint func(http.ResponseWriter, *http.Request) error

// observed gives every request an id and counts it.
func (a *API) observed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		id := "req_" + randomHex(12)
		h.Set(headerRequest, id)
		if speaksMessages(r) {
			h.Set(headerMessageRequest, id)
		}

		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		_, route := mux.Handler(r)
		seen := &watched{ResponseWriter: w}
		if route == "" {
			a.unrouted(seen, r)
		} else {
			mux.ServeHTTP(seen, r)
		}

		if a.o.Metrics != nil {
			a.o.Metrics.Requests.Add(1, route, strconv.Itoa(seen.code()))
		}
	})
}

// unrouted answers what no pattern matches: a wrong method or a wrong path.
func (a *API) unrouted(w http.ResponseWriter, r *http.Request) {
	a.refuse(w, r, &fault{status: http.StatusNotFound, code: "unknown_url", message: fmt.Sprintf("There is no %s %s here.", r.Method, r.URL.Path)})
}

// watched remembers what was answered.
type watched struct {
	http.ResponseWriter

	status int
}

func (w *watched) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watched) code() int {
	if w.status == 0 {
		return 499 // the client went away before there was an answer
	}
	return w.status
}

// guarded lets only those requests through to an endpoint that may use it.
func (a *API) guarded(serve endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); slices.Contains(a.o.Origins, origin) {
			if allowOrigin(w, r, origin) {
				return
			}
		} else if foreign(r) {
			a.refuse(w, r, &fault{status: http.StatusForbidden, code: "foreign_origin", message: "Requests of other web pages are refused; api.corsOrigins lists those that may."})
			return
		}

		if err := a.admit(r); err != nil {
			a.refuse(w, r, err)
			return
		}

		r.Body = http.MaxBytesReader(w, r.Body, a.o.MaxBody)
		if err := serve(w, r); err != nil && !began(w) && !gone(r.Context()) {
			a.refuse(w, r, err)
		}
	})
}

func began(w http.ResponseWriter) bool {
	seen, ok := w.(*watched)
	return ok && seen.status != 0
}

// allowOrigin tells a browser that a page may read the answer, and reports
// whether the request asked for nothing else.
func allowOrigin(w http.ResponseWriter, r *http.Request, origin string) (done bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", headerRequest+", "+headerMessageRequest+", Retry-After")
	if r.Method != http.MethodOptions {
		return false
	}

	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", strings.Join([]string{"Authorization", headerKey, headerVersion, "Anthropic-Beta", "Anthropic-Dangerous-Direct-Browser-Access", "Content-Type", headerSession, headerEvents}, ", "))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// admit says why a request may not be answered. A nil interface, not a nil
// pointer, means that it may.
func (a *API) admit(r *http.Request) error {
	switch {
	case !a.gate.named(r.Host):
		return &fault{status: http.StatusForbidden, code: "unknown_host", message: "This host name is not served here."}
	case a.o.Token.IsZero() && !local(r):
		return &fault{status: http.StatusForbidden, code: "key_required", message: "Without api.apiKey only programs of the same user on the same machine are served, not through a proxy. Set api.apiKey and send it as a bearer token."}
	case !a.o.Token.IsZero() && !a.authorized(r):
		return &fault{status: http.StatusUnauthorized, code: "invalid_api_key", message: "Send the key of this API as a bearer token in the Authorization header, or in the header X-Api-Key."}
	case r.Method == http.MethodPost && !accepts(r):
		return &fault{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type", message: "Send application/json."}
	}
	return nil
}

// authorized reports whether a request brings the key.
func (a *API) authorized(r *http.Request) bool {
	return a.gate.authorized(r) || auth.Same(a.o.Token, r.Header.Get(headerKey))
}

// accepts reports whether the body has a form that the path understands.
func accepts(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || kind == "multipart/form-data" && r.URL.Path == "/v1/chat/completions")
}

// local reports whether both ends of the connection are proven to be of our user
// on this machine, and nothing stands between. What a proxy beside us forwards
// comes from elsewhere, and what a command of the agent sends is not the user's.
func local(r *http.Request) bool {
	if !httpsafe.Direct(r) {
		return false
	}

	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !remote.Addr().Unmap().IsLoopback() {
		return false
	}

	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}

	tcp, ok := addr.(*net.TCPAddr)
	return ok && Loopback(addr) && httpsafe.ConnectionPeer(tcp.AddrPort(), remote).Kind == httpsafe.PeerOwn
}

// trusted reports whether the sender of a request may see how the program is in detail.
func (a *API) trusted(r *http.Request) bool {
	if !a.gate.named(r.Host) || foreign(r) {
		return false
	}
	return local(r) || !a.o.Token.IsZero() && a.authorized(r)
}

// enter waits for one of the slots for turns, and bounds the time of the turn.
func (a *API) enter(ctx context.Context) (context.Context, func(), error) {
	select {
	case a.queue <- struct{}{}:
		defer func() { <-a.queue }()
	default:
		return nil, nil, &fault{status: http.StatusTooManyRequests, code: "too_many_requests", message: "Too many requests are being answered; try again in a moment.", after: retryAfter}
	}

	select {
	case a.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}

	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if a.o.Timeout > 0 {
		stop = time.AfterFunc(a.o.Timeout, func() { cancel(errTimeout) }).Stop
	}
	return ctx, func() { stop(); cancel(nil); <-a.slots }, nil
}

func randomHex(digits int) string {
	b := make([]byte, digits/2)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
