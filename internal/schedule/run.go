package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
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
	if s.guest() {
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
	s.rest = rest{}
	defer s.looked.Store(nil)
	s.resume(ctx, &work)
	if err = s.loop(ctx, &work); err != nil {
		s.settle(ctx)
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
		if s.unwelcome(ctx) {
			return ErrYield
		}
		now := s.Now()
		s.looked.Store(&now)
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
				s.Log.ErrorContext(ctx, "the jobs could not be looked at", "err", err)
				s.tellDamage(ctx, err)
			}
			wait = saveRetry
		} else {
			told = ""
		}
		if s.guest() {
			wait = min(wait, guestSleep)
		} else {
			next = sooner(next, s.drainTriggers(ctx))
			if err := s.State.Wake(ctx, next); err != nil {
				s.Log.WarnContext(ctx, "nobody will be woken for the next job", "err", err)
			}
		}
		if err == nil && !next.IsZero() {
			wait = min(wait, max(next.Sub(s.Now()), 0))
		}
		timer.Reset(wait)
	}
}

// tellDamage tells the owner that a file cannot be used until somebody mends
// it. Other errors may be over in a moment.
func (s *Scheduler) tellDamage(ctx context.Context, err error) {
	if damage, ok := errors.AsType[*CorruptError](err); ok {
		s.tellOwner(ctx, "Scheduled jobs do not run: "+damage.Error()+".")
	}
}

