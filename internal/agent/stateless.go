package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/session"
)

// stateless answers a message whose sender keeps the conversation. The turn
// is an ordinary one on a session without a file: no log is read or written,
// memory takes nothing in, slash commands are just text, and when it is over
// nothing of it is left here.
func (a *Agent) stateless(ctx context.Context, act *actor, it *item) error {
	t := &turn{Agent: a, act: act, it: it, id: newID(), key: it.key, begun: a.Now(), asking: make(chan struct{}, 1)}
	if it.in.Shell {
		t.reply(Say("Commands cannot be run in a temporary chat: nothing of them could be kept."))
		return nil
	}
	past, foreign := a.prompt.History(ctx, it.key, &it.in)
	t.foreign = foreign
	sess, err := session.Ephemeral(it.key, a.Now, past...)
	if err != nil {
		return fmt.Errorf("take over the history: %w", err)
	}
	t.sess = sess
	a.mu.Lock()
	act.turn = t
	a.mu.Unlock()
	defer t.vanish(ctx)
	return t.answer(ctx)
}

// remembers reports whether memory may take in what is said.
func (t *turn) remembers() bool { return t.Memory != nil && !t.it.in.Stateless }

// vanish forgets all that was kept for the turn of a conversation that is
// nobody's any more.
func (t *turn) vanish(ctx context.Context) {
	if err := t.sess.Release(); err != nil {
		t.Log.ErrorContext(ctx, "release session", "session", t.key, "err", err)
	}
	t.forget(t.key)
	t.sets.forget(t.key)
	if t.Ended != nil {
		t.Ended(t.key, false)
	}
}

// forget drops what a session was told to be missing.
func (s *toolSets) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.told {
		if strings.HasPrefix(k, key+"\x00") {
			delete(s.told, k)
		}
	}
}
