package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Events of inbound messages that no person wrote; see bus.Inbound.Event. They
// are also the senders and the sources in the accounts.
const (
	EventCron      = "cron"
	eventHeartbeat = "heartbeat"
	eventTrigger   = "trigger"
)

// result is how a run ended.
type result struct {
	status  string
	err     string
	tokens  int
	usd     float64
	note    string
	silent  bool
	answer  string
	clean   bool       // no words from outside were before the model
	refused bool       // a call needed an approval and got none; all else went well
	change  func(*Job) // more to write down with it; may be nil

	undelivered *Undelivered // what could not go out; may be nil
}

// runs are the runs that are going on in this process.
type runs struct {
	o         *Options
	store     *jobStore
	planner   *planner
	notifier  *notifier
	heartbeat *heartbeat
	poke      func() // makes Run look at the jobs

	mu      sync.Mutex
	running map[string]*run // by inbound id
	unsaved []func(*table)  // results that could not be written yet
	handed  map[string]bool // runs that another process has taken over, by inbound id
}

// start runs a claimed job beside everything else.
func (rs *runs) start(ctx context.Context, work *sync.WaitGroup, j Job) {
	id := inboundID(j.ID, j.State.Pending.OccurrenceMS)
	r := &run{job: j.ID, over: make(chan struct{})}
	rs.mu.Lock()

	if rs.running[id] != nil {
		rs.mu.Unlock()
		return
	}

	rs.running[id] = r
	delete(rs.handed, id) // it came back
	rs.mu.Unlock()
	work.Go(func() {
		defer rs.poke()
		defer rs.forget(id, r)
		switch {
		case j.Protected() && j.ID != heartbeatID:
			rs.runSystem(ctx, j)
		default:
			rs.runTurn(ctx, j, r)
		}
	})
}

func (rs *runs) forget(id string, r *run) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.running[id] == r {
		delete(rs.running, id)
	}
}

