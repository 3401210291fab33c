package schedule

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	maxSleep  = time.Minute     // bounds how long a clock that was set, or a suspend, goes unnoticed
	lateAfter = 2 * time.Minute // a run this late was missed, and the policy decides
	clockSlip = 5 * time.Second // between the wall clock and the time that passed
	saveRetry = 5 * time.Second
	grace     = 5 * time.Minute // a moment this far in the past may still be asked for
)

// Run runs jobs and triggers until ctx ends, then waits for what it started.
// Runs that the agent works on go on there; their results are taken in by the
// next Run. While another process runs the jobs of the workspace it waits, and
// a guest that does goes; if that was all until ctx ended, the error is a
// *store.LockedError. A damaged file without a good copy is a *CorruptError.
//
// A guest does not wait: the error is a *store.LockedError at once, or
// ErrYield when it is not wanted, or not any more. Its runs are ended with it,
// or taken up by who runs the jobs next.
func (s *Scheduler) Run(ctx context.Context) (err error) {
	if s.Submit == nil || s.Notify == nil {
		return errors.New("schedule: running jobs needs Submit and Notify")
	}

	dirs := []string{"", inbox}
	if s.planner.guest() {
		dirs = dirs[:1]
	}

	release, err := s.own(ctx)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, release()) }()
	if err := s.begin(ctx); err != nil {
		return err
	}

	var work sync.WaitGroup
	defer work.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work.Go(func() {
		if err := s.Watch(ctx, dirs, s.poke); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "changes of jobs are noticed within a minute only", "err", err)
		}
	})

	s.lastIdle = idleCheck{}
	defer s.lastCheck.Store(nil)
	s.runs.resume(ctx, &work)
	if err = s.loop(ctx, &work); err != nil {
		s.runs.awaitEnd(ctx)
	}
	return err
}

func (s *Scheduler) loop(ctx context.Context, work *sync.WaitGroup) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := s.Now()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.wake:
		}

		if s.mustYield(ctx) {
			return ErrYield
		}

		now := s.Now()
		s.lastCheck.Store(&now)
		if slip := now.Round(0).Sub(last.Round(0)) - now.Sub(last); slip.Abs() > clockSlip {
			s.Log.WarnContext(ctx, "the clock was moved, or the machine slept", "by", slip)
		}

		last = now
		next, err := s.tick(ctx, work)
		wait := maxSleep
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}

			if told != err.Error() { // not again every few seconds
				told = err.Error()
				s.Log.ErrorContext(ctx, "cannot read the jobs", "err", err)
				s.notifier.notifyDamage(ctx, err)
			}

			wait = saveRetry
		} else {
			told = ""
		}

		if s.planner.guest() {
			wait = min(wait, guestSleep)
		} else {
			next = sooner(next, s.Triggers.drain(ctx))
			if err := s.State.Wake(ctx, next); err != nil {
				s.Log.WarnContext(ctx, "the timer for the next job could not be set", "err", err)
			}
		}

		if err == nil && !next.IsZero() {
			wait = min(wait, max(next.Sub(s.Now()), 0))
		}
		timer.Reset(wait)
	}
}

// begin registers system jobs, which are none of a guest's business. It fails
// only if the file cannot be used.
func (s *Scheduler) begin(ctx context.Context) error {
	if s.planner.guest() {
		_, err := s.store.Read(ctx)
		return err
	}

	system := slices.Clone(s.System)
	if job, on := s.heartbeat.job(); on {
		system = append(system, job)
	}
	return s.store.update(ctx, func(t *table) error {
		now := s.Now()
		for _, sys := range system {
			sys.Timing = s.planner.placed(sys.Timing)
			t.register(sys, now)
		}

		// What the configuration switched off goes away.
		t.Jobs = slices.DeleteFunc(t.Jobs, func(j *Job) bool {
			gone := j.broken == nil && j.Protected() && !slices.ContainsFunc(system, func(sys System) bool { return sys.ID == j.ID })
			t.changed = t.changed || gone
			return gone
		})

		t.defined = true // a good copy exists from here on
		return nil
	})
}

