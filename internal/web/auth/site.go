package auth

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// PageHeader is sent by our pages with every read and change. A page of another
// origin cannot send it without asking first, and is refused then.
const PageHeader = "X-Nanobot-Page"

// Site is how browsers reach the pages.
type Site struct {
	Hosts   []string       // names and addresses, with or without a port, beside the loopback ones
	Proxies []netip.Prefix // whose word about the original request counts
	Session time.Duration  // how long a device stays signed in without being used
}

// Ours reports whether a request names this gateway: a name that another person
// points at our address does not.
func (s Site) Ours(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	name := hostname(host)
	if httpsafe.LoopbackHost(name) {
		return true
	}
	return slices.ContainsFunc(s.Hosts, func(h string) bool {
		h = strings.ToLower(h)
		return h == host || h == name
	})
}

// hostname returns a host without its port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// Problem is why a request does not count as one of our own pages.
type Problem string

// The problems, in the words of the protocol.
const (
	Fine        Problem = ""
	WrongHost   Problem = "wrong_host"
	WrongOrigin Problem = "wrong_origin"
	NoHeader    Problem = "not_a_page"
)

// Read checks a request that reads.
func (s Site) Read(r *http.Request) Problem {
	switch {
	case !s.Ours(r):
		return WrongHost
	case !sameOrigin(r) || r.Header.Get("Origin") != "" && !s.origin(r):
		return WrongOrigin
	case r.Header.Get(PageHeader) != "1":
		return NoHeader
	}
	return Fine
}

// Follow checks a request of a link that a page follows, which cannot have our
// header. The address must be a secret of its own.
func (s Site) Follow(r *http.Request) Problem {
	switch {
	case !s.Ours(r):
		return WrongHost
	case !sameOrigin(r):
		return WrongOrigin
	}
	return Fine
}

// Change checks a request that changes something: it must say where it is from.
func (s Site) Change(r *http.Request) Problem {
	if p := s.Read(r); p != Fine {
		return p
	}
	if !s.origin(r) {
		return WrongOrigin
	}
	return Fine
}

// Socket checks the handshake of a socket, which cannot have our header.
func (s Site) Socket(r *http.Request) Problem {
	switch {
	case !s.Ours(r):
		return WrongHost
	case !sameOrigin(r) || !s.origin(r):
		return WrongOrigin
	}
	return Fine
}

// sameOrigin believes the browser about who asks. Browsers say it only over TLS
// and on localhost.
func sameOrigin(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin"
}

// origin reports whether the page that asks came from the host it asks.
func (s Site) origin(r *http.Request) bool {
	u, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return strings.EqualFold(u.Host, r.Host)
}

// proxied reports whether a proxy that we trust passed the request on.
func (s Site) proxied(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(s.Proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Encrypted reports whether the browser used TLS.
func (s Site) Encrypted(r *http.Request) bool {
	return r.TLS != nil || s.proxied(r) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// peer returns the address of the browser, as well as we know it.
func (s Site) peer(r *http.Request) string {
	if s.proxied(r) {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")   // some proxies add a line
		if addr, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1])); err == nil { // the one our proxy wrote
			return addr.Unmap().String()
		}
	}

	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return peer.Addr().Unmap().String()
}
