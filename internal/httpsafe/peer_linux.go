package httpsafe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
)

// OtherUser reports whether a connection of this machine to itself was not
// proven to be our user's. Local and remote are the addresses as the server sees
// them. Root counts as one of us: it can do everything anyway. A command that
// this process started is another, although it runs as our user; so is
// everybody where the kernel does not tell.
func OtherUser(local, remote netip.AddrPort) bool {
	if end, ok := findEnd(remote, local); ok {
		return isOther(int(end.uid), end.established, os.Geteuid()) || heldByChild(end.inode)
	}
	var tables [][]byte
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if data, err := os.ReadFile(name); err == nil {
			tables = append(tables, data)
		}
	}
	return otherUser(bytes.Join(tables, []byte("\n")), local, remote, os.Geteuid())
}

// otherUser looks the client's end up in the kernel's list of connections. One
// that is missing was closed to hide who had it, or is not shown; so was one
// that nobody holds, which the kernel shows as root's.
func otherUser(table []byte, local, remote netip.AddrPort, self int) bool {
	server, client := tableNames(local), tableNames(remote)
	for line := range bytes.Lines(table) {
		f := bytes.Fields(line)
		if len(f) < 8 {
			continue
		}
		if from, to := string(f[1]), string(f[2]); !isOneOf(from, client) || !isOneOf(to, server) {
			continue
		}
		uid, err := strconv.Atoi(string(f[7]))
		if err != nil {
			return true
		}
		const established = "01"
		inode := uint64(0)
		if len(f) > 9 {
			inode, _ = strconv.ParseUint(string(f[9]), 10, 32)
		}
		return isOther(uid, string(f[3]) == established, self) || heldByChild(uint32(inode))
	}
	return true
}

// isOther judges the owner of the client's end.
func isOther(uid int, established bool, self int) bool {
	if uid == 0 {
		return !established
	}
	return uid != self
}

func isOneOf(s string, list [2]string) bool { return s == list[0] || s == list[1] }

// tableNames is how the kernel writes an address: as words in the machine's own
// order. An IPv4 address may stand in either table.
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