// runSystem calls the func of a system job.
func (rs *runs) runSystem(ctx context.Context, j Job) {
	i := slices.IndexFunc(rs.o.System, func(sys System) bool { return sys.ID == j.ID })
	if i < 0 {
		rs.complete(ctx, j.ID, j.State.Pending.OccurrenceMS, result{status: statusSkipped, err: "it is switched off"})
		return
	}

	call, cancel := context.WithTimeout(ctx, rs.planner.timeout(&j))
	defer cancel()
	err := safely(func() error { return rs.o.System[i].Run(call) })
	switch {
	case ctx.Err() != nil:
		return // the next start does it
	case errors.Is(err, ErrSkip):
		rs.complete(ctx, j.ID, j.State.Pending.OccurrenceMS, result{status: statusSkipped, err: skipReason(err)})
	case err != nil:
		rs.complete(ctx, j.ID, j.State.Pending.OccurrenceMS, result{status: statusError, err: err.Error()})
	default:
		rs.complete(ctx, j.ID, j.State.Pending.OccurrenceMS, result{status: statusOK})
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
func (rs *runs) runTurn(ctx context.Context, j Job, r *run) {
	p := j.State.Pending
	in, skip := rs.inbound(ctx, &j)
	if skip != "" {
		rs.complete(ctx, j.ID, p.OccurrenceMS, result{status: statusSkipped, err: skip})
		return
	}

	if !p.Submitted {
		rs.disown(ctx, j.ID, p)
		if err := rs.submit(ctx, in); err != nil {
			if ctx.Err() != nil {
				return // claimed, so the next start submits it
			}
			rs.complete(ctx, j.ID, p.OccurrenceMS, result{status: statusError, err: err.Error()})
			rs.notifier.notify(ctx, notice{j.ID, j.Payload.Route(), phrase.Later("The scheduled job %q could not be started: %v.", j.Name, err)})
			return
		}

		if !rs.planner.guest() { // the mailbox of one does not outlive it
			rs.store.change(ctx, j.ID, func(t *Job) {
				if q := t.State.Pending; q != nil && q.OccurrenceMS == p.OccurrenceMS {
					q.Submitted = true
				}
			})
		}
	}

	limit := rs.planner.timeout(&j)
	timer := time.NewTimer(limit)
	defer timer.Stop()

	select {
	case <-r.over:
	case <-ctx.Done(): // the agent goes on; its result is taken in after the restart
		rs.handOver(in, r)
	case <-timer.C:
		if rs.o.Stop != nil {
			rs.o.Stop(ctx, in)
		}
		why := fmt.Sprintf("it took longer than %s and was stopped", length(limit))
		rs.complete(ctx, j.ID, p.OccurrenceMS, result{status: statusError, err: why})
		rs.notifier.notify(ctx, notice{j.ID, j.Payload.Route(), phrase.Later("The scheduled job %q did not finish: %s.", j.Name, phrase.Later("it took longer than %s and was stopped", length(limit)))})
	}
}

const (
	submitTries = 6
	submitPause = time.Second // doubled with every try
)

// submit hands a message to the queue, which may be full for a while.
func (rs *runs) submit(ctx context.Context, in bus.Inbound) (err error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for try := range submitTries {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}

		call, cancel := context.WithTimeout(ctx, time.Minute)
		err = rs.o.Submit(call, in)
		cancel()
		if err == nil || errors.Is(err, bus.ErrTooLarge) || errors.Is(err, bus.ErrClosed) {
			return err
		}
		pause.Reset(submitPause << try)
	}

	return err
}

// inbound returns the message of a run, or the reason why there is nothing to do.
func (rs *runs) inbound(ctx context.Context, j *Job) (in bus.Inbound, skip string) {
	p := j.State.Pending
	in = bus.Inbound{
		ID: inboundID(j.ID, p.OccurrenceMS), SenderID: EventCron, SessionKey: j.Session(), Event: EventCron, OwnTurn: true,
		Route: j.Payload.Route(), At: rs.o.Now(), Scope: j.Payload.Scope,
	}
	if j.ID == heartbeatID {
		in.SenderID = eventHeartbeat
		in.Event = eventHeartbeat
		in.SessionKey = heartbeatID
		return in, rs.heartbeat.beat(ctx, &in, j.State.Last)
	}

	if in.Route.Channel == "" && rs.o.LastRoute != nil {
		in.Route, _ = rs.o.LastRoute(ctx)
	}
	if in.Route.Channel == "" {
		in.Route = noChat()
	}

	if in.Text = jobText(j, rs.o.Location) + j.State.Last.note(rs.o.Location); !j.Payload.Untrusted {
		in.Text += j.Payload.Message
		return in, ""
	}

	in.Quoted = []bus.Quote{{About: "what the job says; a turn that had words from outside before it wrote it", Text: j.Name + "\n\n" + j.Payload.Message}}
	return in, ""
}

// terminalChannel is the channel of chats in a terminal.
const terminalChannel = "cli"

// noChat returns where a run works for which no chat is known.
func noChat() bus.Route { return bus.Route{Channel: terminalChannel, ChatID: "direct"} }

// jobText returns what the model reads when a job is due, before what the job
// says.
func jobText(j *Job, loc *time.Location) string {
	p := j.State.Pending
	var b strings.Builder
	if j.Payload.Untrusted {
		b.WriteString("[A scheduled job is due")
	} else {
		fmt.Fprintf(&b, "[Scheduled job %q is due", text.Label(j.Name, 80))
	}

	switch {
	case p.Manual:
		b.WriteString(": it was started by hand")
	case p.LateMS > 0:
		fmt.Fprintf(&b, ": it should have run at %s and is late", stamp(p.OccurrenceMS.Time(), loc))
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
	if in.Event == eventTrigger {
		s.Triggers.outcome(ctx, in, out)
		return s.notifier.reroute(ctx, in, out)
	}

	id, occurrence, ok := parseInboundID(in.ID)
	if !ok || in.Event != EventCron && in.Event != eventHeartbeat {
		return out, true
	}
	if !s.runs.ending(in.ID) {
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
	case in.Event == eventHeartbeat:
		deliver = deliver && s.heartbeat.worthTelling(ctx, &j, in, out, &res)
	case j.ID != "" && !j.Payload.Deliver && (res.status == statusOK || res.refused):
		deliver = false
	}

	if p := j.State.Pending; deliver && p != nil && p.OccurrenceMS == occurrence && p.LateMS > 0 {
		out.Text = fmt.Sprintf("(This was due at %s; nothing was running then.)\n\n%s", stamp(occurrence.Time(), s.Location), out.Text)
		out.Streamed = false
	}

	if deliver {
		var lost string
		if out, deliver, res.note, lost = s.notifier.place(ctx, in, out); lost != "" {
			res.undelivered = &Undelivered{Text: out.Text, AtMS: msOf(s.Now()), Cause: lost}
		}
	}

	res.silent = !deliver
	s.runs.complete(ctx, id, occurrence, res)
	return out, deliver
}

func resultOf(out bus.Outbound) result {
	r := result{status: statusOK, answer: strings.TrimSpace(out.Text)}
	t := out.Turn
	if t == nil {
		return r
	}

	r.tokens = t.Usage.Prompt + t.Usage.Completion
	r.usd = t.Usage.CostUSD
	r.clean = t.Clean

	switch {
	case t.Error != "":
		r.status, r.err = statusError, text.Label(t.Error, 500)
	case t.Refused != "":
		r.status = statusError
		r.err = "a call was refused: " + text.Label(t.Refused, 500)
		r.refused = true
	}

	return r
}

// complete records how a run ended, once, and lets the next one begin.
func (rs *runs) complete(ctx context.Context, id string, occurrence MS, res result) {
	var say *notice
	counted := false
	end := func(t *table) {
		n, first := rs.conclude(t, id, occurrence, res)
		if n != nil {
			say = n
		}
		if first && !counted {
			counted = true
			rs.o.Observer.Ended(res.status)
		}
	}

	ctx = context.WithoutCancel(ctx)
	err := rs.store.update(ctx, func(t *table) error {
		say = nil
		end(t)
		t.changed = true
		return nil
	})
	if err != nil {
		rs.o.Log.ErrorContext(ctx, "the result of a job could not be kept; trying again", "job", id, "status", res.status, "err", err)
		rs.mu.Lock()
		rs.unsaved = append(rs.unsaved, end)
		rs.mu.Unlock()
	}

	rs.mu.Lock()
	if r := rs.running[inboundID(id, occurrence)]; r != nil {
		select {
		case <-r.over:
		default:
			close(r.over)
		}
	}

	rs.mu.Unlock()
	if say != nil {
		rs.notifier.notify(ctx, *say)
	}
	rs.poke()
}

// results returns those that could not be written yet, oldest first.
func (rs *runs) results() []func(*table) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.unsaved
}

// saved forgets the first n results.
func (rs *runs) saved(n int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.unsaved = rs.unsaved[n:]
}

// conclude applies a result to a job; the notice says that it was switched
// off, or that calls are refused. first is false for a run whose end was known
// already.
func (rs *runs) conclude(t *table, id string, occurrence MS, res result) (say *notice, first bool) {
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
		line.DurationMS = max(msOf(rs.o.Now())-p.BeganMS, 0)
	} else if i := slices.IndexFunc(st.RunHistory, func(r Run) bool { return r.OccurrenceMS == occurrence }); i >= 0 {
		if st.RunHistory[i].Status != statusOK {
			return nil, false // a run that was given up stays so
		}
		line.RunAtMS, line.DurationMS = st.RunHistory[i].RunAtMS, st.RunHistory[i].DurationMS
	}

	st.record(line)
	if res.change != nil {
		res.change(j)
	}
	if res.undelivered != nil {
		j.State.Undelivered = res.undelivered
	}

	if again {
		return nil, false
	}

	st.Pending, st.LastRunAtMS = nil, line.RunAtMS
	switch {
	case res.refused: // it has an answer, so it goes on
		if !st.RefusalTold {
			say = &notice{id, j.Payload.Route(), refusal("scheduled job", j.Name, res.err)}
		}
		st.ErrorsInRow, st.RefusalTold = 0, true

	case res.status == statusError:
		st.ErrorsInRow++
	case res.status == statusOK:
		st.ErrorsInRow, st.RefusalTold = 0, false
	}

	if res.status == statusOK || res.status == statusError {
		st.Last = lastOf(line.RunAtMS, res)
	}

	if j.Schedule.Kind == kindAt && !p.Manual && p.OccurrenceMS == j.Schedule.AtMS { // else it got another time during the run
		j.Enabled, st.NextRunAtMS = false, 0
		if j.DeleteAfterRun && res.status == statusOK && st.Undelivered == nil {
			t.remove(id)
			t.defined = true
		}
		return say, true
	}

	if st.ErrorsInRow < rs.o.Limits.ErrorsInRow || j.Protected() {
		return say, true
	}

	j.Enabled = false
	st.NextRunAtMS = 0
	t.defined = true
	return &notice{id, j.Payload.Route(), phrase.Later(
		"I switched off the scheduled job %q because it failed %d times in a row. The last error: %s. Switch it on again with: nanobot cron enable %s",
		j.Name, st.ErrorsInRow, res.err, id)}, true
}

