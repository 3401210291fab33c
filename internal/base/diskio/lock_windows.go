package diskio

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Locks are mandatory on Windows, so the locked byte lies far behind the
// process id, which others must be able to read.
const lockOffsetHigh = 0x40000000

// lockOpenError maps the states of a lock file that its owner is just removing.
func lockOpenError(path string, err error) error {
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_DELETE_PENDING) {
		return &LockedError{Path: path}
	}
	return err
}

func lockFile(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{OffsetHigh: lockOffsetHigh})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// unlockFile closes first: an open file cannot be removed on Windows, and the
// removal fails harmlessly when the next owner has already opened it.
func unlockFile(f *os.File, path string) error {
	if err := f.Close(); err != nil {
		return err
	}
	_ = os.Remove(path)
	return nil
}

func unlockOpen(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{OffsetHigh: lockOffsetHigh})
}
