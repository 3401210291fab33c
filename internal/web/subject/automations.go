package subject

import (
	"context"
	"net/http"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/web"
)

func (d *API) automationReads() map[string]web.Read {
	return map[string]web.Read{"webui/automations": d.allAutomations, "webui/automations/{id}/history": planning{d}.history}
}

func (d *API) automationActions() map[string]web.Action {
	return map[string]web.Action{
		"automation.enable":  d.onAutomation(func(ctx context.Context, h *Backend, kind, id string) error { return h.enable(ctx, kind, id, true) }),
		"automation.disable": d.onAutomation(func(ctx context.Context, h *Backend, kind, id string) error { return h.enable(ctx, kind, id, false) }),
		"automation.run":     d.onAutomation(func(ctx context.Context, h *Backend, kind, id string) error { return h.runNow(ctx, kind, id) }),
		"automation.delete":  d.onAutomation(func(ctx context.Context, h *Backend, kind, id string) error { return h.remove(ctx, kind, id) }),
		"automation.update":  d.updateAutomation,
		"automation.create":  planning{d}.create,
		"automation.preview": planning{d}.preview,

		"automation.renew_secret": planning{d}.renew,
	}
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

	bound string // conversation that somebody chose for it
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

// allAutomations are all; with ?days=N also their runs within that time.
func (d *API) allAutomations(ctx context.Context, r *http.Request) (any, error) {
	days, err := number(r, "days", 0)
	if err != nil {
		return nil, err
	}
	h, err := d.Backend(ctx)
	if err != nil {
		return nil, err
	}
	now := d.now()
	end := now.AddDate(0, 0, min(days, calendarDays))
	return d.listAutomations(ctx, func(a *automation) bool {
		if days <= 0 || a.job == nil || !a.Enabled || a.Broken != "" || a.NextRun == "" {
			return true
		}
		first := a.job.State.NextRunAtMS.Time()
		more, _ := a.job.Schedule.Upcoming(calendarRuns-1, first, a.job.CreatedAtMS.Time(), h.Schedule.Location) // a job that is not broken has some
		for _, at := range append([]time.Time{first}, more...) {
			if at.Before(end) {
				a.Upcoming = append(a.Upcoming, stamp(at))
			}
		}
		return true
	})
}

// sessionAutomations are those that deliver into a conversation, and the job
// whose own conversation it is.
func (d *API) sessionAutomations(ctx context.Context, r *http.Request) (any, error) {
	key := r.PathValue("key")
	return d.listAutomations(ctx, func(a *automation) bool { return a.delivers(key) || a.SessionKey == key })
}

func (d *API) listAutomations(ctx context.Context, want func(*automation) bool) (any, error) {
	h, err := d.Backend(ctx)
	if err != nil {
		return nil, err
	}
	all, err := h.automations(ctx, want)
	if err != nil {
		return nil, unwilling(err)
	}
	return map[string]any{"automations": all}, nil
}

// automations are the jobs, the next one first, and then the triggers.
func (h *Backend) automations(ctx context.Context, want func(*automation) bool) ([]automation, error) {
	out := []automation{}
	jobs, err := h.Schedule.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range jobs {
		if a := h.job(&jobs[i]); want(&a) {
			out = append(out, a)
		}
	}
	triggers, err := h.Schedule.Triggers.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range triggers {
		if a := h.trigger(&triggers[i]); want(&a) {
			out = append(out, a)
		}
	}
	return out, nil
}

func (h *Backend) job(j *schedule.Job) automation {
	r := j.Payload.Route()
	a := automation{
		Kind: kindJob, ID: j.ID, Name: j.Name, Message: h.redact(j.Payload.Message), Enabled: j.Enabled, Protected: j.Protected(),
		Running: j.State.Pending != nil, CatchUp: j.CatchUp, TimeoutS: j.TimeoutS,
		target: target{Channel: r.Channel, ChatID: r.ChatID, SessionKey: j.Session(), Deliver: j.Payload.Deliver, bound: j.Payload.SessionKey},
		outcome: outcome{
			LastRun: stamp(j.State.LastRunAtMS.Time()), LastStatus: string(j.State.LastStatus),
			LastError: h.redact(string(j.State.LastError)), History: h.runs(tail(j.State.RunHistory)),
		},
		CreatedAt: stamp(j.CreatedAtMS.Time()), UpdatedAt: stamp(j.UpdatedAtMS.Time()), job: j,
	}
	if a.Broken = j.Broken(); a.Broken != "" {
		return a
	}
	t := j.Schedule
	a.When, a.NextRun = t.Describe(h.Schedule.Location).String(), stamp(j.State.NextRunAtMS.Time())
	a.Schedule = &timing{EverySeconds: float64(t.EveryMS) / 1000, Cron: string(t.Expr), At: stamp(t.AtMS.Time()), TZ: string(t.TZ)}
	if u := j.State.Undelivered; u != nil {
		a.Undelivered = u.Cause
	}
	return a
}

func (h *Backend) trigger(t *schedule.Trigger) automation {
	return automation{
		Kind: kindTrigger, ID: t.ID, Name: t.Name, Message: h.redact(string(t.LastMessage)), Enabled: t.Enabled, Running: t.LastStatus == "queued",
		target: target{Channel: t.Channel, ChatID: t.ChatID, SessionKey: t.SessionKey, Deliver: true, bound: t.SessionKey},
		outcome: outcome{
			LastRun: stamp(t.LastRunAtMS.Time()), LastStatus: string(t.LastStatus),
			LastError: h.redact(string(t.LastError)), History: h.runs(tail(t.RunHistory)),
		},
		CreatedAt: stamp(t.CreatedAtMS.Time()), UpdatedAt: stamp(t.UpdatedAtMS.Time()), Command: "nanobot trigger " + t.ID + ` "what happened"`,
	}
}

// tail are the last runs.
func tail(all []schedule.Run) []schedule.Run { return all[max(0, len(all)-historyTail):] }

func (h *Backend) runs(all []schedule.Run) []ran {
	out := []ran{}
	for _, r := range all {
		out = append(out, ran{
			At: stamp(r.RunAtMS.Time()), Status: r.Status, DurationMS: int64(r.DurationMS), Error: h.redact(string(r.Error)),
			Note: r.Note, Silent: r.Silent, Tokens: r.Tokens, CostUSD: r.CostUSD,
		})
	}
	return out
}
