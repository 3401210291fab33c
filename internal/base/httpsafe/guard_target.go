package httpsafe

import (
	"encoding/binary"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Check refuses what can be refused by the look of a URL, without resolving
// its name: schemes, ports, disguised addresses, names of this machine and its
// network. A guarded client does this itself, for every hop.
func (o GuardOptions) Check(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return &BlockedError{Target: u.Scheme, Reason: "only http and https URLs are allowed"}
	}
	if u.Opaque != "" || u.Hostname() == "" {
		return &BlockedError{Reason: "the URL names no host"}
	}

	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return &BlockedError{Target: "port " + p, Reason: "not a port"}
		}
		if err := checkPort(uint16(n)); err != nil {
			return err
		}
	}

	return o.checkHost(u.Hostname())
}

func defaultPort(scheme string) string {
	if strings.EqualFold(scheme, "https") {
		return "443"
	}
	return "80"
}

// checkHost applies the rules of names and, for literals, of addresses.
func (o GuardOptions) checkHost(raw string) error {
	host := normalHost(raw)
	refuse := func(reason string) error { return &BlockedError{Target: strconv.Quote(raw), Reason: reason} }
	if addr, err := netip.ParseAddr(host); err == nil {
		return o.checkAddr(addr)
	}
	if len(host) == 0 || len(host) > 253 {
		return refuse("not a host name")
	}

	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return refuse("not a host name")
		}
	}

	if strings.ContainsFunc(host, func(r rune) bool { return r <= 0x7f && !nameRune(r) }) {
		return refuse("not a host name")
	}

	last := host[strings.LastIndexByte(host, '.')+1:]
	if looksNumeric(last) {
		return refuse("an address must be written as four decimal numbers")
	}
	// If some private addresses are allowed, the address decides when it is dialled.
	if len(o.Allow) == 0 && localName(host) {
		return refuse("a name of this machine or its network")
	}
	return nil
}

// localName reports whether a name means this machine or its network.
func localName(host string) bool {
	switch host[strings.LastIndexByte(host, '.')+1:] {
	case "localhost", "local", "internal":
		return true
	}
	return false
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// looksNumeric reports whether some resolver would read a last label as part
// of an IPv4 address: all digits, or hexadecimal with 0x.
func looksNumeric(label string) bool {
	if strings.HasPrefix(label, "0x") {
		return true
	}
	return !strings.ContainsFunc(label, func(r rune) bool { return r < '0' || r > '9' })
}

// normalHost returns a host in the spelling the rules are written for: lower case,
// full-width letters and the other full stops as ASCII, no final dot.
func normalHost(host string) string {
	host = strings.Map(func(r rune) rune {
		switch {
		case r >= 0xff01 && r <= 0xff5e:
			r -= 0xfee0
		case r == 0x3002 || r == 0xff61:
			r = '.'
		}

		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, host)
	return strings.TrimSuffix(host, ".")
}

// checkPort refuses the ports browsers refuse, because the services behind
// them take lines of an HTTP request for commands; two more such services are
// added.
func checkPort(p uint16) error {
	if p == 0 || slices.Contains(badPorts(), p) {
		return &BlockedError{Target: "port " + strconv.Itoa(int(p)), Reason: "no web server is expected there"}
	}
	return nil
}

var badPorts = sync.OnceValue(func() []uint16 {
	return []uint16{
		1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95,
		101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179,
		389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587,
		601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
		6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
		6379, 11211, // Redis, memcached
	}
})

// checkAddr refuses addresses that are not public, in every form IPv6 knows to
// write an IPv4 address. Allow is compared with both the outer and the decoded
// address.
func (o GuardOptions) checkAddr(addr netip.Addr) error {
	if !addr.IsValid() || addr.Zone() != "" {
		return &BlockedError{Target: addr.String(), Reason: "an address with a zone belongs to the local network"}
	}

	outer := addr.Unmap()
	forms := append([]netip.Addr{outer}, embedded(outer)...)
	allowed := func(a netip.Addr) bool {
		return slices.ContainsFunc(o.Allow, func(p netip.Prefix) bool { return contains(p, a) })
	}
	if slices.ContainsFunc(forms[1:], func(a netip.Addr) bool { return !o.public(a) && !allowed(a) }) && !allowed(outer) {
		return &BlockedError{Target: addr.String(), Reason: "it stands for a private or reserved address"}
	}
	if allowed(outer) || o.public(outer) {
		return nil
	}
	return &BlockedError{Target: addr.String(), Reason: "a private or reserved address"}
}

// contains compares without regard to how a prefix of mapped addresses is written.
func contains(p netip.Prefix, a netip.Addr) bool {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Contains(a)
}

func (o GuardOptions) public(a netip.Addr) bool {
	if o.Strict && a.Is4() && fakeRange().Contains(a) {
		return false
	}
	return !slices.ContainsFunc(reserved(), func(p netip.Prefix) bool { return p.Contains(a) })
}

var fakeRange = sync.OnceValue(func() netip.Prefix { return netip.MustParsePrefix("198.18.0.0/15") })

var reserved = sync.OnceValue(func() []netip.Prefix {
	const list = `0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12
		192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.51.100.0/24 203.0.113.0/24
		224.0.0.0/4 240.0.0.0/4 168.63.129.16/32
		::/128 ::1/128 fc00::/7 fe80::/10 fec0::/10 ff00::/8 100::/64 2001:2::/48 2001:10::/28
		2001:20::/28 2001:db8::/32 3fff::/20 5f00::/16 64:ff9b:1::/48`

	var out []netip.Prefix
	for p := range strings.FieldsSeq(list) {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
})

// embedded lists the IPv4 addresses an IPv6 address leads to by translation or
// tunnels.
func embedded(a netip.Addr) []netip.Addr {
	if !a.Is6() {
		return nil
	}

	b := a.As16()
	var out []netip.Addr
	add := func(v uint32) {
		var q [4]byte
		binary.BigEndian.PutUint32(q[:], v)
		out = append(out, netip.AddrFrom4(q))
	}

	hi, mid, low := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint32(b[8:12]), binary.BigEndian.Uint32(b[12:])
	switch {
	case hi == 0 && (mid == 0 || mid == 0xffff || mid == 0xffff0000): // compatible, mapped, translated
		if mid != 0 || low > 1 { // :: and ::1 are themselves
			add(low)
		}
	case hi == 0x0064ff9b_00000000 && mid == 0: // NAT64
		add(low)
	case b[0] == 0x20 && b[1] == 0x02: // 6to4
		add(binary.BigEndian.Uint32(b[2:6]))
	case hi>>32 == 0x20010000: // Teredo
		add(^low)
	}

	if mid == 0x00005efe || mid == 0x02005efe { // ISATAP
		add(low)
	}
	return out
}
