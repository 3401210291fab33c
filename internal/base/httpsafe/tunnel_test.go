package httpsafe_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// A fake proxy answers one client, says a greeting as if it came from the other
// end, in the same write, and echoes a line.
func fakeProxy(t *testing.T, serve func(conn net.Conn, in *bufio.Reader) bool) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		if !serve(conn, in) {
			return
		}
		line, err := in.ReadString('\n')
		if err == nil {
			_, _ = io.WriteString(conn, line)
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
}

func httpProxy(status int, auth string) func(net.Conn, *bufio.Reader) bool {
	return func(conn net.Conn, in *bufio.Reader) bool {
		req, err := http.ReadRequest(in)
		if err != nil || req.Method != http.MethodConnect || req.Host != "mail.example:993" || req.Header.Get("Proxy-Authorization") != auth {
			status = http.StatusBadRequest
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d x\r\n\r\n", status)
		if status == http.StatusOK {
			_, _ = io.WriteString(conn, "hello\n")
		}
		return status == http.StatusOK
	}
}

// socksProxy wants a password if there is one, and the target in this form.
func socksProxy(password, want string, code byte) func(net.Conn, *bufio.Reader) bool {
	return func(conn net.Conn, in *bufio.Reader) bool {
		read := func(n int) []byte {
			b := make([]byte, n)
			_, _ = io.ReadFull(in, b)
			return b
		}
		methods := read(int(read(2)[1]))
		if password == "" {
			_, _ = conn.Write([]byte{5, 0})
		} else {
			if !strings.Contains(string(methods), "\x02") {
				_, _ = conn.Write([]byte{5, 0xff})
				return false
			}
			_, _ = conn.Write([]byte{5, 2})
			name := read(int(read(2)[1]))
			pass := read(int(read(1)[0]))
			if string(name) != "u" || string(pass) != password {
				_, _ = conn.Write([]byte{1, 1})
				return false
			}
			_, _ = conn.Write([]byte{1, 0})
		}
		head := read(4)
		host := ""
		switch head[3] {
		case 1, 4:
			host = net.IP(read(map[byte]int{1: 4, 4: 16}[head[3]])).String()
		case 3:
			host = string(read(int(read(1)[0])))
		}
		if got := fmt.Sprintf("%s:%d", host, binary.BigEndian.Uint16(read(2))); got != want {
			code = 4
		}
		answer := append([]byte{5, code, 0, 3, 2}, "ab\x00\x00"...)
		if code == 0 {
			answer = append(answer, "hello\n"...)
		}
		_, _ = conn.Write(answer)
		return code == 0
	}
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, scheme, target string
		serve                func(net.Conn, *bufio.Reader) bool
		want                 string // in the error
	}{
		{"connect", "http://", "mail.example:993", httpProxy(200, ""), ""},
		{"connect with a password", "http://u:p@", "mail.example:993", httpProxy(200, "Basic dTpw"), ""},
		{"connect refused", "http://", "mail.example:993", httpProxy(403, ""), "403"},
		{"by name", "socks5h://", "mail.example:993", socksProxy("", "mail.example:993", 0), ""},
		{"by address", "socks5://", "192.0.2.7:25", socksProxy("", "192.0.2.7:25", 0), ""},
		{"by long address", "socks5h://", "[2001:db8::1]:25", socksProxy("", "2001:db8::1:25", 0), ""},
		{"with a password", "socks5h://u:secret@", "mail.example:993", socksProxy("secret", "mail.example:993", 0), ""},
		{"wrong password", "socks5h://u:SECRET@", "mail.example:993", socksProxy("other", "mail.example:993", 0), "refuses the name or the password"},
		{"no password", "socks5h://", "mail.example:993", socksProxy("secret", "mail.example:993", 0), "another proof"},
		{"not reached", "socks5h://", "mail.example:993", socksProxy("", "mail.example:993", 5), "code 5"},
		{"no proxy", "socks5h://", "mail.example:993", func(conn net.Conn, _ *bufio.Reader) bool {
			_, _ = io.WriteString(conn, "HTTP/1.1 400\r\n\r\n")
			return false
		}, "does not speak"},
		{"no port", "socks5h://", "mail.example", socksProxy("", "", 0), "port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			via, err := httpsafe.ParseProxy(c.scheme + fakeProxy(t, c.serve))
			if err != nil {
				t.Fatal(err)
			}
			conn, err := httpsafe.Tunnel(t.Context(), via, c.target)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SECRET") {
					t.Fatalf("error %v, want one about %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "ping\n")
			data, err := io.ReadAll(conn)
			if string(data) != "hello\nping\n" {
				t.Errorf("read %q, %v; want the greeting and the echo", data, err)
			}
		})
	}
}

// A proxy that says nothing is left when the caller does not wait any more.
func TestTunnelEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	via := &url.URL{Scheme: "socks5h", Host: fakeProxy(t, func(_ net.Conn, in *bufio.Reader) bool {
		_, _ = in.ReadByte()
		cancel()
		_, _ = io.Copy(io.Discard, in)
		return false
	})}
	if conn, err := httpsafe.Tunnel(ctx, via, "mail.example:993"); err == nil {
		t.Errorf("connected: %v", conn.Close())
	}
}

func TestParseProxy(t *testing.T) {
	t.Parallel()
	for in, ok := range map[string]bool{
		"http://a": true, "https://a:1": true, "socks5://u:p@a:1080": true, "socks5h://[::1]:1": true,
		"": false, "a:1": false, "ftp://SECRET@a": false, "http://": false, "http://:1": false, "http://SECRET:%zz@a": false,
	} {
		_, err := httpsafe.ParseProxy(in)
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("ParseProxy(%q): %v, want ok %v", in, err, ok)
		}
	}
}
