package diskio

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Locks hands out exclusive locks by name, held against other processes that
// use the same directory; the system gives them up when the process dies. It
// does not keep callers inside the process apart. It is safe for concurrent
// use.
//
// On Linux all names share one file, in which each has a byte range of its own:
// taking a lock makes no file, so many short-lived names cost no directory
// updates. Two names may share a range; then they exclude each other, too.
type Locks struct {
	dir string

	mu   sync.Mutex
	f    *os.File
	held map[int64]int // per range, because one process may hold two names of it
}

// Ranges of the lock file. Each holds the owner's process id as text. The file
// is sparse: only ranges in use occupy the disk.
const (
	lockRanges = 1 << 20
	lockWidth  = 32
)

// NewLocks makes locks in a directory. It does no I/O.
func NewLocks(dir string) *Locks { return &Locks{dir: dir, held: map[int64]int{}} }

// Try takes the lock of a name without waiting. When another process holds it
// the error is a *LockedError.
func (l *Locks) Try(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.f == nil {
		f, err := os.OpenFile(filepath.Join(l.dir, ".locks"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		l.f = f
	}

	at := lockRange(name)
	if l.held[at] == 0 {
		err := l.control(unix.F_WRLCK, at)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return &LockedError{Path: filepath.Join(l.dir, name), PID: l.owner(at)}
		}
		if err != nil {
			return fmt.Errorf("lock %s: %w", name, err)
		}
		if _, err := l.f.WriteAt(fmt.Appendf(nil, "%-*d\n", lockWidth-1, os.Getpid()), at); err != nil {
			return errors.Join(fmt.Errorf("lock %s: %w", name, err), l.control(unix.F_UNLCK, at))
		}
	}

	l.held[at]++
	return nil
}

// Release gives a lock up.
func (l *Locks) Release(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := lockRange(name)
	if l.held[at]--; l.held[at] > 0 {
		return nil
	}
	delete(l.held, at)
	return l.control(unix.F_UNLCK, at)
}

// Forget is told that a name will not be used for a while.
func (l *Locks) Forget(string) error { return nil }

// Close gives up all locks.
func (l *Locks) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	clear(l.held)
	return err
}

func (l *Locks) control(typ int16, at int64) error {
	conn, err := l.f.SyscallConn()
	if err != nil {
		return err
	}

	cerr := conn.Control(func(fd uintptr) {
		for {
			lk := unix.Flock_t{Type: typ, Start: at, Len: lockWidth}
			// Locks of the open file, not of the process: closing another
			// descriptor of the same file does not give them up.
			if err = unix.FcntlFlock(fd, unix.F_OFD_SETLK, &lk); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(cerr, err)
}

func (l *Locks) owner(at int64) int {
	var buf [lockWidth]byte
	n, _ := l.f.ReadAt(buf[:], at) // a short read gives no number
	pid, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}

func lockRange(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return int64(h.Sum64()%lockRanges) * lockWidth
}
