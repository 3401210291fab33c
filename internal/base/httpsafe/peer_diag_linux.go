package httpsafe

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// endpoint holds what the kernel knows about one end of a connection.
type endpoint struct {
	uid         uint32
	inode       uint32
	established bool
}

// The kernel's socket diagnosis: a request names the two ends of a connection,
// the answer describes the socket.
const (
	diagByFamily  = 20 // SOCK_DIAG_BY_FAMILY
	diagListen    = 10 // TCP_LISTEN
	diagConnected = 1  // TCP_ESTABLISHED
	diagRequest   = unix.NLMSG_HDRLEN + 56
	diagAnswer    = unix.NLMSG_HDRLEN + 72
	diagID        = 4  // of the description inside an answer
	diagUID       = 64 // the same
	diagInode     = 68 // the same
)

// findEnd asks the kernel for the socket that is bound to from and connected
// to to. Unlike the list of all connections, whose length is that of the
// kernel's table and takes milliseconds, this costs some microseconds. It
// returns false if there is none, and where the kernel does not answer.
func findEnd(from, to netip.AddrPort) (endpoint, bool) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return endpoint{}, false
	}

	defer unix.Close(fd) //nolint:errcheck // only asked
	question := diagQuestion(from, to)
	if unix.Sendto(fd, question, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return endpoint{}, false
	}

	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT) // the kernel has answered while we asked
	if err != nil {
		return endpoint{}, false
	}
	return parseEnd(answer[:n], question)
}

// diagQuestion returns the message that asks for one socket.
func diagQuestion(from, to netip.AddrPort) []byte {
	b := make([]byte, diagRequest)
	ne, be := binary.NativeEndian, binary.BigEndian
	ne.PutUint32(b, diagRequest)
	ne.PutUint16(b[4:], diagByFamily)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST)
	r := b[unix.NLMSG_HDRLEN:]
	src, dst := from.Addr().Unmap(), to.Addr().Unmap()
	r[0], r[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if src.Is4() {
		r[0] = unix.AF_INET
	}

	ne.PutUint32(r[4:], ^uint32(0)) // in any state
	be.PutUint16(r[8:], from.Port())
	be.PutUint16(r[10:], to.Port())
	copy(r[12:28], src.AsSlice())
	copy(r[28:44], dst.AsSlice())
	ne.PutUint32(r[44:], zoneIndex(from.Addr(), to.Addr()))
	for i := 48; i < 56; i++ {
		r[i] = 0xff // no cookie
	}
	return b
}

// zoneIndex returns the interface of a link-local connection, whose sockets are bound to it;
// 0 is any.
func zoneIndex(ends ...netip.Addr) uint32 {
	for _, a := range ends {
		if a.Zone() == "" {
			continue
		}
		if i, err := net.InterfaceByName(a.Zone()); err == nil {
			return uint32(i.Index) //nolint:gosec // the kernel counts them in 32 bits
		}
		if n, err := strconv.ParseUint(a.Zone(), 10, 32); err == nil {
			return uint32(n)
		}
	}
	return 0
}

// parseEnd reads the answer. The kernel may answer with a listener on the same
// port, so the ends are compared with those that were asked for.
func parseEnd(answer, question []byte) (endpoint, bool) {
	if len(answer) < diagAnswer || binary.NativeEndian.Uint16(answer[4:]) != diagByFamily {
		return endpoint{}, false
	}
	a, q := answer[unix.NLMSG_HDRLEN:], question[unix.NLMSG_HDRLEN:]
	state := a[1]
	if state == diagListen || !sameEnds(a[diagID:diagID+36], q[8:44], q[0] == unix.AF_INET) {
		return endpoint{}, false
	}
	return endpoint{uid: binary.NativeEndian.Uint32(a[diagUID:]), inode: binary.NativeEndian.Uint32(a[diagInode:]), established: state == diagConnected}, true
}

// sameEnds compares two pairs of ports and addresses. An IPv4 address takes the
// first four of its sixteen bytes; a socket of IPv6 that holds one may be
// described by the mapped form.
func sameEnds(got, want []byte, v4 bool) bool {
	if string(got[:4]) != string(want[:4]) {
		return false
	}
	if string(got[4:]) == string(want[4:]) {
		return true
	}
	if !v4 {
		return false
	}

	for _, at := range []int{4, 20} {
		ip := netip.AddrFrom16([16]byte(got[at:]))
		if !ip.Is4In6() || string(ip.Unmap().AsSlice()) != string(want[at:at+4]) {
			return false
		}
	}
	return true
}
