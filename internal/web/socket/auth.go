package socket

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

const (
	protocolName  = "nanobot"
	protocolToken = "nanobot.token." // a subprotocol that carries a token, for browsers
	maxClientID   = 128              // bytes
	owner         = "owner"          // identity of who has a token, or a page that is signed in
)

// serveToken is the route that issues tokens.
func (c *Channel) serveToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if !wantsBody(w, r) {
		return
	}

	secret := c.set.TokenIssueSecret
	switch {
	case !secret.IsZero():
		given := auth.Bearer(r)
		if given == "" {
			given = r.Header.Get("X-Nanobot-Auth")
		}
		if !auth.Same(secret, given) {
			refuse(w, http.StatusUnauthorized, "wrong or missing secret")
			return
		}
	case !c.isLocal(r) || !c.originAllowed(r) || embedded(r):
		refuse(w, http.StatusUnauthorized, "set tokenIssueSecret to issue tokens to other machines")
		return
	}

	token, ok := c.issued.Issue(c.d.Now(), c.set.tokenTTL(), !secret.IsZero())
	if !ok {
		refuse(w, http.StatusTooManyRequests, "too many tokens are waiting to be used")
		return
	}

	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_in": c.set.TokenTTLS})
}

// wantsBody refuses HEAD, which would make a token that no client gets.
func wantsBody(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet {
		return true
	}
	w.Header().Set("Allow", http.MethodGet)
	refuse(w, http.StatusMethodNotAllowed, "use GET")
	return false
}

// embedded reports whether a browser asks on behalf of a page that is not ours,
// which it also does without an origin: for pictures, for example.
func embedded(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// refuse answers a request that is not let in.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why})
}

// admit checks a handshake and says who it is, or answers why not. A single-use
// token is looked at last, so that nothing else can waste it.
func (c *Channel) admit(w http.ResponseWriter, r *http.Request) (who person, ok bool) {
	who.client = clientID(r)
	switch {
	case !slices.Contains(c.set.AllowFrom, "*") && !slices.Contains(c.set.AllowFrom, who.client):
		refuse(w, http.StatusForbidden, "this client_id is not in allowFrom")
	case !c.originAllowed(r):
		refuse(w, http.StatusForbidden, "this origin is not allowed; see allowedOrigins")
	default:
		if who.proven, ok = c.authentic(r); ok {
			who.identity = c.identity(r, who.client, who.proven)
			return who, true
		}
		refuse(w, http.StatusUnauthorized, "wrong or missing token")
	}

	return person{}, false
}

// clientID returns what a client calls itself.
func clientID(r *http.Request) string {
	id := r.URL.Query().Get("client_id")
	id = text.CutBytes(id, maxClientID)
	if id == "" {
		id = "anon-" + strings.ToLower(rand.Text()[:12])
	}
	return id
}

// authentic decides about the token. Without one only programs of this machine
// get in, and only where the owner said so; they have proved nothing, because
// a command that the agent runs is such a program as well.
func (c *Channel) authentic(r *http.Request) (proven, ok bool) {
	if c.Vouched(r) {
		return true, true
	}

	for _, given := range presented(r) {
		if auth.Same(c.set.Token, given) {
			return true, true
		}
		if proven, ok := c.issued.Use(given, c.d.Now()); ok {
			return proven, true
		}
	}

	return false, c.set.Token.IsZero() && !c.set.RequiresToken && c.isLocal(r)
}

// presented are the tokens a request brings: by query, header or subprotocol.
func presented(r *http.Request) []string {
	var out []string
	if t := r.URL.Query().Get("token"); t != "" {
		out = append(out, t)
	}
	if t := auth.Bearer(r); t != "" {
		out = append(out, t)
	}

	for _, p := range subprotocols(r) {
		if t, ok := strings.CutPrefix(p, protocolToken); ok && t != "" {
			out = append(out, t)
		}
	}
	return out[:min(len(out), 3)]
}

func subprotocols(r *http.Request) []string {
	var out []string
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			out = append(out, strings.TrimSpace(p))
		}
	}
	return out
}

// Proxies are the addresses of a proxy that says who is signed in.
func (c *Channel) Proxies() []netip.Prefix {
	if c.set.TrustedProxy == nil {
		return nil
	}
	return c.set.TrustedProxy.peers
}

// Host is the address of a listener of our own; "" if there is none, or it has all.
func (c *Channel) Host() string {
	if ip := net.ParseIP(c.set.Host); !c.set.own || ip != nil && ip.IsUnspecified() {
		return ""
	}
	return c.set.Host
}

// Vouched reports whether a trusted proxy says who is signed in.
func (c *Channel) Vouched(r *http.Request) bool {
	p := c.set.TrustedProxy
	if p == nil || strings.TrimSpace(r.Header.Get(p.AssertionHeader)) == "" {
		return false
	}

	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}

	addr := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(p.peers, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// identity names the person behind a connection for everything that only this
// person may do. Whoever has a token is the owner; a proxy tells its people
// apart; what a client calls itself counts only among those who proved nothing.
func (c *Channel) identity(r *http.Request, client string, proven bool) string {
	switch {
	case !proven:
		return "unproven:" + client
	case c.Vouched(r):
		sum := sha256.Sum256([]byte(strings.TrimSpace(r.Header.Get(c.set.TrustedProxy.AssertionHeader))))
		return "proxy:" + base64.RawURLEncoding.EncodeToString(sum[:12])
	}
	return owner
}

// isLocal reports whether the request comes from a program of our user on this
// machine that meant this machine: a name that a stranger points at a loopback address,
// or a proxy that passes strangers on, does not count.
func (c *Channel) isLocal(r *http.Request) bool {
	if !httpsafe.Direct(r) || c.Vouched(r) {
		return false
	}
	if c.set.UnixSocketPath != "" {
		return true
	}

	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}

	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() || host == "" || !httpsafe.LoopbackHost(host) {
		return false
	}

	here, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && httpsafe.ConnectionPeer(here.AddrPort(), peer).Kind == httpsafe.PeerOwn
}

// originAllowed keeps other people's web pages from using the browser of
// a person who may talk to us. Programs that are no browsers send no origin.
func (c *Channel) originAllowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}

	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return slices.Contains(c.set.AllowedOrigins, origin) // "null", or an app's own scheme
	}

	host := strings.ToLower(u.Host)
	if host == strings.ToLower(r.Host) || c.set.publicHost != "" && host == strings.ToLower(c.set.publicHost) {
		return true
	}
	return slices.ContainsFunc(c.set.AllowedOrigins, func(pattern string) bool {
		subject := host
		if strings.Contains(pattern, "://") {
			subject = strings.ToLower(u.Scheme) + "://" + host
		}
		ok, err := path.Match(strings.ToLower(pattern), subject)
		return err == nil && ok
	})
}
