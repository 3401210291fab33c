package sandbox

import (
	"fmt"
	"time"
)

// Watch looks after what all processes of a running command use together. The
// kernel bounds single processes and single files; only a control group bounds
// sums, and not every machine has one for us.
type Watch struct {
	// Members lists the processes of the command as they are now.
	Members func() []int
	// Memory bounds their memory in bytes, shared memory and files in memory
	// included; 0 or less is no bound.
	Memory int64
	// Disk bounds what the command adds to Dirs, in bytes of the disk; 0 or
	// less is no bound. Dirs are looked up when they are needed.
	Disk int64
	Dirs func() []string
	// Began is when the command was started.
	Began time.Time
}

// OverError is why a command was ended by a Watch.
type OverError struct {
	What  string // "memory" or "disk space"
	Used  int64
	Limit int64
	Low   bool // the machine ran out of it
}

func (o *OverError) Error() string {
	if o.Low {
		return fmt.Sprintf("the machine is running out of %s, and %s of it went since the command began; it may use %s",
			o.What, mebibytes(o.Used), mebibytes(o.Limit))
	}
	return fmt.Sprintf("all its processes together used %s of %s; the limit is %s", mebibytes(o.Used), o.What, mebibytes(o.Limit))
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
