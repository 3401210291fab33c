//go:build unix

package diskio

import (
	"os"
	"syscall"
)

func unlockOpen(f *os.File) error { return flock(f, syscall.LOCK_UN) }
