package agent

import (
	"context"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Dreamer turns the history into long-term memory and knows its versions.
// Replies are Markdown for the owner.
type Dreamer interface {
	// Run takes in what is new and says how it went.
	Run(ctx context.Context) string
	// Log shows a version, the newest if sha is empty, and what waits for a decision.
	Log(ctx context.Context, sha string) string
	// Restore undoes a version, and all later ones unless only is set; without
	// sha it lists them.
	Restore(ctx context.Context, sha string, only bool) string
	// Decide keeps or drops a finding that waits.
	Decide(ctx context.Context, id string, keep bool) string
}

// runDream is /dream, /dream-log and /dream-restore. It runs beside the turns:
// taking in the history may last minutes, and does not need the session.
func runDream(ctx context.Context, c *Call) (Reply, error) {
	d, words := c.agent.opts.Dream, strings.Fields(c.Args)
	said := c.usageLine(ctx)
	switch {
	case d == nil:
		said = phrase.Of(ctx, "Dream is not available here.")
	case c.Name == "dream" && len(words) == 0:
		c.env.Emit(bus.Outbound{Kind: bus.Notice, Route: c.Inbound.Route, Text: phrase.Of(ctx, "Dreaming: going through what is new in the history."), Meta: c.Inbound.Meta})
		said = d.Run(ctx)
	case c.Name == "dream" && len(words) == 2 && (words[0] == "keep" || words[0] == "drop"):
		said = d.Decide(ctx, words[1], words[0] == "keep")
	case c.Name == "dream-log" && len(words) <= 1:
		said = d.Log(ctx, strings.Join(words, ""))
	case c.Name == "dream-restore":
		if sha, only, ok := restoreArgs(words); ok {
			said = d.Restore(ctx, sha, only)
		}
	}

	return Reply{Text: said, Markdown: true}, nil
}

// restoreArgs reads "[sha] [--only]".
func restoreArgs(words []string) (sha string, only, ok bool) {
	for _, w := range words {
		switch {
		case w == "--only" || w == "only":
			only = true
		case sha == "" && !strings.HasPrefix(w, "-"):
			sha = w
		default:
			return "", false, false
		}
	}
	return sha, only, sha != "" || !only
}
