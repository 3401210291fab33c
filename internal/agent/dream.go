package agent

import (
	"context"
	"strings"

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

// dreamCommand answers /dream, /dream-log and /dream-restore. It runs beside
// the turns: taking in the history may last minutes, and needs no session.
func (a *Agent) dreamCommand(base context.Context, cmd command, it *item) {
	ctx, cancel := context.WithCancelCause(base)
	unlink := context.AfterFunc(it.ctx, func() { cancel(context.Cause(it.ctx)) }) //nolint:contextcheck // two lives meet here
	defer cancel(nil)
	defer unlink()
	it.emit(bus.Outbound{
		Kind: bus.Final, Route: it.in.Route, ReplyTo: it.in.Route.MessageID, Text: a.dreamReply(ctx, cmd, it), Meta: it.in.Meta,
		Turn: &bus.Turn{SessionKey: it.key, StopReason: "completed"},
	})
	it.finish(nil)
}

func (a *Agent) dreamReply(ctx context.Context, cmd command, it *item) string {
	words := strings.Fields(cmd.args)
	switch {
	case a.Dream == nil:
		return "Dream is not available here."
	case it.in.Scope != "" || it.in.Untrusted:
		return "Only the owner can look at the memory or change it."
	case cmd.name == "dream" && len(words) == 0:
		it.emit(bus.Outbound{Kind: bus.Notice, Route: it.in.Route, Text: "Dreaming: going through what is new in the history.", Meta: it.in.Meta})
		return a.Dream.Run(ctx)
	case cmd.name == "dream" && len(words) == 2 && (words[0] == "keep" || words[0] == "drop"):
		return a.Dream.Decide(ctx, words[1], words[0] == "keep")
	case cmd.name == "dream-log" && len(words) <= 1:
		return a.Dream.Log(ctx, strings.Join(words, ""))
	case cmd.name == "dream-restore":
		sha, only, ok := restoreArgs(words)
		if ok {
			return a.Dream.Restore(ctx, sha, only)
		}
	}
	return usageOf(cmd.name)
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
