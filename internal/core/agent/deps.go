package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	memoryworker "github.com/nanobot-go/nanobot/internal/core/memory/worker"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/turn/subagent"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// deps are the parts of an agent that its turns use.
type deps struct {
	opts    *Options
	log     *slog.Logger
	now     func() time.Time
	secrets *httpsafe.Registry

	prompt        *prompt.Builder
	models        *modelFacts
	tools         *toolSets
	mailboxes     *mailboxes
	conversations *conversations
	memory        *memoryworker.Worker
	subagents     *subagent.Manager
	replies       replies
	gate          gate // nil: no limit

	endsGoal func(*envelope) bool // whether a message is a command that ends the goal
}

func newDeps(o *Options, m *mailboxes) *deps {
	about := prompt.Options{
		Workspace: o.Workspace, Skills: o.Skills, GuestSkills: o.GuestSkills,
		Location: o.Location, Now: o.Now, Log: o.Log,
	}
	if o.Guard != nil {
		about.Guests, about.Foreign = true, o.Guard.Foreign
	}
	d := &deps{
		opts: o, log: o.Log, now: o.Now, secrets: o.Secrets,
		prompt: prompt.New(about),
		models: &modelFacts{}, tools: &toolSets{opts: o.Tools}, mailboxes: m, conversations: newConversations(m.holds, o.Now),
	}
	if o.Turns.Concurrency > 0 {
		d.gate = make(gate, o.Turns.Concurrency) // capacity is the limit
	}
	d.memory = memoryworker.New(memoryworker.Options{
		Memory: o.Memory.Consolidator, Sessions: o.Sessions, Idle: o.Memory.IdleCompact, Check: o.Memory.IdleCheck,
		Busy: m.holds, Enter: d.gate.enter, Leave: d.gate.leave, Frame: d.frameOf, Now: o.Now, Log: o.Log,
	})
	return d
}

// keyOf is the session a message belongs to.
func (d *deps) keyOf(in bus.Inbound) string {
	switch {
	case in.SessionKey != "":
		return in.SessionKey
	case d.opts.Turns.Unified && in.Scope == "": // a guest must not read what the owner said elsewhere
		return "unified:default"
	}
	return in.Route.SessionKey()
}

// place is where a message works: the owner's in the workspace, all others in
// folders of their own.
func (d *deps) place(in bus.Inbound) guard.Place {
	if in.Scope == "" || d.opts.Guard == nil {
		return guard.Place{Workspace: d.opts.Workspace, Results: d.opts.Tools.Results}
	}
	return d.opts.Guard.Place(in.Route, in.Scope)
}

// ended lets the guard go of what it keeps for a conversation that was stopped or,
// with stopped false, that a new one replaces.
func (d *deps) ended(key string, stopped bool) {
	if d.opts.Guard != nil {
		d.opts.Guard.Ended(key, stopped)
	}
}

// scopeOf is whose memory a message belongs to. A channel gives each person in
// each chat a scope, "<channel>:<chat>/<person>"; in chats that the owner
// declared as shared all people have one in common, "<channel>:<chat>".
func (d *deps) scopeOf(scope string) string {
	for _, chat := range d.opts.Memory.Shared {
		if chat != "" && strings.HasPrefix(scope, chat+"/") {
			return chat
		}
	}
	return scope
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

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
