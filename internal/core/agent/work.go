package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
)

// handle answers one message. The error is what its asker sees instead of a reply.
// A message of a queue was accepted, so it waits while the disk is full.
func (a *Agent) handle(ctx context.Context, act *actor, it *envelope) error {
	ctx = a.toReader(ctx, it)
	for pause := spacePause; ; pause = min(2*pause, spacePauseMax) {
		err := a.attempt(ctx, act, it)
		if it.replyTo == nil || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			return err
		}

		a.log.ErrorContext(ctx, "the disk is full; a message waits for space", "session", it.key, "err", err)
		if pause == spacePause {
			it.Emit(bus.Outbound{Kind: bus.Notice, Route: it.in.Route, Text: phrase.Of(ctx, textDiskFull)})
		}

		if a.awaitSpace(ctx, pause) != nil {
			return turn.StopError(context.Cause(ctx))
		}
	}
}

// How a full disk is met.
const (
	textDiskFull  = "The disk of this computer is full. Your message is kept and answered when there is space."
	spacePause    = 5 * time.Second  // between looks at the disk
	spacePauseMax = 10 * time.Minute // where a quota hides how much is free, each look may cost a model call
	spaceWanted   = 4 << 20          // bytes that must be free, so that the answer fits as well
)

// awaitSpace waits until the disk of the conversations has space again, as far as
// that can be known.
func (a *Agent) awaitSpace(ctx context.Context, pause time.Duration) error {
	for {
		if err := wait.For(ctx, pause); err != nil {
			return err
		}
		if free, known := diskio.FreeBytes(a.opts.Sessions.Dir()); !known || free >= spaceWanted {
			return nil
		}
	}
}

func (a *Agent) attempt(ctx context.Context, act *actor, it *envelope) error {
	if cause := context.Cause(ctx); cause != nil {
		return turn.StopError(cause)
	}

	around := a.around(act, it)
	if it.in.Stateless {
		return a.engine.Stateless(ctx, it.message(), around)
	}

	a.engine.PauseMemory(ctx, it.key)
	sess, err := a.opts.Sessions.AcquireTelling(ctx, it.key, func(busy *session.BusyError) {
		it.Emit(bus.Outbound{Kind: bus.Notice, Route: it.in.Route, Text: phrase.Of(ctx, "waiting: %v", busy), Brief: true})
	})
	if err != nil {
		if ctx.Err() != nil {
			return turn.StopError(context.Cause(ctx))
		}
		return fmt.Errorf("open session %q: %w", it.key, err)
	}

	defer func() {
		if rerr := sess.Release(); rerr != nil {
			a.log.ErrorContext(ctx, "cannot release a session", "session", it.key, "err", rerr)
		}
	}()

	seen := it.in.ID != "" && sess.SeenInbound(it.in.ID)
	if seen && it.replyTo == nil {
		return nil // it was answered or is in the history already
	}

	t, err := a.engine.Begin(sess, it.message(), around)
	if err != nil {
		return err
	}

	defer t.End()
	if it.in.Shell {
		return t.Shell(ctx, seen)
	}

	fate := turn.TakenUp
	if seen {
		fate = t.Resume()
	}

	switch fate {
	case turn.AllSaid:
		return nil
	case turn.LeftAlone:
		it.left = true
		return nil
	case turn.TakenUp:
	}

	a.engine.Subagents().Revive(ctx, it.key)
	if c, ok := a.command(it); ok && !seen {
		return c.within(ctx, t)
	}
	return t.Answer(ctx)
}

// around returns what the turn of a message may use of its mailbox.
func (a *Agent) around(act *actor, it *envelope) turn.Around {
	return turn.Around{
		More: func(most int) []turn.Message {
			var out []turn.Message
			for _, joins := range a.mailboxes.dequeueInjections(act, most) {
				joins.host = it
				out = append(out, joins.message())
			}
			return out
		},
		Ask: func(q bus.Question) func(ctx context.Context) (turn.Message, error) {
			w := a.mailboxes.ask(act, q, it.in, a.opts.Now())
			return func(ctx context.Context) (turn.Message, error) {
				answer, err := a.mailboxes.await(ctx, act, w, q.Expires.Sub(a.opts.Now()))
				it.touch()
				if answer == nil {
					return turn.Message{}, err
				}
				return answer.message(), err
			}
		},
		EndsGoal: func() bool { return slices.ContainsFunc(a.mailboxes.queued(act), a.endsGoal) },
	}
}
