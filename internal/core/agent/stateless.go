package agent

import (
	"context"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/core/session"
)

// stateless answers a message whose sender keeps the conversation. The turn
// is an ordinary one on a session without a file: no log is read or written,
// memory takes nothing in, slash commands are just text, and when it is over
// nothing of it is left here.
func (a *Agent) stateless(ctx context.Context, act *actor, it *envelope) error {
	t := newTurn(a.deps, act, it)
	if it.in.Shell {
		t.reply(Say(phrase.In(t.env.in.Language, "Commands cannot be run in a temporary chat: nothing of them could be kept.")))
		return nil
	}
	past, foreign := a.deps.prompt.History(ctx, it.key, &it.in)
	t.foreign = foreign
	sess, err := session.Ephemeral(it.key, a.deps.now, past...)
	if err != nil {
		return fmt.Errorf("take over the history: %w", err)
	}
	t.sess = sess
	a.deps.mailboxes.attach(act, t)
	defer t.discardSession(ctx)
	return t.answer(ctx)
}

// remembers reports whether memory may take in what is said.
func (t *turn) remembers() bool { return t.deps.opts.Memory.Consolidator != nil && !t.env.in.Stateless }

// discardSession forgets all that was kept for the turn of a conversation that is
// nobody's any more.
func (t *turn) discardSession(ctx context.Context) {
	if err := t.sess.Release(); err != nil {
		t.deps.log.ErrorContext(ctx, "release session", "session", t.key, "err", err)
	}
	t.deps.conversations.forget(t.key)
	t.deps.tools.forget(t.key)
	t.deps.ended(t.key, false)
}
