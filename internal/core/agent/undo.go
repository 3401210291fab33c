package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// undoPaths is how many files the model is told of by name.
const undoPaths = 20

// textNoUndo is said where changes to files are not kept.
const textNoUndo = "Changes to files are not kept here, so there is nothing to show or take back."

// runDiff is /diff.
func runDiff(ctx context.Context, c *Call) (Reply, error) {
	words := strings.Fields(c.Args)
	switch {
	case len(words) > 1 || strings.HasPrefix(c.Args, "-"):
		return Say(c.usageLine(ctx)), nil
	case c.agent.deps.opts.Guard == nil:
		return Say(phrase.Of(ctx, textNoUndo)), nil
	}
	reply, err := c.agent.deps.opts.Guard.Diff(ctx, c.Inbound, c.env.key, strings.Join(words, ""))
	return c.undone(ctx, reply, err)
}

// listsTurns tells /undo --list, which only reads.
func listsTurns(args string) bool { return args == "--list" || args == "list" }

func runUndo(ctx context.Context, c *Call) (Reply, error) {
	guard := c.agent.deps.opts.Guard
	id, force, ok := c.undoArgs()
	switch {
	case guard == nil:
		return Say(phrase.Of(ctx, textNoUndo)), nil
	case listsTurns(c.Args):
		reply, err := guard.Turns(ctx, c.Inbound, c.env.key)
		return c.undone(ctx, reply, err)
	case !ok:
		return Say(c.usageLine(ctx)), nil
	}
	t := c.turn
	reply, paths, err := guard.Undo(ctx, t.env.in, t.key, id, force)
	if err == nil && len(paths) > 0 {
		// What the model knows about these files is no longer true.
		t.deps.conversations.of(t.key).state.Reset()
		if err := tellUndone(t.sess, paths); err != nil {
			return Reply{}, err
		}
	}
	return c.undone(ctx, reply, err)
}

// undoArgs reads "[turn] [force]".
func (c *Call) undoArgs() (id string, force, ok bool) {
	for w := range strings.FieldsSeq(c.Args) {
		switch {
		case strings.EqualFold(w, "force") && !force:
			force = true
		case id == "" && !strings.HasPrefix(w, "-"):
			id = w
		default:
			return "", false, false
		}
	}
	return id, force, true
}

// undone is what the record of changes answered.
func (c *Call) undone(ctx context.Context, reply string, err error) (Reply, error) {
	if err != nil {
		c.agent.deps.log.ErrorContext(ctx, "undo command failed", "session", c.env.key, "command", c.Name, "err", err)
		return Say(phrase.Of(ctx, "The record of changes cannot be used: %v", err)), nil
	}
	return Reply{Text: reply, Markdown: true}, nil
}

// Undone lets the model of a conversation know that files are as they were
// before, because its changes were undone outside of a turn.
func Undone(ctx context.Context, a *Agent, key string, paths []string) error {
	sess, err := a.deps.opts.Sessions.Acquire(ctx, key)
	if err != nil {
		return err
	}
	if sess.Len() > 0 {
		// A turn that was killed is closed first: what follows it hides its open calls.
		if _, err = sess.Recover(a.deps.tools.readOnly); err == nil {
			a.deps.conversations.of(key).state.Reset()
			err = tellUndone(sess, paths)
		}
	}
	return errors.Join(err, sess.Release())
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
