package httpsafe

import (
	"net"
	"net/http"
	"net/netip"
)

// Peer is who is at the other end of a connection, as far as the system tells.
type Peer struct {
	Kind PeerKind
	UID  int // of PeerUser
}

// PeerKind says where a peer is and what is proven about it.
type PeerKind int

// The kinds of peers.
const (
	// PeerRemote is a program on another machine, or behind a Unix socket.
	PeerRemote PeerKind = iota
	// PeerOwn is a program of our own user on this machine. Root counts as one of
	// us: it can do everything anyway. Where the system does not tell users apart,
	// it is any program on this machine.
	PeerOwn
	// PeerUser is a program of another user of this machine.
	PeerUser
	// PeerUnproven is a program on this machine whose user is not proven: its end
	// is closed already, the kernel does not show it, or a command that this
	// process started holds it, which runs as our user and is not that user.
	PeerUnproven
)

// PeerOf returns who sent a request. The connection decides, not the name that the
// request gives to the server: a peer is local if its end of the connection is on this
// machine, at whatever address.
func PeerOf(r *http.Request) Peer {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return Peer{Kind: PeerRemote} // a Unix socket, whose mode says who may connect
	}

	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	switch {
	case ok:
		return ConnectionPeer(local.AddrPort(), remote)
	case isLocalAddress(remote.Addr()):
		return Peer{Kind: PeerUnproven}
	}
	return Peer{Kind: PeerRemote}
}

// ConnectionPeer returns who is at the remote end of a TCP connection. Local and
// remote are its addresses as the server sees them.
func ConnectionPeer(local, remote netip.AddrPort) Peer {
	if sameAddress(local.Addr(), remote.Addr()) || remote.Addr().Unmap().IsLoopback() {
		return localPeer(local, remote)
	}
	// What the kernel knows as the other end is on this machine, whatever its address.
	if p, ok := findPeer(local, remote); ok {
		return p
	}
	if isLocalAddress(remote.Addr()) {
		return localPeer(local, remote)
	}
	return Peer{Kind: PeerRemote}
}

func sameAddress(a, b netip.Addr) bool {
	return a.Unmap().WithZone("") == b.Unmap().WithZone("")
}

// isLocalAddress reports whether an address belongs to this machine.
func isLocalAddress(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.IsLoopback() {
		return true
	}

	list, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}

	for _, item := range list {
		if n, ok := item.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == a {
				return true
			}
		}
	}

	return false
}
