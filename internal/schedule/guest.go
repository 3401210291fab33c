package schedule

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/store"
)

// ErrYield is how Run ends for a guest, a Scheduler with Options.Takes, when
// somebody who runs all jobs wants to. Another Run may be tried later.
var ErrYield = errors.New("a gateway takes over the jobs")

const (
	guestSleep   = 10 * time.Second       // a guest looks this often whether it is in the way, if it is not told
	yieldWait    = 10 * time.Second       // what a guest has running may take this long to end before it is handed over
	blockedAfter = 30 * time.Second       // more than both together: who is in the way now is no guest
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

func (s *Scheduler) guest() bool { return s.Takes != nil }

// mine reports whether this Scheduler may touch a job. A run that a gateway
// began is in its queue, and is left to the next one.
func (s *Scheduler) mine(j *Job) bool {
	if j.broken != nil {
		return false
	}
	return !s.guest() || !j.Protected() && s.Takes(j.Payload.Route()) && (j.State.Pending == nil || j.State.Pending.Guest)
}

// own gets the right to run jobs. A guest gets it only if nobody else has it
// or wants it; otherwise Run waits for it.
func (s *Scheduler) own(ctx context.Context) (release func() error, err error) {
	if !s.guest() {
		return s.insist(ctx)
	}
	if s.unwelcome(ctx) {
		return nil, ErrYield
	}
	// Somebody may just be asking who has the lock.
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

// insist waits for the owner's lock and makes a guest that holds it go.
func (s *Scheduler) insist(ctx context.Context) (_ func() error, err error) {
	var unwant func() error
	defer func() {
		if unwant != nil {
			err = errors.Join(err, unwant())
		}
	}()
	tick, patience := time.NewTicker(ownerStep), time.NewTimer(blockedAfter)
	defer tick.Stop()
	defer patience.Stop()
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
		case <-patience.C:
			tick.Reset(blockedStep)
			if s.Blocked != nil {
				s.Blocked(ctx, err)
			}
		case <-ctx.Done():
			return nil, err
		}
	}
}

// unwelcome reports whether a guest has to go.
func (s *Scheduler) unwelcome(ctx context.Context) bool {
	if !s.guest() {
		return false
	}
	_, wanted := store.Holder(ctx, s.State, wantedLock)
	return wanted
}

// settle gives the runs of a guest that has to go a while to end.
func (s *Scheduler) settle(ctx context.Context) {
	s.mu.Lock()
	going := slices.Collect(maps.Values(s.running))
	s.mu.Unlock()
	limit := time.NewTimer(yieldWait)
	defer limit.Stop()
	for _, r := range going {
		select {
		case <-r.over:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// handOver leaves the run of a guest to whoever runs the jobs next: what comes
// of it here is void from now on. A result that is just being written down counts.
func (s *Scheduler) handOver(in bus.Inbound, r *run) {
	if !s.guest() {
		return // it is in the queue
	}
	s.mu.Lock()
	ending := r.ending
	if !ending {
		s.handed[in.ID] = true
	}
	s.mu.Unlock()
	if ending {
		<-r.over
		return
	}
	if s.Leave != nil {
		s.Leave(in)
	}
}

// ending reports whether the result of a run counts. If so it is not handed
// over any more.
func (s *Scheduler) ending(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.running[id]; r != nil && !s.handed[id] {
		r.ending = true
	}
	return !s.handed[id]
}

// disown is how a run of a guest becomes one of this owner's queue.
func (s *Scheduler) disown(ctx context.Context, id string, p *Pending) {
	if s.guest() || !p.Guest {
		return
	}
	s.change(ctx, id, func(j *Job) {
		if q := j.State.Pending; q != nil && q.OccurrenceMS == p.OccurrenceMS {
			q.Guest = false
		}
	})
}

// whoRuns says who runs a job that was added in a process which does not run
// all of them: a chat in a terminal ends, and nobody should wait for a
// reminder in vain.
func (s *Scheduler) whoRuns(ctx context.Context, here bus.Route) string {
	if s.Submit != nil && !s.guest() {
		return ""
	}
	if _, running := Owner(ctx, s.State); running {
		return " Tell the user that the gateway runs it, and that the result goes to the chat they used last there, not to this terminal."
	}
	if s.guest() && s.Takes(here) {
		if pid, other := Guest(ctx, s.State); other && !s.serving.Load() && pid != os.Getpid() {
			return " Tell the user that another open chat runs it as long as it stays open, and nanobot gateway when that runs."
		}
		return " Tell the user that it comes here while this chat is open; otherwise only nanobot gateway runs it (nanobot gateway start)."
	}
	return " Tell the user that nothing runs jobs at the moment: it comes only while nanobot gateway runs (nanobot gateway start)."
}
