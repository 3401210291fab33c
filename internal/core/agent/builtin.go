package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/llm"
)

func runHelp(ctx context.Context, c *Call) (Reply, error) {
	const widest = 21 // columns of a command; the help of a longer one goes to the next line
	var lines []string
	for _, row := range c.agent.commands {
		name := strings.TrimSpace("/" + row.Name + " " + row.Args)
		if len(name) > widest {
			name += "\n  "
			name += strings.Repeat(" ", widest)
		}
		lines = append(lines, fmt.Sprintf("  %-*s  %s\n", widest, name, phrase.Of(ctx, row.Help)))
	}

	return Say(phrase.Of(ctx, "Commands:") + "\n" + strings.Join(lines, "") + phrase.Of(ctx, "Write $name in a message to load a skill. Everything else goes to the model.")), nil
}

func runSkills(ctx context.Context, c *Call) (Reply, error) {
	skills := c.agent.engine.Skills(c.Inbound.Scope)
	if skills == nil || len(skills.List()) == 0 {
		return Say(phrase.Of(ctx, "No skills are installed.")), nil
	}

	var b strings.Builder
	b.WriteString(phrase.Of(ctx, "Skills (write $name in a message to load one):") + "\n")
	for _, s := range skills.List() {
		fmt.Fprintf(&b, "  %-16s %s\n", s.Name, s.Description)
	}
	return Say(strings.TrimRight(b.String(), "\n")), nil
}

// reach returns the conversation whose commands a person sees; "" is all, for owners.
func (c *Call) reach() string {
	if c.owner() {
		return ""
	}
	return c.env.key
}

func runPS(ctx context.Context, c *Call) (Reply, error) {
	guard := c.agent.opts.Guard
	words := strings.Fields(c.Args)
	switch {
	case len(words) == 0:
		if guard == nil {
			return Say(phrase.Of(ctx, "No commands are running.")), nil
		}
		lines := guard.Running(c.reach())
		if len(lines) == 0 {
			return Say(phrase.Of(ctx, "No commands are running.")), nil
		}
		return Say(strings.Join(lines, "\n") + "\n" + phrase.Of(ctx, "/ps stop ID stops one.")), nil

	case len(words) != 2 || words[0] != "stop":
		return Say(c.usageLine(ctx)), nil
	case guard == nil || !guard.StopCommand(c.reach(), words[1]):
		return Say(phrase.Of(ctx, "No command %s is running. /ps lists those that are.", words[1])), nil
	}

	return Say(phrase.Of(ctx, "Stopped.")), nil
}

func runUsage(ctx context.Context, c *Call) (Reply, error) {
	if c.agent.opts.Models.Usage == nil {
		return Say(phrase.Of(ctx, "What model calls cost is not counted here.")), nil
	}
	s, err := c.agent.opts.Models.Usage(ctx)
	if err != nil {
		return Say(phrase.Of(ctx, "The record of model calls cannot be read: %v", err)), nil
	}
	return Say(strings.TrimRight(s, "\n")), nil
}

// runStop says what the end of the turn came to; the stopping itself is done.
func runStop(ctx context.Context, c *Call) (Reply, error) {
	return Say(c.agent.stopReply(ctx, c.env.key, c.stopped)), nil
}

func runRestart(ctx context.Context, c *Call) (Reply, error) {
	if c.agent.opts.Restart == nil {
		return Say(phrase.Of(ctx, "Nothing to restart here: this program ends after its answer.")), nil
	}
	return Reply{Text: phrase.Of(ctx, "Restarting."), Then: func() { c.agent.opts.Restart(c.Inbound.Route) }}, nil
}

func runNew(ctx context.Context, c *Call) (Reply, error) {
	if err := c.turn.StartNewSession(ctx); err != nil {
		return Reply{}, err
	}
	c.agent.engine.Ended(c.env.key, false)
	return Reply{Text: phrase.Of(ctx, "New conversation. The old one is kept in the archive."), unkept: true}, nil
}

// runTrigger binds a trigger to this conversation.
func runTrigger(ctx context.Context, c *Call) (Reply, error) {
	switch {
	case c.agent.opts.Schedule.Trigger == nil:
		return Say(phrase.Of(ctx, "Triggers need a gateway.")), nil
	case c.Args == "":
		return Say(phrase.Of(ctx, "Give it a name: /trigger backup-done")), nil
	}

	reply, err := c.agent.opts.Schedule.Trigger(ctx, c.Args, c.Inbound.Route, c.env.key)
	if err != nil {
		return Say(phrase.Of(ctx, "The trigger was not made: %v", err)), nil
	}
	return Say(reply), nil
}

