package subject

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/web"
)

const (
	previewRuns = 5  // occurrences that a preview shows
	historyMost = 50 // runs on a page of the history
)

// drafted is an automation to be.
type drafted struct {
	Kind     string  `json:"kind"`
	Name     string  `json:"name"`
	Message  string  `json:"message"`
	Schedule *timing `json:"schedule"`
	Channel  string  `json:"channel"`
	ChatID   string  `json:"chat_id"`
	Deliver  *bool   `json:"deliver"`
	CatchUp  string  `json:"catch_up"`
	TimeoutS float64 `json:"timeout_seconds"`
}

// create makes a job or a trigger.
func (s Schedule) create(ctx context.Context, payload json.RawMessage) (any, error) {
	var in drafted
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	j, err := s.jobs(ctx)
	if err != nil {
		return nil, err
	}
	if in.Channel == "" || in.ChatID == "" {
		return nil, web.Refuse(http.StatusBadRequest, "channel and chat_id are missing: say where the results go")
	}

	switch in.Kind {
	case "", kindJob:
	case kindTrigger:
		return j.createTrigger(ctx, &in)
	default:
		return nil, web.Refuse(http.StatusBadRequest, "kind can be job or trigger, not %.40q", in.Kind)
	}

	draft, err := in.draft(j.Location)
	if err != nil {
		return nil, err
	}

	added, err := j.Add(ctx, draft)
	if err != nil {
		return nil, unwilling(err)
	}

	out := j.foreseen(&added)
	out["automation"], out["existed"] = j.job(&added.Job), added.Same
	return out, nil
}

// draft returns the job as the schedule takes it.
func (in *drafted) draft(loc *time.Location) (schedule.Draft, error) {
	d := schedule.Draft{
		Name:    in.Name,
		Message: in.Message,
		Route:   bus.Route{Channel: in.Channel, ChatID: in.ChatID},
		CatchUp: in.CatchUp,
		Silent:  in.Deliver != nil && !*in.Deliver,
		Timeout: time.Duration(in.TimeoutS * float64(time.Second)),
	}
	if in.TimeoutS < 0 || in.TimeoutS > maxTimeout.Seconds() {
		return d, web.Refuse(http.StatusUnprocessableEntity, "timeout_seconds must be between 0, which is the configured limit, and %d", int(maxTimeout.Seconds()))
	}
	if in.Schedule == nil {
		return d, web.Refuse(http.StatusUnprocessableEntity, "schedule needs one of every_seconds, cron and at")
	}

	var err error
	d.Timing, err = in.Schedule.parse(loc)
	return d, err
}

// createTrigger makes a trigger. Its key is shown here and never again.
func (j jobs) createTrigger(ctx context.Context, in *drafted) (any, error) {
	if in.Schedule != nil || in.Message != "" || in.CatchUp != "" || in.TimeoutS != 0 || in.Deliver != nil {
		return nil, web.Refuse(http.StatusBadRequest, "a trigger has a name and a chat only")
	}
	t, err := j.Triggers.Add(ctx, in.Name, bus.Route{Channel: in.Channel, ChatID: in.ChatID}, "")
	if err != nil {
		return nil, unwilling(err)
	}
	return j.withSecret(&t, false)
}

// withSecret returns a trigger with its key.
func (j jobs) withSecret(t *schedule.Trigger, renew bool) (any, error) {
	out := map[string]any{"automation": j.trigger(t)}
	secret := schedule.TriggerSecret
	if renew {
		secret = schedule.RenewTriggerSecret
	}
	var err error
	out["secret"], err = secret(j.data, t.ID)
	return out, err
}

// renew gives a trigger another key, which is shown here and never again.
func (s Schedule) renew(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	j, err := s.jobs(ctx)
	if err != nil {
		return nil, err
	}

	t, err := j.findTrigger(ctx, in.ID)
	if err != nil {
		return nil, unwilling(err)
	}
	return j.withSecret(&t, true)
}

// preview says what a schedule means, and changes nothing.
func (s Schedule) preview(ctx context.Context, payload json.RawMessage) (any, error) {
	var in drafted
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	j, err := s.jobs(ctx)
	if err != nil {
		return nil, err
	}

	if strings.TrimSpace(in.Message) == "" {
		in.Message = "preview" // a form asks before there is one
	}

	draft, err := in.draft(j.Location)
	if err != nil {
		return nil, err
	}

	added, err := j.Foresee(ctx, draft, previewRuns)
	if err != nil {
		return nil, unwilling(err)
	}
	return j.foreseen(&added), nil
}

// foreseen returns what a job will do.
func (j jobs) foreseen(added *schedule.Added) map[string]any {
	next := []string{}
	for _, at := range added.Next {
		next = append(next, stamp(at))
	}
	return map[string]any{"when": added.Job.Schedule.Describe(j.Location).String(), "next_runs": next, "cost": added.Cost}
}

// history returns the runs of an automation, the newest first; the cursor is the time
// of the last one.
func (s Schedule) history(ctx context.Context, r *http.Request) (any, error) {
	j, err := s.jobs(ctx)
	if err != nil {
		return nil, err
	}

	limit, err := number(r, "limit", historyMost)
	if err != nil {
		return nil, err
	}

	before, err := number(r, "cursor", 0)
	if err != nil {
		return nil, err
	}

	all, err := j.allRuns(ctx, r.PathValue("id"))
	if err != nil {
		return nil, unwilling(err)
	}

	limit = min(max(limit, 1), historyMost)
	var page []schedule.Run
	out := map[string]any{"cursor": nil}
	for _, run := range slices.Backward(all) {
		if before > 0 && int64(run.RunAtMS) >= int64(before) {
			continue
		}
		if len(page) == limit {
			out["cursor"] = strconv.FormatInt(int64(page[limit-1].RunAtMS), 10)
			break
		}
		page = append(page, run)
	}

	out["runs"] = j.runs(page)
	return out, nil
}

// allRuns returns those that are kept of a job or trigger.
func (j jobs) allRuns(ctx context.Context, id string) ([]schedule.Run, error) {
	if kindOf(id) == kindJob {
		job, err := j.Get(ctx, id)
		return job.State.RunHistory, err
	}
	t, err := j.findTrigger(ctx, id)
	return t.RunHistory, err
}

func (j jobs) findTrigger(ctx context.Context, id string) (schedule.Trigger, error) {
	triggers, err := j.Triggers.List(ctx)
	for i := range triggers {
		if strings.EqualFold(triggers[i].ID, id) {
			return triggers[i], nil
		}
	}

	if err == nil {
		err = schedule.ErrNoTrigger
	}
	return schedule.Trigger{}, err
}
