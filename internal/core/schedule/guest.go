package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// ErrYield is returned by Run for a guest, a Scheduler with Options.Guest,
// when a process that runs all jobs takes over. Another Run may be tried
// later.
var ErrYield = errors.New("a gateway takes over the jobs")

const (
	guestSleep   = 10 * time.Second       // a guest looks this often whether it is in the way, if it is not told
	yieldWait    = 10 * time.Second       // what a guest has running may take this long to end before it is handed over
	blockedAfter = 30 * time.Second       // more than both together: who is in the way now is not a guest
	blockedStep  = 2 * time.Second        // between tries from then on
	ownerStep    = 100 * time.Millisecond // between tries before
)

// A guest marks the owner's lock as held by it with a lock of its own. Who
// waits for a guest to go holds a third one. All of them end with their
// process, so that nothing stale can be left behind.
const (
	ownerLock  = ".owner.lock"
	guestLock  = ".guest.lock"
	wantedLock = ".wanted.lock"
)

// Owner says which process runs the jobs of a place (Options.State); 0 and
// false if none does. A guest is none: see Guest.
func Owner(ctx context.Context, state store.Store) (pid int, running bool) {
	if pid, running = store.Holder(ctx, state, ownerLock); running {
		if _, guest := store.Holder(ctx, state, guestLock); guest {
			return 0, false
		}
	}
	return pid, running
}

// Guest says which process, such as a chat in a terminal, runs the jobs that
// were made in it, while nothing runs the others.
func Guest(ctx context.Context, state store.Store) (pid int, running bool) {
	return store.Holder(ctx, state, guestLock)
}

// own gets the right to run jobs. A guest gets it only if no other process has
// it or wants it; otherwise Run waits for it.
func (s *Scheduler) own(ctx context.Context) (release func() error, err error) {
	if !s.planner.guest() {
		return s.retryLock(ctx)
	}
	if s.mustYield(ctx) {
		return nil, ErrYield
	}

	// Another process may just be asking who has the lock.
	leave, err := store.WaitLock(ctx, s.State, ownerLock, time.Second)
	if err != nil {
		return nil, err
	}

	unmark, err := store.WaitLock(ctx, s.State, guestLock, time.Second)
	if err != nil {
		return nil, errors.Join(err, leave())
	}

	s.serving.Store(true)
	return func() error {
		s.serving.Store(false)
		return errors.Join(unmark(), leave())
	}, nil
}

// retryLock waits for the owner's lock and makes a guest that holds it go.
func (s *Scheduler) retryLock(ctx context.Context) (_ func() error, err error) {
	var unwant func() error
	defer func() {
		if unwant != nil {
			err = errors.Join(err, unwant())
		}
	}()

	tick, blocked := time.NewTicker(ownerStep), time.NewTimer(blockedAfter)
	defer tick.Stop()
	defer blocked.Stop()

	for {
		release, err := s.State.Lock(ctx, ownerLock)
		if _, held := errors.AsType[*store.LockedError](err); !held {
			return release, err
		}

		if unwant == nil {
			unwant, _ = s.State.Lock(ctx, wantedLock) // tried again; others may be waiting too
		}

		select {
		case <-tick.C:
		case <-blocked.C:
			tick.Reset(blockedStep)
			if s.Blocked != nil {
				s.Blocked(ctx, err)
			}
		case <-ctx.Done():
			return nil, err
		}
	}
}

// mustYield reports whether a guest has to go.
func (s *Scheduler) mustYield(ctx context.Context) bool {
	if !s.planner.guest() {
		return false
	}
	_, wanted := store.Holder(ctx, s.State, wantedLock)
	return wanted
}
