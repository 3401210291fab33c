package schedule

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/diskio"
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
func ownerLock(dir string) string  { return filepath.Join(dir, ".owner.lock") }
func guestLock(dir string) string  { return filepath.Join(dir, ".guest.lock") }
func wantedLock(dir string) string { return filepath.Join(dir, ".wanted.lock") }

// Owner says which process runs the jobs of a folder (Options.Dir); 0 and false
// if none does. A guest is none: see Guest.
func Owner(dir string) (pid int, running bool) {
	if pid, running = holder(ownerLock(dir)); running {
		if _, guest := holder(guestLock(dir)); guest {
			return 0, false
		}
	}
	return pid, running
}

// Guest says which process, such as a chat in a terminal, runs the jobs that
// were made in it, while nothing runs the others.
func Guest(dir string) (pid int, running bool) { return holder(guestLock(dir)) }

// holder says who holds a lock. What a process that died left is removed.
func holder(path string) (pid int, held bool) {
	if _, err := os.Stat(path); err != nil {
		return 0, false
	}
	lock, err := diskio.TryLock(path)
	if by, ok := errors.AsType[*diskio.LockedError](err); ok {
		return by.PID, true
	}
	if err == nil {
		_ = lock.Unlock()
	}
	return 0, false
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
		lock, err := s.insist(ctx)
		if err != nil {
			return nil, err
		}
		return lock.Unlock, nil
	}
	if _, wanted := holder(wantedLock(s.Dir)); wanted {
		return nil, ErrYield
	}
	lock, err := acquireSoon(ctx, ownerLock(s.Dir))
	if err != nil {
		return nil, err
	}
	mark, err := acquireSoon(ctx, guestLock(s.Dir))
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	s.serving.Store(true)
	return func() error {
		s.serving.Store(false)
		return errors.Join(mark.Unlock(), lock.Unlock())
	}, nil
}

// acquireSoon waits a moment, because somebody may just be asking who has the lock.
func acquireSoon(ctx context.Context, path string) (*diskio.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return acquire(ctx, path)
}

// insist waits for the owner's lock and makes a guest that holds it go.
func (s *Scheduler) insist(ctx context.Context) (_ *diskio.Lock, err error) {
	var note *diskio.Lock
	defer func() {
		if note != nil {
			err = errors.Join(err, note.Unlock())
		}
	}()
	tick, patience := time.NewTicker(ownerStep), time.NewTimer(blockedAfter)
	defer tick.Stop()
	defer patience.Stop()
	for {
		lock, err := diskio.TryLock(ownerLock(s.Dir))
		if _, held := errors.AsType[*diskio.LockedError](err); !held {
			return lock, err
		}
		if note == nil {
			note, _ = diskio.TryLock(wantedLock(s.Dir)) // tried again; others may be waiting too
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
func (s *Scheduler) unwelcome() bool {
	if !s.guest() {
		return false
	}
	_, wanted := holder(wantedLock(s.Dir))
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
func (s *Scheduler) whoRuns(here bus.Route) string {
	if s.Submit != nil && !s.guest() {
		return ""
	}
	if _, running := Owner(s.Dir); running {
		return " Tell the user that the gateway runs it, and that the result goes to the chat they used last there, not to this terminal."
	}
	if s.guest() && s.Takes(here) {
		if pid, other := Guest(s.Dir); other && !s.serving.Load() && pid != os.Getpid() {
			return " Tell the user that another open chat runs it as long as it stays open, and nanobot gateway when that runs."
		}
		return " Tell the user that it comes here while this chat is open; otherwise only nanobot gateway runs it (nanobot gateway start)."
	}
	return " Tell the user that nothing runs jobs at the moment: it comes only while nanobot gateway runs (nanobot gateway start)."
}
