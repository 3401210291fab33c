package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// Events of inbound messages that no person wrote; see bus.Inbound.Event. They
// are also the senders and the sources in the accounts.
const (
	EventCron      = "cron"
	EventHeartbeat = "heartbeat"
	EventTrigger   = "trigger"
)

// result is how a run ended.
type result struct {
	status string
	err    string
	tokens int
	usd    float64
	note   string
	silent bool
	change func(*Job) // more to write down with it; may be nil
}

// start runs a claimed job beside everything else.
func (s *Scheduler) start(ctx context.Context, work *sync.WaitGroup, j Job) {
	id := inboundID(j.ID, j.State.Pending.OccurrenceMS)
	r := &run{job: j.ID, over: make(chan struct{})}
	s.mu.Lock()
	if s.running[id] != nil {
		s.mu.Unlock()
		return
	}
	s.running[id] = r
	delete(s.handed, id) // it came back
	s.mu.Unlock()
	work.Go(func() {
		defer s.poke()
		defer s.forget(id, r)
		switch {
		case j.Protected() && j.ID != heartbeatID:
			s.runSystem(ctx, j)
		default:
			s.runTurn(ctx, j, r)
		}
	})
}

func (s *Scheduler) forget(id string, r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[id] == r {
		delete(s.running, id)
	}
}

func (s *Scheduler) timeout(j *Job) time.Duration {
	if j.TimeoutS > 0 {
		return time.Duration(j.TimeoutS) * time.Second
	}
	return s.Limits.Timeout
}

// runSystem calls the func of a system job.
func (s *Scheduler) runSystem(ctx context.Context, j Job) {
	i := slices.IndexFunc(s.System, func(sys System) bool { return sys.ID == j.ID })
	if i < 0 {
		s.finish(ctx, j.ID, j.State.Pending.OccurrenceMS, result{status: StatusSkipped, err: "it is switched off"})
		return
	}
	call, cancel := context.WithTimeout(ctx, s.timeout(&j))
	defer cancel()
	err := safely(func() error { return s.System[i].Run(call) })
	switch {
	case ctx.Err() != nil:
		return // the next start does it
	case errors.Is(err, ErrSkip):
		s.finish(ctx, j.ID, j.State.Pending.OccurrenceMS, result{status: StatusSkipped, err: skipReason(err)})
	case err != nil:
		s.finish(ctx, j.ID, j.State.Pending.OccurrenceMS, result{status: StatusError, err: err.Error()})
	default:
		s.finish(ctx, j.ID, j.State.Pending.OccurrenceMS, result{status: StatusOK})
	}
}

func skipReason(err error) string {
	if why := strings.TrimSuffix(err.Error(), ErrSkip.Error()); why != "" {
		return strings.TrimSuffix(strings.TrimSpace(why), ":")
	}
	return ErrSkip.Error()
}

func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it crashed: %v", p)
		}
	}()
	return f()
}

// runTurn hands a run to the agent and waits for its result.
func (s *Scheduler) runTurn(ctx context.Context, j Job, r *run) {
	p := j.State.Pending
	in, skip := s.inbound(ctx, &j)
	if skip != "" {
		s.finish(ctx, j.ID, p.OccurrenceMS, result{status: StatusSkipped, err: skip})
		return
	}
	if !p.Submitted {
		s.disown(ctx, j.ID, p)
		if err := s.submit(ctx, in); err != nil {
			if ctx.Err() != nil {
				return // claimed, so the next start submits it
			}
			s.finish(ctx, j.ID, p.OccurrenceMS, result{status: StatusError, err: err.Error()})
			s.tell(ctx, notice{j.ID, j.Payload.Route(), fmt.Sprintf("The scheduled job %q could not be started: %v.", j.Name, err)})
			return
		}
		if !s.guest() { // the mailbox of one does not outlive it
			s.change(ctx, j.ID, func(t *Job) {
				if q := t.State.Pending; q != nil && q.OccurrenceMS == p.OccurrenceMS {
					q.Submitted = true
				}
			})
		}
	}
	limit := s.timeout(&j)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.over:
	case <-ctx.Done(): // the agent goes on; its result is taken in after the restart
		s.handOver(in, r)
	case <-timer.C:
		if s.Stop != nil {
			s.Stop(ctx, in)
		}
		why := fmt.Sprintf("it took longer than %s and was stopped", length(limit))
		s.finish(ctx, j.ID, p.OccurrenceMS, result{status: StatusError, err: why})
		s.tell(ctx, notice{j.ID, j.Payload.Route(), fmt.Sprintf("The scheduled job %q did not finish: %s.", j.Name, why)})
	}
}