// register adds a system job, or renews it and keeps what it went through.
func (t *table) register(sys System, now time.Time) {
	j := t.find(sys.ID)
	if j == nil {
		j = &Job{ID: sys.ID, CreatedAtMS: msOf(now)}
		t.Jobs = append(t.Jobs, j)
	}
	if j.broken != nil {
		*j = Job{ID: sys.ID, CreatedAtMS: msOf(now)}
	}
	if j.CreatedAtMS == 0 {
		j.CreatedAtMS = msOf(now)
	}

	j.Name = sys.Name
	j.Enabled = true
	j.DeleteAfterRun = false
	j.Schedule.Kind = sys.Timing.Kind
	j.Schedule.AtMS = sys.Timing.AtMS
	j.Schedule.EveryMS = sys.Timing.EveryMS
	j.Schedule.Expr = sys.Timing.Expr
	j.Schedule.TZ = sys.Timing.TZ
	j.Payload.Kind, j.Payload.Message = payloadSystem, sys.Purpose
}

// tick starts what is due and says when to look again.
func (s *Scheduler) tick(ctx context.Context, work *sync.WaitGroup) (next time.Time, err error) {
	var due []Job
	var told []notice
	unsaved := s.runs.results()
	if len(unsaved) == 0 {
		if s.planner.guest() && s.store.empty(ctx) {
			return time.Time{}, nil
		}
		if next, ok := s.idle(ctx); ok {
			return next, nil
		}
	}

	err = s.store.update(ctx, func(t *table) error {
		for _, late := range unsaved {
			late(t)
			t.changed = true
		}

		now := s.Now()
		due = due[:0]
		told = told[:0]
		s.planner.passed = s.planner.passed[:0]
		going := 0
		for _, j := range t.Jobs {
			if j.State.Pending != nil && s.planner.mine(j) {
				going++
			}
		}

		for _, j := range s.planner.byTime(t, now) {
			if going >= s.Limits.Concurrent {
				break // the end of a run pokes us
			}

			began, say := s.planner.claim(t, j, now)
			if began {
				going++
				due = append(due, *j)
			}
			told = append(told, say...)
		}

		next = s.planner.earliest(t)
		if going >= s.Limits.Concurrent && !next.After(now) {
			next = time.Time{}
		}
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}

	s.runs.saved(len(unsaved))
	for _, status := range s.planner.passed {
		s.Observer.Ended(status)
	}

	for _, j := range due {
		if p := j.State.Pending; !p.Manual {
			s.Observer.Began(p.BeganMS.Time().Sub(p.OccurrenceMS.Time()))
		}
		s.runs.start(ctx, work, j)
	}

	for _, n := range told {
		s.notifier.notify(ctx, n)
	}
	return next, nil
}

// idleCheck is a check of the file that found nothing to do.
type idleCheck struct {
	data []byte
	at   time.Time
	next time.Time
}

// holds reports whether the check is still good: the file is as it was, the clock
// did not go back, and nothing is due.
func (c idleCheck) holds(data []byte, now time.Time) bool {
	if c.data == nil || !bytes.Equal(data, c.data) || now.Before(c.at) {
		return false
	}
	return c.next.IsZero() || now.Before(c.next)
}

// idle reports whether there is nothing to do until next, as is usual. It
// takes no lock, and does not even parse a file that is as it was.
func (s *Scheduler) idle(ctx context.Context) (next time.Time, ok bool) {
	data, ok := s.store.peek(ctx)
	now := s.Now()
	if !ok || s.lastIdle.holds(data, now) {
		s.lastIdle.at = now
		return s.lastIdle.next, ok
	}

	s.lastIdle = idleCheck{}
	t, err := decodeTable(data)
	if err != nil {
		return next, false
	}

	waiting := s.notifier.retryUndelivered(ctx, t.Jobs)
	if len(s.planner.byTime(t, now)) > 0 || t.changed {
		return next, false
	}

	next = s.planner.earliest(t)
	if !waiting {
		s.lastIdle = idleCheck{data, now, next}
	}
	return next, true
}
