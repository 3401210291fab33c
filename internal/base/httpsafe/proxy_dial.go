package httpsafe

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// targetOf puts a host into the one spelling that rules are written for.
func targetOf(host string, port uint16) (HostRequest, error) {
	if strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f }) {
		return HostRequest{}, &BlockedError{Target: strconv.Quote(host), Reason: "the name must be in its ASCII form (xn--)"}
	}

	name := normalHost(host)
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Zone() != "" {
			return HostRequest{}, &BlockedError{Target: name, Reason: "an address with a zone belongs to the local network"}
		}
		name = addr.Unmap().String()
	}
	return HostRequest{Host: name, Port: port}, nil
}

// checkTarget refuses what can be refused by the look of a target.
func (p *Proxy) checkTarget(r HostRequest) error {
	if addr, err := netip.ParseAddr(r.Host); err == nil {
		return p.checkAddress(netip.AddrPortFrom(addr, r.Port))
	}
	return p.o.Guard.checkHost(r.Host)
}

// checkAddress refuses addresses that are not public, those of this machine,
// and our own ports whatever the lists say.
func (p *Proxy) checkAddress(ap netip.AddrPort) error {
	here := p.ofThisMachine(ap.Addr())
	if here && slices.Contains(p.o.OwnPorts(), ap.Port()) {
		return &BlockedError{Target: ap.String(), Reason: "commands do not reach nanobot itself"}
	}
	if slices.ContainsFunc(p.o.Addresses, func(r AddressRule) bool { return r.match(ap) }) {
		return nil
	}
	if err := p.o.Guard.checkAddr(ap.Addr()); err != nil {
		return err
	}

	allowed := slices.ContainsFunc(p.o.Guard.Allow, func(n netip.Prefix) bool { return contains(n, ap.Addr().Unmap()) })
	if here && !allowed {
		return &BlockedError{Target: ap.String(), Reason: "an address of this machine"}
	}
	return nil
}

// ofThisMachine reports whether an address, in any of its forms, leads to this
// machine. What cannot be found out counts as it.
func (p *Proxy) ofThisMachine(addr netip.Addr) bool {
	outer := addr.Unmap()
	forms := append([]netip.Addr{outer}, embedded(outer)...)
	own, err := p.own()
	return slices.ContainsFunc(forms, func(a netip.Addr) bool {
		if err != nil || a.IsLoopback() || a.IsUnspecified() {
			return true
		}
		return slices.ContainsFunc(own, func(o net.Addr) bool {
			n, ok := o.(*net.IPNet)
			if !ok {
				return false
			}
			mine, ok := netip.AddrFromSlice(n.IP)
			return ok && mine.Unmap() == a
		})
	})
}

// dial connects to a target that was admitted, or to the proxy that leads to it.
func (p *Proxy) dial(ctx context.Context, r HostRequest) (net.Conn, error) {
	if err := p.checkTarget(r); err != nil {
		return nil, err
	}
	if p.o.Dial != nil {
		return p.o.Dial(ctx, "tcp", r.String())
	}

	if p.guard.proxy != nil {
		via, err := p.guard.proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: r.String()}})
		if err != nil {
			return nil, err
		}

		if via != nil {
			if err := p.guard.precheck(ctx, r.Host); err != nil {
				return nil, err
			}
			return Tunnel(ctx, via, r.String())
		}
	}

	d := net.Dialer{
		Timeout:   10 * time.Second,
		KeepAlive: 30 * time.Second,
		Resolver:  p.guard.o.Resolver,
		Control: func(network, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || !strings.HasPrefix(network, "tcp") {
				return &BlockedError{Reason: "the address cannot be read"}
			}
			return p.checkAddress(ap)
		},
	}
	return d.DialContext(ctx, "tcp", r.String())
}

// metered is a connection to a host whose traffic counts.
type metered struct {
	net.Conn
	s    *service
	ctx  context.Context //nolint:containedctx // of the tunnel
	host string
}

// Read implements io.Reader.
func (m *metered) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.s.a.used.received.Add(int64(n))
	return n, err
}

// Write implements io.Writer.
func (m *metered) Write(b []byte) (int, error) {
	if err := m.s.a.spend(m.ctx, Use{Host: m.host, Bytes: len(b)}); err != nil {
		m.s.a.used.refuse(explain(err))
		return 0, err
	}
	_ = m.SetWriteDeadline(time.Now().Add(proxyIdleTime)) // the question may have taken long
	n, err := m.Conn.Write(b)
	m.s.a.used.sent.Add(int64(n))
	return n, err
}

// CloseWrite ends one direction.
func (m *metered) CloseWrite() error { return closeWrite(m.Conn) }
