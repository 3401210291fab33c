package httpsafe

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Reach says what a program may do at a host.
type Reach int

// The kinds of reach.
const (
	ReachNone Reach = iota // nothing; its name is not even looked up
	ReachRead              // read: GET, HEAD, and what git needs to fetch
	ReachFull              // anything, through a tunnel that is not looked into
)

// HostRule is one entry of a list of hosts: a name, or *.name for all names
// below it, with one port or the two of the web.
type HostRule struct {
	name  string
	below bool
	port  uint16 // 0: 80 and 443
}

// ParseHostRule reads an entry as a person writes it, such as example.com,
// *.example.com or example.com:8443.
func ParseHostRule(entry string) (HostRule, error) {
	var r HostRule
	text := strings.TrimSpace(entry)
	if strings.Contains(text, "/") {
		return r, fmt.Errorf("%q: write a host name such as example.com, without a scheme or a path", entry)
	}

	host, port, err := splitEntry(text)
	if err != nil {
		return r, fmt.Errorf("%q: %w", entry, err)
	}

	r.port = port
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		r.below, host = true, rest
	}

	r.name = normalHost(host)
	if addr, err := netip.ParseAddr(r.name); err == nil {
		if r.below || addr.Zone() != "" {
			return r, fmt.Errorf("%q: an address has no names below it and no zone", entry)
		}
		r.name = addr.Unmap().String()
		return r, nil
	}

	if err := (GuardOptions{}).checkHost(r.name); err != nil || strings.ContainsFunc(r.name, func(c rune) bool { return c > 0x7f }) {
		return r, fmt.Errorf("%q: not the name of a public host in ASCII letters", entry)
	}
	if r.below && !strings.Contains(r.name, ".") {
		return r, fmt.Errorf("%q: this would be a whole top-level domain", entry)
	}
	return r, nil
}

// splitEntry separates a host from the port that may follow.
func splitEntry(text string) (host string, port uint16, err error) {
	host = text
	if inner, ok := strings.CutPrefix(text, "["); ok {
		addr, rest, closed := strings.Cut(inner, "]")
		if !closed {
			return "", 0, errors.New("a bracket is not closed")
		}
		host, text = addr, rest
		if rest == "" {
			return host, 0, nil
		}
	} else if strings.Count(text, ":") != 1 {
		return host, 0, nil
	} else {
		host, _, _ = strings.Cut(text, ":")
	}

	number := text[strings.LastIndexByte(text, ':')+1:]
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q is not a port", number)
	}
	return host, uint16(n), nil
}

// String is the entry as it would be written.
func (r HostRule) String() string {
	text := r.name
	if strings.Contains(text, ":") && r.port != 0 {
		text = "[" + text + "]"
	}
	if r.below {
		text = "*." + text
	}
	if r.port != 0 {
		text += ":" + strconv.Itoa(int(r.port))
	}
	return text
}

// Match reports whether the rule covers a host and a port. The host is as
// HostRequest has it.
func (r HostRule) Match(host string, port uint16) bool {
	if r.port != 0 && port != r.port || r.port == 0 && !webPort(port) {
		return false
	}
	if r.below {
		return strings.HasSuffix(host, "."+r.name)
	}
	return host == r.name
}

func webPort(port uint16) bool { return port == 80 || port == 443 }

// RuleFor returns the rule that covers exactly what was asked for.
func RuleFor(r HostRequest) HostRule {
	rule := HostRule{name: r.Host, port: r.Port}
	if webPort(r.Port) {
		rule.port = 0
	}
	return rule
}

// AddressRule opens one port of one address, or of a network, that is not
// public.
type AddressRule struct {
	net  netip.Prefix
	port uint16
}

// ParseAddressRule reads an entry such as 127.0.0.1:5432, [fd00::1]:80 or
// 10.1.2.0/24:443.
func ParseAddressRule(entry string) (AddressRule, error) {
	text := strings.TrimSpace(entry)
	wrong := fmt.Errorf("%q: write an address with its port, such as 127.0.0.1:5432 or 10.1.2.0/24:443", entry)
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return AddressRule{}, wrong
	}

	port, err := strconv.ParseUint(text[i+1:], 10, 16)
	if err != nil || port == 0 {
		return AddressRule{}, wrong
	}

	host := text[:i]
	bare := strings.NewReplacer("[", "", "]", "").Replace(host)
	if strings.Contains(bare, ":") && !strings.HasPrefix(host, "[") {
		return AddressRule{}, wrong // where the address ends would be a guess
	}
	if p, err := netip.ParsePrefix(bare); err == nil && p.Addr().Zone() == "" {
		return AddressRule{net: p.Masked(), port: uint16(port)}, nil
	}

	addr, err := netip.ParseAddr(bare)
	if err != nil || addr.Zone() != "" {
		return AddressRule{}, wrong
	}

	addr = addr.Unmap()
	return AddressRule{net: netip.PrefixFrom(addr, addr.BitLen()), port: uint16(port)}, nil
}

func (r AddressRule) match(ap netip.AddrPort) bool {
	return r.port == ap.Port() && contains(r.net, ap.Addr().Unmap())
}
