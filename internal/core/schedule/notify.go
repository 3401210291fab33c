package schedule

import (
	"context"
	"errors"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// notifier delivers replies and sentences of ours to the chat they are for, or
// else to the owner's.
type notifier struct {
	o       *Options
	store   *jobStore
	planner *planner
}

// notifyDamage tells the owner that a file cannot be used until it is mended.
// Other errors may be over in a moment.
func (nt *notifier) notifyDamage(ctx context.Context, err error) {
	if damage, ok := errors.AsType[*CorruptError](err); ok {
		nt.notifyOwner(ctx, phrase.Later("Scheduled jobs do not run: %v.", damage))
	}
}

// notice is a sentence of ours about a job.
type notice struct {
	job   string
	route bus.Route
	text  phrase.Sentence
}

// reroute is place for messages that have no job.
func (nt *notifier) reroute(ctx context.Context, in bus.Inbound, out bus.Outbound) (bus.Outbound, bool) {
	out, deliver, note, lost := nt.place(ctx, in, out)
	if note != "" || lost != "" {
		nt.o.Log.WarnContext(ctx, "a reply did not go where it should", "id", in.ID, "note", note, "lost", lost)
	}
	return out, deliver
}

// place sends a reply to the owner's last chat when its own cannot be reached.
// lost says why it can be sent nowhere.
func (nt *notifier) place(ctx context.Context, in bus.Inbound, out bus.Outbound) (_ bus.Outbound, deliver bool, note, lost string) {
	if nt.o.Deliverable == nil {
		return out, true, "", ""
	}

	err := nt.o.Deliverable(out.Route)
	if err == nil {
		return out, true, "", ""
	}

	// What belongs to another person is not for the owner's eyes.
	if nt.o.LastRoute != nil && in.Scope == "" {
		if last, ok := nt.o.LastRoute(ctx); ok && nt.o.Deliverable(last) == nil {
			if out.Route.Channel == "" || out.Route == noChat() { // it had no chat of its own
				out.Route, out.ReplyTo = last, ""
				return out, true, "sent to " + last.SessionKey(), ""
			}
			note = fmt.Sprintf("%s cannot be reached (%v); sent to %s", out.Route.SessionKey(), err, last.SessionKey())
			out.Text = fmt.Sprintf("(For %s, which cannot be reached: %v.)\n\n%s", out.Route.SessionKey(), err, out.Text)
			out.Route, out.ReplyTo = last, ""
			return out, true, note, ""
		}
	}

	return out, false, "not delivered yet: " + err.Error(), err.Error()
}

// notify delivers a sentence of ours about a job: to its chat, else to the
// owner's, else it is kept with the job until one of them can be reached.
func (nt *notifier) notify(ctx context.Context, n notice) {
	if n.route.Channel == "" {
		if nt.o.LastRoute != nil {
			n.route, _ = nt.o.LastRoute(ctx)
		}
		if n.route.Channel == "" {
			nt.o.Log.WarnContext(ctx, "a notice about a job has nowhere to go", "job", n.job, "text", n.text)
			return
		}
	}

	text := n.text.String()
	if nt.o.Language != nil {
		text = n.text.In(nt.o.Language(n.route.Channel))
	}

	out := bus.Outbound{Kind: bus.Message, Route: n.route, Text: text, Plain: true}
	out, deliver, _, lost := nt.place(ctx, bus.Inbound{}, out)
	if deliver {
		if err := nt.o.Notify(ctx, out); err == nil {
			return
		} else if lost = err.Error(); ctx.Err() != nil {
			ctx = context.WithoutCancel(ctx)
		}
	}

	nt.o.Log.WarnContext(ctx, "a notice about a job cannot be delivered now", "job", n.job, "text", n.text, "err", lost)
	nt.store.change(ctx, n.job, func(j *Job) {
		j.State.Undelivered = &Undelivered{Text: text, AtMS: msOf(nt.o.Now()), Cause: lost}
	})
}

// notifyOwner delivers something that is about no job.
func (nt *notifier) notifyOwner(ctx context.Context, text phrase.Sentence) {
	nt.notify(ctx, notice{text: text})
}

// retryUndelivered tries again what no channel took and reports whether there
// was something.
func (nt *notifier) retryUndelivered(ctx context.Context, jobs []*Job) (waiting bool) {
	for _, j := range jobs {
		u := j.State.Undelivered
		if u == nil || !nt.planner.mine(j) {
			continue
		}

		waiting = true
		out := bus.Outbound{
			ID: fmt.Sprintf("undelivered:%s:%d", j.ID, u.AtMS), Kind: bus.Message, Route: j.Payload.Route(), Text: u.Text,
		}
		if out.Route.Channel == "" {
			out.Route = noChat()
		}

		out, deliver, note, _ := nt.place(ctx, bus.Inbound{Scope: j.Payload.Scope}, out)
		if !deliver || nt.o.Notify(ctx, out) != nil {
			continue
		}

		err := nt.store.update(ctx, func(t *table) error {
			cur := t.find(j.ID)
			if cur == nil || cur.State.Undelivered == nil || cur.State.Undelivered.AtMS != u.AtMS {
				return nil
			}

			cur.State.Undelivered, t.changed = nil, true
			if n := len(cur.State.RunHistory); n > 0 {
				cur.State.RunHistory[n-1].Note = "delivered later; " + note
			}
			if cur.Schedule.Kind == kindAt && cur.DeleteAfterRun && cur.State.LastStatus == statusOK {
				t.remove(cur.ID)
			}
			return nil
		})
		if err != nil {
			nt.o.Log.ErrorContext(ctx, "a job could not be changed", "job", j.ID, "err", err)
		}
	}
	return waiting
}

func (nt *notifier) notifyRepaired(ctx context.Context, aside string) {
	nt.notifyOwner(ctx, phrase.Later("The file with my scheduled jobs was damaged. I went back to the last good copy; the damaged file is kept as %s.", aside))
}
