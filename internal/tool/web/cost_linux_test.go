package web

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cost is the processor time of fn, which a busy machine does not stretch.
func cost(fn func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var u unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_THREAD, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	fn()
	return used() - start
}
