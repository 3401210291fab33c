package web_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// guardedFor makes a guarded client that may reach one address under a name of
// its own, but nothing else of this machine: the server listens on 127.0.0.1,
// the name resolves to it, and only requests to the name are let through to the
// client that allows it. Everything else goes to a client that allows nothing.
func guardedFor(t *testing.T, name string, to netip.AddrPort) *http.Client {
	t.Helper()
	open, err := httpsafe.Guarded(httpsafe.GuardOptions{Allow: []netip.Prefix{netip.PrefixFrom(to.Addr(), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	closed, err := httpsafe.Guarded(httpsafe.GuardOptions{Resolver: resolver(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{CheckRedirect: closed.CheckRedirect, Transport: route(func(req *http.Request) (*http.Response, error) {
		if req.URL.Hostname() != name {
			return closed.Transport.RoundTrip(req)
		}
		r := req.Clone(req.Context())
		r.URL.Host = to.String()
		resp, err := open.Transport.RoundTrip(r)
		if err == nil {
			resp.Request = req
		}
		return resp, err
	})}
}

type route func(*http.Request) (*http.Response, error)

func (f route) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
