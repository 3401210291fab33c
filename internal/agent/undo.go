package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/runner"
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

// undoCommand is /undo and /diff.
func (t *turn) undoCommand(ctx context.Context, cmd command) error {
	id, force, ok := undoArgs(cmd)
	switch {
	case !ok:
		return t.remember(cmd, usageOf(cmd.name))
	case t.Undo == nil:
		return t.remember(cmd, "Changes to files are not kept here, so there is nothing to show or take back.")
	case cmd.name == "diff":
		reply, err := t.Undo.Diff(ctx, t.it.in, t.key, id)
		if err != nil {
			return t.undoFailed(ctx, cmd, err)
		}
		return t.rememberMarkdown(cmd, reply)
	}
	reply, paths, err := t.Undo.Undo(ctx, t.it.in, t.key, id, force)
	if err != nil {
		return t.undoFailed(ctx, cmd, err)
	}
	if len(paths) > 0 {
		// What the model knows about these files is no longer true.
		t.conversationOf(t.key).state.Reset()
		if err := t.tellUndone(paths); err != nil {
			return err
		}
	}
	return t.rememberMarkdown(cmd, reply)
}

// undoArgs reads "[turn] [force]"; /diff takes a turn only.
func undoArgs(cmd command) (id string, force, ok bool) {
	for w := range strings.FieldsSeq(cmd.args) {
		switch {
		case strings.EqualFold(w, "force") && cmd.name == "undo" && !force:
			force = true
		case id == "" && !strings.HasPrefix(w, "-"):
			id = w
		default:
			return "", false, false
		}
	}
	return id, force, true
}

func usageOf(name string) string {
	for _, c := range Commands() {
		if c.Name == name {
			return fmt.Sprintf("Usage: /%s %s - %s.", c.Name, c.Args, c.Help)
		}
	}
	return ""
}

func (t *turn) undoFailed(ctx context.Context, cmd command, err error) error {
	t.Log.ErrorContext(ctx, "undo command failed", "session", t.key, "command", cmd.name, "err", err)
	return t.remember(cmd, "The record of changes cannot be used: "+err.Error())
}

// tellUndone lets the model know, in the conversation, that its changes are gone.
func (t *turn) tellUndone(paths []string) error {
	named := paths[:min(len(paths), undoPaths)]
	note := "[The user took back file changes you made. These files are now as they were before: " + strings.Join(named, ", ")
	if more := len(paths) - len(named); more > 0 {
		note += fmt.Sprintf(" and %d more", more)
	}
	note += ". Read them again before you rely on what you know.]"
	err := t.sess.Append(
		session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text(note)}, Internal: true, Event: "undo"},
		session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text("Understood.")}, Internal: true, Event: "undo"},
	)
	if err != nil {
		return fmt.Errorf("keep the note about the undo: %w", err)
	}
	return nil
}

// rememberMarkdown is remember for a reply that is to be rendered.
func (t *turn) rememberMarkdown(cmd command, reply string) error {
	err := t.sess.Append(
		session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text(t.it.in.Text)}, Time: t.it.in.At, InboundID: t.it.in.ID, Command: true},
		session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(reply)}, Command: true},
	)
	if err != nil {
		return fmt.Errorf("keep /%s: %w", cmd.name, err)
	}
	t.it.emit(bus.Outbound{
		Kind: bus.Final, Route: t.it.in.Route, ReplyTo: t.it.in.Route.MessageID, Text: reply, Meta: t.it.in.Meta,
		Turn: &bus.Turn{ID: t.id, SessionKey: t.key, StopReason: string(runner.Completed)},
	})
	return nil
}