// Numbers of /history.
const (
	historyDefault = 10
	historyMax     = 50
	historyChars   = 200
)

func runHistory(ctx context.Context, c *Call) (Reply, error) {
	n := historyDefault
	if c.Args != "" {
		v, err := strconv.Atoi(c.Args)
		if err != nil || v < 1 {
			return Say(phrase.Of(ctx, "Usage: /history [n], n from 1 to %d.", historyMax)), nil //nolint:nilerr // the user is told
		}
		n = min(v, historyMax)
	}

	var recs []session.Record
	err := c.peek(func(sess *session.Session) {
		if sess != nil {
			recs = sess.Messages()
		}
	})
	if err != nil {
		return Reply{}, err
	}

	var lines []string
	for i := len(recs) - 1; i >= 0 && len(lines) < n; i-- {
		r := recs[i]
		if r.Command || r.Internal || r.Hidden || (r.Role != llm.User && r.Role != llm.Assistant) {
			continue
		}

		s := strings.TrimSpace(strings.ReplaceAll(r.Display(), "\n", " "))
		if s == "" {
			continue
		}

		who := phrase.Of(ctx, "you")
		if r.Role == llm.Assistant || r.Mark() {
			who = phrase.Of(ctx, "bot")
		}
		lines = append(lines, fmt.Sprintf("%s: %s", who, text.Ellipsis(s, historyChars)))
	}

	if len(lines) == 0 {
		return Say(phrase.Of(ctx, "This conversation is empty.")), nil
	}

	slices.Reverse(lines)
	return Say(strings.Join(lines, "\n")), nil
}

// presets returns the names that /model takes besides those of models.
func (c *Call) presets() []string {
	return append([]string{"default"}, c.agent.opts.Models.Presets...)
}

// showModel is /model without arguments.
func showModel(ctx context.Context, c *Call) (Reply, error) {
	var preset string
	err := c.peek(func(sess *session.Session) {
		if sess != nil {
			sess.Meta(owntool.PresetKey, &preset)
		}
	})
	if err != nil {
		return Reply{}, err
	}

	current := phrase.Of(ctx, "unknown")
	if rt, err := c.agent.opts.Models.Runtime(ctx, preset); err == nil {
		current = rt.Display
	}

	how := phrase.Of(ctx, "preset %s", cmp.Or(preset, "default"))
	if strings.HasPrefix(preset, turn.ModelChoice) {
		how = phrase.Of(ctx, "chosen with /model")
	}
	return Say(phrase.Of(ctx, "Model: %s (%s)\nAvailable: %s, or a model of a configured provider: /model provider/model", current, how, strings.Join(c.presets(), ", "))), nil
}

func runModel(ctx context.Context, c *Call) (Reply, error) {
	if c.Args == "" {
		return showModel(ctx, c)
	}

	t, names := c.turn, c.presets()
	i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, c.Args) })
	if i < 0 && (c.Inbound.Scope != "" || strings.ContainsAny(c.Args, " \t\n")) { // guests do not decide what the owner pays for
		return Say(phrase.Of(ctx, "There is no preset %q. Available: %s", c.Args, strings.Join(names, ", "))), nil
	}

	preset, how := turn.ModelChoice+c.Args, ""
	if i >= 0 {
		preset, how = names[i], " ("+phrase.Of(ctx, "preset %s", names[i])+")"
	}

	value := any(preset)
	if preset == "default" {
		value, preset = nil, ""
	}

	rt, err := c.agent.opts.Models.Runtime(ctx, preset)
	if err != nil {
		return Say(phrase.Of(ctx, "%s cannot be used: %v\nPresets: %s", c.Args, err, strings.Join(names, ", "))), nil
	}
	if err := t.Session().SetMeta(owntool.PresetKey, value); err != nil {
		return Reply{}, fmt.Errorf("keep the model choice: %w", err)
	}
	if err := t.Session().SaveMeta(); err != nil {
		return Reply{}, fmt.Errorf("keep the model choice: %w", err)
	}

	t.ChangedModel(rt)
	return Say(phrase.Of(ctx, "This conversation now uses %s%s.", rt.Display, how)), nil
}