const (
	submitTries = 6
	submitPause = time.Second // doubled with every try
)

// submit hands a message to the queue, which may be full for a while.
func (s *Scheduler) submit(ctx context.Context, in bus.Inbound) (err error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for try := range submitTries {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		call, cancel := context.WithTimeout(ctx, time.Minute)
		err = s.Submit(call, in)
		cancel()
		if err == nil || errors.Is(err, bus.ErrTooLarge) || errors.Is(err, bus.ErrClosed) {
			return err
		}
		pause.Reset(submitPause << try)
	}
	return err
}

// inbound is the message of a run, or the reason why there is nothing to do.
func (s *Scheduler) inbound(ctx context.Context, j *Job) (in bus.Inbound, skip string) {
	p := j.State.Pending
	in = bus.Inbound{
		ID: inboundID(j.ID, p.OccurrenceMS), SenderID: EventCron, SessionKey: j.Session(), Event: EventCron, OwnTurn: true,
		Route: j.Payload.Route(), At: s.Now(), Scope: j.Payload.Scope,
	}
	if j.ID == heartbeatID {
		in.SenderID, in.Event, in.SessionKey = EventHeartbeat, EventHeartbeat, heartbeatID
		return in, s.beat(ctx, &in)
	}
	if in.Route.Channel == "" && s.LastRoute != nil {
		in.Route, _ = s.LastRoute(ctx)
	}
	if in.Route.Channel == "" {
		in.Route = bus.Route{Channel: "cli", ChatID: "direct"}
	}
	if in.Text = jobText(j, s.Location); !j.Payload.Untrusted {
		in.Text += j.Payload.Message
		return in, ""
	}
	in.Quoted = []bus.Quote{{About: "what the job says; a turn that had words from outside before it wrote it", Text: j.Name + "\n\n" + j.Payload.Message}}
	return in, ""
}

// jobText is what the model reads when a job is due, before what the job says.
func jobText(j *Job, loc *time.Location) string {
	p := j.State.Pending
	var b strings.Builder
	if j.Payload.Untrusted {
		b.WriteString("[A scheduled job is due")
	} else {
		fmt.Fprintf(&b, "[Scheduled job %q is due", oneLine(j.Name, 80))
	}
	switch {
	case p.Manual:
		b.WriteString(": it was started by hand")
	case p.LateMS > 0:
		fmt.Fprintf(&b, ": it should have run at %s and is late", Stamp(p.OccurrenceMS.Time(), loc))
	}
	b.WriteString(". Do now what it says and answer with what the user should read, in their language. If it is a reminder, remind them. " +
		"Nobody is there to answer questions. Do not mention job ids, schedules or this note, and do not add another job.]\n\n")
	return b.String()
}

// Outcome is asked by the agent before the reply to a message with an Event of
// ours goes out. It writes down how the run ended and says whether the reply
// is delivered, and where. It may be asked again about the same message after
// a crash. Messages that are none of ours are delivered as they are.
func (s *Scheduler) Outcome(ctx context.Context, in bus.Inbound, out bus.Outbound) (bus.Outbound, bool) {
	if in.Event == EventTrigger {
		s.triggers.outcome(ctx, in, out)
		return s.reroute(ctx, in, out)
	}
	id, occurrence, ok := parseInboundID(in.ID)
	if !ok || in.Event != EventCron && in.Event != EventHeartbeat {
		return out, true
	}
	if !s.ending(in.ID) {
		return out, false // who took it over tells it
	}
	var j Job
	if jobs, err := s.store.Read(ctx); err != nil {
		s.Log.ErrorContext(ctx, "a job cannot be read after its run", "job", id, "err", err)
	} else if i := slices.IndexFunc(jobs, func(j *Job) bool { return j.ID == id && j.broken == nil }); i >= 0 {
		j = *jobs[i]
	}
	res := resultOf(out)
	deliver := strings.TrimSpace(out.Text) != "" || len(out.Media) > 0
	told := slices.IndexFunc(j.State.RunHistory, func(r Run) bool { return r.OccurrenceMS == occurrence })
	switch {
	case told >= 0: // asked again after a crash: the decision stands
		deliver = deliver && !j.State.RunHistory[told].Silent
	case in.Event == EventHeartbeat:
		deliver = deliver && s.worthTelling(ctx, &j, in, out, &res)
	case j.ID != "" && !j.Payload.Deliver && res.status == StatusOK:
		deliver = false
	}
	if p := j.State.Pending; deliver && p != nil && p.OccurrenceMS == occurrence && p.LateMS > 0 {
		out.Text = fmt.Sprintf("(This was due at %s; nothing was running then.)\n\n%s", Stamp(occurrence.Time(), s.Location), out.Text)
		out.Streamed = false
	}
	if deliver {
		var lost string
		if out, deliver, res.note, lost = s.place(ctx, in, out); lost != "" {
			text, keep := out.Text, res.change
			res.change = func(j *Job) {
				if keep != nil {
					keep(j)
				}
				j.State.Undelivered = &Undelivered{Text: text, AtMS: At(s.Now()), Cause: lost}
			}
		}
	}
	res.silent = !deliver
	s.finish(ctx, id, occurrence, res)
	return out, deliver
}

