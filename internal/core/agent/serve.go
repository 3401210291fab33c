package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/explain"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/turn"
)

// publishWait is how long a turn waits for room in a full outbox. What found
// none goes out with the end of the turn.
const publishWait = 10 * time.Second

// Serve takes messages from a queue until ctx ends. Their turns run beside it,
// so that a command such as /stop never waits for one; what they say goes back
// to the queue, and each message is completed with its final reply. Messages
// whose turns the end of the program interrupts stay in the queue and are
// taken up by the next Serve. Run must be going on; one Serve at a time.
func (a *Agent) Serve(ctx context.Context, q bus.Queue) error {
	a.queue.Store(&q)
	defer a.queue.Store(nil)
	for {
		in, err := q.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("receive messages: %w", err)
		}

		a.served.Store(in.Route.Channel, true)
		it := a.newEnvelope(context.WithoutCancel(ctx), in)
		it.replyTo = &replyTo{a: a, q: q, env: it}

		switch err := a.submit(it); { //nolint:contextcheck // the item carries it
		case errors.Is(err, turn.ErrClosed):
			return err // the message stays in the queue
		case err != nil:
			it.Done(err)
		}
	}
}

// hand gives a message that no person wrote to the queue, which keeps it until
// its answer is out. False means that there is none, or that no reader would see
// there what goes to this channel, such as the terminal.
func (a *Agent) hand(ctx context.Context, in bus.Inbound) (bool, error) {
	q := a.queue.Load()
	if _, served := a.served.Load(in.Route.Channel); q == nil || !served {
		return false, nil
	}
	return true, (*q).Submit(ctx, in)
}

// outlet is the side of a queue that answers go into.
type outlet interface {
	Publish(ctx context.Context, out bus.Outbound) error
	Complete(ctx context.Context, id string, outs ...bus.Outbound) error
}

// replyTo is the way back of a message that came from a queue.
type replyTo struct {
	a   *Agent
	q   outlet
	env *envelope

	mu    sync.Mutex
	held  []bus.Outbound // could not be published yet
	final *bus.Outbound
}

// emit publishes something about the message. The final reply waits for the end of the message,
// so that both become durable in one step.
func (p *replyTo) emit(o bus.Outbound) {
	p.mu.Lock()
	if o.Kind == bus.Final {
		o.ID = bus.FinalID(p.env.in.ID) // the same if the turn's end has to be told again
		p.final = &o
		p.mu.Unlock()
		return
	}

	late := len(p.held) > 0
	p.mu.Unlock()
	if !o.Kind.Durable() {
		_ = p.q.Publish(p.env.ctx, o) // may be dropped anyway
		return
	}

	if !late {
		err := p.publish(p.env.ctx, o)
		if err == nil {
			return
		}
		p.a.log.Warn("a message has to wait for the end of its turn", "session", p.env.key, "kind", o.Kind, "err", err)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, o)
}

// publish hands something to the queue, if it gets room in time.
func (p *replyTo) publish(ctx context.Context, o bus.Outbound) error {
	ctx, cancel := context.WithTimeout(ctx, publishWait)
	defer cancel()
	return p.q.Publish(ctx, o)
}

// complete ends the work on the message, unless the program ends: then it is for
// the next start.
func (p *replyTo) complete(err error) {
	if errors.Is(err, turn.ErrClosed) {
		return
	}

	stopped := errors.Is(err, turn.ErrStopped) // who stopped it knows
	if err != nil && !stopped {
		text := err.Error()
		if !errors.Is(err, ErrBusy) {
			text = explain.In(p.env.message().Reader(), err, phrase.In(p.env.in.Language, "the model"))
		}
		p.env.Emit(bus.Outbound{
			Kind: bus.Final, Route: p.env.in.Route, ReplyTo: p.env.in.Route.MessageID, Text: text, Plain: true, Meta: p.env.in.Meta,
			Turn: &bus.Turn{SessionKey: p.env.key, StopReason: "error", Error: text},
		})
	}

	p.mu.Lock()
	outs := p.held
	if p.final != nil && !stopped {
		outs = append(outs, *p.final)
	}

	p.mu.Unlock()
	outs = p.outcome(outs, err)
	if err := p.q.Complete(p.env.ctx, p.env.in.ID, outs...); err != nil {
		p.a.log.Error("cannot complete a message", "session", p.env.key, "id", p.env.in.ID, "err", err)
	}

	p.env.Emit(bus.Outbound{Kind: bus.Ended, Route: p.env.in.Route, Turn: p.result(err)}) // for marks beside the message, and for watchers
	p.resolve(outs)
}

// resolve hands the reply to the conversation that the message came from, if it
// waits for it.
func (p *replyTo) resolve(outs []bus.Outbound) {
	if p.env.in.Event != bus.SessionMessage {
		return
	}
	var final *bus.Outbound
	if n := len(outs); n > 0 && outs[n-1].Kind == bus.Final {
		final = &outs[n-1]
	}
	p.a.replies.resolve(p.env.in.ID, final)
}

// result returns how the work on the message ended.
func (p *replyTo) result(err error) *bus.Turn {
	t := &bus.Turn{SessionKey: p.env.key, StopReason: string(runner.Completed)}
	switch {
	case errors.Is(err, turn.ErrStopped):
		t.StopReason = "stopped"
	case err != nil:
		t.StopReason = "error"
	case p.final != nil && p.final.Turn != nil:
		t.StopReason, t.Error = p.final.Turn.StopReason, p.final.Turn.Error
	}

	return t
}
