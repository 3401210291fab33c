package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/session"
)

// Undoer takes back what turns did to files, those of whoever wrote the message.
// It must not let one session reach the turns of another. Replies are Markdown for the user.
type Undoer interface {
	// Undo takes back a turn of a session, the last one that changed files if
	// turn is empty. force also replaces files that changed since. paths are
	// the files it touched.
	Undo(ctx context.Context, in bus.Inbound, session, turn string, force bool) (reply string, paths []string, err error)
	// Diff shows what a turn changed; an empty turn is the last one.
	Diff(ctx context.Context, in bus.Inbound, session, turn string) (string, error)
}

// undoPaths is how many files the model is told of by name.
const undoPaths = 20

// runUndo is /undo and /diff.
func runUndo(ctx context.Context, c *Call) (Reply, error) {
	t := c.turn
	id, force, ok := c.undoArgs()
	switch {
	case !ok:
		return Say(c.usageLine()), nil
	case c.agent.deps.opts.Tools.Undo == nil:
		return Say("Changes to files are not kept here, so there is nothing to show or take back."), nil
	case c.Name == "diff":
		reply, err := c.agent.deps.opts.Tools.Undo.Diff(ctx, t.env.in, t.key, id)
		if err != nil {
			return c.undoFailed(ctx, err)
		}
		return Reply{Text: reply, Markdown: true}, nil
	}
	reply, paths, err := c.agent.deps.opts.Tools.Undo.Undo(ctx, t.env.in, t.key, id, force)
	if err != nil {
		return c.undoFailed(ctx, err)
	}
	if len(paths) > 0 {
		// What the model knows about these files is no longer true.
		t.deps.conversations.of(t.key).state.Reset()
		if err := tellUndone(t.sess, paths); err != nil {
			return Reply{}, err
		}
	}
	return Reply{Text: reply, Markdown: true}, nil
}

// undoArgs reads "[turn] [force]"; /diff takes a turn only.
func (c *Call) undoArgs() (id string, force, ok bool) {
	for w := range strings.FieldsSeq(c.Args) {
		switch {
		case strings.EqualFold(w, "force") && c.Name == "undo" && !force:
			force = true
		case id == "" && !strings.HasPrefix(w, "-"):
			id = w
		default:
			return "", false, false
		}
	}
	return id, force, true
}

func (c *Call) undoFailed(ctx context.Context, err error) (Reply, error) {
	c.agent.deps.log.ErrorContext(ctx, "undo command failed", "session", c.turn.key, "command", c.Name, "err", err)
	return Say("The record of changes cannot be used: " + err.Error()), nil
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
