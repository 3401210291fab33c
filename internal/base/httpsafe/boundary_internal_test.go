package httpsafe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// A request that may have come through a proxy is not one of this machine.
func TestDirect(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		major, minor int
		header       http.Header
		want         bool
	}{
		"a usual client":         {1, 1, http.Header{"User-Agent": {"x"}, "Accept-Language": {"en"}, "Content-Type": {"a/b"}}, true},
		"HTTP/1.0":               {1, 0, http.Header{"User-Agent": {"x"}}, false},
		"a header nobody listed": {1, 1, http.Header{"X-Some-Proxy": {"x"}}, false},
		"a forwarded address":    {1, 1, http.Header{"X-Forwarded-For": {"192.0.2.1"}}, false},
		"a header twice":         {1, 1, http.Header{"Authorization": {"a", "b"}}, false},
		"cookies in two lines":   {1, 1, http.Header{"Cookie": {"a=1", "b=2"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Direct(&http.Request{ProtoMajor: tt.major, ProtoMinor: tt.minor, Header: tt.header}); got != tt.want {
				t.Errorf("Direct = %v, want %v", got, tt.want)
			}
		})
	}
}

// A rule covers the port that it names, or the two of the web.
func TestHostRulePorts(t *testing.T) {
	t.Parallel()
	for entry, ports := range map[string]map[uint16]bool{
		"example.org":       {80: true, 443: true, 25: false, 8080: false},
		"example.org:8080":  {8080: true, 80: false, 443: false},
		"*.example.org:443": {443: true, 80: false},
	} {
		r, err := ParseHostRule(entry)
		if err != nil {
			t.Fatal(err)
		}
		host := "example.org"
		if r.below {
			host = "a.example.org"
		}
		for port, want := range ports {
			if got := r.Match(host, port); got != want {
				t.Errorf("%s matches port %d: %v, want %v", entry, port, got, want)
			}
		}
	}
}

// A public address that this machine has is not reached by commands, unless the
// owner allows it.
func TestOwnPublicAddress(t *testing.T) {
	t.Parallel()
	open := func(allow ...netip.Prefix) *Proxy {
		p, err := NewProxy(ProxyOptions{Guard: GuardOptions{Allow: allow}, OwnPorts: func() []uint16 { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		p.own = func() ([]net.Addr, error) {
			return []net.Addr{&net.IPNet{IP: net.ParseIP("8.8.4.4"), Mask: net.CIDRMask(24, 32)}}, nil
		}
		return p
	}
	p := open()
	for address, refused := range map[string]bool{"8.8.4.4:80": true, "[::ffff:8.8.4.4]:80": true, "8.8.8.8:80": false} {
		if err := p.checkAddress(netip.MustParseAddrPort(address)); (err != nil) != refused {
			t.Errorf("%s: %v, want refused: %v", address, err, refused)
		}
	}
	if err := open(netip.MustParsePrefix("8.8.4.4/32")).checkAddress(netip.MustParseAddrPort("8.8.4.4:80")); err != nil {
		t.Errorf("allowed: %v", err)
	}
	p.own = func() ([]net.Addr, error) { return nil, errors.New("not now") }
	if err := p.checkAddress(netip.MustParseAddrPort("8.8.8.8:80")); err == nil {
		t.Error("an address that may be this machine's was let through")
	}
}

// What is written into a tunnel counts, and is not sent when the budget says no.
func TestTunnelSpends(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	no := errors.New("the budget is used up")
	var asked []Use
	a := &Access{Spend: func(_ context.Context, u Use) error {
		asked = append(asked, u)
		return no
	}}
	m := &metered{Conn: near, s: &service{a: a}, ctx: t.Context(), host: "example.org"}
	defer m.Close()
	_ = near.Close() // a write that is not refused fails at once
	if n, err := m.Write([]byte("secret")); n != 0 || !errors.Is(err, no) {
		t.Errorf("Write = %d, %v, want %v", n, err, no)
	}
	if len(asked) != 1 || asked[0].Bytes != 6 || asked[0].Host != "example.org" {
		t.Errorf("asked for %+v", asked)
	}
}
