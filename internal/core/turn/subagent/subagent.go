// Package subagent runs background tasks of conversations: it offers the spawn
// tool, bounds how many run at once, keeps their state until the result is in
// the conversation, and takes up what an earlier process left. What a subagent
// may see and do is decided by whoever makes its runner.Spec.
//
// All methods are safe for concurrent use.
package subagent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// resultChars is how much of a result reaches the main agent.
const resultChars = 16000

// Options of a Manager.
type Options struct {
	Store store.Store // where their state outlives the process; nil offers none
	Most  int         // running at once; guests leave one to the owner

	Iterations      int  // model requests of one subagent; 0 means 15
	FailOnToolError bool // the first tool error ends the task
}

// Host is the agent that subagents belong to.
type Host struct {
	// Go starts a goroutine that the agent waits for; an error means that it ends.
	Go func(f func(ctx context.Context)) error
	// Enter waits for a slot of the gate around model work, and Leave gives it back.
	Enter func(ctx context.Context) error
	Leave func()
	// Announce puts a message with a result into its conversation. It reports
	// whether the result was said, or is safe in a queue.
	Announce func(ctx context.Context, in bus.Inbound) bool
	Now      func() time.Time
	Log      *slog.Logger
}

// Parent is the turn that starts a subagent.
type Parent struct {
	Session   string
	Route     bus.Route
	Scope     string
	Stateless bool // nothing is there later to get a result
	// Spec is the run of a subagent with a task.
	Spec func(id, task string, tainted bool) runner.Spec
	// Show tells people what the subagent does next.
	Show func(c tool.Call)
}

// errStopped ends a subagent whose conversation the user stopped.
var errStopped = errors.New("stopped")

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
	stopped bool   // by the user, perhaps before it began to run
	step    int    // of the run, 0 before the first
	doing   string // the tool that runs; "" while the model is asked
}

// Manager holds the subagents that run now.
type Manager struct {
	store store.Store // nil: subagents are not offered
	most  int
	host  Host

	mu      sync.Mutex
	running map[string]*subagent
	pending int             // results on their way into a session
	looked  map[string]bool // sessions whose left-overs were looked for
	owner   string
	release func() error  // gives the lock of this process back
	quiet   chan struct{} // closed when nothing runs and nothing is pending; nil while nothing waits
}

// New makes a Manager.
func New(o Options, h Host) *Manager {
	return &Manager{store: o.Store, most: cmp.Or(o.Most, 3), host: h, running: map[string]*subagent{}, looked: map[string]bool{}}
}

type spawnInput struct {
	Task  string `json:"task" min:"1" max:"20000" desc:"complete: the subagent knows nothing else"`
	Label string `json:"label,omitempty" max:"60"`
	Wait  bool   `json:"wait,omitempty" desc:"wait for the result"`

	Temperature *float64 `json:"temperature,omitempty" min:"0" max:"2"`
}

// Tools are the tools that start subagents: none, if subagents are not offered.
// Find returns the running turn of a call.
func (m *Manager) Tools(find func(c tool.Call) (Parent, bool)) []tool.Tool {
	if m.store == nil {
		return nil
	}
	return []tool.Tool{tool.Func(tool.Tool{
		Name: "spawn", Sink: tool.SinkSpawn, Trusted: true,
		Description: "Give a task to a subagent with its own context. Its result arrives later as a message.",
	}, func(ctx context.Context, c tool.Call, in spawnInput) (tool.Result, error) {
		p, ok := find(c)
		if !ok {
			return tool.Fail(tool.Unsupported, "subagents cannot be started here; do it yourself"), nil
		}
		if p.Stateless && !in.Wait {
			return tool.Fail(tool.Unsupported, "nobody is here later to get the result; set wait to true"), nil
		}

		s := &subagent{
			ID: newID(4), Label: cmp.Or(strings.TrimSpace(in.Label), text.Ellipsis(prompt.OneLine(in.Task), 30)), Task: in.Task,
			Session: p.Session, Route: p.Route, Scope: p.Scope, State: "running", Tainted: c.Tainted, Started: m.host.Now(),
		}
		ctx, s.cancel = context.WithCancelCause(ctx)
		if why := m.admit(s); why != "" {
			s.cancel(nil)
			return tool.Fail(tool.Conflict, "%s; wait for one to end or do it yourself", why), nil
		}

		spec := func() runner.Spec { return m.watched(s, p.Spec(s.ID, s.Task, s.Tainted), in.Temperature, p.Show) }
		if in.Wait {
			return m.inline(ctx, s, spec()), nil
		}
		return m.start(s, spec), nil
	})}
}

