package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Command is a row of the command table: all there is to know about a slash
// command. Help, menus and completion show it; who may use it, and when it is
// answered, is decided by it.
type Command struct {
	Name    string   // without the slash
	Aliases []string // other names, which menus do not show
	Args    string   // hint, "" if it takes none
	Help    string

	Owner      bool // only an owner may use it, in a direct chat
	DuringTurn bool // answered at once, beside a running turn
	// Looks reports whether a call only reads with these arguments: then it is
	// answered beside a running turn, too. May be nil.
	Looks func(args string) bool
	Ends  bool // ends the running turn and drops the messages that wait, at once
	// EndsGoal reports whether a call with these arguments ends the goal, which
	// therefore begins no further round while the call waits. May be nil.
	EndsGoal func(args string) bool
	// Run carries the command out. nil: it is answered before it gets here, by
	// the channels.
	Run func(ctx context.Context, c *Call) (Reply, error)
}

// Call is one use of a command.
type Call struct {
	Name    string
	Args    string
	Inbound bus.Inbound

	row     Command
	agent   *Agent
	env     *envelope
	turn    *turn.Turn // nil beside a turn
	stopped stopped    // what it ended
}

// Reply is the answer to a command. A command that has the conversation to
// itself is kept in it with its reply, invisible to the model.
type Reply struct {
	Text     string
	Markdown bool   // Text is to be rendered
	Then     func() // called after the reply; for commands beside a turn. May be nil

	unkept   bool // the conversation does not keep it
	answered bool // there is nothing left to say
}

// Say returns a reply of plain text.
func Say(text string) Reply { return Reply{Text: text} }

// Commands returns the rows of the commands that the agent carries out itself.
func Commands() []Command {
	return []Command{
		{Name: "diff", Args: "[turn]", Help: "show what a turn changed in files (default: the last one)", DuringTurn: true, Run: runDiff},
		{Name: "dream", Args: "[keep|drop ID]", Help: "take the history into the long-term memory now, or decide about a finding", Owner: true, DuringTurn: true, Run: runDream},
		{Name: "dream-log", Args: "[version]", Help: "show what changed in the memory and what waits for a decision", Owner: true, DuringTurn: true, Run: runDream},
		{Name: "dream-restore", Args: "[version] [--only]", Help: "undo changes of the memory", Owner: true, DuringTurn: true, Run: runDream},
		{Name: "goal", Args: "[text|stop]", Help: "work on something round after round until it is done", EndsGoal: stopsGoal, Run: runGoal},
		{Name: "help", Aliases: []string{"start"}, Help: "list the commands", DuringTurn: true, Run: runHelp},
		{Name: "history", Args: "[n]", Help: "show the last n messages (default 10)", DuringTurn: true, Run: runHistory},
		{Name: "model", Args: "[preset|model]", Help: "show or choose the model of this conversation", Looks: noArgs, Run: runModel},
		{Name: "new", Help: "start a new conversation; the old one is archived", EndsGoal: noArgs, Run: runNew},
		{Name: "ps", Args: "[stop ID]", Help: "list the commands that still run, or stop one", DuringTurn: true, Run: runPS},
		{Name: "restart", Help: "restart nanobot", Owner: true, DuringTurn: true, Run: runRestart},
		{Name: "skill", Aliases: []string{"skills"}, Help: "list the skills", DuringTurn: true, Run: runSkills},
		{Name: "status", Help: "show version, model, tokens and what is running", DuringTurn: true, Run: runStatus},
		{Name: "stop", Help: "stop the running turn and drop waiting messages", DuringTurn: true, Ends: true, Run: runStop},
		{Name: "trigger", Args: "<name>", Help: "make a trigger: scripts on this machine can then send messages to this chat", Owner: true, Run: runTrigger},
		{Name: "undo", Args: "[turn] [force] | --list", Help: "take back what a turn changed in files (default: the last one), or list the turns", Looks: listsTurns, Run: runUndo},
		{Name: "usage", Aliases: []string{"cost"}, Help: "show what model calls cost so far", Owner: true, DuringTurn: true, Run: runUsage},
	}
}

// commandTable returns the agent's own rows and those handed in.
func commandTable(more []Command) ([]Command, error) {
	all := append(Commands(), more...)
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	seen := map[string]bool{}
	for _, c := range all {
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			if name == "" || seen[name] {
				return nil, fmt.Errorf("agent: two commands are called /%s", name)
			}
			seen[name] = true
		}
	}

	return all, nil
}

// command recognises a slash command, also one that does not exist. Text such as
// "/etc/hosts explain" is not one.
func (a *Agent) command(it *envelope) (*Call, bool) {
	in := it.in
	if in.Stateless || in.Shell || in.Route.Channel == "system" || !looksLikeCommand(in.Text) {
		return nil, false
	}

	word, args := cutWord(in.Text)
	word = strings.ToLower(word)
	if name, bot, ok := strings.Cut(word, "@"); ok && bot != "" {
		word = name // /cmd@BotName in group chats
	}

	i := slices.IndexFunc(a.commands, func(c Command) bool {
		return c.Run != nil && (c.Name == word || slices.Contains(c.Aliases, word))
	})
	row := Command{Name: word, Args: "[any]", DuringTurn: true, Run: runUnknown}
	if i >= 0 {
		row = a.commands[i]
	}
	return &Call{Name: row.Name, Args: args, Inbound: in, row: row, agent: a, env: it}, true
}

