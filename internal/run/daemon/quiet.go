package daemon

import (
	"context"
	"runtime"
	"time"
)

const (
	quietFirst  = 3 * time.Second  // after the start, which needs much that is not needed again
	quietEvery  = 15 * time.Second // between two looks
	quietAllocs = 256 << 10        // bytes a process allocates between two looks that does nothing
	worthAllocs = 1 << 20          // bytes allocated since the last time that make it worth doing again
	sleepAfter  = 4                // looks that found nothing done, one after the other
)

// ReleaseWhenQuiet calls releaseMemory soon after the start and again whenever
// the process has worked and come to rest, until ctx ends. After a longer rest
// it calls unload before, which lets go of what would only make further work
// faster. Meanwhile it keeps the heap from growing far beyond what is in use.
// It is for programs of our own: in one that embeds us it would concern code we
// know nothing of.
func ReleaseWhenQuiet(ctx context.Context, unload func()) {
	t := time.NewTimer(quietFirst)
	defer t.Stop()
	q := quiet{}
	watchCollections(ctx)

	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}

		rest, sleep := q.check(allocated())
		if sleep {
			unload()
		}

		if rest || sleep {
			releaseMemory()
			q.released = allocated()
			q.seen = q.released
		}

		t.Reset(quietEvery)
	}
}

// quiet decides when a process is at rest, and when it sleeps. The figures are
// bytes allocated since its start.
type quiet struct {
	seen, released uint64
	slept          uint64
	idle           int // looks in a row that found nothing done
}

func (q *quiet) check(now uint64) (rest, sleep bool) {
	first := q.seen == 0
	if q.idle++; now-q.seen >= quietAllocs {
		q.idle = 0
	}

	q.seen = now
	rest = first || q.idle > 0 && now-q.released >= worthAllocs
	if sleep = q.idle == sleepAfter && now-q.slept >= worthAllocs; sleep {
		q.slept = now
	}
	return rest, sleep
}

func allocated() uint64 { return memory().TotalAlloc }

// memory reads figures of the runtime, which stops the world for microseconds.
// The package runtime/metrics knows them too, but costs every start 0.15 ms.
func memory() (m runtime.MemStats) {
	runtime.ReadMemStats(&m)
	return m
}
