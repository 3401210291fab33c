package daemon

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercent(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 5 << 20: 400, 16 << 20: 400, 32 << 20: 200, 64 << 20: 100, 1 << 30: 100} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes in use: %d %%, want %d", live, got, want)
		}
	}
}

// TestCollector is not parallel: the percentage belongs to the process.
func TestCollector(t *testing.T) {
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watchCollections(ctx)
	held := make([]byte, 128<<20)
	current := func() int {
		p := debug.SetGCPercent(50)
		debug.SetGCPercent(p)
		return p
	}
	for range 1000 { // cleanups run some time after the collection
		if runtime.GC(); current() == leastPercent {
			break
		}
		runtime.Gosched()
	}
	if p := current(); p != leastPercent {
		t.Errorf("%d %% with %d bytes in use, want %d", p, len(held), leastPercent)
	}
	runtime.KeepAlive(held)
}
