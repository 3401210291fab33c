package httpsafe_test

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// FuzzTarget looks for URLs that pass although a resolver of the C library, a
// proxy or a browser would read a private address in them.
func FuzzTarget(f *testing.F) {
	for _, u := range refusedURLs() {
		f.Add(u)
	}
	for _, u := range []string{
		"https://example.org/", "http://8.8.8.8:8080/x?y#z", "http://[2606:4700::1111]/", "https://user:pw@example.org", "http://0x8080808/",
		"http://0300.0250.1.1/", "http://4294967295", "http://１２７.1/", "http://a。b", "HTTP://LOCALHOST", "http://[::ffff:0:7f00:1]/", "http://x:0/",
	} {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil {
			return
		}
		if (httpsafe.GuardOptions{}).Check(u) != nil {
			return
		}
		if u.Scheme != "http" && u.Scheme != "https" {
			t.Errorf("%q: scheme %q passes", raw, u.Scheme)
		}
		host := ascii(u.Hostname())
		for _, name := range []string{host, strings.TrimSuffix(host, ".")} {
			if ip := inetAton(name); ip != nil && !public(ip) {
				t.Errorf("%q: %v passes as %q", raw, ip, name)
			}
			if ip := net.ParseIP(name); ip != nil && !public(ip) {
				t.Errorf("%q: %v passes", raw, ip)
			}
			if name == "localhost" || strings.HasSuffix(name, ".localhost") {
				t.Errorf("%q passes", raw)
			}
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Hostname() == u.Hostname() && (httpsafe.GuardOptions{}).Check(again) != nil {
			t.Errorf("%q passes, but %q does not (%v)", raw, u, err)
		}
	})
}

// FuzzAddr looks for addresses that pass although they are not public, or lead
// to one that is not.
func FuzzAddr(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "8.8.8.8", "::1", "2002:7f00:1::", "64:ff9b::a00:1", "2001:0:0:0:0:0:80ff:fffe", "fe80::1", "2606:4700::5efe:a00:1", "::ffff:169.254.169.254"} {
		b := netip.MustParseAddr(s).As16()
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		passes := func(a netip.Addr) bool { return (httpsafe.GuardOptions{}).CheckAddr(a) == nil }
		if passes(a) && !public(net.IP(a.AsSlice())) {
			t.Errorf("%v passes", a)
		}
		if a = a.Unmap(); !a.Is4() || passes(a) {
			return
		}
		v4 := a.As4()
		for _, form := range []string{"::ffff:%", "64:ff9b::%", "::ffff:0:%", "::%", "2002:%::1", "2606:4700::5efe:%", "2606:4700::200:5efe:%"} {
			words := strconv.FormatUint(uint64(v4[0])<<8|uint64(v4[1]), 16) + ":" + strconv.FormatUint(uint64(v4[2])<<8|uint64(v4[3]), 16)
			if outer := netip.MustParseAddr(strings.Replace(form, "%", words, 1)); passes(outer) {
				t.Errorf("%v passes although it stands for %v", outer, a)
			}
		}
	})
}

// public is an opinion of its own, from the standard library.
func public(ip net.IP) bool {
	return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsUnspecified() && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() &&
		!ip.Equal(net.IPv4bcast) && (ip.To4() == nil || ip.To4()[0] != 0)
}

// ascii maps a host as programs do before they resolve it.
func ascii(host string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		switch {
		case r >= 0xff01 && r <= 0xff5e:
			return r - 0xfee0
		case r == 0x3002, r == 0xff0e, r == 0xff61:
			return '.'
		}
		return r
	}, host))
}

// inetAton reads an address as the C library does: one to four parts, each
// decimal, octal with 0 or hexadecimal with 0x, the last one filling the rest.
func inetAton(s string) net.IP {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return nil
	}
	var v uint64
	for i, p := range parts {
		if p == "" || strings.ContainsAny(p, "_+-") {
			return nil
		}
		base := 10
		switch {
		case strings.HasPrefix(p, "0x"):
			p, base = p[2:], 16
			if p == "" {
				p = "0"
			}
		case len(p) > 1 && p[0] == '0':
			base = 8
		}
		n, err := strconv.ParseUint(p, base, 32)
		if err != nil {
			return nil
		}
		last := i == len(parts)-1
		if !last && n > 255 || last && n >= 1<<(8*(5-len(parts))) {
			return nil
		}
		if last {
			v = v<<(8*(5-len(parts))) | n
		} else {
			v = v<<8 | n
		}
	}
	return net.IPv4(byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}
