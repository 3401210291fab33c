package turn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// undoPaths is how many files the model is told of by name.
const undoPaths = 20

// Undone lets the model of a conversation know that files are as they were
// before, because its changes were undone outside of a turn.
func (e *Engine) Undone(ctx context.Context, key string, paths []string) error {
	sess, err := e.opts.Sessions.Acquire(ctx, key)
	if err != nil {
		return err
	}

	if sess.Len() > 0 {
		// A turn that was killed is closed first: what follows it hides its open calls.
		if _, err = sess.Recover(e.tools.readOnly); err == nil {
			e.conversations.of(key).state.Reset()
			err = tellUndone(sess, paths)
		}
	}

	return errors.Join(err, sess.Release())
}

// Undone lets the model of the turn know that files are as they were before.
func (t *Turn) Undone(paths []string) error {
	t.engine.conversations.of(t.key).state.Reset()
	return tellUndone(t.sess, paths)
}

// tellUndone lets the model know, in the conversation, that its changes are gone.
func tellUndone(sess *session.Session, paths []string) error {
	named := paths[:min(len(paths), undoPaths)]
	note := "[The user took back file changes you made. These files are now as they were before: " + strings.Join(named, ", ")
	if more := len(paths) - len(named); more > 0 {
		note += fmt.Sprintf(" and %d more", more)
	}

	note += ". Read them again before you rely on what you know.]"
	err := sess.Append(
		session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text(note)}, Internal: true, Event: "undo"},
		session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text("Understood.")}, Internal: true, Event: "undo"},
	)
	if err != nil {
		return fmt.Errorf("keep the note about the undo: %w", err)
	}
	return nil
}
