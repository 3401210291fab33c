// Package agent keeps order between messages. One actor per session takes
// messages from an ordered mailbox, so a conversation never runs twice at
// once; priority commands (/stop, /status, /restart) are answered out of band;
// messages that arrive during a turn join it. It hides mailboxes, slash commands,
// who waits for an answer, and how a reply reaches its asker. What it does with one
// message is package turn.
//
// Agent.Run owns every goroutine started here and waits for them. All methods
// are safe for concurrent use.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Limits of mailboxes.
const (
	mailboxCap = 256
	stopWait   = 5 * time.Second
	drainGrace = 10 * time.Second // if Options.Grace is 0
)

// ErrBusy refuses a message because too many are waiting in its session.
var ErrBusy = errors.New("this conversation has too many messages waiting; try again in a moment")

// Agent runs turns.
type Agent struct {
	opts      *Options
	log       *slog.Logger
	engine    *turn.Engine
	mailboxes *mailboxes
	replies   replies
	commands  []Command // the table, by name
	started   time.Time

	queue  atomic.Pointer[bus.Queue] // that Serve takes messages from
	served sync.Map                  // names of channels whose messages come from it
}

// New makes an agent. It starts nothing; call Run.
func New(o Options) (*Agent, error) {
	if err := o.Complete(); err != nil {
		return nil, err
	}

	if o.Grace == 0 {
		o.Grace = drainGrace
	}

	commands, err := commandTable(o.Commands)
	if err != nil {
		return nil, err
	}

	a := &Agent{opts: &o, log: o.Log, commands: commands, started: o.Now()}
	a.mailboxes = newMailboxes(a.handle)
	h := turn.Host{Busy: a.mailboxes.holds, Go: a.mailboxes.spawn, Announce: a.announce, Send: a.sendToSession}
	if o.Elsewhere != nil {
		h.Elsewhere = a.elsewhere
	}

	if a.engine, err = turn.New(&o.Options, h); err != nil {
		return nil, err
	}
	return a, nil
}

// Open makes the agent accept messages. Run does it too; calling it first
// means that a message sent right after starting Run in a goroutine is not refused.
func (a *Agent) Open(ctx context.Context) { a.mailboxes.open(ctx) }

// Run accepts messages until ctx ends, then lets running turns finish for a
// short grace time, cancels the rest and waits for them. It runs once.
func (a *Agent) Run(ctx context.Context) error {
	a.Open(ctx)
	a.mailboxes.wg.Go(func() { a.engine.Run(ctx) })
	<-ctx.Done()
	a.mailboxes.close(a.opts.Grace)
	a.engine.Subagents().Close()
	return nil
}

// FinishMemory takes into memory at once what waits for it, before a program
// ends; see worker.Worker.Finish. Run must be going on.
func (a *Agent) FinishMemory(ctx context.Context, begun func(n int)) (left int) {
	return a.engine.FinishMemory(ctx, begun)
}

// DropCaches lets go of the messages of all conversations that are not worked
// on. They are read again when they are needed.
func (a *Agent) DropCaches() { a.engine.DropCaches() }

// Ask sends a message and yields everything that is said in answer to it, the
// last value of a normal turn being a Final. Breaking out of the loop, or the
// end of ctx, stops the turn. A message that joins a running turn yields one
// Notice; its answer is part of that turn.
func (a *Agent) Ask(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
	return a.AskWith(ctx, in, turn.Extra{})
}

// AskWith is Ask for a message that brings something along for its turn.
func (a *Agent) AskWith(ctx context.Context, in bus.Inbound, x turn.Extra) iter.Seq2[bus.Outbound, error] {
	return func(yield func(bus.Outbound, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if a.opts.Clean != nil {
			clean, note := a.opts.Clean(in)
			if in = clean; note != "" && !yield(bus.Outbound{Kind: bus.Notice, Route: in.Route, Text: note}, nil) {
				return
			}
		}

		it := a.newEnvelope(ctx, in)
		it.extra = x
		it.out, it.done = make(chan bus.Outbound, 16), make(chan struct{})

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
				it.drain(yield)
				return
			}
		}
	}
}

// KeyOf returns the session that a message belongs to.
func (a *Agent) KeyOf(in bus.Inbound) string { return a.engine.KeyOf(in) }

// Context measures a conversation of the owner without taking it from whoever
// works on it. The error is session.ErrNotFound when nothing is stored. Tools
// of servers count if a turn had them before.
func (a *Agent) Context(ctx context.Context, key string) (turn.Context, error) {
	return a.engine.Context(ctx, key)
}

// Recall returns the final reply to a message that was completed before, for a
// client that says it again. It has no text if the message joined the turn of
// another one.
func (a *Agent) Recall(ctx context.Context, in bus.Inbound) bus.Outbound {
	return a.engine.Recall(ctx, in)
}

// Prepare finds the tool of a call that the owner's model can make, among those
// of the last turns, and validates its arguments.
func (a *Agent) Prepare(name, arguments string) (tool.Tool, json.RawMessage, *tool.Result) {
	return a.engine.Prepare(name, arguments)
}

// Undone lets the model of a conversation know that files are as they were
// before, because its changes were undone outside of a turn.
func (a *Agent) Undone(ctx context.Context, key string, paths []string) error {
	return a.engine.Undone(ctx, key, paths)
}
