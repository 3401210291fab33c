package shell

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
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
func (r *runner) watchOver(k *kin, l launch, writes []string) *lookout {
	if r.disk <= 0 && (r.memory <= 0 || !canWatch) {
		return nil
	}

	own := k.twin()
	began := time.Now()
	o := &lookout{
		r: r, turn: l.call.TurnID, free: freeSpace(r.workspace),
		watch: sandbox.Watch{
			Members:   own.alive,
			Memory:    r.memory,
			Disk:      r.added.left(l.call.TurnID, r.disk),
			FileLimit: fileLimit(r.disk),
			Began:     began,
			Dirs:      func() []string { return slices.Concat(r.growing(l), writes, sandbox.PrivateDirs(began)) },
			Hold:      own.hold,
			Free:      diskio.FreeBytes,
		},
	}

	ctx, stop := context.WithCancel(context.Background()) // ends with the command, which has a context of its own
	o.stop = stop
	o.done.Go(func() {
		over := o.watch.Run(ctx)
		if over == nil {
			return
		}
		own.kill() // first: it goes on writing meanwhile
		o.over = o.explain(over)
	})
	return o
}

// growing are folders in which a command adds files. One that nothing confines
// adds them anywhere; these are where programs do so without being told.
func (r *runner) growing(l launch) []string {
	dirs := []string{r.workspace}
	if l.dir != "" {
		dirs = append(dirs, l.dir)
	}
	if !r.guard.sandboxed {
		dirs = append(dirs, r.guard.home, os.TempDir())
	}
	return dirs
}

// maxNamed bounds the files that are named after the disk limit was reached.
const maxNamed = 3

// explain says which setting it was, and what is left of what the command made.
func (o *lookout) explain(over *sandbox.OverError) error {
	if over.What == "memory" {
		return fmt.Errorf("%w (tools.exec.maxMemoryMB). Do the work in smaller steps", over)
	}
	left := ""
	if files := o.watch.Largest(maxNamed); len(files) > 0 {
		left = " Files that were written meanwhile are still there, the largest: " + strings.Join(files, ", ") + ". Remove what is not needed"
	}
	return fmt.Errorf("%w (tools.exec.maxDiskMB). Do the work in smaller steps.%s", over, left)
}

// close stops the watch and returns why the command was ended, if it was. What the
// command added to the disk counts for its turn.
func (o *lookout) close(code int) error {
	if o == nil {
		return nil
	}

	o.stop()
	o.done.Wait()
	if o.r.disk <= 0 {
		return o.over
	}

	gone := int64(0) // other programs free space meanwhile
	if free := freeSpace(o.r.workspace); free < o.free {
		gone = int64(o.free - free) //nolint:gosec // a size
	}

	var added int64
	stopped := code == stoppedByFileLimit
	if gone > o.r.disk/64 || stopped {
		used, full := o.watch.Added()
		added = min(used, gone)
		o.r.added.add(o.turn, added)
		stopped = full && (stopped || gone >= o.r.disk/2)
	}

	// Programs that met the limit of one file can end before the next look.
	if o.over == nil && (added >= o.watch.Disk || stopped) {
		o.over = o.explain(&sandbox.OverError{What: "disk space", Used: max(added, o.r.disk), Limit: o.watch.Disk})
	}
	return o.over
}

// stoppedByFileLimit is the exit code that a shell gives to a program which the
// kernel ended with SIGXFSZ.
const stoppedByFileLimit = 128 + 25

// fileLimitUnit is the unit, in bytes, in which shells set the limit of one
// file.
const fileLimitUnit = 512

// fileLimit returns the size at which the kernel stops a file of a command that may
// add disk bytes, where the kernel knows such a limit.
func fileLimit(disk int64) int64 { return max(disk/fileLimitUnit, 1) * fileLimitUnit }

// keptTurns bounds the turns whose sums are remembered.
const keptTurns = 64

// addedByTurn sums up what the commands of a turn left on the disk.
type addedByTurn struct {
	mu   sync.Mutex
	sums *recent.Map[string, int64]
}

// left returns what the next command of a turn may add.
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
