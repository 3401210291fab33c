package subject

import (
	"context"
	"net/http"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Schedule is the jobs and triggers of the agent.
type Schedule struct {
	Now   Source
	Clock func() time.Time
}

// Routes implements web.Subject.
func (s Schedule) Routes() web.Routes {
	return web.Routes{
		Reads: map[string]web.Read{
			"webui/automations":              s.all,
			"webui/automations/{id}/history": s.history,
			"sessions/{key}/automations":     s.ofSession,
		},
		Actions: map[string]web.Action{
			"automation.enable":       s.act(func(ctx context.Context, j jobs, kind, id string) error { return j.enable(ctx, kind, id, true) }),
			"automation.disable":      s.act(func(ctx context.Context, j jobs, kind, id string) error { return j.enable(ctx, kind, id, false) }),
			"automation.run":          s.act(func(ctx context.Context, j jobs, kind, id string) error { return j.runNow(ctx, kind, id) }),
			"automation.delete":       s.act(func(ctx context.Context, j jobs, kind, id string) error { return j.remove(ctx, kind, id) }),
			"automation.update":       web.Changing(s.update, web.TopicAutomations),
			"automation.create":       web.Changing(s.create, web.TopicAutomations),
			"automation.preview":      web.Changing(s.preview),
			"automation.renew_secret": web.Changing(s.renew, web.TopicAutomations),
		},
	}
}

// jobs is the schedule of a program in the types of the pages.
type jobs struct {
	*schedule.Scheduler

	data    string // folder with the keys of triggers
	secrets *httpsafe.Registry
}

// jobs returns the schedule in the types of the pages.
func (p *Program) jobs() jobs {
	return jobs{Scheduler: p.Schedule, data: p.DataDir, secrets: p.Secrets}
}

func (s Schedule) jobs(ctx context.Context) (jobs, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return jobs{}, err
	}
	return now.jobs(), nil
}

// The kinds of automations.
const (
	kindJob     = "job"
	kindTrigger = "trigger"
)

// historyTail is how many of the last runs are shown.
const historyTail = 5

// automation is a job or a trigger.
type automation struct {
	Kind      string  `json:"kind"`
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Message   string  `json:"message"` // what a job does; what a trigger said last
	Schedule  *timing `json:"schedule,omitempty"`
	When      string  `json:"when,omitempty"` // the schedule in words
	Enabled   bool    `json:"enabled"`
	Protected bool    `json:"protected"` // belongs to the program
	Running   bool    `json:"running"`
	target
	CatchUp  string `json:"catch_up,omitempty"`
	TimeoutS int    `json:"timeout_seconds,omitempty"`
	outcome
	Broken    string `json:"broken,omitempty"`  // why the entry cannot be used
	Command   string `json:"command,omitempty"` // sets a trigger off
	CreatedAt string `json:"created_at,omitempty"`
	UpdatedAt string `json:"updated_at,omitempty"`
	// Upcoming are the next runs, if a number of days was asked for.
	Upcoming []string `json:"upcoming,omitempty"`

	job *schedule.Job
}

// target is where an automation happens and where its results go.
type target struct {
	Channel    string `json:"channel"`
	ChatID     string `json:"chat_id"`
	SessionKey string `json:"session_key"` // the conversation it happens in
	Deliver    bool   `json:"deliver"`     // the result goes to the chat, not only failures

	bound string // conversation that a user chose for it
}

// outcome is how the last runs went, and when the next one is.
type outcome struct {
	NextRun     string `json:"next_run,omitempty"`
	LastRun     string `json:"last_run,omitempty"`
	LastStatus  string `json:"last_status,omitempty"`
	LastError   string `json:"last_error,omitempty"`
	Undelivered string `json:"undelivered,omitempty"` // why the last result waits
	History     []ran  `json:"history"`               // the last runs, the newest last
}

// timing is when a job runs: one of the first three, TZ with Cron only.
type timing struct {
	EverySeconds float64 `json:"every_seconds,omitempty"`
	Cron         string  `json:"cron,omitempty"`
	At           string  `json:"at,omitempty"`
	TZ           string  `json:"tz,omitempty"`
}

// ran is one run.
type ran struct {
	At         string  `json:"at"`
	Status     string  `json:"status"`
	DurationMS int64   `json:"duration_ms,omitempty"`
	Error      string  `json:"error,omitempty"`
	Note       string  `json:"note,omitempty"`
	Silent     bool    `json:"silent,omitempty"`
	Tokens     int     `json:"tokens,omitempty"`
	CostUSD    float64 `json:"cost_usd,omitempty"`
}

// delivers reports whether results go to a conversation.
func (t *target) delivers(key string) bool {
	return t.bound == key || t.Channel != "" && bus.Route{Channel: t.Channel, ChatID: t.ChatID}.SessionKey() == key
}

// Bounds of the calendar.
const (
	calendarDays = 31
	calendarRuns = 100 // of one job
)

