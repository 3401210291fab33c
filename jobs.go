package nanobot

import (
	"context"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// Jobs and triggers as programs see them.
type (
	// Job is a reminder or a recurring job: a message that comes back to the
	// agent at its time.
	Job = schedule.Job
	// JobDraft is a job to be.
	JobDraft = schedule.Draft
	// JobAdded is a new job and what it will do.
	JobAdded = schedule.Added
	// JobChange is what Cron.Update alters; nil fields stay as they are.
	JobChange = schedule.Change
	// Timing says when a job runs; see Every, Once and OnCron.
	Timing = schedule.Timing
	// Trigger lets a program start a turn in a chat.
	Trigger = schedule.Trigger
)

// ErrNoJob is wrapped when there is no job or trigger with that id.
var ErrNoJob = schedule.ErrNotFound

// Every returns a job that runs again and again, counted from when it is added.
func Every(d time.Duration) Timing { return schedule.Every(d) }

// Once returns a job that runs at a moment.
func Once(at time.Time) Timing { return schedule.Once(at) }

// OnCron returns a job that runs as a cron expression says, in a zone by its IANA
// name; "" is the configured zone.
func OnCron(expr, zone string) Timing { return schedule.Cron(expr, zone) }

// Cron are the jobs of the workspace. They are run by a Gateway, here or in
// another process, or by Bot.KeepTime; changes are seen there at once.
type Cron struct {
	open func(context.Context) (*app.App, error)
}

// List returns all jobs, the next one first and those without a next run last.
func (c Cron) List(ctx context.Context) ([]Job, error) {
	a, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	return a.Schedule.List(ctx)
}

// Add checks a draft and keeps it.
func (c Cron) Add(ctx context.Context, d JobDraft) (JobAdded, error) {
	a, err := c.open(ctx)
	if err != nil {
		return JobAdded{}, err
	}
	return a.Schedule.Add(ctx, d)
}

// Update changes a job.
func (c Cron) Update(ctx context.Context, id string, change JobChange) (Job, error) {
	a, err := c.open(ctx)
	if err != nil {
		return Job{}, err
	}
	return a.Schedule.Update(ctx, id, change)
}

// Enable switches a job on or off.
func (c Cron) Enable(ctx context.Context, id string, on bool) (Job, error) {
	a, err := c.open(ctx)
	if err != nil {
		return Job{}, err
	}
	return a.Schedule.Enable(ctx, id, on)
}

// Remove deletes a job. A run that is going on ends as it would have.
func (c Cron) Remove(ctx context.Context, id string) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	_, err = a.Schedule.Remove(ctx, id)
	return err
}

// Run asks whoever runs the jobs to run one at once, beside its schedule.
func (c Cron) Run(ctx context.Context, id string) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	_, err = a.Schedule.RunNow(ctx, id, true)
	return err
}

// Triggers are the triggers of the workspace.
type Triggers struct {
	open func(context.Context) (*app.App, error)
}

// List returns all triggers.
func (t Triggers) List(ctx context.Context) ([]Trigger, error) {
	a, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	return a.Schedule.Triggers.List(ctx)
}

// Add binds a new trigger to a chat. The session may be "": then it is that of
// the chat.
func (t Triggers) Add(ctx context.Context, name string, to Route, session string) (Trigger, error) {
	a, err := t.open(ctx)
	if err != nil {
		return Trigger{}, err
	}
	return a.Schedule.Triggers.Add(ctx, name, to, session)
}

// Fire sets a trigger off with a message and returns the id of the delivery. It
// is on disk then and handled by a Gateway, at least once. The message is data
// for the agent, which gives it no orders.
func (t Triggers) Fire(ctx context.Context, id, message string) (string, error) {
	a, err := t.open(ctx)
	if err != nil {
		return "", err
	}
	return a.Schedule.Triggers.Fire(ctx, id, message, true)
}

// Enable switches a trigger on or off.
func (t Triggers) Enable(ctx context.Context, id string, on bool) error {
	a, err := t.open(ctx)
	if err != nil {
		return err
	}
	return a.Schedule.Triggers.Enable(ctx, id, on)
}

// Remove deletes a trigger.
func (t Triggers) Remove(ctx context.Context, id string) error {
	a, err := t.open(ctx)
	if err != nil {
		return err
	}
	return a.Schedule.Triggers.Remove(ctx, id)
}
