package daemon

import (
	"context"
	"runtime"
	"runtime/debug"
)

// collector decides after each collection of garbage when the next one comes.
// The percentage of a start is chosen for a small heap and would let a large one
// grow to five times its size; a limit that does not move makes collections
// follow one another when what is in use comes near it.
type collector struct {
	ctx     context.Context //nolint:containedctx // the runtime calls, with no context of its own
	percent int             // in force
}

func watchCollections(ctx context.Context) {
	debug.SetGCPercent(mostPercent)
	(&collector{ctx: ctx, percent: mostPercent}).watch()
}

// watch waits for the next collection, which finds a value without references.
func (c *collector) watch() { runtime.AddCleanup(&found{c}, (*collector).collected, c) }

type found struct{ by *collector }

func (c *collector) collected() {
	if c.ctx.Err() != nil {
		return
	}

	// The runtime has planned the next collection for what it found in use.
	live := memory().NextGC * 100 / uint64(100+c.percent) //nolint:gosec // not negative
	if p := percent(live); p != c.percent {
		c.percent = p
		debug.SetGCPercent(p)
	}
	c.watch()
}

const (
	mostPercent  = 400
	leastPercent = 100
	heapRoom     = 64 << 20 // bytes that may be allocated between two collections of a larger heap
)

// percent is by how much a heap may grow that has so many bytes in use.
func percent(live uint64) int {
	return int(min(mostPercent, max(leastPercent, 100*heapRoom/max(live, 1)))) //nolint:gosec // between the two
}
