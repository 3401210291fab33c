//go:build !linux

package diskio

import (
	"errors"
	"fmt"
	"os"
)

// Rest gives the lock up but keeps the file open and in place, so that taking
// it again costs no change of the directory. A resting lock is ended by Remove.
func (l *Lock) Rest() error { return unlockOpen(l.f) }

// Again takes a resting lock. When another holder has it the error is a
// *LockedError; when its file was removed or replaced meanwhile the error is
// ErrLockGone, the lock is of no use any more and a new one must be made.
func (l *Lock) Again() error {
	ok, err := lockFile(l.f)
	if err != nil {
		return fmt.Errorf("lock %s: %w", l.path, err)
	}
	if !ok {
		return &LockedError{Path: l.path, PID: readPID(l.f)}
	}

	same, err := stillNamed(l.f, l.path)
	if err == nil && !same {
		err = ErrLockGone
	}
	if err == nil && readPID(l.f) != os.Getpid() {
		err = writePID(l.f)
	}

	if err != nil {
		return errors.Join(err, l.f.Close())
	}
	return nil
}

// Remove ends a resting lock and removes its file unless another holder has
// it.
func (l *Lock) Remove() error {
	if err := l.Again(); err != nil {
		if _, held := errors.AsType[*LockedError](err); held {
			return l.f.Close()
		}
		if errors.Is(err, ErrLockGone) {
			return nil
		}
		return err
	}
	return l.Unlock()
}

// ErrLockGone says that a resting lock lost its file.
var ErrLockGone = errors.New("the lock file was removed")
