package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// planner decides when jobs run: it reads their schedules and the limits, and
// changes only the jobs it is given.
type planner struct {
	o      *Options
	passed []string // how occurrences ended that did not run; belongs to the goroutine of Run
}

// byTime plans all jobs of ours and returns those that are due, the longest waiting first.
func (p *planner) byTime(t *table, now time.Time) []*Job {
	var due []*Job
	for _, j := range t.Jobs {
		if !p.mine(j) {
			continue
		}

		before := j.State.NextRunAtMS
		p.plan(j, now)
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

func (p *planner) earliest(t *table) (next time.Time) {
	for _, j := range t.Jobs {
		if p.mine(j) {
			next = sooner(next, j.State.NextRunAtMS.Time())
		}
	}
	return next
}

// clockSlack is by how much a clock may be set back without a run that has been
// being made again, if the job is not more frequent than twice that.
const clockSlack = 2 * time.Hour

// plan makes NextRunAtMS what it should be. A time in the past is kept: it is
// an occurrence that has not been claimed.
func (p *planner) plan(j *Job, now time.Time) {
	st := &j.State
	if !j.Enabled {
		st.NextRunAtMS = 0
		return
	}

	key := j.Schedule.key()
	same := st.NextFor == key || st.NextFor == ""
	if j.Schedule.Kind == kindAt {
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
	// Not what was taken already, if the clock was corrected by a little. After
	// more than that the job would stand still until the clock has caught up.
	if taken := st.LastOccurrence.Time(); taken.After(now) && taken.Sub(now) <= min(clockSlack, j.Schedule.period(taken, p.o.Location)/2) {
		from = taken
	}

	next, err := j.Schedule.following(from, j.CreatedAtMS.Time(), p.o.Limits.Host)
	if err == nil && j.Schedule.Kind == kindCron && same && st.NextRunAtMS.Time().After(now) && st.NextRunAtMS.Time().Before(next) {
		return // put off, because it fell into quiet hours
	}

	st.NextFor, st.NextRunAtMS = key, msOf(next)
	if err != nil {
		st.NextRunAtMS = 0
		st.LastStatus = statusError
		st.LastError = Opt(err.Error())
	}
}

// claim decides about a job that is due. True means that the run is claimed:
// once this is on disk it will happen, and only once.
func (p *planner) claim(t *table, j *Job, now time.Time) (began bool, say []notice) {
	t.changed = true
	st := &j.State
	occurrence := st.NextRunAtMS
	manual := st.RunRequested != 0
	if manual {
		occurrence, st.RunRequested = msOf(now), 0
	}

	if st.Pending != nil {
		if !manual {
			p.pass(j, occurrence, now, statusSkipped, "the run before was still going on")
		}
		return false, nil
	}

	late := now.Sub(occurrence.Time())
	if !manual {
		if p.o.Limits.Quiet.Contains(now.In(p.o.Location)) && j.Schedule.Kind != kindAt {
			p.postpone(j, now)
			return false, nil
		}
		if late > lateAfter {
			if run, note := p.missed(j, now, late); !run {
				if note != nil {
					say = append(say, *note)
				}
				return false, say
			}
		}
	}

	st.Pending = &Pending{OccurrenceMS: occurrence, BeganMS: msOf(now), Manual: manual, Guest: p.guest()}
	if late > lateAfter {
		st.Pending.LateMS = MS(late.Milliseconds())
	}

	st.LastOccurrence = occurrence
	p.advance(j, max(occurrence, msOf(now)))
	return true, nil
}

// advance sets the occurrence after the one that was dealt with.
func (p *planner) advance(j *Job, after MS) {
	if j.Schedule.Kind == kindAt {
		j.State.NextRunAtMS = 0
		return
	}
	next, err := j.Schedule.following(after.Time(), j.CreatedAtMS.Time(), p.o.Limits.Host)
	j.State.NextFor, j.State.NextRunAtMS = j.Schedule.key(), msOf(next)
	if err != nil {
		j.State.LastError = Opt(err.Error())
	}
}

// pass notes an occurrence that does not run and goes on to the next.
func (p *planner) pass(j *Job, occurrence MS, now time.Time, status, why string) {
	p.o.Log.Info("a scheduled run is left out", "job", j.ID, "name", j.Name, "occurrence", stamp(occurrence.Time(), p.o.Location), "status", status, "why", why)
	j.State.record(Run{RunAtMS: msOf(now), Status: status, Error: Opt(why), OccurrenceMS: occurrence})
	j.State.LastOccurrence = occurrence
	p.passed = append(p.passed, status)
	p.advance(j, max(occurrence, msOf(now)))
}

// postpone moves a run out of the quiet hours: a time of day to their end, an
// interval to its first occurrence behind them.
func (p *planner) postpone(j *Job, now time.Time) {
	end := p.o.Limits.Quiet.end(now.In(p.o.Location))
	if j.Schedule.Kind == kindEvery {
		p.advance(j, msOf(end)-1)
		return
	}
	j.State.NextFor, j.State.NextRunAtMS = j.Schedule.key(), msOf(end)
}

// missed decides about an occurrence at which no scheduler ran: whether to run
// it now, and what to tell the chat if not.
func (p *planner) missed(j *Job, now time.Time, late time.Duration) (run bool, say *notice) {
	occurrence := j.State.NextRunAtMS
	policy := j.CatchUp
	if policy == "" {
		policy = p.o.Limits.CatchUp
	}
	if j.Protected() {
		policy = catchUpOnce
	}

	window := p.o.Limits.AtWindow
	switch j.Schedule.Kind {
	case kindEvery:
		window = late // an interval that is over is over
	case kindCron:
		window = p.o.Limits.CatchUpWindow
		if p := j.Schedule.period(occurrence.Time(), p.o.Limits.Host); p > 0 {
			window = min(window, p)
		}
		if j.Protected() {
			window = late
		}
	}

	if policy == catchUpOnce && late <= window {
		return true, nil
	}

	why := phrase.Later("it was due at %s and nothing was running; noticed %s later", stamp(occurrence.Time(), p.o.Location), roughly(late))
	p.pass(j, occurrence, now, StatusMissed, why.String())
	if j.Schedule.Kind == kindAt {
		j.Enabled, j.State.NextRunAtMS = false, 0
	}

	if policy == catchUpTell || j.Schedule.Kind == kindAt {
		say = &notice{job: j.ID, route: j.Payload.Route(), text: phrase.Later("I missed the scheduled job %q: %s.", j.Name, why)}
		if j.Schedule.Kind == kindAt && j.Payload.Message != "" {
			say.text = phrase.Later("I missed the scheduled job %q: %s. It was to be: %s", j.Name, why, text.Label(j.Payload.Message, 300))
		}
	}
	return false, say
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

func (p *planner) timeout(j *Job) time.Duration {
	if j.TimeoutS > 0 {
		return time.Duration(j.TimeoutS) * time.Second
	}
	return p.o.Limits.Timeout
}

func (p *planner) guest() bool { return p.o.Guest.Takes != nil }

// mine reports whether this Scheduler may touch a job. A run that a gateway
// began is in its queue, and is left to the next one.
func (p *planner) mine(j *Job) bool {
	switch {
	case j.broken != nil:
		return false
	case !p.guest():
		return true
	case j.Protected(), !p.o.Guest.Takes(j.Payload.Route()):
		return false
	}
	return j.State.Pending == nil || j.State.Pending.Guest
}

// placed gives a new cron timing the zone of the configuration, so that it means
// the same to every program that reads the jobs.
func (p *planner) placed(t Timing) Timing {
	if name := p.o.Location.String(); t.Kind == kindCron && t.TZ == "" && name != "Local" {
		t.TZ = Opt(name)
	}
	return t
}

// checkTiming refuses what never happens, happens too often, or is over.
func (p *planner) checkTiming(t Timing, now time.Time, shortest time.Duration) error {
	if err := t.check(p.o.Limits.Host); err != nil {
		return err
	}

	if shortest == 0 {
		shortest = p.o.Limits.MinInterval
	}

	switch t.Kind {
	case kindAt:
		if at := t.AtMS.Time(); now.Sub(at) > grace {
			return fmt.Errorf("%s is in the past; it is now %s", stamp(at, p.o.Location), stamp(now, p.o.Location))
		}
		return nil
	case kindCron:
		shortest = max(shortest, time.Minute)
		next, err := t.following(now, now, p.o.Limits.Host)
		if err != nil {
			return err
		}
		if next.IsZero() {
			return fmt.Errorf("cron expression %q never happens again", t.Expr)
		}
	}

	if d := t.shortest(now, p.o.Limits.Host); d > 0 && d < shortest {
		return fmt.Errorf("it would run every %s; the shortest interval is %s", length(d), length(shortest))
	}
	return nil
}

func (p *planner) zoneOf(t Timing) *time.Location {
	if loc, err := t.zone(p.o.Limits.Host); err == nil && t.Kind == kindCron {
		return loc
	}
	return p.o.Location
}
