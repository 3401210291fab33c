package auth

import (
	"net/http"
	"net/netip"
	"strconv"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// opener says from where a device was signed in. A browser sends the cookie of an
// address to every port of it, so on this machine a cookie may come into the hands of
// another user's program: it is good only for who the device was signed in by.
type opener string

// The openers; a device of another user of this machine, behind a proxy for example, has
// "user:" and the user's number.
const (
	openedOwn      opener = "own"      // by a program of the gateway's user on this machine
	openedRemote   opener = "remote"   // from another machine, or through a proxy that we trust
	openedUnproven opener = "unproven" // by a program on this machine that the kernel did not tell about
)

// openerOf returns from where a request comes.
func (s *Server) openerOf(r *http.Request) opener {
	if s.o.Site().proxied(r) {
		return openedRemote
	}

	switch p := s.o.Peer(r); p.Kind {
	case httpsafe.PeerOwn:
		return openedOwn
	case httpsafe.PeerUser:
		return opener("user:" + strconv.Itoa(p.UID))
	case httpsafe.PeerUnproven:
		return openedUnproven
	}

	return openedRemote
}

// isForeign reports whether the program is on this machine and not proven to be of the
// gateway's user.
func (o opener) isForeign() bool { return o != openedOwn && o != openedRemote }

// mayUse reports whether a request from o may use a device that was signed in from opened.
func (o opener) mayUse(opened opener) bool {
	switch o {
	case openedOwn:
		return true // may do everything that the owner may
	case opened:
		return true
	}
	return false
}

// openedFrom returns the opener of a device that was stored before openers were: by the
// address that it was last used from.
func openedFrom(address string) opener {
	if a, err := netip.ParseAddr(address); err == nil && a.Unmap().IsLoopback() {
		return openedOwn
	}
	return openedRemote
}
