package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/agent/prompt"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/text"
)

// Command describes a slash command to a user interface.
type Command struct {
	Name string // without the slash
	Args string // hint, "" if it takes none
	Help string
}

type command struct {
	name     string
	args     string
	priority bool // answered at once, beside a running turn
	takes    bool // accepts arguments
}

// Commands lists the slash commands.
func Commands() []Command {
	return []Command{
		{"config", "reload", "read the configuration again"},
		{"cron", "[run|enable|disable|remove ID]", "list the scheduled jobs, or work on one"},
		{"diff", "[turn]", "show what a turn changed in files (default: the last one)"},
		{"dream", "[keep|drop ID]", "take the history into the long-term memory now, or decide about a finding"},
		{"dream-log", "[version]", "show what changed in the memory and what waits for a decision"},
		{"dream-restore", "[version] [--only]", "undo changes of the memory"},
		{"doctor", "", "look for problems of this installation"},
		{"goal", "[text|stop]", "work on something round after round until it is done"},
		{"help", "", "list the commands"},
		{"history", "[n]", "show the last n messages (default 10)"},
		{"model", "[preset]", "show or choose the model of this conversation"},
		{"new", "", "start a new conversation; the old one is archived"},
		{"restart", "", "restart nanobot"},
		{"skill", "", "list the skills"},
		{"status", "", "show version, model, tokens and what is running"},
		{"stop", "", "stop the running turn and drop waiting messages"},
		{"trigger", "<name>", "make a trigger: scripts on this machine can then send messages to this chat"},
		{"undo", "[turn] [force]", "take back what a turn changed in files (default: the last one)"},
		{"usage", "", "show what model calls cost so far"},
	}
}

// command recognises a slash command. Text such as "/etc/hosts explain" is not one.
func (a *Agent) command(in bus.Inbound) (command, bool) {
	if in.Stateless || in.Shell || in.Route.Channel == "system" || !looksLikeCommand(in.Text) {
		return command{}, false
	}
	word, args := cutWord(in.Text)
	word = strings.ToLower(word)
	if name, bot, ok := strings.Cut(word, "@"); ok && bot != "" {
		word = name // /cmd@BotName in group chats
	}
	if word == "cost" { // another name for it
		word = "usage"
	}
	all := Commands()
	i := slices.IndexFunc(all, func(c Command) bool { return c.Name == word })
	if i < 0 {
		return command{}, false
	}
	return command{
		name: word, args: args, takes: all[i].Args != "",
		priority: slices.Contains([]string{"stop", "status", "restart", "help", "skill", "usage", "config", "cron", "doctor"}, word),
	}, true
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

// unknownCommand answers a slash command that does not exist.
func (a *Agent) unknownCommand(s string) string {
	word, _ := cutWord(s)
	word = "/" + word
	names := []string{}
	for _, c := range Commands() {
		names = append(names, "/"+c.Name)
	}
	if near := text.NearestRatio(strings.ToLower(word), names, 0.6); near != "" {
		return fmt.Sprintf("Unknown command %s. Did you mean %s?", word, near)
	}
	return fmt.Sprintf("Unknown command %s. /help lists the commands.", word)
}

// priority answers a command without waiting for the session. Of /stop the
// stopping itself is done.
func (a *Agent) priority(cmd command, it *item, s stopped) {
	var reply string
	var then func() // after the reply
	owner := it.in.Scope == "" && !it.in.Untrusted
	refused := !owner && slices.Contains([]string{"restart", "usage", "config", "cron", "doctor"}, cmd.name)
	switch {
	case refused:
		reply = "Only an owner can do that, in a chat with nobody else."
	case cmd.args != "" && !cmd.takes:
		reply = fmt.Sprintf("/%s takes no arguments.", cmd.name)
	case cmd.name == "stop":
		reply = a.settle(it.ctx, it.key, s)
	case cmd.name == "status":
		reply = a.status(it.ctx, it.key)
		if owner && a.Problems != nil {
			for _, p := range a.Problems() {
				reply += "\nProblem: " + p
			}
		}
	case cmd.name == "config" || cmd.name == "cron" || cmd.name == "doctor":
		reply = "That is not possible here."
		if a.Operate != nil {
			reply, then = a.Operate(it.ctx, cmd.name, cmd.args, it.in.Route)
		}
	case cmd.name == "help":
		reply = a.helpText()
	case cmd.name == "skill":
		reply = a.skillText(it.in.Scope)
	case cmd.name == "usage":
		reply = a.usageText(it.ctx)
	case a.Restart == nil:
		reply = "Nothing to restart here: this program ends after its answer."
	default:
		reply, then = "Restarting.", func() { a.Restart(it.in.Route) }
	}
	it.emit(bus.Outbound{
		Kind: bus.Final, Route: it.in.Route, ReplyTo: it.in.Route.MessageID, Text: a.Secrets.Redact(reply), Plain: true, Meta: it.in.Meta,
		Turn: &bus.Turn{SessionKey: it.key, StopReason: "completed"},
	})
	it.finish(nil)
	if then != nil {
		then()
	}
}

// runCommand executes a command that needs the session.
func (t *turn) runCommand(ctx context.Context, cmd command) error {
	if cmd.args != "" && !cmd.takes {
		t.reply(fmt.Sprintf("/%s takes no arguments.", cmd.name))
		return nil
	}
	switch cmd.name {
	case "new":
		if err := t.beginAnew(ctx); err != nil {
			return err
		}
		if t.Ended != nil {
			t.Ended(t.key, false)
		}
		t.reply("New conversation. The old one is kept in the archive.")
		return nil
	case "goal":
		return t.startGoal(ctx, cmd)
	case "trigger":
		return t.remember(cmd, t.triggerText(ctx, cmd.args))
	case "undo", "diff":
		return t.undoCommand(ctx, cmd)
	case "history":
		return t.remember(cmd, t.historyText(cmd.args))
	case "model":
		reply, err := t.chooseModel(ctx, cmd.args)
		if err != nil {
			return err
		}
		return t.remember(cmd, reply)
	}
	return fmt.Errorf("command /%s has no handler", cmd.name)
}

// remember stores a command and its reply, invisible to the model, and replies.
func (t *turn) remember(cmd command, reply string) error {
	err := t.sess.Append(
		session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text(t.it.in.Text)}, Time: t.it.in.At, InboundID: t.it.in.ID, Command: true},
		session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(reply)}, Command: true},
	)
	if err != nil {
		return fmt.Errorf("keep /%s: %w", cmd.name, err)
	}
	t.reply(reply)
	return nil
}

