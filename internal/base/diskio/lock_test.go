package diskio_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

func TestTryLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	l, err := diskio.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = diskio.TryLock(path)
	locked, ok := errors.AsType[*diskio.LockedError](err)
	if !ok || locked.PID != os.Getpid() {
		t.Fatalf("second lock: %v, want a LockedError with our pid", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock file is still there: %v", err)
	}
	l, err = diskio.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestTryLockTakesOverStaleFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	if err := os.WriteFile(path, []byte("999999999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := diskio.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = diskio.TryLock(path)
	if locked, ok := errors.AsType[*diskio.LockedError](err); !ok || locked.PID != os.Getpid() {
		t.Errorf("second lock: %v, want a LockedError with our pid", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestTryLockWithoutDirectory(t *testing.T) {
	t.Parallel()
	_, err := diskio.TryLock(filepath.Join(t.TempDir(), "no", "x.lock"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}

// Removing the lock file on release must not let two owners in at once.
func TestTryLockExcludes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	var inside, taken atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				l, err := diskio.TryLock(path)
				if _, busy := errors.AsType[*diskio.LockedError](err); busy {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d owners at once", n)
				}
				taken.Add(1)
				inside.Add(-1)
				if err := l.Unlock(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() == 0 {
		t.Error("nobody ever got the lock")
	}
}

// Who waits for a lock gets it when its holder gives it up, and stops waiting with the
// context, whose reason is the error.
func TestWaitLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	held, err := diskio.WaitLock(t.Context(), path, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	tired := errors.New("tired of waiting")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(tired)
	if _, err := diskio.WaitLock(ctx, path, time.Hour); !errors.Is(err, tired) {
		t.Errorf("after the end of the context: %v", err)
	}

	var wg sync.WaitGroup
	wg.Go(func() {
		lock, err := diskio.WaitLock(t.Context(), path, time.Millisecond)
		if err != nil {
			t.Error(err)
			return
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})
	if err := held.Unlock(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if _, err := diskio.WaitLock(t.Context(), filepath.Join(path, "no", "x.lock"), time.Hour); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}