// begin registers system jobs, which are none of a guest's business. It fails
// only if the file cannot be used.
func (s *Scheduler) begin(ctx context.Context) error {
	if s.guest() {
		_, err := s.store.Read(ctx)
		return err
	}
	system := s.systemJobs()
	return s.store.update(ctx, func(t *table) error {
		now := s.Now()
		for _, sys := range system {
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
		j = &Job{ID: sys.ID, CreatedAtMS: At(now)}
		t.Jobs = append(t.Jobs, j)
	}
	if j.broken != nil {
		*j = Job{ID: sys.ID, CreatedAtMS: At(now)}
	}
	if j.CreatedAtMS == 0 {
		j.CreatedAtMS = At(now)
	}
	j.Name, j.Enabled, j.DeleteAfterRun = sys.Name, true, false
	j.Schedule.Kind, j.Schedule.AtMS, j.Schedule.EveryMS, j.Schedule.Expr, j.Schedule.TZ = sys.Timing.Kind, sys.Timing.AtMS, sys.Timing.EveryMS, sys.Timing.Expr, sys.Timing.TZ
	j.Payload.Kind, j.Payload.Message = payloadSystem, sys.Purpose
}

// resume takes up runs that an earlier process began.
func (s *Scheduler) resume(ctx context.Context, work *sync.WaitGroup) {
	jobs, err := s.store.Read(ctx)
	if err != nil {
		s.Log.ErrorContext(ctx, "runs that were going on are not taken up", "err", err)
		return
	}
	for _, j := range jobs {
		if j.State.Pending != nil && s.mine(j) {
			s.start(ctx, work, *j)
		}
	}
}

// tick starts what is due and says when to look again.
func (s *Scheduler) tick(ctx context.Context, work *sync.WaitGroup) (next time.Time, err error) {
	var due []Job
	var told []notice
	s.mu.Lock()
	unsaved := s.unsaved
	s.mu.Unlock()
	if len(unsaved) == 0 {
		if s.guest() && s.store.empty(ctx) {
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
		due, told, s.passed = due[:0], told[:0], s.passed[:0]
		going := 0
		for _, j := range t.Jobs {
			if j.State.Pending != nil && s.mine(j) {
				going++
			}
		}
		for _, j := range s.byTime(t, now) {
			if going >= s.Limits.Concurrent {
				break // the end of a run pokes us
			}
			began, say := s.take(t, j, now)
			if began {
				going++
				due = append(due, *j)
			}
			told = append(told, say...)
		}
		next = s.earliest(t)
		if going >= s.Limits.Concurrent && !next.After(now) {
			next = time.Time{}
		}
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	s.mu.Lock()
	s.unsaved = s.unsaved[len(unsaved):]
	s.mu.Unlock()
	for _, status := range s.passed {
		s.Ended(status)
	}
	for _, j := range due {
		if p := j.State.Pending; !p.Manual {
			s.Began(p.BeganMS.Time().Sub(p.OccurrenceMS.Time()))
		}
		s.start(ctx, work, j)
	}
	for _, n := range told {
		s.tell(ctx, n)
	}
	return next, nil
}

// rest is a look at the file that found nothing to do.
type rest struct {
	data []byte
	at   time.Time
	next time.Time
}

// idle reports whether there is nothing to do until next, as is usual. It
// takes no lock, and does not even parse a file that is as it was.
func (s *Scheduler) idle(ctx context.Context) (next time.Time, ok bool) {
	data, ok := s.store.peek(ctx)
	now := s.Now()
	if r := s.rest; !ok || r.data != nil && bytes.Equal(data, r.data) && !now.Before(r.at) && (r.next.IsZero() || now.Before(r.next)) {
		s.rest.at = now
		return r.next, ok
	}
	s.rest = rest{}
	t, err := decodeTable(data)
	if err != nil {
		return next, false
	}
	waiting := s.retryUndelivered(ctx, t.Jobs)
	if len(s.byTime(t, now)) > 0 || t.changed {
		return next, false
	}
	next = s.earliest(t)
	if !waiting {
		s.rest = rest{data, now, next}
	}
	return next, true
}

// byTime plans all jobs of ours and returns those that are due, the longest waiting first.
func (s *Scheduler) byTime(t *table, now time.Time) []*Job {
	var due []*Job
	for _, j := range t.Jobs {
		if !s.mine(j) {
			continue
		}
		before := j.State.NextRunAtMS
		s.plan(j, now)
		if j.State.NextRunAtMS != before {
			t.changed = true
		}
		if at := j.State.NextRunAtMS.Time(); j.State.RunRequested != 0 || !at.IsZero() && !at.After(now) {
			due = append(due, j)
		}
	}
	slices.SortStableFunc(due, func(a, b *Job) int { return a.State.NextRunAtMS.Time().Compare(b.State.NextRunAtMS.Time()) })
	return due
}

func (s *Scheduler) earliest(t *table) (next time.Time) {
	for _, j := range t.Jobs {
		if s.mine(j) {
			next = sooner(next, j.State.NextRunAtMS.Time())
		}
	}
	return next
}

// plan makes NextRunAtMS what it should be. A time in the past is kept: it is
// an occurrence that nobody took yet.
func (s *Scheduler) plan(j *Job, now time.Time) {
	st := &j.State
	if !j.Enabled {
		st.NextRunAtMS = 0
		return
	}
	key := j.Schedule.key()
	same := st.NextFor == key || st.NextFor == ""
	if j.Schedule.Kind == KindAt {
		st.NextFor = key
		if st.NextRunAtMS = j.Schedule.AtMS; st.LastOccurrence == j.Schedule.AtMS {
			st.NextRunAtMS = 0
		}
		return
	}
	if same && st.NextRunAtMS != 0 && !st.NextRunAtMS.Time().After(now) {
		st.NextFor = key
		return
	}
	from := now
	// Not what was taken already, unless the clock was far ahead then.
	if taken := st.LastOccurrence.Time(); taken.After(now) && taken.Sub(now) < 25*time.Hour {
		from = taken
	}
	next, err := j.Schedule.following(from, j.CreatedAtMS.Time(), s.Location)
	if err == nil && j.Schedule.Kind == KindCron && same && st.NextRunAtMS.Time().After(now) && st.NextRunAtMS.Time().Before(next) {
		return // put off, because it fell into quiet hours
	}
	st.NextFor, st.NextRunAtMS = key, At(next)
	if err != nil {
		st.NextRunAtMS, st.LastStatus, st.LastError = 0, StatusError, Opt(err.Error())
	}
}

// take decides about a job that is due. True means that the run is claimed:
// once this is on disk it will happen, and only once.
func (s *Scheduler) take(t *table, j *Job, now time.Time) (began bool, say []notice) {
	t.changed = true
	st := &j.State
	occurrence := st.NextRunAtMS
	manual := st.RunRequested != 0
	if manual {
		occurrence, st.RunRequested = At(now), 0
	}
	if st.Pending != nil {
		if !manual {
			s.pass(j, occurrence, now, StatusSkipped, "the run before was still going on")
		}
		return false, nil
	}
	late := now.Sub(occurrence.Time())
	if !manual {
		if s.Limits.Quiet.Contains(now.In(s.Location)) && j.Schedule.Kind != KindAt {
			s.putOff(j, now)
			return false, nil
		}
		if late > lateAfter {
			if run, text := s.missed(j, now, late); !run {
				if text != "" {
					say = append(say, notice{job: j.ID, route: j.Payload.Route(), text: text})
				}
				return false, say
			}
		}
	}
	st.Pending = &Pending{OccurrenceMS: occurrence, BeganMS: At(now), Manual: manual, Guest: s.guest()}
	if late > lateAfter {
		st.Pending.LateMS = MS(late.Milliseconds())
	}
	st.LastOccurrence = occurrence
	s.advance(j, max(occurrence, At(now)))
	return true, nil
}

// advance sets the occurrence after the one that was dealt with.
func (s *Scheduler) advance(j *Job, after MS) {
	if j.Schedule.Kind == KindAt {
		j.State.NextRunAtMS = 0
		return
	}
	next, err := j.Schedule.following(after.Time(), j.CreatedAtMS.Time(), s.Location)
	j.State.NextFor, j.State.NextRunAtMS = j.Schedule.key(), At(next)
	if err != nil {
		j.State.LastError = Opt(err.Error())
	}
}

// pass notes an occurrence that does not run and goes on to the next.
func (s *Scheduler) pass(j *Job, occurrence MS, now time.Time, status, why string) {
	s.Log.Info("a scheduled run is left out", "job", j.ID, "name", j.Name, "occurrence", Stamp(occurrence.Time(), s.Location), "status", status, "why", why)
	j.State.note(Run{RunAtMS: At(now), Status: status, Error: Opt(why), OccurrenceMS: occurrence})
	j.State.LastOccurrence = occurrence
	s.passed = append(s.passed, status)
	s.advance(j, max(occurrence, At(now)))
}

// putOff moves a run out of the quiet hours: a time of day to their end, an
// interval to its first occurrence behind them.
func (s *Scheduler) putOff(j *Job, now time.Time) {
	end := s.Limits.Quiet.end(now.In(s.Location))
	if j.Schedule.Kind == KindEvery {
		s.advance(j, At(end)-1)
		return
	}
	j.State.NextFor, j.State.NextRunAtMS = j.Schedule.key(), At(end)
}

// missed decides about an occurrence that nobody was there for: whether to run
// it now, and what to tell the chat if not.
func (s *Scheduler) missed(j *Job, now time.Time, late time.Duration) (run bool, text string) {
	occurrence := j.State.NextRunAtMS
	policy := j.CatchUp
	if policy == "" {
		policy = s.Limits.CatchUp
	}
	if j.Protected() {
		policy = CatchUpOnce
	}
	window := s.Limits.AtWindow
	switch j.Schedule.Kind {
	case KindEvery:
		window = late // an interval that is over is over
	case KindCron:
		window = s.Limits.CatchUpWindow
		if p := j.Schedule.period(occurrence.Time(), s.Location); p > 0 {
			window = min(window, p)
		}
		if j.Protected() {
			window = late
		}
	}
	if policy == CatchUpOnce && late <= window {
		return true, ""
	}
	why := fmt.Sprintf("it was due at %s and nothing was running; noticed %s later", Stamp(occurrence.Time(), s.Location), roughly(late))
	s.pass(j, occurrence, now, StatusMissed, why)
	if j.Schedule.Kind == KindAt {
		j.Enabled, j.State.NextRunAtMS = false, 0
	}
	if policy == CatchUpTell || j.Schedule.Kind == KindAt {
		text = fmt.Sprintf("I missed the scheduled job %q: %s.", j.Name, why)
		if j.Schedule.Kind == KindAt && j.Payload.Message != "" {
			text += " It was to be: " + oneLine(j.Payload.Message, 300)
		}
	}
	return false, text
}

// roughly writes a duration for a person.
func roughly(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// notice is a sentence of ours about a job.
type notice struct {
	job   string
	route bus.Route
	text  string
}