// runStatus does not need the session, so it answers although all slots are busy. What it
// says about the conversation is on disk, so that a new process knows it, too.
func runStatus(ctx context.Context, c *Call) (Reply, error) {
	a, key := c.agent, c.env.key
	waiting := a.mailboxes.waiting(key)
	var b strings.Builder
	fmt.Fprintf(&b, "nanobot %s\n", a.opts.Version)
	if err := c.peek(func(sess *session.Session) { b.WriteString(c.conversationStatus(ctx, sess)) }); err != nil {
		return Reply{}, err
	}

	b.WriteString(phrase.Of(ctx, "Uptime: %s\nActive turns: %d", uptime(a.opts.Now().Sub(a.started)), a.mailboxes.active()))
	for _, line := range a.engine.Subagents().Progress(key) {
		b.WriteString("\n" + phrase.Of(ctx, "Subagent: %s", line))
	}

	if guard := a.opts.Guard; guard != nil {
		if n := len(guard.Running(key)); n > 0 {
			b.WriteString("\n" + phrase.Of(ctx, "Running here: %s (/ps lists them)", phrase.Count(ctx, n, "command")))
		}
	}

	if waiting > 0 {
		b.WriteString("\n" + phrase.Of(ctx, "Waiting here: %s", phrase.Count(ctx, waiting, "message")))
	}

	if c.owner() && a.opts.Problems != nil {
		for _, p := range a.opts.Problems() {
			b.WriteString("\n" + phrase.Of(ctx, "Problem: %s", p))
		}
	}
	return Say(b.String()), nil
}

// conversationStatus returns the part of /status about the conversation; sess is nil
// if there is none yet.
func (c *Call) conversationStatus(ctx context.Context, sess *session.Session) string {
	var preset string
	var last turn.Usage
	if sess != nil {
		sess.Meta(owntool.PresetKey, &preset)
		last = turn.LastUsage(sess)
	}

	model := phrase.Of(ctx, "none")
	if rt, err := c.agent.opts.Models.Runtime(ctx, preset); err == nil {
		model = rt.Display
	} else {
		model += ": " + err.Error()
	}

	var b strings.Builder
	b.WriteString(phrase.Of(ctx, "Model: %s", model) + "\n")
	if sess == nil {
		return b.String()
	}

	if last.Budget == 0 && c.owner() { // no turn of ours: the conversation came from elsewhere
		if now, err := c.agent.Context(ctx, c.env.key); err == nil {
			last.Context, last.Budget = now.Used, now.Budget
		}
	}

	cached := ""
	if last.Prompt > 0 && last.Cached > 0 {
		cached = phrase.Of(ctx, " (%d%% cached)", 100*last.Cached/last.Prompt)
	}

	b.WriteString(phrase.Of(ctx, "Tokens: %d in / %d out%s", last.Prompt, last.Completion, cached) + "\n")
	if last.Budget > 0 {
		b.WriteString(phrase.Of(ctx, "Context: %d/%d (%d%%)", last.Context, last.Budget, min(100*last.Context/last.Budget, 999)) + "\n")
	}

	b.WriteString(phrase.Of(ctx, "Session: %d messages", sess.Len()) + "\n")
	return b.String()
}

func uptime(d time.Duration) string {
	d = d.Round(time.Second)
	if d >= time.Hour {
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
}

// runGoal is /goal. With words it sets the goal and makes them the message of a
// turn; without it tells how things stand.
func runGoal(ctx context.Context, c *Call) (Reply, error) {
	t := c.turn
	g, active := owntool.Goal(t.Session())
	switch {
	case c.Args == "" && !active:
		return Say(phrase.Of(ctx, "There is no goal. /goal WORDS sets one: I then work on it round after round until it is done.")), nil
	case c.Args == "":
		return Say(phrase.Of(ctx, "Goal: %s\n%s of work so far. /goal stop ends it.", g.Objective, phrase.Count(ctx, g.Rounds, "round"))), nil
	case stopsGoal(c.Args):
		if !active {
			return Say(phrase.Of(ctx, "There is no goal to stop.")), nil
		}
		g.Status = "cancelled"
		if err := t.SetGoal(g); err != nil {
			return Reply{}, fmt.Errorf("stop the goal: %w", err)
		}
		return Say(phrase.Of(ctx, "The goal is stopped.")), nil
	}

	return Reply{answered: true}, t.Pursue(ctx, c.Args)
}

// stopsGoal reports whether /goal ends the goal with these arguments.
func stopsGoal(args string) bool { return strings.EqualFold(args, "stop") }

// endsGoal reports whether a message is a command that ends the goal.
func (a *Agent) endsGoal(it *envelope) bool {
	c, ok := a.command(it)
	return ok && c.row.EndsGoal != nil && c.row.EndsGoal(c.Args)
}
