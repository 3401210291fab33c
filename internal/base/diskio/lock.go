package diskio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
)

// Lock is an exclusive lock on a path, held against other processes and other
// holders in this one. The system gives it up when the process dies.
type Lock struct {
	f    *os.File
	path string
}

// LockedError says that another holder has a lock, in this process or another.
type LockedError struct {
	Path string
	PID  int // of the holder; 0 when it could not be read
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return e.Path + " is locked"
	}
	return fmt.Sprintf("%s is locked by process %d", e.Path, e.PID)
}

// TryLock takes the lock at path without waiting. The lock file is made when
// missing, holds the owner's process id while the lock is held, and is removed
// by Unlock; its directory must exist. When another holder has the lock the
// error is a *LockedError.
func TryLock(path string) (*Lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, lockOpenError(path, err)
		}

		ok, err := lockFile(f)
		if err != nil || !ok {
			pid := readPID(f)
			closeErr := f.Close()
			if err != nil {
				return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), closeErr)
			}
			return nil, &LockedError{Path: path, PID: pid}
		}

		// Between open and lock the previous owner may have removed the file;
		// then this lock guards a nameless inode and means nothing.
		same, err := stillNamed(f, path)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}

		if !same {
			if err := f.Close(); err != nil {
				return nil, err
			}
			continue
		}

		if err := writePID(f); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		return &Lock{f: f, path: path}, nil
	}
}

// WaitLock is TryLock that waits for the holder until ctx ends, and looks again in
// pauses of about this length. It is for locks that are held for short.
func WaitLock(ctx context.Context, path string, pause time.Duration) (*Lock, error) {
	for {
		lock, err := TryLock(path)
		if _, busy := errors.AsType[*LockedError](err); !busy {
			return lock, err
		}
		if wait.For(ctx, pause) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// Unlock removes the lock file and gives the lock up. It must be called once.
func (l *Lock) Unlock() error { return unlockFile(l.f, l.path) }

func stillNamed(f *os.File, path string) (bool, error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}

	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(held, named), nil
}

// writePID writes a fixed number of bytes, so that a stale file does not have
// to be truncated, which would make some file systems flush it when it is
// closed.
func writePID(f *os.File) error {
	_, err := f.WriteAt(fmt.Appendf(nil, "%-19d\n", os.Getpid()), 0)
	return err
}

func readPID(f *os.File) int {
	var buf [32]byte
	n, err := f.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0
	}

	pid, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}
