package agent

import (
	"context"
	"errors"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
)

// Quiet waits until no subagent works and all results were handled.
func (a *Agent) Quiet(ctx context.Context) error { return a.engine.Subagents().Quiet(ctx) }

// Working returns how many subagents run or have a result that is not handled yet.
func (a *Agent) Working() int { return a.engine.Subagents().Working() }

// Subagents returns the ids of those that run for a conversation.
func (a *Agent) Subagents(key string) []string { return a.engine.Subagents().Running(key) }

// announce hands the result of a subagent to the queue, or runs its turn when
// there is no queue for it.
func (a *Agent) announce(ctx context.Context, in bus.Inbound) bool {
	handed, err := a.hand(ctx, in)
	if err == nil && !handed {
		err = a.deliver(context.WithoutCancel(ctx), in)
	}
	if err != nil && !errors.Is(err, turn.ErrClosed) {
		a.log.WarnContext(ctx, "cannot announce a subagent", "message", in.ID, "err", err)
	}
	return err == nil
}

// deliver runs the turn of a message whose sender does not wait.
func (a *Agent) deliver(ctx context.Context, in bus.Inbound) error {
	for out, err := range a.Ask(ctx, in) {
		if err != nil {
			return err
		}
		if a.opts.Events.Deliver != nil {
			a.opts.Events.Deliver(out)
		}
	}
	return nil
}
