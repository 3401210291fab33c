package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Errors of changes to jobs.
var (
	// ErrNotFound says that there is no such job.
	ErrNotFound = errors.New("there is no such job")
	// ErrProtected says that a job belongs to the program.
	ErrProtected = errors.New("this job belongs to the program and cannot be changed here; see gateway.heartbeat and agents.defaults.dream in the configuration")
)

// maxMessage bounds the instruction of a job, in characters.
const maxMessage = 4000

// Draft is a job to be.
type Draft struct {
	Name      string // "" takes the beginning of Message
	Message   string
	Timing    Timing
	Route     bus.Route
	Silent    bool // only failures are delivered
	Scope     string
	Untrusted bool
	CatchUp   string
	Timeout   time.Duration
	Keep      bool // a job of one moment stays, switched off, after its run
	// Shortest is the smallest interval for this draft; 0 is Limits.MinInterval.
	Shortest time.Duration
}

// Added is a new job and what it will do.
type Added struct {
	Job  Job
	Next []time.Time // the first occurrences
	Cost string      // what it will cost a month; "" if that is not known
	Same bool        // it was there already
}

// Add checks a draft and keeps it. The same job of the same
// person in the same chat is not kept twice.
func (s *Scheduler) Add(ctx context.Context, d Draft) (Added, error) {
	now := s.Now()
	j, err := s.draft(d, now)
	if err != nil {
		return Added{}, err
	}

	added := Added{Job: *j}
	err = s.store.update(ctx, func(t *table) error {
		chat := 0
		for _, o := range t.Jobs {
			if o.broken != nil || o.Protected() {
				continue
			}
			if !o.Payload.Route().SameChat(d.Route) {
				continue
			}

			chat++
			if o.Enabled && o.Payload.Scope == d.Scope && o.Schedule.key() == j.Schedule.key() && strings.TrimSpace(o.Payload.Message) == j.Payload.Message {
				added.Job, added.Same = *o, true
				return nil
			}
		}

		if len(t.Jobs) >= s.Limits.Jobs {
			return fmt.Errorf("there are %d jobs already, which is the limit; remove some first", len(t.Jobs))
		}
		if d.Scope != "" && chat >= s.Limits.JobsPerChat {
			return fmt.Errorf("this chat has %d jobs already, which is the limit; remove some first", chat)
		}

		t.Jobs = append(t.Jobs, j)
		t.defined = true
		return nil
	})
	if err != nil {
		return Added{}, err
	}

	s.poke()
	s.foresee(ctx, j, &added, 3)
	return added, nil
}

// Foresee checks a draft and says what the job would do, with at most n
// occurrences. Nothing is kept.
func (s *Scheduler) Foresee(ctx context.Context, d Draft, n int) (Added, error) {
	j, err := s.draft(d, s.Now())
	if err != nil {
		return Added{}, err
	}
	added := Added{Job: *j}
	s.foresee(ctx, j, &added, n)
	return added, nil
}

// foresee fills in when a job runs, and what that costs.
func (s *Scheduler) foresee(ctx context.Context, j *Job, added *Added, n int) {
	now := j.CreatedAtMS.Time()
	added.Next, _ = j.Schedule.Upcoming(n, now, now, s.Limits.Host) // checked before
	if j.Schedule.Kind == kindAt {
		added.Next = []time.Time{j.Schedule.AtMS.Time()}
	}
	if s.Preview != nil && j.Schedule.Kind != kindAt {
		added.Cost = s.Preview(ctx, j.Schedule.perMonth(now, s.Limits.Host))
	}
}

func (s *Scheduler) draft(d Draft, now time.Time) (*Job, error) {
	d.Message = strings.TrimSpace(d.Message)
	if d.Message == "" {
		return nil, errors.New("the message is missing: say what is to be done")
	}
	if n := len([]rune(d.Message)); n > maxMessage {
		return nil, fmt.Errorf("the message has %d characters, at most %d are possible", n, maxMessage)
	}

	d.Timing = s.planner.placed(d.Timing)
	if err := s.planner.checkTiming(d.Timing, now, d.Shortest); err != nil {
		return nil, err
	}

	if d.Timing.Kind == kindAt && d.Timing.AtMS.Time().Before(now) {
		d.Timing.AtMS = msOf(now)
	}

	if err := checkCatchUp(d.CatchUp); err != nil {
		return nil, err
	}

	name := text.Label(d.Name, 120)
	if name == "" {
		name = text.Label(d.Message, 30)
	}

	j := &Job{
		ID: newID(), Name: name, Enabled: true, Schedule: d.Timing, CreatedAtMS: msOf(now), UpdatedAtMS: msOf(now),
		DeleteAfterRun: d.Timing.Kind == kindAt && !d.Keep, CatchUp: d.CatchUp, TimeoutS: int(d.Timeout.Seconds()),
		Payload: Payload{
			Kind: payloadTurn, Message: d.Message, Deliver: !d.Silent, Channel: Opt(d.Route.Channel), To: Opt(d.Route.ChatID),
			ThreadID: d.Route.ThreadID, Scope: d.Scope, Untrusted: d.Untrusted,
		},
	}

	s.planner.plan(j, now)
	return j, nil
}

func checkCatchUp(v string) error {
	if slices.Contains([]string{"", catchUpOnce, catchUpSkip, catchUpTell}, v) {
		return nil
	}
	return fmt.Errorf("catch-up %q is not known; it is once, skip or tell", v)
}