// all lists them; with ?days=N also their runs within that time.
func (s Schedule) all(ctx context.Context, r *http.Request) (any, error) {
	days, err := number(r, "days", 0)
	if err != nil {
		return nil, err
	}

	j, err := s.jobs(ctx)
	if err != nil {
		return nil, err
	}

	end := s.Clock().AddDate(0, 0, min(days, calendarDays))
	return j.list(ctx, func(a *automation) bool {
		if days <= 0 || a.job == nil || !a.Enabled || a.Broken != "" || a.NextRun == "" {
			return true
		}

		first := a.job.State.NextRunAtMS.Time()
		more, _ := a.job.Schedule.Upcoming(calendarRuns-1, first, a.job.CreatedAtMS.Time(), j.Location) // a job that is not broken has some
		for _, at := range append([]time.Time{first}, more...) {
			if at.Before(end) {
				a.Upcoming = append(a.Upcoming, stamp(at))
			}
		}
		return true
	})
}

// ofSession lists those that deliver into a conversation, and the job whose own
// conversation it is.
func (s Schedule) ofSession(ctx context.Context, r *http.Request) (any, error) {
	j, err := s.jobs(ctx)
	if err != nil {
		return nil, err
	}
	key := r.PathValue("key")
	return j.list(ctx, func(a *automation) bool { return a.delivers(key) || a.SessionKey == key })
}

func (j jobs) list(ctx context.Context, want func(*automation) bool) (any, error) {
	all, err := j.automations(ctx, want)
	if err != nil {
		return nil, unwilling(err)
	}
	return map[string]any{"automations": all}, nil
}

// automations returns the jobs, the next one first, and then the triggers.
func (j jobs) automations(ctx context.Context, want func(*automation) bool) ([]automation, error) {
	out := []automation{}
	list, err := j.List(ctx)
	if err != nil {
		return nil, err
	}

	for i := range list {
		if a := j.job(&list[i]); want(&a) {
			out = append(out, a)
		}
	}

	triggers, err := j.Triggers.List(ctx)
	if err != nil {
		return nil, err
	}

	for i := range triggers {
		if a := j.trigger(&triggers[i]); want(&a) {
			out = append(out, a)
		}
	}
	return out, nil
}

func (j jobs) job(of *schedule.Job) automation {
	r := of.Payload.Route()
	a := automation{
		Kind:      kindJob,
		ID:        of.ID,
		Name:      of.Name,
		Message:   j.secrets.Redact(of.Payload.Message),
		Enabled:   of.Enabled,
		Protected: of.Protected(),
		Running:   of.State.Pending != nil,
		CatchUp:   of.CatchUp,
		TimeoutS:  of.TimeoutS,
		target:    target{Channel: r.Channel, ChatID: r.ChatID, SessionKey: of.Session(), Deliver: of.Payload.Deliver, bound: of.Payload.SessionKey},
		outcome: outcome{
			LastRun: stamp(of.State.LastRunAtMS.Time()), LastStatus: string(of.State.LastStatus),
			LastError: j.secrets.Redact(string(of.State.LastError)), History: j.runs(tail(of.State.RunHistory)),
		},
		CreatedAt: stamp(of.CreatedAtMS.Time()),
		UpdatedAt: stamp(of.UpdatedAtMS.Time()),
		job:       of,
	}
	if a.Broken = of.Broken(); a.Broken != "" {
		return a
	}

	t := of.Schedule
	a.When, a.NextRun = t.Describe(j.Location).String(), stamp(of.State.NextRunAtMS.Time())
	a.Schedule = &timing{EverySeconds: float64(t.EveryMS) / 1000, Cron: string(t.Expr), At: stamp(t.AtMS.Time()), TZ: string(t.TZ)}
	if u := of.State.Undelivered; u != nil {
		a.Undelivered = u.Cause
	}
	return a
}

func (j jobs) trigger(t *schedule.Trigger) automation {
	return automation{
		Kind:    kindTrigger,
		ID:      t.ID,
		Name:    t.Name,
		Message: j.secrets.Redact(string(t.LastMessage)),
		Enabled: t.Enabled,
		Running: t.LastStatus == "queued",
		target:  target{Channel: t.Channel, ChatID: t.ChatID, SessionKey: t.SessionKey, Deliver: true, bound: t.SessionKey},
		outcome: outcome{
			LastRun: stamp(t.LastRunAtMS.Time()), LastStatus: string(t.LastStatus),
			LastError: j.secrets.Redact(string(t.LastError)), History: j.runs(tail(t.RunHistory)),
		},
		CreatedAt: stamp(t.CreatedAtMS.Time()),
		UpdatedAt: stamp(t.UpdatedAtMS.Time()),
		Command:   "nanobot trigger " + t.ID + ` "what happened"`,
	}
}

// tail returns the last runs.
func tail(all []schedule.Run) []schedule.Run { return all[max(0, len(all)-historyTail):] }

func (j jobs) runs(all []schedule.Run) []ran {
	out := []ran{}
	for _, r := range all {
		out = append(out, ran{
			At:         stamp(r.RunAtMS.Time()),
			Status:     r.Status,
			DurationMS: int64(r.DurationMS),
			Error:      j.secrets.Redact(string(r.Error)),
			Note:       r.Note,
			Silent:     r.Silent,
			Tokens:     r.Tokens,
			CostUSD:    r.CostUSD,
		})
	}

	return out
}
