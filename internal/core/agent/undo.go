package agent

import (
	"context"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// textNoUndo is said where changes to files are not kept.
const textNoUndo = "Changes to files are not kept here, so there is nothing to show or take back."

// runDiff is /diff.
func runDiff(ctx context.Context, c *Call) (Reply, error) {
	words := strings.Fields(c.Args)
	switch {
	case len(words) > 1 || strings.HasPrefix(c.Args, "-"):
		return Say(c.usageLine(ctx)), nil
	case c.agent.opts.Guard == nil:
		return Say(phrase.Of(ctx, textNoUndo)), nil
	}
	reply, err := c.agent.opts.Guard.Diff(ctx, c.Inbound, c.env.key, strings.Join(words, ""))
	return c.undone(ctx, reply, err)
}

// listsTurns tells /undo --list, which only reads.
func listsTurns(args string) bool { return args == "--list" || args == "list" }

func runUndo(ctx context.Context, c *Call) (Reply, error) {
	guard := c.agent.opts.Guard
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

	reply, paths, err := guard.Undo(ctx, c.Inbound, c.env.key, id, force)
	if err == nil && len(paths) > 0 {
		if err := c.turn.Undone(paths); err != nil {
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

// undone returns what the record of changes answered.
func (c *Call) undone(ctx context.Context, reply string, err error) (Reply, error) {
	if err != nil {
		c.agent.log.ErrorContext(ctx, "undo command failed", "session", c.env.key, "command", c.Name, "err", err)
		return Say(phrase.Of(ctx, "The record of changes cannot be used: %v", err)), nil
	}
	return Reply{Text: reply, Markdown: true}, nil
}
