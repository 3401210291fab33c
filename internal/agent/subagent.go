package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/runner"
	"github.com/nanobot-go/nanobot/internal/store"
	"github.com/nanobot-go/nanobot/internal/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Bounds of one subagent.
const (
	subagentTime   = 30 * time.Minute
	subagentTokens = 2_000_000
	subagentResult = 16000 // characters that reach the main agent
	perSession     = 2
)

// Subagents configures the spawn tool.
type Subagents struct {
	Store store.Store // where their state outlives the process; nil offers none
	Most  int         // running at once; a session has at most two of them
}

// subagent is one background task. The file of the same form is written when
// it starts and when it ends, and removed once its result is in a session.
type subagent struct {
	ID      string    `json:"id"`
	Label   string    `json:"label"`
	Task    string    `json:"task"`
	Session string    `json:"session"`
	Route   bus.Route `json:"route"`
	Scope   string    `json:"scope,omitempty"`
	State   string    `json:"state"` // running, done, failed, interrupted
	Result  string    `json:"result,omitempty"`
	Tainted bool      `json:"tainted,omitempty"`
	Owner   string    `json:"owner"` // the lock of the process that runs it
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`

	cancel  context.CancelCauseFunc
	stopped bool // by the user, perhaps before it began to run
}

// crew holds the subagents that run now.
type crew struct {
	store store.Store // nil: subagents are not offered
	most  int

	mu      sync.Mutex
	running map[string]*subagent
	pending int             // results on their way into a session
	looked  map[string]bool // sessions whose left-overs were looked for
	owner   string
	leave   func() error  // gives the lock of this process back
	quiet   chan struct{} // closed when nothing runs and nothing is pending; nil while nobody waits
}

func newCrew(o Subagents) *crew {
	return &crew{store: o.Store, most: cmp.Or(o.Most, 3), running: map[string]*subagent{}, looked: map[string]bool{}}
}

type spawnInput struct {
	Task  string `json:"task" min:"1" max:"20000" desc:"complete: the subagent knows nothing else"`
	Label string `json:"label,omitempty" max:"60"`
	Wait  bool   `json:"wait,omitempty" desc:"return the result instead of working in the background"`
}

// spawnTool starts subagents.
func (a *Agent) spawnTool() tool.Tool {
	return tool.Func(tool.Tool{
		Name: "spawn", Sink: tool.SinkSpawn, Trusted: true,
		Description: "Give a separate task to a subagent with its own context. Its result arrives later as a message.",
	}, func(ctx context.Context, c tool.Call, in spawnInput) (tool.Result, error) {
		t, ok := a.turnOf(c)
		if !ok {
			return tool.Fail(tool.Unsupported, "subagents cannot be started here; do it yourself"), nil
		}
		if t.it.in.Stateless && !in.Wait {
			return tool.Fail(tool.Unsupported, "nobody is here later to get the result; set wait to true"), nil
		}
		s := &subagent{
			ID: newID()[:8], Label: cmp.Or(strings.TrimSpace(in.Label), text.Ellipsis(oneLine(in.Task), 30)), Task: in.Task,
			Session: t.key, Route: t.it.in.Route, Scope: t.it.in.Scope, State: "running", Tainted: c.Tainted, Started: a.Now(),
		}
		ctx, s.cancel = context.WithCancelCause(ctx)
		if why := a.crew.admit(s); why != "" {
			s.cancel(nil)
			return tool.Fail(tool.Conflict, "%s; wait for one to end or do it yourself", why), nil
		}
		if in.Wait {
			return t.inline(ctx, s), nil
		}
		owner, err := a.crew.own()
		if s.Owner = owner; err == nil {
			err = a.crew.save(s)
		}
		if err != nil {
			a.crew.remove(s)
			return tool.Fail(tool.Internal, "the subagent was not started, because its state cannot be kept: %v", err), nil
		}
		spec := t.subagentSpec(s)
		if err := a.spawn(func(base context.Context) { a.background(base, s, spec) }); err != nil {
			a.crew.remove(s)
			return tool.Fail(tool.Unsupported, "%v", err), nil
		}
		return tool.Textf("Subagent %s (%s) works in the background. Its result comes as a message; go on meanwhile or end your turn.", s.ID, s.Label), nil
	})
}

// admit counts a subagent in, or says why not.
func (c *crew) admit(s *subagent) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := 0
	for _, r := range c.running {
		if r.Session == s.Session {
			mine++
		}
	}
	switch {
	case len(c.running) >= c.most:
		return fmt.Sprintf("%d subagents are running, which is the limit", len(c.running))
	case mine >= perSession:
		return fmt.Sprintf("%d subagents of this conversation are running, which is the limit", mine)
	}
	c.running[s.ID] = s
	return ""
}

func (c *crew) remove(s *subagent) {
	s.cancel(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, s.ID)
	c.settle()
}

// settle tells those who wait that all is quiet. The caller holds the lock.
func (c *crew) settle() {
	if c.quiet != nil && len(c.running) == 0 && c.pending == 0 {
		close(c.quiet)
		c.quiet = nil
	}
}

// first reports whether a session was not asked about before.
func (c *crew) first(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.looked[session]
	c.looked[session] = true
	return !seen
}

func (c *crew) file(id string) string { return id + ".json" }

func (c *crew) save(s *subagent) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = c.store.Put(context.Background(), c.file(s.ID), b, store.Any, true)
	return err
}

// stop cancels the subagents of a session and returns how many.
func (c *crew) stop(session string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.running {
		if s.Session == session {
			s.stopped = true
			s.cancel(ErrStopped)
			n++
		}
	}
	return n
}

// labels names the running subagents of a session, oldest first.
func (c *crew) labels(session string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*subagent
	for _, s := range c.running {
		if s.Session == session {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *subagent) int { return a.Started.Compare(b.Started) })
	var out []string
	for _, s := range list {
		out = append(out, s.Label)
	}
	return out
}

// Quiet waits until no subagent works and all results were handled.
func (a *Agent) Quiet(ctx context.Context) error {
	a.crew.mu.Lock()
	if len(a.crew.running) == 0 && a.crew.pending == 0 {
		a.crew.mu.Unlock()
		return nil
	}
	if a.crew.quiet == nil {
		a.crew.quiet = make(chan struct{})
	}
	quiet := a.crew.quiet
	a.crew.mu.Unlock()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Working is how many subagents run or have a result that is not handled yet.
func (a *Agent) Working() int {
	a.crew.mu.Lock()
	defer a.crew.mu.Unlock()
	return len(a.crew.running) + a.crew.pending
}

// subagentSpec is the run of a subagent: the model of the turn that spawned
// it, a fresh history, and the tools that concern nobody but itself.
func (t *turn) subagentSpec(s *subagent) runner.Spec {
	limits := t.Limits
	limits.ContextWindow, limits.ContextBlock = t.window(), t.rt.Block
	limits.Time = subagentTime
	if limits.Tokens <= 0 || limits.Tokens > subagentTokens {
		limits.Tokens = subagentTokens
	}
	tier := TierOf(t.window())
	limits, answer := tier.limits(limits, t.rt.MaxTokens)
	hooks := runner.Hooks{}
	if len(t.Hooks) > 0 {
		hooks.AfterTool = func(ctx context.Context, c tool.Call, r tool.Result, took time.Duration) {
			for _, h := range t.Hooks {
				if h.AfterTool != nil {
					h.AfterTool(ctx, c, r, took)
				}
			}
		}
	}
	return runner.Spec{
		Model: t.rt.Model, ModelName: t.rt.Name, System: t.prompt.subagent(s.Scope, t.place(t.it.in), tier),
		Messages: []llm.Message{{Role: llm.User, Content: llm.Text(s.Task + t.projectNote())}},
		Tools:    t.subagentTools(tier), MaxTokens: answer, Temperature: t.rt.Temperature, Effort: t.rt.Effort, Limits: limits,
		Call: tool.Call{
			Route: s.Route, SessionKey: s.Session, Scope: s.Scope, Project: t.project, SenderID: t.it.in.SenderID, Person: t.it.in.Person(), TurnID: t.id, UserText: t.typed(),
			Turn: &tool.Turn{}, Tainted: s.Tainted, State: &tool.State{},
		},
		Source: cmp.Or(t.guestSource(), "subagent"), Sequential: true, Hooks: []runner.Hooks{hooks}, Approve: t.Approve, Redact: t.Secrets.Redact,
		OffloadDir: t.place(t.it.in).Results, Scale: t.calibration(t.rt.Name).Factor(), Log: t.Log.With("session", t.key, "subagent", s.ID),
	}
}

// guestSource is what the work of a guest is accounted under; "" for the owner.
func (t *turn) guestSource() string {
	if t.it.in.Scope == "" {
		return ""
	}
	return source(t.it.in)
}

// subagentTools are those without a conversation or other agents in them.
func (t *turn) subagentTools(tier Tier) *tool.Set {
	var kept []tool.Tool
	for _, name := range t.Tools.Names() {
		if name == "cron" || name == "generate_image" {
			continue
		}
		if tl, ok := t.Tools.Get(name); ok {
			kept = append(kept, tl)
		}
	}
	set, err := tool.NewSet(kept...)
	if err != nil {
		panic(err) // they were in a set before
	}
	if fit, err := tier.Tools(set); err == nil {
		set = fit
	}
	return set
}

// inline runs a subagent inside the call that asked for it.
func (t *turn) inline(ctx context.Context, s *subagent) tool.Result {
	defer t.crew.remove(s)
	spec := t.subagentSpec(s)
	defer spec.Call.Turn.End()
	res, err := runner.Run(ctx, spec)
	s.conclude(res, err)
	out := tool.Text(s.Result)
	if s.State != "done" {
		out = tool.Fail(tool.Internal, "the subagent did not finish: %s", s.Result)
	}
	out.Untrusted = true // whatever became of it, these are words that the user did not write
	return out
}

// background runs a subagent beside everything else and announces its result.
func (a *Agent) background(base context.Context, s *subagent, spec runner.Spec) {
	ctx, cancel := context.WithCancelCause(base)
	defer cancel(nil)
	defer spec.Call.Turn.End()
	a.crew.mu.Lock()
	s.cancel(nil) // the context of the spawning call no longer matters
	s.cancel = cancel
	if s.stopped { // that went to the context of the spawning call
		cancel(ErrStopped)
	}
	a.crew.mu.Unlock()

	res, err := runner.Result{Stop: runner.Cancelled, Err: ErrClosed}, error(nil)
	if a.gate == nil {
		res, err = runner.Run(ctx, spec)
	} else {
		select {
		case a.gate <- struct{}{}:
			res, err = runner.Run(ctx, spec)
			<-a.gate
		case <-ctx.Done():
		}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrStopped):
		_ = a.crew.store.Remove(context.WithoutCancel(ctx), a.crew.file(s.ID)) // the user knows
		a.crew.remove(s)
		return
	case cause != nil:
		a.crew.remove(s) // the file says "running", so the next start tells that it was interrupted
		return
	}
	s.conclude(res, err)
	s.Ended = a.Now()
	if err := a.crew.save(s); err != nil {
		a.Log.ErrorContext(ctx, "keep the result of a subagent", "subagent", s.ID, "err", err)
	}
	a.announce(s)
	a.crew.remove(s)
}

// conclude says how a run went.
func (s *subagent) conclude(res runner.Result, err error) {
	s.Tainted = s.Tainted || res.Tainted
	s.State, s.Result = "done", strings.TrimSpace(res.Text)
	switch {
	case err != nil:
		s.State, s.Result = "failed", err.Error()
	case res.Stop != runner.Completed:
		s.State = "failed"
		s.Result = strings.TrimSpace(fmt.Sprintf("It stopped early (%s).\n%s", res.Stop, s.Result))
	case s.Result == "":
		s.State, s.Result = "failed", "It ended without a result."
	}
	s.Result = text.CutMiddle(s.Result, subagentResult)
}

// announce puts the result into the conversation it belongs to: it joins the
// turn that runs there, or starts one.
func (a *Agent) announce(s *subagent) {
	a.crew.mu.Lock()
	a.crew.pending++
	a.crew.mu.Unlock()
	in := bus.Inbound{
		ID: "subagent:" + s.ID, Route: s.Route, SenderID: "subagent", SessionKey: s.Session, Scope: s.Scope, At: a.Now(),
		Event: bus.SubagentResult,
		Text:  fmt.Sprintf("[A subagent of this conversation has ended: %s. Tell the user what matters of it, briefly, without ids.]", s.State),
		Quoted: []bus.Quote{{About: "what it was to do, and its words", Text: fmt.Sprintf("%s\nTask: %s\n\nResult:\n%s",
			s.Label, text.Ellipsis(oneLine(s.Task), 300), s.Result)}},
	}
	err := a.spawn(func(ctx context.Context) {
		defer func() {
			a.crew.mu.Lock()
			a.crew.pending--
			a.crew.settle()
			a.crew.mu.Unlock()
		}()
		if handed, err := a.hand(ctx, in); err != nil {
			a.Log.WarnContext(ctx, "announce a subagent", "subagent", s.ID, "err", err)
			return // its file is still there for the next start
		} else if !handed && !a.tell(ctx, s, in) {
			return
		}
		// It is in the session and said, or the queue will see to that.
		if err := a.crew.store.Remove(context.WithoutCancel(ctx), a.crew.file(s.ID)); err != nil {
			a.Log.WarnContext(ctx, "forget a subagent", "subagent", s.ID, "err", err)
		}
	})
	if err != nil {
		a.crew.mu.Lock()
		a.crew.pending--
		a.crew.settle()
		a.crew.mu.Unlock()
	}
}

// tell runs the turn of an announcement when there is no queue for it.
func (a *Agent) tell(ctx context.Context, s *subagent, in bus.Inbound) bool {
	for out, err := range a.Ask(context.WithoutCancel(ctx), in) {
		if err != nil {
			if !errors.Is(err, ErrClosed) {
				a.Log.WarnContext(ctx, "announce a subagent", "subagent", s.ID, "err", err)
			}
			return false
		}
		if a.Deliver != nil {
			a.Deliver(out)
		}
	}
	return true
}

// revive announces what an earlier process left of the subagents of a session
// ("" is all): results that did not get through, and those that were
// interrupted. Subagents of a process that still runs are left alone.
func (a *Agent) revive(ctx context.Context, session string) {
	if a.crew.store == nil {
		return
	}
	for e, err := range a.crew.store.Docs(ctx, "") {
		if err != nil {
			a.Log.WarnContext(ctx, "subagents of an earlier start cannot be looked for", "err", err)
			return
		}
		b, _, err := a.crew.store.Doc(ctx, e.Name)
		s := &subagent{cancel: func(error) {}}
		if err != nil || json.Unmarshal(b, s) != nil || a.crew.file(s.ID) != e.Name || s.Session == "" {
			a.Log.WarnContext(ctx, "a subagent's file cannot be read", "file", e.Name, "err", err)
			continue
		}
		if session != "" && s.Session != session || !a.crew.orphan(s) {
			continue
		}
		if s.State == "running" {
			s.State, s.Result = "interrupted", "nanobot was stopped while it worked; what it had done so far may have taken effect."
			if err := a.crew.save(s); err != nil {
				a.Log.WarnContext(ctx, "keep an interrupted subagent", "subagent", s.ID, "err", err)
				continue
			}
		}
		a.announce(s)
	}
}

// own makes sure that this process can be told from one that died: it holds a
// lock for as long as it lives.
func (c *crew) own() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner != "" {
		return c.owner, nil
	}
	name := "owner-" + newID() + ".lock"
	leave, err := c.store.Lock(context.Background(), name)
	if err != nil {
		return "", err
	}
	c.owner, c.leave = name, leave
	return name, nil
}

// orphan reports whether the process that ran a subagent is gone, and takes
// its place, so that only one process announces it.
func (c *crew) orphan(s *subagent) bool {
	mine, err := c.own()
	if err != nil || s.Owner == mine {
		return false
	}
	if s.Owner != "" && path.Base(s.Owner) == s.Owner {
		release, err := c.store.Lock(context.Background(), s.Owner)
		if err != nil {
			return false // it lives
		}
		_ = release()
	}
	s.Owner = mine
	return c.save(s) == nil
}

// close lets go of the lock.
func (c *crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leave != nil {
		_ = c.leave()
		c.leave, c.owner = nil, ""
	}
}