func resultOf(out bus.Outbound) result {
	r := result{status: StatusOK}
	if t := out.Turn; t != nil {
		r.tokens, r.usd = t.Usage.Prompt+t.Usage.Completion, t.Usage.CostUSD
		if t.Error != "" {
			r.status, r.err = StatusError, oneLine(t.Error, 500)
		}
	}
	return r
}

// reroute is place for messages that have no job.
func (s *Scheduler) reroute(ctx context.Context, in bus.Inbound, out bus.Outbound) (bus.Outbound, bool) {
	out, deliver, note, lost := s.place(ctx, in, out)
	if note != "" || lost != "" {
		s.Log.WarnContext(ctx, "a reply did not go where it should", "id", in.ID, "note", note, "lost", lost)
	}
	return out, deliver
}

// place sends a reply to the owner's last chat when its own cannot be reached.
// lost says why it can be sent nowhere.
func (s *Scheduler) place(ctx context.Context, in bus.Inbound, out bus.Outbound) (_ bus.Outbound, deliver bool, note, lost string) {
	if s.Deliverable == nil {
		return out, true, "", ""
	}
	err := s.Deliverable(out.Route)
	if err == nil {
		return out, true, "", ""
	}
	// What belongs to somebody else is not for the owner's eyes.
	if s.LastRoute != nil && in.Scope == "" {
		if last, ok := s.LastRoute(ctx); ok && s.Deliverable(last) == nil {
			note = fmt.Sprintf("%s cannot be reached (%v); sent to %s", out.Route.SessionKey(), err, last.SessionKey())
			out.Text = fmt.Sprintf("(For %s, which cannot be reached: %v.)\n\n%s", out.Route.SessionKey(), err, out.Text)
			out.Route, out.ReplyTo = last, ""
			return out, true, note, ""
		}
	}
	return out, false, "not delivered yet: " + err.Error(), err.Error()
}

// finish writes down how a run ended, once, and lets the next one begin.
func (s *Scheduler) finish(ctx context.Context, id string, occurrence MS, res result) {
	var off *notice
	counted := false
	end := func(t *table) {
		n, first := s.conclude(t, id, occurrence, res)
		if n != nil {
			off = n
		}
		if first && !counted {
			counted = true
			s.Ended(res.status)
		}
	}
	ctx = context.WithoutCancel(ctx)
	err := s.store.update(ctx, func(t *table) error {
		off = nil
		end(t)
		t.changed = true
		return nil
	})
	if err != nil {
		s.Log.ErrorContext(ctx, "the result of a job could not be kept; trying again", "job", id, "status", res.status, "err", err)
		s.mu.Lock()
		s.unsaved = append(s.unsaved, end)
		s.mu.Unlock()
	}
	s.mu.Lock()
	if r := s.running[inboundID(id, occurrence)]; r != nil {
		select {
		case <-r.over:
		default:
			close(r.over)
		}
	}
	s.mu.Unlock()
	if off != nil {
		s.tell(ctx, *off)
	}
	s.poke()
}

