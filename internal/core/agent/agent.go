// Package agent turns inbound messages into turns. One actor per session takes
// messages from an ordered mailbox, so a conversation never runs twice at
// once; a global gate bounds model work; priority commands (/stop, /status,
// /restart) are answered out of band; messages that arrive during a turn are
// injected into it. It hides prompt building, slash commands, what is kept of
// a turn and when, and how a reply reaches its asker.
//
// Agent.Run owns every goroutine started here and waits for them. All methods
// are safe for concurrent use.
package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/core/turn/sessiontool"
	"github.com/nanobot-go/nanobot/internal/core/turn/subagent"
)

// Limits of mailboxes and memory.
const (
	mailboxCap = 256
	liveCap    = 64
	liveSize   = 16384 // messages of conversations in memory
	stopWait   = 5 * time.Second
	drainGrace = 10 * time.Second // if Turns.Grace is 0
)

// Errors of Ask.
var (
	// ErrStopped ends the stream of a turn that /stop ended.
	ErrStopped = errors.New("stopped")
	// ErrBusy refuses a message because too many are waiting in its session.
	ErrBusy = errors.New("this conversation has too many messages waiting; try again in a moment")
	// ErrClosed refuses messages while the agent is not running.
	ErrClosed = errors.New("the agent is shutting down")
)

// Agent runs turns.
type Agent struct {
	deps     *deps
	commands []Command // the table, by name
	started  time.Time

	queue  atomic.Pointer[bus.Queue] // that Serve takes messages from
	served sync.Map                  // names of channels whose messages come from it
}

// New makes an agent. It starts nothing; call Run.
func New(o Options) (*Agent, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	a := &Agent{started: o.Now()}
	var err error
	if a.commands, err = commandTable(o.Commands); err != nil {
		return nil, err
	}
	a.deps = newDeps(&o, newMailboxes(a.handle))
	a.deps.endsGoal = a.endsGoal
	a.deps.tools.goal = owntool.Goals(a.goaled)
	a.deps.tools.owner = sessiontool.Tools(o.Tools.Sessions, sessionHost(a))
	a.deps.subagents = subagent.New(o.Tools.Subagents, a.subagentHost())
	if a.deps.tools.fixed, err = o.Tools.Set.With(a.ownTools()...); err != nil {
		return nil, fmt.Errorf("agent tools: %w", err)
	}
	return a, nil
}

// Open makes the agent accept messages. Run does it too; calling it first
// means that a message sent right after starting Run in a goroutine is not refused.
func (a *Agent) Open(ctx context.Context) { a.deps.mailboxes.open(ctx) }

// Run accepts messages until ctx ends, then lets running turns finish for a
// short grace time, cancels the rest and waits for them. It runs once.
func (a *Agent) Run(ctx context.Context) error {
	a.Open(ctx)
	if a.deps.opts.Memory.Consolidator != nil {
		a.deps.mailboxes.wg.Go(func() { a.deps.memory.Run(ctx) })
	}
	<-ctx.Done()
	a.deps.mailboxes.close(a.deps.opts.Turns.Grace)
	a.deps.subagents.Close()
	return nil
}

// FinishMemory takes into memory at once what waits for it, before a program
// ends; see worker.Worker.Finish. Run must be going on.
func (a *Agent) FinishMemory(ctx context.Context, begun func(n int)) (left int) {
	if a.deps.opts.Memory.Consolidator == nil {
		return 0
	}
	return a.deps.memory.Finish(ctx, begun)
}

// DropCaches lets go of the messages of all conversations that are not worked
// on. They are read again when they are needed.
func (a *Agent) DropCaches() { a.deps.conversations.dropAll() }

// Ask sends a message and yields everything that is said in answer to it, the
// last value of a normal turn being a Final. Breaking out of the loop, or the
// end of ctx, stops the turn. A message that joins a running turn yields one
// Notice; its answer is part of that turn.
func (a *Agent) Ask(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
	return a.AskWith(ctx, in, Extra{})
}

// AskWith is Ask for a message that brings something along for its turn.
func (a *Agent) AskWith(ctx context.Context, in bus.Inbound, x Extra) iter.Seq2[bus.Outbound, error] {
	return func(yield func(bus.Outbound, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if a.deps.opts.Events.Clean != nil {
			clean, note := a.deps.opts.Events.Clean(in)
			if in = clean; note != "" && !yield(bus.Outbound{Kind: bus.Notice, Route: in.Route, Text: note}, nil) {
				return
			}
		}
		it := &envelope{in: in, key: a.deps.keyOf(in), extra: x, ctx: ctx, out: make(chan bus.Outbound, 16), done: make(chan struct{})}
		if err := a.submit(it); err != nil { //nolint:contextcheck // the item carries it
			yield(bus.Outbound{}, err)
			return
		}
		for {
			select {
			case o := <-it.out:
				if !yield(o, nil) {
					cancel()
					it.discard()
					return
				}
			case <-it.done:
				it.rest(yield)
				return
			}
		}
	}
}

// KeyOf is the session that a message belongs to.
func (a *Agent) KeyOf(in bus.Inbound) string { return a.deps.keyOf(in) }
