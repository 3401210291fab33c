//go:build unix

package httpsafe_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// TestLongSocketPath: a data folder may lie deep in the disk.
func TestLongSocketPath(t *testing.T) {
	for _, depth := range []int{0, 3} {
		dir := filepath.Join(t.TempDir(), filepath.Join(strings.Split(strings.Repeat(strings.Repeat("x", 80)+" ", depth), " ")...))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", dir) // of no help
		path := filepath.Join(dir, "gateway.sock")
		l, err := httpsafe.ListenLocal(path)
		if err != nil {
			t.Fatalf("%d bytes: %v", len(path), err)
		}
		srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })}
		done := make(chan error, 1)
		go func() { done <- srv.Serve(l) }()

		info, err := os.Lstat(path)
		if err != nil || info.Mode()&os.ModeSocket == 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("the socket: %v, %v", info, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := httpsafe.Local(path, time.Minute).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "here" || err != nil {
			t.Errorf("got %q, %v", b, err)
		}
		_ = resp.Body.Close()

		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-done
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}
