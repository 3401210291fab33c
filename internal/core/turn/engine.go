package turn

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory/worker"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/core/turn/sessiontool"
	"github.com/nanobot-go/nanobot/internal/core/turn/subagent"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Engine answers messages, one turn for each. Its methods are safe for concurrent use.
type Engine struct {
	opts    *Options
	log     *slog.Logger
	now     func() time.Time
	secrets *httpsafe.Registry

	prompt        *prompt.Builder
	models        *modelFacts
	tools         *toolSets
	conversations *conversations
	memory        *worker.Worker
	subagents     *subagent.Manager
	gate          gate // nil: no limit

	mu      sync.Mutex
	running map[string]*Turn // by session, for tools that are about their turn
}

// Host is what an engine needs of whoever hands it messages.
type Host struct {
	// Busy reports whether a session has a turn or messages that wait for one.
	Busy func(key string) bool
	// Go runs f as a goroutine that whoever runs the engine waits for.
	Go func(f func(ctx context.Context)) error
	// Announce puts a message with the result of a subagent into its conversation.
	Announce func(ctx context.Context, in bus.Inbound) bool
	// Send sends a message of a turn to another conversation; see sessiontool.Host.
	Send func(ctx context.Context, c tool.Call, m sessiontool.Message) (reply *bus.Outbound, refused string, err error)
	// Elsewhere sends to another chat than that of the turn; nil if there is no way.
	Elsewhere func(ctx context.Context, c tool.Call, out bus.Outbound) error
}

// New makes an engine, which runs nothing until a message comes.
func New(o *Options, h Host) (*Engine, error) {
	about := prompt.Options{
		Workspace: o.Workspace, Skills: o.Skills, GuestSkills: o.GuestSkills,
		Location: o.Location, Now: o.Now, Log: o.Log,
	}
	if o.Guard != nil {
		about.Guests, about.Foreign = true, o.Guard.Foreign
	}

	e := &Engine{
		opts: o, log: o.Log, now: o.Now, secrets: o.Secrets,
		prompt: prompt.New(about),
		models: &modelFacts{}, tools: &toolSets{opts: o.Tools}, conversations: newConversations(h.Busy, o.Now),
		running: map[string]*Turn{},
	}
	if o.Turns.Concurrency > 0 {
		e.gate = make(gate, o.Turns.Concurrency) // capacity is the limit
	}

	e.memory = worker.New(worker.Options{
		Memory: o.Memory.Consolidator, Sessions: o.Sessions, Idle: o.Memory.IdleCompact, Check: o.Memory.IdleCheck,
		Busy: h.Busy, Enter: e.gate.enter, Leave: e.gate.leave, Frame: e.frameOf, Now: o.Now, Log: o.Log,
	})
	e.subagents = subagent.New(o.Tools.Subagents, subagent.Host{
		Go: h.Go, Enter: e.gate.enter, Leave: e.gate.leave, Announce: h.Announce, Now: e.now, Log: e.log,
	})
	return e, e.ownTools(h)
}

// Subagents are those that turns started.
func (e *Engine) Subagents() *subagent.Manager { return e.subagents }

// Skills are those that the sender of messages with a scope may use; may be nil.
func (e *Engine) Skills(scope string) *skill.Library { return e.prompt.Skills(scope) }

// Prepare finds the tool of a call that the owner's model can make, among those
// of the last turns, and validates its arguments.
func (e *Engine) Prepare(name, arguments string) (tool.Tool, json.RawMessage, *tool.Result) {
	return e.tools.prepare(name, arguments)
}

// DropCaches lets go of the messages of all conversations that are not worked
// on. They are read again when they are needed.
func (e *Engine) DropCaches() { e.conversations.dropAll() }

// PauseMemory ends what memory does with a conversation, so that a turn need not wait.
func (e *Engine) PauseMemory(ctx context.Context, key string) { e.memory.Pause(ctx, key) }

