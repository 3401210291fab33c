package httpsafe

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

func TestOtherUserTable(t *testing.T) {
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
		want  bool
	}{
		"same user":           {head + server + client("01", "1000"), v4, false},
		"same user, half":     {head + server + client("05", "1000"), v4, false},
		"other user":          {head + server + client("01", "1001"), v4, true},
		"other user, mapped":  {head + server + mapped, v4, true},
		"other user, IPv6":    {head + six, v6, true},
		"root":                {head + server + client("01", "0"), v4, false},
		"closed meanwhile":    {head + server + client("06", "0"), v4, true},
		"gone meanwhile":      {head + server, v4, true},
		"no such list":        {"", v4, true},
		"others' connections": {head + "   1: 0100007F:1F90 0100007F:C351 01 0:0 00:0 0 1001 0 1 1\n", v4, true},
	} {
		if got := otherUser([]byte(c.table), netip.AddrPortFrom(c.ip, 8080), netip.AddrPortFrom(c.ip, 50000), 1000); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The real list knows our own connections and those of others.
func TestOtherUser(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:0", "[::]:0"} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Skip(err)
		}
		defer l.Close()
		port := l.Addr().(*net.TCPAddr).Port
		look := func() bool {
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			return OtherUser(conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort())
		}
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			t.Fatal(err)
		}
		if look() {
			t.Errorf("%s: our own connection is another's", addr)
		}
		_ = conn.Close()
		if os.Geteuid() != 0 {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "/bin/bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+strconv.Itoa(port)+"; cat <&3")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := cmd.Start(); err != nil {
			t.Skip(err)
		}
		if !look() {
			t.Errorf("%s: the connection of another user is ours", addr)
		}
		_ = cmd.Wait()
	}
}
