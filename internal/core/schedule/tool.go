package schedule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/cron"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

type cronInput struct {
	Action  string `json:"action" enum:"add|list|remove"`
	Message string `json:"message,omitempty" max:"4000" desc:"add: what to do, complete in itself"`
	Name    string `json:"name,omitempty" max:"120" hidden:"1"`
	Every   int    `json:"every_seconds,omitempty"`
	Expr    string `json:"cron_expr,omitempty"`
	At      string `json:"at,omitempty" desc:"ISO time, once"`
	TZ      string `json:"tz,omitempty" desc:"IANA, for cron_expr"`
	Deliver *bool  `json:"deliver,omitempty" hidden:"1"`
	JobID   string `json:"job_id,omitempty"`
}

// toolShortest is the smallest interval a model may ask for: each run costs.
const toolShortest = time.Minute

// Tool returns the cron tool. A chat of the owner sees all jobs, other chats see
// their own. Jobs cannot be added by runs of jobs.
func (s *Scheduler) Tool() tool.Tool {
	return tool.Func(tool.Tool{
		Name: "cron", Sink: tool.SinkSchedule, Trusted: true,
		Description: "Reminders and recurring tasks: the message comes back to you at its time, as a turn in this chat. Give every_seconds, cron_expr or at.",
	}, func(ctx context.Context, c tool.Call, in cronInput) (tool.Result, error) {
		switch in.Action {
		case "add":
			return cronTool{s}.add(ctx, c, in)
		case "remove":
			return cronTool{s}.remove(ctx, c, in.JobID)
		}
		return cronTool{s}.list(ctx, c)
	})
}

// cronTool is the tool that the model calls.
type cronTool struct{ s *Scheduler }

