package httpsafe

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
)

// The quick look finds the same end as the list of all connections.
func TestFindEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, listen, dial string }{
		{"IPv4", "127.0.0.1:0", "127.0.0.1"},
		{"IPv4 on a listener for both", "[::]:0", "127.0.0.1"},
		{"IPv6", "[::1]:0", "::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", c.listen)
			if err != nil {
				t.Skip(err)
			}
			defer l.Close()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", net.JoinHostPort(c.dial, strconv.Itoa(l.Addr().(*net.TCPAddr).Port)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			from, to := conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort()
			end, ok := findEnd(from, to)
			if !ok {
				t.Skip("this kernel does not tell")
			}
			if int(end.uid) != os.Geteuid() || !end.established {
				t.Errorf("got %+v, want user %d, established", end, os.Geteuid())
			}
			if end, ok := findEnd(to, netip.AddrPortFrom(from.Addr(), from.Port()^1)); ok {
				t.Errorf("a connection nobody has: got %+v", end)
			}
		})
	}
}

func TestParseEnd(t *testing.T) {
	t.Parallel()
	from, to := netip.MustParseAddrPort("127.0.0.1:50000"), netip.MustParseAddrPort("127.0.0.1:8080")
	question := diagQuestion(from, to)
	good := make([]byte, diagAnswer)
	copy(good[:6], question[:6])
	body := good[16:]
	body[1] = diagConnected
	copy(body[diagID:], question[24:60])
	body[diagUID] = 7
	change := func(at int, to byte) []byte {
		b := append([]byte(nil), good...)
		b[at] = to
		return b
	}
	mapped := append([]byte(nil), good...)
	for _, at := range []int{24, 40} {
		copy(mapped[at:], netip.MustParseAddr("::ffff:127.0.0.1").AsSlice())
	}
	for name, c := range map[string]struct {
		answer []byte
		want   endpoint
		ok     bool
	}{
		"whole":           {good, endpoint{7, 0, true}, true},
		"mapped":          {mapped, endpoint{7, 0, true}, true},
		"closing":         {change(17, 6), endpoint{7, 0, false}, true},
		"listener":        {change(17, diagListen), endpoint{}, false},
		"another port":    {change(20, 1), endpoint{}, false},
		"another address": {change(24, 1), endpoint{}, false},
		"an error":        {change(4, 2), endpoint{}, false},
		"cut":             {good[:len(good)-1], endpoint{}, false},
		"nothing":         {nil, endpoint{}, false},
	} {
		if got, ok := parseEnd(c.answer, question); got != c.want || ok != c.ok {
			t.Errorf("%s: got %+v, %v, want %+v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

func BenchmarkConnectionPeer(b *testing.B) {
	l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Skip(err)
	}
	defer l.Close()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for b.Loop() {
		if p := ConnectionPeer(conn.RemoteAddr().(*net.TCPAddr).AddrPort(), conn.LocalAddr().(*net.TCPAddr).AddrPort()); p.Kind != PeerOwn {
			b.Fatalf("our own connection: %+v", p)
		}
	}
}
