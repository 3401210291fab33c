package subject

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/web"
)

// act makes an action of what is done with one automation. It returns the automation
// as it is then; null if it is gone.
func (s Schedule) act(do func(ctx context.Context, j jobs, kind, id string) error) web.Action {
	return web.Changing(func(ctx context.Context, payload json.RawMessage) (any, error) {
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
		if err := do(ctx, j, kindOf(in.ID), in.ID); err != nil {
			return nil, unwilling(err)
		}
		return j.automation(ctx, in.ID)
	}, web.TopicAutomations)
}

// automation returns what an action tells about one.
func (j jobs) automation(ctx context.Context, id string) (any, error) {
	found, err := j.automations(ctx, func(a *automation) bool { return strings.EqualFold(a.ID, id) })
	if err != nil {
		return nil, unwilling(err)
	}
	out := map[string]any{"automation": nil}
	if len(found) > 0 {
		out["automation"] = found[0]
	}
	return out, nil
}

// kindOf tells a trigger from a job by its id.
func kindOf(id string) string {
	if len(id) > 4 && strings.EqualFold(id[:4], "trg_") {
		return kindTrigger
	}
	return kindJob
}

// unwilling is why the schedule does not do something, as a refusal. It checks
// a wish before it changes anything; what goes wrong afterwards is about files.
func unwilling(err error) error {
	if web.Refusal(err).Status != http.StatusInternalServerError || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if bad, ok := errors.AsType[*schedule.CorruptError](err); ok {
		return web.Refuse(http.StatusConflict, "%v", bad)
	}
	if _, ok := errors.AsType[*diskio.LockedError](err); ok {
		return web.Refuse(http.StatusConflict, "another program changes the jobs right now; try again")
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*os.LinkError](err); ok {
		return err
	}
	return web.Refuse(http.StatusUnprocessableEntity, "%v", err)
}

func (j jobs) enable(ctx context.Context, kind, id string, on bool) error {
	if kind == kindTrigger {
		return j.Triggers.Enable(ctx, id, on)
	}
	_, err := j.Enable(ctx, id, on)
	return err
}

func (j jobs) remove(ctx context.Context, kind, id string) error {
	if kind == kindTrigger {
		return j.Triggers.Remove(ctx, id)
	}
	_, err := j.Remove(ctx, id)
	return err
}

// runNow runs a job at once, also one that is switched off.
func (j jobs) runNow(ctx context.Context, kind, id string) error {
	if kind == kindTrigger {
		return web.Refuse(http.StatusUnprocessableEntity, "a trigger is set off by a program: nanobot trigger %s \"what happened\"", id)
	}

	job, err := j.Get(ctx, id)
	if err == nil && job.State.Pending != nil {
		err = web.Refuse(http.StatusConflict, "the job is running already")
	}
	if err == nil {
		_, err = j.RunNow(ctx, id, true)
	}
	return err
}

// update changes what is given and leaves the rest as it is. Of a
// trigger that is the name only.
func (s Schedule) update(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		ID       string   `json:"id"`
		Name     *string  `json:"name"`
		Message  *string  `json:"message"`
		Schedule *timing  `json:"schedule"`
		CatchUp  *string  `json:"catch_up"`
		Deliver  *bool    `json:"deliver"`
		TimeoutS *float64 `json:"timeout_seconds"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if in.Name != nil && strings.TrimSpace(*in.Name) == "" {
		return nil, web.Refuse(http.StatusUnprocessableEntity, "the name is empty")
	}

	j, err := s.jobs(ctx)
	if err != nil {
		return nil, err
	}

	c := schedule.Change{Name: in.Name, Message: in.Message, CatchUp: in.CatchUp}
	if in.Deliver != nil {
		c.Silent = new(!*in.Deliver)
	}

	if in.TimeoutS != nil {
		if *in.TimeoutS < 0 || *in.TimeoutS > maxTimeout.Seconds() {
			return nil, web.Refuse(http.StatusUnprocessableEntity, "timeout_seconds must be between 0, which is the configured limit, and %d", int(maxTimeout.Seconds()))
		}
		c.Timeout = new(time.Duration(*in.TimeoutS * float64(time.Second)))
	}

	if in.Schedule != nil {
		t, err := in.Schedule.parse(j.Location)
		if err != nil {
			return nil, err
		}
		c.Timing = &t
	}

	if kindOf(in.ID) == kindJob {
		_, err = j.Update(ctx, in.ID, c)
	} else {
		err = j.renameTrigger(ctx, in.ID, c)
	}

	if err != nil {
		return nil, unwilling(err)
	}
	return j.automation(ctx, in.ID)
}

// maxTimeout is the longest time a job may be given by an interface.
const maxTimeout = 24 * time.Hour

func (j jobs) renameTrigger(ctx context.Context, id string, c schedule.Change) error {
	if c.Name == nil || c.Message != nil || c.CatchUp != nil || c.Silent != nil || c.Timeout != nil || c.Timing != nil {
		return web.Refuse(http.StatusUnprocessableEntity, "of a trigger only the name can be changed")
	}
	return j.Triggers.Rename(ctx, id, *c.Name)
}

// parse makes a timing of the schedule's own.
func (t *timing) parse(loc *time.Location) (schedule.Timing, error) {
	given := 0
	for _, is := range []bool{t.EverySeconds != 0, t.Cron != "", t.At != ""} {
		if is {
			given++
		}
	}

	switch {
	case given != 1:
		return schedule.Timing{}, web.Refuse(http.StatusUnprocessableEntity, "schedule needs one of every_seconds, cron and at")
	case t.TZ != "" && t.Cron == "":
		return schedule.Timing{}, web.Refuse(http.StatusUnprocessableEntity, "tz goes with cron only; give at with an offset instead")
	case t.EverySeconds < 0 || t.EverySeconds > maxEvery.Seconds():
		return schedule.Timing{}, web.Refuse(http.StatusUnprocessableEntity, "every_seconds must be between 1 and %d", int(maxEvery.Seconds()))
	case t.EverySeconds != 0:
		return schedule.Every(time.Duration(t.EverySeconds * float64(time.Second))), nil
	case t.Cron != "":
		return schedule.Cron(strings.Join(strings.Fields(t.Cron), " "), t.TZ), nil
	}

	at, err := schedule.ParseMoment(t.At, loc)
	if err != nil {
		return schedule.Timing{}, web.Refuse(http.StatusUnprocessableEntity, "%v", err)
	}
	return schedule.Once(at), nil
}

// maxEvery is the longest interval.
const maxEvery = 10 * 365 * 24 * time.Hour
