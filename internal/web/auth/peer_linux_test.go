package auth_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// Over real connections: the cookie of a browser of ours, and a link, are worth nothing
// for another user, at any address of the machine.
func TestAnotherUserOfTheMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	s := auth.New(auth.Options{
		Store: disk.Open(t.TempDir(), slog.New(slog.DiscardHandler)), Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Site: func() auth.Site { return auth.Site{Session: time.Hour} },
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", s.Login)
	mux.HandleFunc("GET /in", func(w http.ResponseWriter, r *http.Request) {
		_, ok, err := s.Check(w, r)
		_, _ = fmt.Fprintln(w, "in:", ok, err)
	})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(mux)
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	defer server.Close()

	port := l.Addr().(*net.TCPAddr).Port
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range list {
		ip := item.(*net.IPNet).IP
		if ip.To4() == nil {
			continue
		}
		t.Run(ip.String(), func(t *testing.T) {
			login := func(body string) []*http.Cookie {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://%s:%d/login", ip, port), strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				res, err := server.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				return res.Cookies()
			}
			cookies := login(code(s.Link()))
			if len(cookies) != 1 {
				t.Fatal("our own link does not sign in")
			}
			other := func(request string) string {
				cmd := exec.CommandContext(t.Context(), "/bin/bash", "-c", fmt.Sprintf(`exec 3<>/dev/tcp/%s/%d; printf '%%s' "$0" >&3; cat <&3`, ip, port), request)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
				out, err := cmd.Output()
				if err != nil {
					t.Skip(err)
				}
				return string(out)
			}
			got := other(fmt.Sprintf("GET /in HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.7\r\nCookie: %s=%s\r\nConnection: close\r\n\r\n", cookies[0].Name, cookies[0].Value))
			if !strings.Contains(got, "in: false <nil>") {
				t.Errorf("the cookie in the hands of another user: %s", got)
			}
			link := code(s.Link())
			got = other(fmt.Sprintf("POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(link), link))
			if !strings.Contains(got, "other_user") || strings.Contains(got, "Set-Cookie") {
				t.Errorf("the link in the hands of another user: %s", got)
			}
		})
	}
}