// watched is the run of a subagent as the call wants it, with its progress noted.
func (m *Manager) watched(s *subagent, spec runner.Spec, temperature *float64, show func(tool.Call)) runner.Spec {
	if temperature != nil {
		spec.Temperature = temperature
	}

	note := func(step int, doing string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.step, s.doing = max(step, s.step), doing
	}

	spec.Hooks = append(spec.Hooks, runner.Hooks{
		BeforeIteration: func(_ context.Context, it *runner.Iteration) { note(it.Number, "") },
		BeforeTool: func(_ context.Context, c tool.Call) error {
			note(0, c.Name)
			show(c)
			return nil
		},
		AfterTool: func(context.Context, tool.Call, tool.Result, time.Duration) { note(0, "") },
	})
	return spec
}

// start keeps the state of a subagent and lets it run in the background.
func (m *Manager) start(s *subagent, run func() runner.Spec) tool.Result {
	owner, err := m.own()
	if s.Owner = owner; err == nil {
		err = m.save(s)
	}

	if err != nil {
		m.remove(s)
		return tool.Fail(tool.Internal, "the subagent was not started, because its state cannot be kept: %v", err)
	}

	spec := run()
	if err := m.host.Go(func(base context.Context) { m.background(base, s, spec) }); err != nil {
		m.remove(s)
		return tool.Fail(tool.Unsupported, "%v", err)
	}
	return tool.Textf("Subagent %s (%s) works in the background. Its result comes as a message; go on meanwhile or end your turn.", s.ID, s.Label)
}

// admit counts a subagent in, or says why not.
func (m *Manager) admit(s *subagent) string {
	m.mu.Lock()
	defer m.mu.Unlock()

	guests := 0
	for _, r := range m.running {
		if r.Scope != "" {
			guests++
		}
	}

	switch {
	case len(m.running) >= m.most:
		return fmt.Sprintf("%d subagents are running, which is the limit", len(m.running))
	case s.Scope != "" && guests >= max(1, m.most-1):
		return "as many subagents are running as guests may have"
	}

	m.running[s.ID] = s
	return ""
}

func (m *Manager) remove(s *subagent) {
	s.cancel(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, s.ID)
	m.settle()
}

// settle tells those who wait that all is quiet. The caller holds the lock.
func (m *Manager) settle() {
	if m.quiet != nil && len(m.running) == 0 && m.pending == 0 {
		close(m.quiet)
		m.quiet = nil
	}
}

// first reports whether a session was not asked about before.
func (m *Manager) first(session string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.looked[session]
	m.looked[session] = true
	return !seen
}

func file(id string) string { return id + ".json" }

func (m *Manager) save(s *subagent) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = m.store.Put(context.Background(), file(s.ID), b, store.Any, true)
	return err
}

// Stop cancels the subagents of a session and returns how many.
func (m *Manager) Stop(session string) int {
	m.mu.Lock()
	defer m.mu.Unlock()

	n := 0
	for _, s := range m.running {
		if s.Session == session {
			s.stopped = true
			s.cancel(errStopped)
			n++
		}
	}

	return n
}

// Progress tells about the running subagents of a session, oldest first.
func (m *Manager) Progress(session string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()

	var list []*subagent
	for _, s := range m.running {
		if s.Session == session {
			list = append(list, s)
		}
	}

	slices.SortStableFunc(list, func(a, b *subagent) int { return a.Started.Compare(b.Started) })
	var out []string
	for _, s := range list {
		doing := "asks the model"
		switch {
		case s.step == 0:
			doing = "starts"
		case s.doing != "":
			doing = "runs " + s.doing
		}

		if s.step > 0 {
			doing = fmt.Sprintf("step %d, %s", s.step, doing)
		}
		out = append(out, fmt.Sprintf("%s (%s, for %s)", s.Label, doing, m.host.Now().Sub(s.Started).Round(time.Second)))
	}

	return out
}

// Running are the ids of the subagents of a session that have not ended.
func (m *Manager) Running(session string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []string{}
	for id, s := range m.running {
		if s.Session == session {
			out = append(out, id)
		}
	}
	return out
}

// Quiet waits until no subagent works and all results were handled.
func (m *Manager) Quiet(ctx context.Context) error {
	m.mu.Lock()
	if len(m.running) == 0 && m.pending == 0 {
		m.mu.Unlock()
		return nil
	}

	if m.quiet == nil {
		m.quiet = make(chan struct{})
	}

	quiet := m.quiet
	m.mu.Unlock()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Working is how many subagents run or have a result that is not handled yet.
func (m *Manager) Working() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.running) + m.pending
}

