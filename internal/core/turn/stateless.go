package turn

import (
	"context"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/core/session"
)

// Stateless answers a message whose sender keeps the conversation. The turn
// is an ordinary one on a session without a file: no log is read or written,
// memory takes nothing in, slash commands are just text, and when it is over
// nothing of it is left here.
func (e *Engine) Stateless(ctx context.Context, m Message, around Around) error {
	t := e.newTurn(m, around)
	if m.In.Shell {
		t.Reply(phrase.In(m.In.Language, "Commands cannot be run in a temporary chat: nothing of them could be kept."), true)
		return nil
	}

	past, foreign := e.prompt.History(ctx, m.Key, &t.msg.In)
	t.foreign = foreign
	sess, err := session.Ephemeral(m.Key, e.now, past...)
	if err != nil {
		return fmt.Errorf("take over the history: %w", err)
	}

	t.sess = sess
	e.attach(t)
	defer e.detach(t)
	defer t.discardSession(ctx)
	return t.Answer(ctx)
}

// remembers reports whether memory may take in what is said.
func (t *Turn) remembers() bool {
	return t.engine.opts.Memory.Consolidator != nil && !t.msg.In.Stateless
}

// discardSession forgets all that was kept for the turn of a conversation that
// is over.
func (t *Turn) discardSession(ctx context.Context) {
	if err := t.sess.Release(); err != nil {
		t.engine.log.ErrorContext(ctx, "release session", "session", t.key, "err", err)
	}
	t.engine.conversations.forget(t.key)
	t.engine.tools.forget(t.key)
	t.engine.Ended(t.key, false)
}