// List returns all jobs, the next one first and those without a next run last.
func (s *Scheduler) List(ctx context.Context) ([]Job, error) {
	all, err := s.store.Read(ctx)
	if err != nil {
		return nil, err
	}

	now := s.Now()
	for _, j := range all {
		if j.broken == nil {
			s.planner.plan(j, now)
		}
	}

	slices.SortStableFunc(all, func(a, b *Job) int {
		x, y := a.State.NextRunAtMS, b.State.NextRunAtMS
		switch {
		case x == y:
			return strings.Compare(a.ID, b.ID)
		case x == 0:
			return 1
		case y == 0 || x < y:
			return -1
		}

		return 1
	})

	out := make([]Job, 0, len(all))
	for _, j := range all {
		out = append(out, *j)
	}
	return out, nil
}

// Get returns one job.
func (s *Scheduler) Get(ctx context.Context, id string) (Job, error) {
	all, err := s.List(ctx)
	if err != nil {
		return Job{}, err
	}
	if i := slices.IndexFunc(all, func(j Job) bool { return j.ID == id }); i >= 0 {
		return all[i], nil
	}
	return Job{}, ErrNotFound
}

// edit changes one job of a person.
func (s *Scheduler) edit(ctx context.Context, id string, fn func(t *table, j *Job) error) (Job, error) {
	var out Job
	err := s.store.update(ctx, func(t *table) error {
		j := t.find(id)
		switch {
		case j == nil:
			return ErrNotFound
		case j.broken == nil && j.Protected():
			return ErrProtected
		}

		if err := fn(t, j); err != nil {
			return err
		}

		t.defined = true
		j.UpdatedAtMS = msOf(s.Now())
		out = *j
		return nil
	})
	if err == nil {
		s.poke()
	}
	return out, err
}

// Remove deletes a job. A run that is going on ends as it would have.
func (s *Scheduler) Remove(ctx context.Context, id string) (Job, error) {
	return s.edit(ctx, id, func(t *table, _ *Job) error {
		t.remove(id)
		return nil
	})
}

// Enable switches a job on or off. Switching on forgets failures.
func (s *Scheduler) Enable(ctx context.Context, id string, on bool) (Job, error) {
	return s.edit(ctx, id, func(_ *table, j *Job) error {
		if j.broken != nil {
			return errors.New(j.Broken())
		}

		now := s.Now()
		if on {
			if err := s.planner.checkTiming(j.Schedule, now, time.Nanosecond); err != nil {
				return err
			}
			j.State.ErrorsInRow = 0
			if !j.Enabled && j.Schedule.Kind == kindAt {
				j.State.LastOccurrence = 0
			}
		}

		j.Enabled, j.State.NextRunAtMS = on, 0 // what fell into the pause was not missed
		s.planner.plan(j, now)
		return nil
	})
}

// Change says what Update alters; nil fields stay as they are.
type Change struct {
	Name    *string
	Message *string
	Timing  *Timing
	Route   *bus.Route
	Silent  *bool
	CatchUp *string
	Timeout *time.Duration
}

// Update changes a job.
func (s *Scheduler) Update(ctx context.Context, id string, c Change) (Job, error) {
	return s.edit(ctx, id, func(_ *table, j *Job) error {
		if j.broken != nil {
			return errors.New(j.Broken())
		}

		now := s.Now()
		if c.Timing != nil {
			t := s.planner.placed(*c.Timing)
			if err := s.planner.checkTiming(t, now, 0); err != nil {
				return err
			}
			t.extra = j.Schedule.extra
			j.Schedule, j.State.NextRunAtMS = t, 0
			j.DeleteAfterRun = j.DeleteAfterRun && t.Kind == kindAt
		}

		if c.Message != nil {
			text := strings.TrimSpace(*c.Message)
			if text == "" || len([]rune(text)) > maxMessage {
				return fmt.Errorf("the message needs 1 to %d characters", maxMessage)
			}
			j.Payload.Message = text
		}

		if c.Name != nil {
			j.Name = text.Label(*c.Name, 120)
		}

		if c.Route != nil {
			j.Payload.Channel = Opt(c.Route.Channel)
			j.Payload.To = Opt(c.Route.ChatID)
			j.Payload.ThreadID = c.Route.ThreadID
			j.Payload.OriginChannel, j.Payload.OriginChatID = "", ""
		}

		if c.Silent != nil {
			j.Payload.Deliver = !*c.Silent
		}

		if c.CatchUp != nil {
			if err := checkCatchUp(*c.CatchUp); err != nil {
				return err
			}
			j.CatchUp = *c.CatchUp
		}

		if c.Timeout != nil {
			j.TimeoutS = int(c.Timeout.Seconds())
		}

		s.planner.plan(j, now)
		return nil
	})
}

// RunNow asks the process that runs the jobs to run one at once, beside its
// schedule. A job that is switched off needs force.
func (s *Scheduler) RunNow(ctx context.Context, id string, force bool) (Job, error) {
	var out Job
	err := s.store.update(ctx, func(t *table) error {
		j := t.find(id)
		switch {
		case j == nil:
			return ErrNotFound
		case j.broken != nil:
			return errors.New(j.Broken())
		case !j.Enabled && !force:
			return errors.New("the job is switched off; force runs it all the same")
		case j.State.Pending != nil:
			return errors.New("the job is running already")
		}

		j.State.RunRequested, t.changed = msOf(s.Now()), true
		out = *j
		return nil
	})
	if err == nil {
		s.poke()
	}
	return out, err
}
