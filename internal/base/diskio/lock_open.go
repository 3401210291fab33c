package diskio

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"
)

// LockOpen locks an open file against all other openings of it, here and in
// other processes, and waits for them. It is for locks that are held for one
// write. Closing the file releases it, too.
func LockOpen(ctx context.Context, f *os.File) error {
	pause := 20 * time.Microsecond
	for {
		ok, err := lockFile(f)
		if ok || err != nil {
			return err
		}

		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), &LockedError{Path: f.Name()})
		case <-time.After(pause + rand.N(pause)): //nolint:gosec // spreads those who wait
		}

		pause = min(2*pause, 2*time.Millisecond)
	}
}

// UnlockOpen releases the lock of LockOpen.
func UnlockOpen(f *os.File) error { return unlockOpen(f) }
