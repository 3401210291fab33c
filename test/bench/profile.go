package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"

	"github.com/nanobot-go/nanobot"
)

// runGateway is `nanobot gateway` in this program, which writes profiles into a
// folder when it ends. It is slower than the real one and measures nothing: it
// shows where time and memory go.
func runGateway(conf, port, into string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	runtime.SetMutexProfileFraction(10)
	cpu, err := os.Create(filepath.Join(into, "cpu.pprof"))
	if err != nil {
		return err
	}
	defer cpu.Close()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}

	g, err := nanobot.NewGateway(ctx, nanobot.WithConfigFile(conf), nanobot.WithListen("127.0.0.1:"+port))
	if err != nil {
		return err
	}
	var told sync.WaitGroup
	told.Go(func() { sayReady(ctx, g.Ready()) })
	err = g.Serve(ctx)
	stop()
	told.Wait()

	pprof.StopCPUProfile()
	return errors.Join(err, writeProfile(into, "allocs"), writeProfile(into, "mutex"))
}

// sayReady tells whoever started us, as the real program does.
func sayReady(ctx context.Context, ready <-chan struct{}) {
	select {
	case <-ready:
	case <-ctx.Done():
		return
	}
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return // the other side times out and says so
	}
	_, _ = conn.Write([]byte("READY=1"))
	_ = conn.Close()
}

// writeProfile writes one of the runtime's profiles.
func writeProfile(into, name string) error {
	f, err := os.Create(filepath.Join(into, name+".pprof"))
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close())
}
