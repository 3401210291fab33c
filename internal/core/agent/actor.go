package agent

import (
	"context"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
)

// submit puts a message into its mailbox, or answers it at once.
func (a *Agent) submit(it *envelope) error {
	if it.in.At.IsZero() {
		it.in.At = a.opts.Now()
	}

	it.in.Scope = a.scopeOf(it.in.Scope)
	if it.in.Answer != nil {
		return a.submitAnswer(it)
	}

	if c, ok := a.command(it); ok {
		if c.row.Ends && c.fits() {
			// At once, so that what comes right behind it is safe.
			c.stopped = a.mailboxes.cut(it.key, &it.in)
		}

		if c.atOnce() {
			err := a.mailboxes.spawn(func(base context.Context) { c.stopped.drop(turn.ErrStopped); c.beside(base) })
			if err != nil {
				c.stopped.drop(err)
			}
			return err
		}

		c.stopped.drop(turn.ErrStopped)
	}

	return a.mailboxes.enqueue(it)
}

// submitAnswer takes an answer to its question, or says that there is none.
func (a *Agent) submitAnswer(it *envelope) error {
	taken, open := a.mailboxes.answer(it)
	if taken {
		return nil
	}
	return a.refused(it, open)
}

// BusyWith reports whether a conversation has a turn or messages that wait for one.
func (a *Agent) BusyWith(key string) bool { return a.mailboxes.holds(key) }

// Stop ends the running turn of a session, drops the messages queued before
// now, waits a short while for everything to come to rest and says what happened.
func (a *Agent) Stop(ctx context.Context, key string) string {
	s := a.mailboxes.cut(key, nil)
	s.drop(turn.ErrStopped)
	return a.stopReply(ctx, key, s)
}

// StopMessage ends the work on one message, whether it has a turn or waits for
// one. In a conversation that people take part in nothing else is stopped.
func (a *Agent) StopMessage(ctx context.Context, in bus.Inbound) {
	key := a.engine.KeyOf(in)
	a.mailboxes.abandon(key, in.ID, turn.ErrStopped)
	if key == in.Event || strings.HasPrefix(key, in.Event+":") { // it has the conversation to itself
		a.Stop(ctx, key)
	}
}

// stopReply stops the subagents, waits for the turn that was stopped, and returns
// the reply to the person.
func (a *Agent) stopReply(ctx context.Context, key string, s stopped) string {
	dropped, over := len(s.queue), s.over
	if s.refused {
		if dropped > 0 {
			return phrase.Of(ctx, "%s of yours dropped. Another person asked for what runs and can stop it.", phrase.Count(ctx, dropped, "waiting message"))
		}
		return phrase.Of(ctx, "Another person asked for what runs. They or an owner can stop it.")
	}

	a.engine.Ended(key, true)
	helpers := a.engine.Subagents().Stop(key)
	if over == nil && dropped == 0 && helpers == 0 {
		return phrase.Of(ctx, "Nothing is running.")
	}

	reply := phrase.Of(ctx, "Stopped.")
	if helpers > 0 {
		reply = phrase.Of(ctx, "Stopped, with %s.", phrase.Count(ctx, helpers, "subagent"))
	}

	if over != nil {
		wait := time.NewTimer(stopWait)
		defer wait.Stop()
		select {
		case <-over:
		case <-wait.C:
			reply = phrase.Of(ctx, "Stopping; a tool has not come to rest yet.")
		case <-ctx.Done():
		}
	}

	if dropped > 0 {
		reply += phrase.Of(ctx, " %s dropped.", phrase.Count(ctx, dropped, "waiting message"))
	}
	return reply
}

// scopeOf is whose memory a message belongs to. A channel gives each person in
// each chat a scope, "<channel>:<chat>/<person>"; in chats that the owner
// declared as shared all people have one in common, "<channel>:<chat>".
func (a *Agent) scopeOf(scope string) string {
	for _, chat := range a.opts.SharedMemory {
		if chat != "" && strings.HasPrefix(scope, chat+"/") {
			return chat
		}
	}
	return scope
}
