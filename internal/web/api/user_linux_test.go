package api_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// TestOtherUserIsRefused: without a key the API is for our own user; others on
// the same machine reach the port, too, and so do our own commands, which are
// children of this process.
func TestOtherUserIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	a, err := api.New(api.Options{
		Ask:     func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error] { return nil },
		Metrics: api.NewMetrics("test", time.Now(), time.Now),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(a.Handler())
	defer srv.Close()
	for _, path := range []string{"/v1/models", "/metrics", "/health"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
			t.Errorf("%s of our own: %d", path, res.StatusCode)
		}
	}
	for path, want := range map[string]string{"/v1/models": "403", "/metrics": "403", "/health": "200"} {
		for uid, want := range map[uint32]string{65534: want, 0: want} {
			script := "exec 3<>/dev/tcp/127.0.0.1/" + srv.URL[strings.LastIndex(srv.URL, ":")+1:] +
				"; printf 'GET " + path + " HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -1 <&3"
			cmd := exec.CommandContext(t.Context(), "/bin/bash", "-c", script)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			out, err := cmd.Output()
			if err != nil {
				t.Skip(err)
			}
			if got := string(out); !strings.Contains(got, " "+want+" ") {
				t.Errorf("%s as %d: %q, want %s", path, uid, got, want)
			}
		}
	}
}
