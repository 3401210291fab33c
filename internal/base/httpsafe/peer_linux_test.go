package httpsafe

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

func TestOwnerInTable(t *testing.T) {
	t.Parallel()
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	// 127.0.0.1:8080 is the server, 127.0.0.1:50000 the client.
	server := "   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 11 1\n"
	client := func(state, uid string) string {
		return "   2: 0100007F:C350 0100007F:1F90 " + state + " 00000000:00000000 00:00000000 00000000  " + uid + "        0 12 1\n"
	}
	mapped := "   2: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 12 1\n"
	six := "   2: 00000000000000000000000001000000:C350 00000000000000000000000001000000:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 12 1\n"
	v4, v6 := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	for name, c := range map[string]struct {
		table string
		ip    netip.Addr
		want  PeerKind
	}{
		"same user":           {head + server + client("01", "1000"), v4, PeerOwn},
		"same user, half":     {head + server + client("05", "1000"), v4, PeerOwn},
		"other user":          {head + server + client("01", "1001"), v4, PeerUser},
		"other user, mapped":  {head + server + mapped, v4, PeerUser},
		"other user, IPv6":    {head + six, v6, PeerUser},
		"root":                {head + server + client("01", "0"), v4, PeerOwn},
		"closed meanwhile":    {head + server + client("06", "0"), v4, PeerUnproven},
		"gone meanwhile":      {head + server, v4, PeerUnproven},
		"no such list":        {"", v4, PeerUnproven},
		"others' connections": {head + "   1: 0100007F:1F90 0100007F:C351 01 0:0 00:0 0 1001 0 1 1\n", v4, PeerUnproven},
	} {
		got := Peer{Kind: PeerUnproven}
		if end, ok := findInTable([]byte(c.table), netip.AddrPortFrom(c.ip, 8080), netip.AddrPortFrom(c.ip, 50000)); ok {
			got = end.owner(1000)
		}
		if got.Kind != c.want || c.want == PeerUser && got.UID != 1001 {
			t.Errorf("%s: %+v, want %v", name, got, c.want)
		}
	}
}

// The kernel knows our own connections and those of others, at every address of the
// machine: not only over loopback.
func TestConnectionPeer(t *testing.T) {
	t.Parallel()
	own := outsideAddress()
	for name, c := range map[string]struct{ listen, dial string }{
		"loopback":                        {"127.0.0.1:0", "127.0.0.1"},
		"another loopback address":        {"0.0.0.0:0", "127.0.0.77"},
		"IPv6":                            {"[::1]:0", "::1"},
		"IPv4 on a listener for both":     {"[::]:0", "127.0.0.1"},
		"address of the machine":          {"0.0.0.0:0", own},
		"the same on a listener for both": {"[::]:0", own},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.dial == "" {
				t.Skip("this machine has no address beside loopback")
			}
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", c.listen)
			if err != nil {
				t.Skip(err)
			}
			defer l.Close()
			at := net.JoinHostPort(c.dial, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
			look := func() Peer {
				conn, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				return ConnectionPeer(conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort())
			}
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			if got := look(); got.Kind != PeerOwn {
				t.Errorf("our own connection: %+v", got)
			}
			_ = conn.Close()

			dial := func(as *syscall.Credential) Peer {
				cmd := exec.CommandContext(t.Context(), "/bin/bash", "-c", "exec 3<>/dev/tcp/"+c.dial+"/"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port)+"; cat <&3")
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
				if err := cmd.Start(); err != nil {
					t.Skip(err)
				}
				defer cmd.Wait()
				return look()
			}
			if got := dial(nil); got.Kind != PeerUnproven {
				t.Errorf("a command that we started: %+v", got)
			}
			if os.Geteuid() != 0 {
				return
			}
			if got := dial(&syscall.Credential{Uid: 65534, Gid: 65534}); got != (Peer{Kind: PeerUser, UID: 65534}) {
				t.Errorf("another user: %+v", got)
			}
		})
	}
}

// outsideAddress is an address of this machine that others reach; "" if it has none.
func outsideAddress() string {
	list, _ := net.InterfaceAddrs()
	for _, item := range list {
		if n, ok := item.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
}

// Other machines are remote; an end that is gone is not, wherever it was.
func TestRemotePeer(t *testing.T) {
	t.Parallel()
	server := netip.MustParseAddrPort("192.0.2.1:18790")
	for remote, want := range map[string]PeerKind{
		"198.51.100.7:4000":        PeerRemote,
		"[2001:db8::7]:4000":       PeerRemote,
		"[::ffff:198.51.100.7]:40": PeerRemote,
		"127.0.0.1:4000":           PeerUnproven,
		"127.9.9.9:4000":           PeerUnproven,
		"[::1]:4000":               PeerUnproven,
		"[::ffff:127.0.0.1]:4000":  PeerUnproven,
		"192.0.2.1:4000":           PeerUnproven,
		"[::ffff:192.0.2.1]:4000":  PeerUnproven,
	} {
		if got := ConnectionPeer(server, netip.MustParseAddrPort(remote)); got.Kind != want {
			t.Errorf("%s: %+v, want %v", remote, got, want)
		}
	}
	if own := outsideAddress(); own != "" {
		if got := ConnectionPeer(server, netip.AddrPortFrom(netip.MustParseAddr(own), 4000)); got.Kind != PeerUnproven {
			t.Errorf("an address of this machine: %+v", got)
		}
	}
}

// The lists of children name the same processes as the parents of all processes do.
func TestDescendants(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/bin/bash", "-c", "cat & wait")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for name, list := range map[string][]int{"lists of children": descendants(), "parents": descendantsInTable(os.Getpid())} {
		if !slices.Contains(list, cmd.Process.Pid) {
			t.Errorf("%s: %v lack the command %d", name, list, cmd.Process.Pid)
		}
	}
}

// A child has a copy of what we hold until it begins its program. The connection is ours
// as long as we hold it, and the child's when only the child does.
func TestPeerWithACopyInAChild(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	held, err := client.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/cat")
	cmd.ExtraFiles = []*os.File{held}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer in.Close()

	peer := func() PeerKind {
		return ConnectionPeer(server.LocalAddr().(*net.TCPAddr).AddrPort(), server.RemoteAddr().(*net.TCPAddr).AddrPort()).Kind
	}
	if got := peer(); got != PeerOwn {
		t.Errorf("we hold it, too: %v, want %v", got, PeerOwn)
	}
	_ = held.Close()
	_ = client.Close()
	if got := peer(); got != PeerUnproven {
		t.Errorf("only the child holds it: %v, want %v", got, PeerUnproven)
	}
}