func (ct cronTool) add(ctx context.Context, c tool.Call, in cronInput) (tool.Result, error) {
	if c.SenderID == EventCron || c.SenderID == eventHeartbeat || strings.HasPrefix(c.SessionKey, idPrefix) {
		return tool.Fail(tool.DeniedPolicy, "a scheduled run cannot add jobs; tell the user what you would schedule"), nil
	}
	if c.Route.Channel == "" || c.Route.ChatID == "" {
		return tool.Fail(tool.Unsupported, "there is no chat to deliver to"), nil
	}

	now := ct.s.Now()
	timing, err := in.timing(ct.s.Location)
	if err != nil {
		return tool.Fail(tool.InvalidArgs, "%v", err), nil
	}

	added, err := ct.s.Add(ctx, Draft{
		Name: in.Name, Message: in.Message, Timing: timing, Scope: c.Scope, Untrusted: c.Tainted, Shortest: max(toolShortest, ct.s.Limits.MinInterval),
		Route: bus.Route{Channel: c.Route.Channel, ChatID: c.Route.ChatID, ThreadID: c.Route.ThreadID}, Silent: in.Deliver != nil && !*in.Deliver,
	})
	if err != nil {
		return tool.Fail(tool.InvalidArgs, "%v. It is now %s", err, stamp(now, ct.s.Location)), nil
	}

	var b strings.Builder
	if added.Same {
		fmt.Fprintf(&b, "The same job exists already: %q (id %s), %s.", added.Job.Name, added.Job.ID, added.Job.Schedule.Describe(ct.s.Location))
	} else {
		fmt.Fprintf(&b, "Added %q (id %s), %s.", added.Job.Name, added.Job.ID, added.Job.Schedule.Describe(ct.s.Location))
	}

	for i, at := range added.Next {
		if i == 0 {
			b.WriteString(" Next: ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(stamp(at, ct.s.planner.zoneOf(added.Job.Schedule)))
	}

	fmt.Fprintf(&b, ". Now: %s.", stamp(now, ct.s.Location))
	if added.Cost != "" {
		b.WriteString(" Cost: " + added.Cost + ".")
	}

	b.WriteString(ct.whoRuns(ctx, c.Route))
	undeliverable := false
	if ct.s.Deliverable != nil {
		if err := ct.s.Deliverable(c.Route); err != nil {
			fmt.Fprintf(&b, " Tell the user that it cannot be delivered here at the moment: %v.", err)
			undeliverable = true
		}
	}

	res := tool.Text(b.String())
	res.Untrusted = quotes(&added.Job, c.Scope) || undeliverable
	return res, nil
}

// quotes reports whether the description of a job holds words of others than the
// reader: of another person, of a tainted turn, or of a server in an error.
func quotes(j *Job, reader string) bool {
	return j.Payload.Scope != reader || j.Payload.Untrusted || j.broken != nil || j.State.LastError != "" || j.State.Undelivered != nil
}

func (in cronInput) timing(loc *time.Location) (Timing, error) {
	switch {
	case in.TZ != "" && in.Expr == "":
		return Timing{}, errors.New("tz goes with cron_expr only; give at with an offset instead")
	case in.Every > 0:
		return Every(time.Duration(in.Every) * time.Second), nil
	case in.Every < 0:
		return Timing{}, errors.New("every_seconds must be at least 60")
	case in.Expr != "":
		return Cron(strings.Join(strings.Fields(in.Expr), " "), in.TZ), nil
	case in.At != "":
		at, err := ParseMoment(in.At, loc)
		return Once(at), err
	}
	return Timing{}, errors.New("say when: every_seconds, cron_expr or at")
}

// ParseMoment reads an ISO date and time; without an offset it is meant in loc.
func ParseMoment(s string, loc *time.Location) (time.Time, error) {
	s = strings.TrimSpace(s)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}

	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return cron.Civil(t, loc), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a date and time such as 2026-05-04T15:00:00", s)
}

// mayUse reports whether a call may see and remove a job. What the owner has
// scheduled for a group is not the group's.
func mayUse(c tool.Call, j *Job) bool {
	if c.Scope == "" {
		return true
	}
	r := j.Payload.Route()
	return j.broken == nil && !j.Protected() && r.SameChat(c.Route) && bus.Room(r, j.Payload.Scope) == bus.Room(c.Route, c.Scope)
}

func (ct cronTool) list(ctx context.Context, c tool.Call) (tool.Result, error) {
	jobs, err := ct.s.List(ctx)
	if err != nil {
		return tool.Fail(tool.Internal, "%v", err), nil
	}

	jobs = slices.DeleteFunc(jobs, func(j Job) bool {
		return !mayUse(c, &j) || !j.Enabled && j.State.ErrorsInRow == 0 && j.State.LastStatus != StatusMissed
	})
	res := tool.Text(ct.overview(phrase.With(ctx, phrase.English), jobs, c.Route))
	for i := range jobs {
		res.Untrusted = res.Untrusted || quotes(&jobs[i], c.Scope)
	}
	return res, nil
}

// Overview describes all jobs to the owner, who reads it in a chat.
func (s *Scheduler) Overview(ctx context.Context, here bus.Route) (string, error) {
	jobs, err := s.List(ctx)
	return cronTool{s}.overview(ctx, jobs, here), err
}

func (ct cronTool) overview(ctx context.Context, jobs []Job, here bus.Route) string {
	if len(jobs) == 0 {
		return phrase.Of(ctx, "There are no scheduled jobs.")
	}
	var b strings.Builder
	for i := range jobs {
		ct.describe(ctx, &b, &jobs[i], here)
	}
	return strings.TrimSpace(b.String())
}

func (ct cronTool) describe(ctx context.Context, b *strings.Builder, j *Job, here bus.Route) {
	if why := j.Broken(); why != "" {
		fmt.Fprintf(b, "- %s (id %s): %s\n", j.Name, j.ID, why)
		return
	}

	fmt.Fprintf(b, "- %s (id %s), %s", j.Name, j.ID, j.Schedule.Describe(ct.s.Location))
	if j.Protected() {
		b.WriteString(phrase.Of(ctx, "; protected: %s", j.Payload.Message))
	} else if r := j.Payload.Route(); !r.SameChat(here) && r.Channel != "" {
		b.WriteString(phrase.Of(ctx, "; for %s", r.SessionKey()))
	}

	b.WriteByte('\n')
	st := j.State
	if st.LastStatus != "" {
		b.WriteString(phrase.Of(ctx, "  last: %s", st.LastStatus))
		if st.LastRunAtMS != 0 {
			fmt.Fprintf(b, " %s", stamp(st.LastRunAtMS.Time(), ct.s.Location))
		}
		if st.LastError != "" {
			fmt.Fprintf(b, " (%s)", text.Label(string(st.LastError), 200))
		}
		b.WriteByte('\n')
	}

	if st.Undelivered != nil {
		b.WriteString(phrase.Of(ctx, "  a result could not be delivered: %s\n", st.Undelivered.Cause))
	}

	switch {
	case !j.Enabled:
		b.WriteString(phrase.Of(ctx, "  switched off\n"))
	case st.Pending != nil:
		b.WriteString(phrase.Of(ctx, "  running now\n"))
	}

	if st.NextRunAtMS != 0 {
		b.WriteString(phrase.Of(ctx, "  next: %s\n", stamp(st.NextRunAtMS.Time(), ct.s.planner.zoneOf(j.Schedule))))
	}
}

func (ct cronTool) remove(ctx context.Context, c tool.Call, id string) (tool.Result, error) {
	if id == "" {
		return tool.Fail(tool.InvalidArgs, "job_id is missing; list shows the ids"), nil
	}

	j, err := ct.s.Get(ctx, id)
	if err == nil && !mayUse(c, &j) {
		err = ErrNotFound // other people's jobs do not exist for this chat
	}
	if err == nil {
		j, err = ct.s.Remove(ctx, id)
	}

	switch {
	case errors.Is(err, ErrNotFound):
		return tool.Fail(tool.NotFound, "there is no job %q; list shows the ids", id), nil
	case errors.Is(err, ErrProtected):
		return tool.Fail(tool.DeniedPolicy, "%v", err), nil
	case err != nil:
		return tool.Fail(tool.Internal, "%v", err), nil
	}

	res := tool.Textf("Removed %q (id %s).", j.Name, j.ID)
	res.Untrusted = quotes(&j, c.Scope)
	return res, nil
}

// whoRuns says who runs a job that was added in a process which does not run
// all of them: a chat in a terminal ends, and its user should not wait for a
// reminder in vain.
func (ct cronTool) whoRuns(ctx context.Context, here bus.Route) string {
	if ct.s.Submit != nil && !ct.s.planner.guest() {
		return ""
	}

	if _, running := Owner(ctx, ct.s.State); running {
		if here.Channel == terminalChannel {
			return " Tell the user that the gateway runs it, and that the result comes to a terminal chat that is open then, or to the next one."
		}
		return " Tell the user that the gateway runs it, and that the result goes to the chat they used last there."
	}

	if ct.s.planner.guest() && ct.s.Guest.Takes(here) {
		if pid, other := Guest(ctx, ct.s.State); other && !ct.s.serving.Load() && pid != os.Getpid() {
			return " Tell the user that another open chat runs it as long as it stays open, and nanobot gateway when that runs."
		}
		return " Tell the user that it comes here while this chat is open; otherwise only nanobot gateway runs it (nanobot gateway start)."
	}
	return " Tell the user that nothing runs jobs at the moment: it comes only while nanobot gateway runs (nanobot gateway start)."
}
