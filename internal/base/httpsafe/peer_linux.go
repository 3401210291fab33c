package httpsafe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
)

// localPeer returns the owner of the other end of a connection of this machine to itself.
func localPeer(local, remote netip.AddrPort) Peer {
	if p, ok := findPeer(local, remote); ok {
		return p
	}

	var tables [][]byte
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if data, err := os.ReadFile(name); err == nil {
			tables = append(tables, data)
		}
	}

	// An end that is missing was closed to hide who had it, or is not shown.
	end, ok := findInTable(bytes.Join(tables, []byte("\n")), local, remote)
	if !ok {
		return Peer{Kind: PeerUnproven}
	}
	return end.owner(os.Geteuid())
}

// findPeer asks the kernel for the other end of a connection. It returns false if
// that is not on this machine, and where the kernel does not answer.
func findPeer(local, remote netip.AddrPort) (Peer, bool) {
	end, ok := findEnd(remote, local)
	if !ok {
		return Peer{}, false
	}
	return end.owner(os.Geteuid()), true
}

// owner judges who has one end of a connection. The kernel shows an end that no
// process holds any more as root's.
func (e endpoint) owner(self int) Peer {
	uid := int(e.uid)
	switch {
	case uid == 0 && !e.established:
		return Peer{Kind: PeerUnproven}
	case uid != 0 && uid != self:
		return Peer{Kind: PeerUser, UID: uid}
	case heldByChild(e.inode):
		return Peer{Kind: PeerUnproven}
	}

	return Peer{Kind: PeerOwn}
}

// findInTable looks the client's end up in the kernel's list of connections.
func findInTable(table []byte, local, remote netip.AddrPort) (endpoint, bool) {
	server, client := tableNames(local), tableNames(remote)
	for line := range bytes.Lines(table) {
		f := bytes.Fields(line)
		if len(f) < 10 {
			continue
		}
		if from, to := string(f[1]), string(f[2]); !isOneOf(from, client) || !isOneOf(to, server) {
			continue
		}

		uid, uidErr := strconv.ParseUint(string(f[7]), 10, 32)
		inode, inodeErr := strconv.ParseUint(string(f[9]), 10, 32)
		if uidErr != nil || inodeErr != nil {
			return endpoint{}, false
		}

		const established = "01"
		return endpoint{uid: uint32(uid), inode: uint32(inode), established: string(f[3]) == established}, true
	}

	return endpoint{}, false
}

func isOneOf(s string, list [2]string) bool { return s == list[0] || s == list[1] }

// tableNames returns how the kernel writes an address: as words in the
// machine's own order. An IPv4 address may stand in either table.
func tableNames(a netip.AddrPort) (names [2]string) {
	write := func(ip []byte) string {
		var b bytes.Buffer
		for ; len(ip) >= 4; ip = ip[4:] {
			fmt.Fprintf(&b, "%08X", binary.NativeEndian.Uint32(ip))
		}
		fmt.Fprintf(&b, ":%04X", a.Port())
		return b.String()
	}

	ip := a.Addr().Unmap()
	wide := ip.As16()
	names[0] = write(wide[:])

	if ip.Is4() {
		narrow := ip.As4()
		names[1] = write(narrow[:])
	}
	return names
}
