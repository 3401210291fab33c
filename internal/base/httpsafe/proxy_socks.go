package httpsafe

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

// The answers of SOCKS 5 that are given here.
const (
	socksFine      = 0
	socksForbidden = 2
	socksNoHost    = 4
	socksNoCommand = 7
	socksNoKind    = 8
)

// socks serves a connection that begins in SOCKS 5: CONNECT without a proof,
// since the socket itself says whose connection it is.
func (s *service) socks(in net.Conn) {
	_ = in.SetDeadline(time.Now().Add(proxyHeaderTime))
	answer := func(code byte) bool {
		_, err := in.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
		return err == nil
	}
	target, code, err := socksRequest(in)
	if err != nil {
		if code != 0 {
			answer(code)
		}
		return
	}

	_ = in.SetDeadline(time.Time{}) // a person may be asked
	reach, err := s.admit(s.ctx, target)
	var out net.Conn
	if err == nil {
		out, err = s.open(s.ctx, target, reach)
	}

	if err != nil {
		s.a.used.refuse(explain(err))
		s.p.o.Log.InfoContext(s.ctx, "connection of a command not made", "host", target.Host)
		if _, blocked := errors.AsType[*BlockedError](err); blocked {
			answer(socksForbidden)
		} else {
			answer(socksNoHost)
		}
		return
	}

	if !answer(socksFine) {
		if out != nil {
			_ = out.Close()
		}
		return
	}

	s.carry(in, out, target)
}

// socksRequest reads what a client wants. A code is what it is to be told.
func socksRequest(in net.Conn) (target HostRequest, code byte, err error) {
	bad := errors.New("not SOCKS 5")
	head := make([]byte, 2)
	if _, err := io.ReadFull(in, head); err != nil {
		return target, 0, err
	}

	methods := make([]byte, head[1])
	if _, err := io.ReadFull(in, methods); err != nil {
		return target, 0, err
	}
	if _, err := in.Write([]byte{socksVersion, socksOpen}); err != nil {
		return target, 0, err
	}

	request := make([]byte, 4)
	if _, err := io.ReadFull(in, request); err != nil {
		return target, 0, err
	}
	if request[0] != socksVersion {
		return target, 0, bad
	}

	var host string
	var size int
	switch request[3] {
	case socksIPv4:
		size = net.IPv4len
	case socksIPv6:
		size = net.IPv6len
	case socksName:
		n := make([]byte, 1)
		if _, err := io.ReadFull(in, n); err != nil {
			return target, 0, err
		}
		size = int(n[0])

	default:
		return target, socksNoKind, bad
	}

	rest := make([]byte, size+2)
	if _, err := io.ReadFull(in, rest); err != nil {
		return target, 0, err
	}
	if request[1] != socksConnect {
		return target, socksNoCommand, bad
	}

	host = string(rest[:size])
	if request[3] != socksName {
		addr, _ := netip.AddrFromSlice(rest[:size])
		host = addr.String()
	}

	port := binary.BigEndian.Uint16(rest[size:])
	if port == 0 {
		return target, socksForbidden, bad
	}
	if target, err = targetOf(host, port); err != nil {
		return target, socksForbidden, err
	}
	return target, 0, nil
}
