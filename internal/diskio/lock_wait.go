package diskio

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// WaitLock is TryLock for locks that are held for a moment only: it tries again
// until the context ends, whose error it returns then.
func WaitLock(ctx context.Context, path string) (*Lock, error) {
	pause := 200 * time.Microsecond
	for {
		l, err := TryLock(path)
		if _, held := errors.AsType[*LockedError](err); !held {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(pause + rand.N(pause)): //nolint:gosec // spreads those who wait
		}
		pause = min(2*pause, 5*time.Millisecond)
	}
}