// inline runs a subagent inside the call that asked for it.
func (m *Manager) inline(ctx context.Context, s *subagent, spec runner.Spec) tool.Result {
	defer m.remove(s)
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
func (m *Manager) background(base context.Context, s *subagent, spec runner.Spec) {
	ctx, cancel := context.WithCancelCause(base)
	defer cancel(nil)
	defer spec.Call.Turn.End()
	m.mu.Lock()
	s.cancel(nil) // the context of the spawning call no longer matters
	s.cancel = cancel
	if s.stopped { // that went to the context of the spawning call
		cancel(errStopped)
	}

	m.mu.Unlock()

	var res runner.Result
	err := m.host.Enter(ctx)
	if err == nil {
		res, err = runner.Run(ctx, spec)
		m.host.Leave()
	}

	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStopped):
		_ = m.store.Remove(context.WithoutCancel(ctx), file(s.ID)) // the user knows
		m.remove(s)
		return
	case cause != nil:
		m.remove(s) // the file says "running", so the next start tells that it was interrupted
		return
	}

	s.conclude(res, err)
	s.Ended = m.host.Now()
	if err := m.save(s); err != nil {
		m.host.Log.ErrorContext(ctx, "keep the result of a subagent", "subagent", s.ID, "err", err)
	}

	m.announce(s)
	m.remove(s)
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

	s.Result = text.CutMiddle(s.Result, resultChars)
}

// announce puts the result into the conversation it belongs to: it joins the
// turn that runs there, or starts one.
func (m *Manager) announce(s *subagent) {
	m.mu.Lock()
	m.pending++
	m.mu.Unlock()
	in := bus.Inbound{
		ID: "subagent:" + s.ID, Route: s.Route, SenderID: "subagent", SessionKey: s.Session, Scope: s.Scope, At: m.host.Now(),
		Event: bus.SubagentResult,
		Text:  fmt.Sprintf("[A subagent of this conversation has ended: %s. Tell the user what matters of it, briefly, without ids.]", s.State),
		Quoted: []bus.Quote{{About: "what it was to do, and its words", Text: fmt.Sprintf("%s\nTask: %s\n\nResult:\n%s",
			s.Label, text.Ellipsis(prompt.OneLine(s.Task), 300), s.Result)}},
	}

	err := m.host.Go(func(ctx context.Context) {
		defer m.announced()
		if !m.host.Announce(ctx, in) {
			return // its file is still there for the next start
		}
		if err := m.store.Remove(context.WithoutCancel(ctx), file(s.ID)); err != nil {
			m.host.Log.WarnContext(ctx, "forget a subagent", "subagent", s.ID, "err", err)
		}
	})
	if err != nil {
		m.announced()
	}
}

// announced counts a result out.
func (m *Manager) announced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending--
	m.settle()
}

// Revive announces, once per process, what an earlier process left of the
// subagents of a session: results that did not get through, and those that were
// interrupted. Subagents of a process that still runs are left alone.
func (m *Manager) Revive(ctx context.Context, session string) {
	if m.store == nil || !m.first(session) {
		return
	}
	for e, err := range m.store.Docs(ctx, "") {
		if err != nil {
			m.host.Log.WarnContext(ctx, "subagents of an earlier start cannot be looked for", "err", err)
			return
		}

		b, _, err := m.store.Doc(ctx, e.Name)
		s := &subagent{cancel: func(error) {}}
		if err != nil || json.Unmarshal(b, s) != nil || file(s.ID) != e.Name || s.Session == "" {
			m.host.Log.WarnContext(ctx, "a subagent's file cannot be read", "file", e.Name, "err", err)
			continue
		}
		if s.Session != session || !m.orphan(s) {
			continue
		}

		if s.State == "running" {
			s.State, s.Result = "interrupted", "nanobot was stopped while it worked; what it had done so far may have taken effect."
			if err := m.save(s); err != nil {
				m.host.Log.WarnContext(ctx, "keep an interrupted subagent", "subagent", s.ID, "err", err)
				continue
			}
		}

		m.announce(s)
	}
}

// own makes sure that this process can be told from one that died: it holds a
// lock for as long as it lives.
func (m *Manager) own() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.owner != "" {
		return m.owner, nil
	}

	name := "owner-" + newID(8) + ".lock"
	release, err := m.store.Lock(context.Background(), name)
	if err != nil {
		return "", err
	}

	m.owner, m.release = name, release
	return name, nil
}

// orphan reports whether the process that ran a subagent is gone, and takes
// its place, so that only one process announces it.
func (m *Manager) orphan(s *subagent) bool {
	mine, err := m.own()
	if err != nil || s.Owner == mine {
		return false
	}

	if s.Owner != "" && path.Base(s.Owner) == s.Owner {
		release, err := m.store.Lock(context.Background(), s.Owner)
		if err != nil {
			return false // it lives
		}
		_ = release()
	}

	s.Owner = mine
	return m.save(s) == nil
}

// Close releases the lock of this process.
func (m *Manager) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.release != nil {
		_ = m.release()
		m.release, m.owner = nil, ""
	}
}

// newID is a random name of n bytes.
func newID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
