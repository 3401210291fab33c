package app

import (
	"context"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Link is how an App reaches the gateway it runs in. The zero value is an App
// on its own: jobs can be changed, and run when a gateway does.
type Link struct {
	Submit      func(ctx context.Context, in bus.Inbound) error
	Notify      func(ctx context.Context, out bus.Outbound) error
	Language    func(channel string) string
	LastRoute   func(ctx context.Context) (bus.Route, bool)
	Deliverable func(r bus.Route) error
	Blocked     func(ctx context.Context, err error)
	Reload      func(r bus.Route) // reads the configuration again and tells the chat
	Problems    func() []string
	Changed     func(topic string) // told without waiting; see the topics of docs/reference/websocket.md
}

// inGateway reports whether the schedule runs in this process.
func (l Link) inGateway() bool { return l.Submit != nil }

// openSchedule prepares the jobs of the workspace.
func (a *App) openSchedule(o Options) (err error) {
	g := a.Config.Config.Gateway
	def := a.Config.Config.Agents.Defaults
	so := ScheduleOptions(a.Config, a.Sessions.Workspace())
	so.Submit, so.Notify, so.LastRoute, so.Deliverable = o.Link.Submit, o.Link.Notify, o.Link.LastRoute, o.Link.Deliverable
	so.Language = o.Link.Language
	so.Blocked = o.Link.Blocked
	if o.Reminders != nil && !o.Link.inGateway() {
		a.asGuest(&so, o)
	}

	so.Stop = func(ctx context.Context, in bus.Inbound) { a.Agent.StopMessage(ctx, in) }
	so.Preview = func(ctx context.Context, perMonth float64) string { return a.preview(ctx, o.Now(), perMonth) }
	so.Foreign = a.guard.Foreign
	so.Observer.Began, so.Observer.Ended = a.figures.JobBegan, a.figures.JobEnded
	so.Now, so.Log = o.Now, o.Log

	if g.Heartbeat.Enabled {
		so.Heartbeat.Every = time.Duration(g.Heartbeat.IntervalS) * time.Second
		so.Heartbeat.Dedupe = time.Duration(g.Heartbeat.DedupeHours) * time.Hour
		if so.Heartbeat.Active, err = schedule.ParseHours(g.Heartbeat.ActiveHours); err != nil {
			return fmt.Errorf("gateway.heartbeat.activeHours: %w", err)
		}

		so.Heartbeat.Judge = schedule.Evaluator(override(a, evaluatorCommand).Text, func(ctx context.Context) (llm.Model, string, error) {
			rt, err := a.models.Named(ctx, g.Heartbeat.Model)
			return rt.Model, rt.Name, err
		})
	}

	if def.Dream.Enabled && o.Record == "" {
		timing := schedule.Every(max(time.Duration(def.Dream.IntervalH)*time.Hour, time.Hour))
		if def.Dream.Cron != "" {
			timing = schedule.Cron(def.Dream.Cron, "")
		}
		so.System = append(so.System, schedule.System{
			ID: "dream", Name: "dream", Purpose: "Take the history into the long-term memory.", Timing: timing,
			Run: func(ctx context.Context) error { defer o.Link.Changed("memory"); return a.dreamNow(ctx) },
		})
	}

	a.Schedule, err = schedule.Open(so)
	return err
}

// dreamNow is Dream as a job.
func (a *App) dreamNow(ctx context.Context) error {
	if a.models.Info().Demo {
		return schedule.ErrSkip
	}
	_, err := a.Dream.Run(ctx, false)
	return err
}

// ScheduleOptions are what is needed to look at the jobs of a workspace and to
// change them.
func ScheduleOptions(l *config.Loaded, w *session.Workspace) schedule.Options {
	c := l.Config.Gateway.Cron
	quiet, _ := schedule.ParseHours(c.QuietHours) // checked when the configuration was read
	return schedule.Options{
		State: schedule.Place(State(l, nil), w.ID), Workspace: w.Path, Location: l.Config.Agents.Defaults.Location(),
		Limits: schedule.Limits{
			CatchUp: c.CatchUp, CatchUpWindow: time.Duration(c.CatchUpWindowS) * time.Second, AtWindow: time.Duration(c.AtCatchUpWindowS) * time.Second,
			Concurrent: c.MaxConcurrent, Timeout: time.Duration(c.JobTimeoutS) * time.Second, Jobs: c.MaxJobs,
			MinInterval: time.Duration(c.MinIntervalS) * time.Second, ErrorsInRow: c.MaxConsecutiveErrors, Quiet: quiet,
		},
	}
}

// preview says what a job will cost a month, judged by the turns of the last
// thirty days; "" if there were none or their prices are not known.
func (a *App) preview(ctx context.Context, now time.Time, perMonth float64) string {
	runs, err := a.models.Ledger().Runs(ctx, ledger.Query{Since: now.AddDate(0, 0, -30)})
	if err != nil || len(runs) == 0 {
		return ""
	}
	p := ledger.Project(runs, perMonth)
	if !p.Known {
		return ""
	}
	return p.String()
}

// trigger makes a trigger for a conversation.
func (a *App) trigger(ctx context.Context, name string, r bus.Route, key string) (string, error) {
	r.MessageID = ""
	t, err := a.Schedule.Triggers.Add(ctx, name, r, key)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Trigger %s (%s) is ready. A script on this machine sends a message here with:\n\nnanobot trigger %s \"what happened\"", t.Name, t.ID, t.ID), nil
}
