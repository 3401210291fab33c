package shell

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/recent"
	"github.com/nanobot-go/nanobot/internal/sandbox"
)

// lookout ends a command whose processes use too much together.
type lookout struct {
	watch sandbox.Watch
	stop  context.CancelFunc
	done  sync.WaitGroup
	over  error
	free  uint64 // on the disk of the workspace, when the command began

	r    *runner
	turn string
}

// watchOver begins to look after a command that was just started; nil where
// nothing is bounded or nothing can be seen.
func (r *runner) watchOver(k *kin, l launch) *lookout {
	if r.memory <= 0 && r.disk <= 0 || !canWatch {
		return nil
	}
	own := k.twin()
	began := time.Now()
	o := &lookout{
		r: r, turn: l.call.TurnID, free: freeSpace(r.workspace),
		watch: sandbox.Watch{
			Members: own.alive, Memory: r.memory, Disk: r.added.left(l.call.TurnID, r.disk), Began: began,
			Dirs: func() []string { return append([]string{r.workspace}, sandbox.PrivateDirs(began)...) },
		},
	}
	ctx, stop := context.WithCancel(context.Background()) // ends with the command, which has a context of its own
	o.stop = stop
	o.done.Go(func() {
		over := o.watch.Run(ctx)
		if over == nil {
			return
		}
		o.over = o.explain(over)
		own.kill()
	})
	return o
}

// explain says which setting it was.
func (o *lookout) explain(over *sandbox.OverError) error {
	setting := "tools.exec.maxMemoryMB"
	if over.What != "memory" {
		setting = "tools.exec.maxDiskMB"
	}
	return fmt.Errorf("%w (%s). Do the work in smaller steps", over, setting)
}

// end stops looking and says why the command was ended, if it was. What the
// command added to the disk counts for its turn.
func (o *lookout) end() error {
	if o == nil {
		return nil
	}
	o.stop()
	o.done.Wait()
	if free := freeSpace(o.r.workspace); o.r.disk > 0 && o.free > free && int64(o.free-free) > o.r.disk/64 { //nolint:gosec // a size
		o.r.added.add(o.turn, min(o.watch.Added(), int64(o.free-free))) //nolint:gosec // the same
	}
	return o.over
}

// keptTurns bounds the turns whose sums are remembered.
const keptTurns = 64

// addedByTurn sums up what the commands of a turn left on the disk.
type addedByTurn struct {
	mu   sync.Mutex
	sums *recent.Map[string, int64]
}

// left is what the next command of a turn may add.
func (a *addedByTurn) left(turn string, disk int64) int64 {
	if disk <= 0 || turn == "" {
		return disk
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	sum, _ := a.sums.Get(turn)
	return max(min(disk, 2*disk-sum), 1)
}

func (a *addedByTurn) add(turn string, n int64) {
	if turn == "" || n <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	sum, _ := a.sums.Get(turn)
	a.sums.Put(turn, sum+n)
}