func (a *Agent) helpText() string {
	var lines []string
	for _, c := range append(Commands(), a.Aside...) {
		lines = append(lines, fmt.Sprintf("  %-18s %s\n", strings.TrimSpace("/"+c.Name+" "+c.Args), c.Help))
	}
	slices.Sort(lines)
	var b strings.Builder
	b.WriteString("Commands:\n" + strings.Join(lines, ""))
	b.WriteString("Write $name in a message to load a skill. Everything else goes to the model.")
	return b.String()
}

func (a *Agent) skillText(scope string) string {
	skills := a.prompt.Skills(scope)
	if skills == nil || len(skills.List()) == 0 {
		return "No skills are installed."
	}
	var b strings.Builder
	b.WriteString("Skills (write $name in a message to load one):\n")
	for _, s := range skills.List() {
		fmt.Fprintf(&b, "  %-16s %s\n", s.Name, s.Description)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (a *Agent) usageText(ctx context.Context) string {
	if a.Usage == nil {
		return "What model calls cost is not counted here."
	}
	s, err := a.Usage(ctx)
	if err != nil {
		return "The record of model calls cannot be read: " + err.Error()
	}
	return strings.TrimRight(s, "\n")
}

// Numbers of /history.
const (
	historyDefault = 10
	historyMax     = 50
	historyChars   = 200
)

func (t *turn) historyText(args string) string {
	n := historyDefault
	if args != "" {
		v, err := strconv.Atoi(args)
		if err != nil || v < 1 {
			return fmt.Sprintf("Usage: /history [n], n from 1 to %d.", historyMax)
		}
		n = min(v, historyMax)
	}
	var lines []string
	recs := t.sess.Messages()
	for i := len(recs) - 1; i >= 0 && len(lines) < n; i-- {
		r := recs[i]
		if r.Command || r.Internal || r.Hidden || (r.Role != llm.User && r.Role != llm.Assistant) {
			continue
		}
		s := strings.TrimSpace(strings.ReplaceAll(prompt.DisplayText(r), "\n", " "))
		if s == "" {
			continue
		}
		who := "you"
		if r.Role == llm.Assistant {
			who = "bot"
		}
		lines = append(lines, fmt.Sprintf("%s: %s", who, text.Ellipsis(s, historyChars)))
	}
	if len(lines) == 0 {
		return "This conversation is empty."
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

func (t *turn) chooseModel(ctx context.Context, args string) (string, error) {
	names := append([]string{"default"}, t.Presets...)
	if args == "" {
		var preset string
		t.sess.Meta(presetKey, &preset)
		if preset == "" {
			preset = "default"
		}
		current := "unknown"
		if rt, err := t.Runtime(ctx, strings.TrimPrefix(preset, "default")); err == nil {
			current = rt.Display
		}
		return fmt.Sprintf("Model: %s (preset %s)\nAvailable: %s", current, preset, strings.Join(names, ", ")), nil
	}
	i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, args) })
	if i < 0 {
		return fmt.Sprintf("There is no preset %q. Available: %s", args, strings.Join(names, ", ")), nil
	}
	value := any(names[i])
	preset := names[i]
	if preset == "default" {
		value, preset = nil, ""
	}
	rt, err := t.Runtime(ctx, preset)
	if err != nil {
		return fmt.Sprintf("Preset %s cannot be used: %v", names[i], err), nil
	}
	if err := t.sess.SetMeta(presetKey, value); err != nil {
		return "", fmt.Errorf("keep the model choice: %w", err)
	}
	if err := t.sess.SaveMeta(); err != nil {
		return "", fmt.Errorf("keep the model choice: %w", err)
	}
	return fmt.Sprintf("This conversation now uses %s (preset %s).", rt.Display, names[i]), nil
}

// status is the text of /status. It needs no session, so it answers although
// all slots are busy.
func (a *Agent) status(ctx context.Context, key string) string {
	a.mu.Lock()
	s, known := a.stats[key]
	waiting := 0
	if act := a.actors[key]; act != nil {
		waiting = len(act.queue)
	}
	a.mu.Unlock()
	model := s.model
	if !known {
		if rt, err := a.Runtime(ctx, ""); err == nil {
			model = rt.Display
		} else {
			model = "none: " + err.Error()
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "nanobot %s\nModel: %s\n", a.Version, model)
	if known {
		cached := ""
		if s.usage.Prompt > 0 && s.usage.Cached > 0 {
			cached = fmt.Sprintf(" (%d%% cached)", 100*s.usage.Cached/s.usage.Prompt)
		}
		fmt.Fprintf(&b, "Tokens: %d in / %d out%s\n", s.usage.Prompt, s.usage.Completion, cached)
		if s.budget > 0 {
			fmt.Fprintf(&b, "Context: %d/%d (%d%%)\n", s.context, s.budget, min(100*s.context/s.budget, 999))
		}
		fmt.Fprintf(&b, "Session: %d messages\n", s.messages)
	}
	fmt.Fprintf(&b, "Uptime: %s\nActive turns: %d", uptime(a.Now().Sub(a.started)), a.active())
	if labels := a.subagents.Labels(key); len(labels) > 0 {
		fmt.Fprintf(&b, "\nSubagents: %s", strings.Join(labels, "; "))
	}
	if waiting > 0 {
		fmt.Fprintf(&b, "\nWaiting here: %s", plural(waiting, "message"))
	}
	return b.String()
}

func uptime(d time.Duration) string {
	d = d.Round(time.Second)
	if d >= time.Hour {
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
}

// triggerText binds a trigger to this conversation.
func (t *turn) triggerText(ctx context.Context, name string) string {
	switch {
	case t.it.in.Scope != "" || t.it.in.Untrusted:
		return "Only an owner can do that, in a chat with nobody else."
	case t.Trigger == nil:
		return "Triggers need a gateway."
	case name == "":
		return "Give it a name: /trigger backup-done"
	}
	reply, err := t.Trigger(ctx, name, t.it.in.Route, t.key)
	if err != nil {
		return "The trigger was not made: " + err.Error()
	}
	return reply
}