// refusal returns what the owner is told, once, about runs whose calls are
// refused.
func refusal(what, name, why string) phrase.Sentence {
	return phrase.Later("The %s %q cannot do all it should: %s. No question can be asked during a run; a rule in tools.approval.rules allows the call. "+
		"I do not tell you again until a run succeeds.", phrase.Later(what), name, strings.TrimRight(why, "."))
}

// change alters one job, if it is still there.
func (s *jobStore) change(ctx context.Context, id string, fn func(*Job)) {
	err := s.update(context.WithoutCancel(ctx), func(t *table) error {
		if j := t.find(id); j != nil && j.broken == nil {
			fn(j)
			t.changed = true
		}
		return nil
	})
	if err != nil {
		s.log.ErrorContext(ctx, "a job could not be changed", "job", id, "err", err)
	}
}

// awaitEnd waits a while until the runs of a guest that has to go have ended.
func (rs *runs) awaitEnd(ctx context.Context) {
	rs.mu.Lock()
	going := slices.Collect(maps.Values(rs.running))
	rs.mu.Unlock()
	limit := time.NewTimer(yieldWait)
	defer limit.Stop()

	for _, r := range going {
		select {
		case <-r.over:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// handOver leaves the run of a guest to whoever runs the jobs next: what comes
// of it here is void from now on. A result that is just being written down counts.
func (rs *runs) handOver(in bus.Inbound, r *run) {
	if !rs.planner.guest() {
		return // it is in the queue
	}

	rs.mu.Lock()
	ending := r.ending
	if !ending {
		rs.handed[in.ID] = true
	}

	rs.mu.Unlock()
	if ending {
		<-r.over
		return
	}

	if rs.o.Guest.Leave != nil {
		rs.o.Guest.Leave(in)
	}
}

// ending reports whether the result of a run counts. If so it is not handed
// over any more.
func (rs *runs) ending(id string) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.running[id]; r != nil && !rs.handed[id] {
		r.ending = true
	}
	return !rs.handed[id]
}

// disown makes a run of a guest one of this owner's queue.
func (rs *runs) disown(ctx context.Context, id string, p *Pending) {
	if rs.planner.guest() || !p.Guest {
		return
	}
	rs.store.change(ctx, id, func(j *Job) {
		if q := j.State.Pending; q != nil && q.OccurrenceMS == p.OccurrenceMS {
			q.Guest = false
		}
	})
}

// resume takes up runs that an earlier process began.
func (rs *runs) resume(ctx context.Context, work *sync.WaitGroup) {
	jobs, err := rs.store.Read(ctx)
	if err != nil {
		rs.o.Log.ErrorContext(ctx, "runs that were going on are not taken up", "err", err)
		return
	}

	for _, j := range jobs {
		if j.State.Pending != nil && rs.planner.mine(j) {
			rs.start(ctx, work, *j)
		}
	}
}

// run is one run that is going on in this process.
type run struct {
	job    string
	ending bool          // its result is being written down
	over   chan struct{} // closed when its result is known
}