// FinishMemory takes into memory at once what waits for it; see
// worker.Worker.Finish. Run must be going on.
func (e *Engine) FinishMemory(ctx context.Context, begun func(n int)) (left int) {
	if e.opts.Memory.Consolidator == nil {
		return 0
	}
	return e.memory.Finish(ctx, begun)
}

// attach makes a turn the running one of its session.
func (e *Engine) attach(t *Turn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[t.key] = t
}

// detach ends what attach began.
func (e *Engine) detach(t *Turn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running[t.key] == t {
		delete(e.running, t.key)
	}
}

// Running finds the running turn a call belongs to.
func (e *Engine) Running(c tool.Call) (*Turn, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.running[c.SessionKey]
	if t == nil || t.id != c.TurnID {
		return nil, false
	}
	return t, true
}

// Run takes conversations into memory until ctx ends.
func (e *Engine) Run(ctx context.Context) {
	if e.opts.Memory.Consolidator != nil {
		e.memory.Run(ctx)
	}
}

// KeyOf is the session a message belongs to.
func (e *Engine) KeyOf(in bus.Inbound) string {
	switch {
	case in.SessionKey != "":
		return in.SessionKey
	case e.opts.Turns.Unified && in.Scope == "": // a guest must not read what the owner said elsewhere
		return "unified:default"
	}
	return in.Route.SessionKey()
}

// place is where a message works: the owner's in the workspace, all others in
// folders of their own.
func (e *Engine) place(in bus.Inbound) guard.Place {
	if in.Scope == "" || e.opts.Guard == nil {
		return guard.Place{Workspace: e.opts.Workspace, Results: e.opts.Tools.Results}
	}
	return e.opts.Guard.Place(in.Route, in.Scope)
}

// Ended lets the guard go of what it keeps for a conversation that was stopped or,
// with stopped false, that a new one replaces.
func (e *Engine) Ended(key string, stopped bool) {
	if e.opts.Guard != nil {
		e.opts.Guard.Ended(key, stopped)
	}
}

// modelFacts are what was learned about models.
type modelFacts struct {
	calib   sync.Map // model name -> *text.Calibration
	windows sync.Map // model name -> real context window in tokens, learned from refusals
	heads   sync.Map // tier and system prompt -> estimated tokens of prompt and tools
}

func (m *modelFacts) calibration(model string) *text.Calibration {
	c, _ := m.calib.LoadOrStore(model, &text.Calibration{})
	return c.(*text.Calibration) //nolint:errcheck // only this function stores
}

// headTokens is the estimate of what every request with this prompt starts with.
func (m *modelFacts) headTokens(system string, tier prompt.Tier, tools *tool.Set) int {
	key := struct {
		tier, system string
		tools        *tool.Set
	}{tier.Name, system, tools}
	if n, ok := m.heads.Load(key); ok {
		return n.(int) //nolint:errcheck // only this function stores
	}

	n := runner.EstimateHead(system, tools.Defs())
	m.heads.Clear() // prompts change rarely; old ones are of no use
	m.heads.Store(key, n)
	return n
}

// gate bounds the model work that goes on at once by its capacity; nil does not.
type gate chan struct{}

// enter waits for a slot.
func (g gate) enter(ctx context.Context) error {
	if g == nil {
		return nil
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives a slot back.
func (g gate) leave() {
	if g != nil {
		<-g
	}
}

// slot is a place in the gate that a turn gives back while it waits for a person.
type slot struct {
	gate gate
	held bool
}

func (s *slot) enter(ctx context.Context) error {
	err := s.gate.enter(ctx)
	s.held = err == nil
	return err
}

func (s *slot) leave() {
	if s.held {
		s.held = false
		s.gate.leave()
	}
}

// Pause gives the slot of the turn back while it waits for another. It is not
// taken again if the wait fails.
func (t *Turn) Pause(ctx context.Context, wait func() error) error {
	t.slot.leave()
	if err := wait(); err != nil {
		return err
	}
	return t.slot.enter(ctx)
}

// NewID returns an id for a turn.
func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