// conclude applies a result to a job; the notice says that it was switched
// off. first is false for a run whose end was known already.
func (s *Scheduler) conclude(t *table, id string, occurrence MS, res result) (off *notice, first bool) {
	j := t.find(id)
	if j == nil || j.broken != nil {
		return nil, false
	}
	st := &j.State
	p := st.Pending
	again := p == nil || p.OccurrenceMS != occurrence // told twice, or too late
	line := Run{RunAtMS: occurrence, Status: res.status, Error: Opt(res.err), OccurrenceMS: occurrence, Tokens: res.tokens, CostUSD: res.usd, Note: res.note, Silent: res.silent}
	if !again {
		line.RunAtMS = p.BeganMS
		line.DurationMS = max(At(s.Now())-p.BeganMS, 0)
	} else if i := slices.IndexFunc(st.RunHistory, func(r Run) bool { return r.OccurrenceMS == occurrence }); i >= 0 {
		if st.RunHistory[i].Status != StatusOK {
			return nil, false // a run that was given up stays so
		}
		line.RunAtMS, line.DurationMS = st.RunHistory[i].RunAtMS, st.RunHistory[i].DurationMS
	}
	st.note(line)
	if res.change != nil {
		res.change(j)
	}
	if again {
		return nil, false
	}
	st.Pending, st.LastRunAtMS = nil, line.RunAtMS
	switch res.status {
	case StatusError:
		st.ErrorsInRow++
	case StatusOK:
		st.ErrorsInRow = 0
	}
	if j.Schedule.Kind == KindAt && !p.Manual {
		j.Enabled, st.NextRunAtMS = false, 0
		if j.DeleteAfterRun && res.status == StatusOK && st.Undelivered == nil {
			t.remove(id)
			t.defined = true
		}
		return nil, true
	}
	if st.ErrorsInRow < s.Limits.ErrorsInRow || j.Protected() {
		return nil, true
	}
	j.Enabled, st.NextRunAtMS, t.defined = false, 0, true
	return &notice{id, j.Payload.Route(), fmt.Sprintf(
		"I switched off the scheduled job %q because it failed %d times in a row. The last error: %s. Switch it on again with: nanobot cron enable %s",
		j.Name, st.ErrorsInRow, res.err, id)}, true
}

// change alters one job, if it is still there.
func (s *Scheduler) change(ctx context.Context, id string, fn func(*Job)) {
	err := s.store.update(context.WithoutCancel(ctx), func(t *table) error {
		if j := t.find(id); j != nil && j.broken == nil {
			fn(j)
			t.changed = true
		}
		return nil
	})
	if err != nil {
		s.Log.ErrorContext(ctx, "a job could not be changed", "job", id, "err", err)
	}
}

// tell delivers a sentence of ours about a job: to its chat, else to the
// owner's, else it is kept with the job until somebody can be reached.
func (s *Scheduler) tell(ctx context.Context, n notice) {
	if n.route.Channel == "" {
		if s.LastRoute != nil {
			n.route, _ = s.LastRoute(ctx)
		}
		if n.route.Channel == "" {
			s.Log.WarnContext(ctx, "a notice about a job has nowhere to go", "job", n.job, "text", n.text)
			return
		}
	}
	out := bus.Outbound{Kind: bus.Message, Route: n.route, Text: n.text, Plain: true}
	out, deliver, _, lost := s.place(ctx, bus.Inbound{}, out)
	if deliver {
		if err := s.Notify(ctx, out); err == nil {
			return
		} else if lost = err.Error(); ctx.Err() != nil {
			ctx = context.WithoutCancel(ctx)
		}
	}
	s.Log.WarnContext(ctx, "a notice about a job cannot be delivered now", "job", n.job, "text", n.text, "err", lost)
	s.change(ctx, n.job, func(j *Job) {
		j.State.Undelivered = &Undelivered{Text: n.text, AtMS: At(s.Now()), Cause: lost}
	})
}

// tellOwner delivers something that is about no job.
func (s *Scheduler) tellOwner(ctx context.Context, text string) { s.tell(ctx, notice{text: text}) }

// retryUndelivered tries again what no channel took and reports whether there
// was something.
func (s *Scheduler) retryUndelivered(ctx context.Context, jobs []*Job) (waiting bool) {
	for _, j := range jobs {
		u := j.State.Undelivered
		if u == nil || !s.mine(j) {
			continue
		}
		waiting = true
		out := bus.Outbound{
			ID: fmt.Sprintf("undelivered:%s:%d", j.ID, u.AtMS), Kind: bus.Message, Route: j.Payload.Route(), Text: u.Text,
		}
		out, deliver, note, _ := s.place(ctx, bus.Inbound{Scope: j.Payload.Scope}, out)
		if !deliver || s.Notify(ctx, out) != nil {
			continue
		}
		err := s.store.update(ctx, func(t *table) error {
			cur := t.find(j.ID)
			if cur == nil || cur.State.Undelivered == nil || cur.State.Undelivered.AtMS != u.AtMS {
				return nil
			}
			cur.State.Undelivered, t.changed = nil, true
			if n := len(cur.State.RunHistory); n > 0 {
				cur.State.RunHistory[n-1].Note = "delivered later; " + note
			}
			if cur.Schedule.Kind == KindAt && cur.DeleteAfterRun && cur.State.LastStatus == StatusOK {
				t.remove(cur.ID)
			}
			return nil
		})
		if err != nil {
			s.Log.ErrorContext(ctx, "a job could not be changed", "job", j.ID, "err", err)
		}
	}
	return waiting
}
