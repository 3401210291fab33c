//go:build unix && !linux

package diskio

import (
	"os"
	"syscall"
)

func unlockOpen(f *os.File) error { return flock(f, syscall.LOCK_UN) }
