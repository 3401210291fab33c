package gateway

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// A port that is let go of within a second is taken.
func TestListenWaitsForThePort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lc net.ListenConfig
		ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(400 * time.Millisecond)
			_ = ln.Close() // what listens next shows it
		}()
		var f front
		if err := f.listen(t.Context(), ln.Addr().String(), config.Gateway{}); err != nil {
			t.Fatal(err)
		}
		defer f.listener.Close()

		var second front
		start := time.Now()
		if err := second.listen(t.Context(), f.listener.Addr().String(), config.Gateway{}); err == nil || time.Since(start) > 2*time.Second {
			t.Errorf("a port that stays taken: %v after %s", err, time.Since(start))
		}
	})
}