// looksLikeCommand tells "/help" and "/foo bar" from a path such as "/etc/hosts".
func looksLikeCommand(s string) bool {
	s = strings.TrimSpace(s)
	if len(s) < 2 || s[0] != '/' {
		return false
	}
	word, _ := cutWord(s)
	return word != "" && !strings.ContainsAny(word, "/.") && slices.Index([]byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"), word[0]) >= 0
}

// cutWord splits "/word the rest", where the rest may begin in another line.
func cutWord(s string) (word, rest string) {
	s = strings.TrimSpace(s)[1:]
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// runUnknown answers a slash command that does not exist.
func runUnknown(ctx context.Context, c *Call) (Reply, error) {
	word, _ := cutWord(c.Inbound.Text)
	word = "/" + word
	var names []string
	for _, row := range c.agent.commands {
		if row.Run != nil {
			names = append(names, "/"+row.Name)
		}
	}

	if near := text.NearestRatio(strings.ToLower(word), names, 0.6); near != "" {
		return Say(phrase.Of(ctx, "Unknown command %s. Did you mean %s?", word, near)), nil
	}
	return Say(phrase.Of(ctx, "Unknown command %s. /help lists the commands.", word)), nil
}

// noArgs is the Looks of a command that only shows something without arguments.
func noArgs(args string) bool { return args == "" }

// atOnce reports whether the call is answered without waiting for the session.
func (c *Call) atOnce() bool { return c.row.DuringTurn || c.row.Looks != nil && c.row.Looks(c.Args) }

// peek calls fn with the conversation as it is on disk, nil if there is none,
// without taking it from a turn that works on it.
func (c *Call) peek(fn func(*session.Session)) error {
	sess, err := c.agent.opts.Sessions.Peek(c.env.key)
	if errors.Is(err, session.ErrNotFound) {
		fn(nil)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the conversation: %w", err)
	}

	fn(sess)
	return sess.Release()
}

// fits reports whether the command may have the arguments it came with.
func (c *Call) fits() bool { return c.Args == "" || c.row.Args != "" }

// owner reports whether the owner wrote the command, in a direct chat.
func (c *Call) owner() bool { return c.Inbound.Scope == "" && !c.Inbound.Untrusted }

// refused says why the command is not carried out; "" if it is.
func (c *Call) refused(ctx context.Context) string {
	switch {
	case c.row.Owner && !c.owner():
		return phrase.Of(ctx, "Only an owner can do that, in a direct chat.")
	case !c.fits():
		return phrase.Of(ctx, "/%s takes no arguments.", c.Name)
	}
	return ""
}

// usageLine says how the command is written.
func (c *Call) usageLine(ctx context.Context) string {
	return phrase.Of(ctx, "Usage: /%s %s - %s.", c.Name, c.row.Args, phrase.Of(ctx, c.row.Help))
}

// beside answers a command without waiting for the session.
func (c *Call) beside(base context.Context) {
	it := c.env
	ctx, cancel := context.WithCancelCause(c.agent.toReader(base, it))
	defer cancel(nil)
	unlink := context.AfterFunc(it.ctx, func() { cancel(context.Cause(it.ctx)) }) //nolint:contextcheck // two lives meet here
	defer unlink()

	reply, err := Say(c.refused(ctx)), error(nil)
	if reply.Text == "" {
		reply, err = c.row.Run(ctx, c)
	}

	if err == nil {
		it.Emit(bus.Outbound{
			Kind: bus.Final, Route: it.in.Route, ReplyTo: it.in.Route.MessageID, Text: reply.Text, Plain: !reply.Markdown,
			Meta: it.in.Meta, Turn: &bus.Turn{SessionKey: it.key, StopReason: string(runner.Completed)},
		})
	}

	it.Done(err)
	if err == nil && reply.Then != nil {
		reply.Then()
	}
}

// within carries out a command that needs the session, as a turn of it.
func (c *Call) within(ctx context.Context, t *turn.Turn) error {
	c.turn = t
	if why := c.refused(ctx); why != "" {
		t.Reply(why, true)
		return nil
	}

	r, err := c.row.Run(ctx, c)
	if err != nil || r.answered {
		return err
	}

	if !r.unkept {
		err := t.Session().Append(
			session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text(c.Inbound.Text)}, Time: c.Inbound.At, InboundID: c.Inbound.ID, Command: true},
			session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(r.Text)}, Command: true, Plain: !r.Markdown},
		)
		if err != nil {
			return fmt.Errorf("keep /%s: %w", c.Name, err)
		}
	}

	t.Reply(r.Text, !r.Markdown)
	return nil
}
