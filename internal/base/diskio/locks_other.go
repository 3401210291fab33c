//go:build !linux

package diskio

import (
	"errors"
	"path/filepath"
	"sync"
)

// Locks hands out exclusive locks by name, held against other processes that
// use the same directory; the system gives them up when the process dies. It
// does not keep callers inside the process apart. It is safe for concurrent
// use.
//
// Each name has a file of its own, which stays while the name is in use.
type Locks struct {
	dir string

	mu   sync.Mutex
	rest map[string]*Lock // taken before, resting or held
}

// NewLocks makes locks in a directory. It does no I/O.
func NewLocks(dir string) *Locks { return &Locks{dir: dir, rest: map[string]*Lock{}} }

// Try takes the lock of a name without waiting. When another process holds it
// the error is a *LockedError.
func (l *Locks) Try(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	if old := l.rest[name]; old != nil {
		err := old.Again()
		if !errors.Is(err, ErrLockGone) {
			return err
		}
		delete(l.rest, name)
	}

	lock, err := TryLock(filepath.Join(l.dir, name+".lock"))
	if err == nil {
		l.rest[name] = lock
	}
	return err
}

// Release gives a lock up.
func (l *Locks) Release(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lock := l.rest[name]; lock != nil {
		return lock.Rest()
	}
	return nil
}

// Forget is told that a name will not be used for a while; its file goes.
func (l *Locks) Forget(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := l.rest[name]
	if lock == nil {
		return nil
	}
	delete(l.rest, name)
	return lock.Remove()
}

// Close gives up all locks and removes their files.
func (l *Locks) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for name, lock := range l.rest {
		err = errors.Join(err, lock.Remove())
		delete(l.rest, name)
	}
	return err
}
