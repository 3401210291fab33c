package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	daemon "github.com/nanobot-go/nanobot/internal/run/gateway"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "model" { // the model process of BenchmarkGateway
		if err := runModel(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// BenchmarkGateway is turns over the WebSocket channel of a gateway in this
// process, for profiling.
func BenchmarkGateway(b *testing.B) {
	for _, clients := range []int{1, loadClients} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			debug.SetGCPercent(400) // as cmd/nanobot does
			m, err := (&bench{self: os.Args[0]}).startModel()
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(m.close)
			g := serveGateway(b, m)
			var list []*talker
			for i := range clients {
				t, err := g.connect(b.Context(), fmt.Sprint("bench-", i))
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(t.close)
				list = append(list, t)
			}
			b.ResetTimer()
			got, err := drive(b.Context(), list, b.N/clients+1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(got.rate(), "turns/s")
			b.ReportMetric(float64(got.at(0.99).Microseconds()), "p99-µs")
		})
	}
}

func serveGateway(b *testing.B, m *model) *gateway {
	b.Helper()
	dir, err := os.MkdirTemp(".", "bench") //nolint:usetesting // temporary directories may be in memory
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	if dir, err = filepath.Abs(dir); err != nil {
		b.Fatal(err)
	}
	conf, err := gatewayHome(dir, m.serve(0), "", "")
	if err != nil {
		b.Fatal(err)
	}
	gw, err := daemon.New(b.Context(), daemon.Options{Listen: "127.0.0.1:0", Options: app.Options{
		Config: config.Options{Path: conf, Home: dir}, Env: env(dir),
	}})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context() // ends before what Cleanup was given runs
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- gw.Run(ctx, func() { close(ready) }) }()
	b.Cleanup(func() {
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	select {
	case <-ready:
	case <-time.After(startWait):
		b.Fatal("the gateway did not become ready")
	}
	return &gateway{addr: gw.Addr().String(), dir: dir}
}
