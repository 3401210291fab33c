package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
)

// agentFlags are the flags of nanobot agent.
type agentFlags struct {
	message, session, model, record string
	files                           []string
	json, noMarkdown, markup        bool
	proceed, resume                 bool
	implied                         bool // the command line does not say agent
	given                           bool // message is the question itself, also if it is -
}

// agentCommand is nanobot agent.
type agentCommand struct {
	*console
	home          *home
	bots          *bots
	conversations *conversations
}

func (c *agentCommand) command() *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent [message]",
		Short: "Chat, or answer one message with -m",
		Long: `Without a message, agent opens a chat in the terminal. With -m it answers one
message and exits. Standard output then contains only the answer, so that you can
pipe it; notes and errors go to standard error, and the exit code shows the
problem (69 model not reachable, 76 a call needed an approval that could not be
asked for, 77 key refused, 78 configuration).

The agent works in the folder it is started in: relative file names and commands
begin there, and its AGENTS.md is followed. Memory and skills stay in the
workspace.

A chat begins a new conversation; --continue goes on with the last one of this
folder, --resume lists earlier ones, -s opens one by its name. With -m, calls
share the conversation cli:direct unless -s names another. In a chat, /help lists
commands such as /new and /model.`,
		Example: `  nanobot agent                                          chat
  nanobot agent --continue                               go on with the last chat
  nanobot agent -m "summarise notes.md in three lines"   one answer
  git diff | nanobot agent -m - --session review         question from a pipe
  nanobot agent -m "what is in this picture?" --file photo.png
  nanobot agent -m "hello" --model anthropic/claude-sonnet-4-5
  nanobot agent -m "list my files" --json | jq -r 'select(.kind=="final").text'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("message") && strings.TrimSpace(f.message) == "" || len(args) == 1 && strings.TrimSpace(args[0]) == "" {
				return usageError{errors.New("the message is empty; without -m, nanobot agent opens a chat")}
			}
			if len(args) > 1 || (len(args) == 1 && f.message != "") {
				return usageError{errors.New("give one message, in quotes: nanobot agent -m \"...\"")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.message = args[0]
			}

			if f.message != "" && (f.proceed || f.resume) {
				return usageError{errors.New("--continue and --resume are for chats; with -m use --session NAME")}
			}
			if f.message != "" {
				return c.oneShot(cmd.Context(), f)
			}
			if f.proceed && f.resume || f.session != "" && (f.proceed || f.resume) {
				return usageError{errors.New("use one of --continue, --resume and --session")}
			}
			if f.json || len(f.files) > 0 {
				return usageError{errors.New("--json and --file need a message: nanobot agent -m \"...\"")}
			}
			return c.converse(cmd.Context(), f)
		},
	}

	fl := cmd.Flags()
	fl.StringVarP(&f.message, "message", "m", "", "`text` to answer; - reads standard input")
	fl.StringVarP(&f.session, "session", "s", "", "`name` of the conversation (with -m: cli:direct)")
	fl.BoolVar(&f.proceed, "continue", false, "go on with the last conversation of this folder")
	fl.BoolVar(&f.resume, "resume", false, "choose an earlier conversation from a list")
	fl.StringVar(&f.record, "record", "", "write the model's traffic and tool results to a `file` for nanobot replay")
	fl.StringVar(&f.model, "model", "", "`model` to use, e.g. anthropic/claude-sonnet-4-5")
	fl.StringArrayVarP(&f.files, "file", "f", nil, "attach a `file` (repeatable)")
	fl.BoolVar(&f.json, "json", false, "write events as JSON, one per line")
	fl.BoolVar(&f.markup, "markdown", true, "render Markdown on a terminal")
	fl.BoolVar(&f.noMarkdown, "no-markdown", false, "show the answer as the model wrote it")
	fl.Bool("classic", false, "accepted for compatibility; the chat is always line by line")
	fl.Bool("no-tui", false, "same as --classic")
	fl.String("theme", "auto", "accepted for compatibility; the terminal defines the colours")
	for _, older := range []string{"markdown", "classic", "no-tui", "theme"} {
		_ = fl.MarkHidden(older) // kept for old scripts
	}
	return cmd
}

func (c *agentCommand) tuiOptions(bot *nanobot.Bot, f agentFlags, talk conversation, l *config.Loaded) tui.Options {
	cfg := l.Config
	return tui.Options{
		Ask: func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
			in.SessionKey, in.Folder = talk.key, cmp.Or(talk.folder, bot.Workspace())
			if !f.json { // programs read English
				in.Language = c.language
			}
			return bot.Ask(ctx, in)
		},
		Stop: func(ctx context.Context, _ string) { bot.Stop(ctx, talk.key) },
		Explain: func(err error) (text, hint string) {
			text, hint, _ = strings.Cut(c.known(strings.TrimSpace(describe(err))), "\n")
			return text, hint
		},
		Console: c.tui(), Getenv: c.getenv,
		Session: talk.key, Language: c.language, Markdown: f.markup && !f.noMarkdown, JSON: f.json,
		// In a terminal a line per call does not disturb, unlike a message in a
		// chat.
		ShowTools: cfg.Channels.SendToolHints || !l.IsSet("channels.sendToolHints"), ShowReasoning: cfg.Channels.ShowReasoning,
	}
}

func (c *agentCommand) oneShot(ctx context.Context, f agentFlags) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	question := f.message
	if question == "-" && !f.given {
		var err error
		if question, err = readQuestion(c.In); err != nil {
			return err
		}
	}

	if err := checkFiles(f.files); err != nil {
		return err
	}

	loaded, err := c.home.read()
	if err != nil {
		return err
	}

	talk, err := c.conversations.choose(ctx, f, loaded)
	if err != nil {
		return err
	}

	late := make(chan bus.Outbound, 64) // more than a subagent says; what does not fit is in the session
	var skip []bus.Kind
	if !f.json { // scripts get everything
		skip = []bus.Kind{bus.ToolOutput, bus.Used}
	}

	bot, err := c.bots.open(ctx, botChoice{model: f.model, record: f.record, folder: talk.folder}, deliverTo(late, skip...))
	if err != nil {
		return err
	}

	defer bot.Close() //nolint:errcheck // always nil
	if !f.json {
		c.home.warn(loaded)
		c.home.firstLook(loaded)
		for _, n := range slices.Concat(bot.Notes(), talk.notes) {
			fmt.Fprintln(c.Err, c.known(n))
		}
	}

	if c.canRemind(f, talk) && !f.json {
		c.showMail(ctx, loaded, talk)
	}

	o := c.tuiOptions(bot, f, talk, loaded)
	o.Message = question
	for _, name := range f.files {
		m, err := bot.Attach(name)
		if err != nil {
			return err
		}
		o.Media = append(o.Media, m)
	}

	if !f.json {
		o.Ask = failing(o.Ask)
	}

	sum, err := tui.OneShot(ctx, o)
	if err != nil {
		return err
	}
	if err := c.await(ctx, bot, f.json, late); err != nil {
		return err
	}

	c.consolidateMemory(ctx, bot, f)
	t := sum.Final.Turn
	if t == nil {
		return nil
	}

	c.home.logger().InfoContext(ctx, "turn ended", "turn", t.ID, "session", t.SessionKey, "stop", t.StopReason, "dur_ms", t.DurationMS,
		"requests", t.Iterations, "tools", t.Tools, "prompt_tokens", t.Usage.Prompt, "completion_tokens", t.Usage.Completion)
	if t.Error != "" {
		return failure{kindCode(llm.Kind(t.ErrorKind))} // told by the final event
	}

	if t.Refused != "" {
		if !f.json { // the final event has it
			c.sayErr("nanobot: a call was refused because its approval could not be asked for: %s\n", printable(text.Label(t.Refused, 300)))
		}
		return failure{exitRefused}
	}
	return nil
}

// checkFiles finds mistakes in --file before anything is started.
func checkFiles(files []string) error {
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return usageError{fmt.Errorf("--file %s: %w", name, errors.Unwrap(err))}
		}
		if !info.Mode().IsRegular() {
			return usageError{fmt.Errorf("--file %s: not a regular file", name)}
		}
	}
	return nil
}

// deliverTo collects what is said in turns that no message asked for. Kinds that are
// not shown are skipped: there are many, and they would take the place of an answer.
func deliverTo(late chan<- bus.Outbound, skip ...bus.Kind) nanobot.Option {
	return nanobot.WithDeliver(func(out nanobot.Event) {
		if slices.Contains(skip, out.Kind) {
			return
		}
		select {
		case late <- out:
		default:
		}
	})
}

// await waits for the subagents a question started and shows what they bring.
func (c *agentCommand) await(ctx context.Context, bot *nanobot.Bot, asJSON bool, late <-chan bus.Outbound) error {
	if bot.Working() == 0 {
		return nil
	}

	if !asJSON {
		c.sayErr("Waiting for subagents. Ctrl-C exits; the next message in this conversation reports their results.\n")
	}

	over := make(chan error, 1)
	go func() { over <- bot.Wait(ctx) }()
	show := func(out bus.Outbound) error {
		switch {
		case asJSON:
			return encodeJSON(c.Out, out, "")
		case out.Kind == bus.Final || out.Kind == bus.Message:
			_, err := fmt.Fprintln(c.Out, strings.TrimSpace(out.Text))
			return err
		}
		return nil
	}
	for {
		select {
		case out := <-late:
			if err := show(out); err != nil {
				return err
			}
		case err := <-over:
			for len(late) > 0 {
				if err := show(<-late); err != nil {
					return err
				}
			}
			return err
		}
	}
}

// readQuestion reads a message from standard input.
func readQuestion(in io.Reader) (string, error) {
	const most = 10 << 20 // far beyond any model's window
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(b) > most {
		return "", usageError{errors.New("standard input is larger than 10 MiB; attach it with --file instead")}
	}

	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", usageError{errNoQuestion}
	}
	return text, nil
}

var errNoQuestion = errors.New("standard input was empty; nothing to answer")

// converse is the interactive mode.
func (c *agentCommand) converse(ctx context.Context, f agentFlags) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loaded, err := c.home.read()
	if err != nil {
		return err
	}

	talk, err := c.conversations.choose(ctx, f, loaded)
	if err != nil {
		return err
	}

	defer talk.close() //nolint:errcheck // the end of the process gives it back as well
	restart := false
	late := make(chan bus.Outbound, 64) // what does not fit is in the session
	deliver := deliverTo(late, bus.ToolOutput, bus.Used)
	opts := []nanobot.Option{deliver, nanobot.WithRestart(func(nanobot.Route) { restart = true; cancel() })}
	reminds := c.canRemind(f, talk)
	if reminds {
		opts = append(opts, nanobot.WithReminders(func(r nanobot.Route) bool { return r.Channel == "cli" }))
	}

	bot, err := c.bots.open(ctx, botChoice{model: f.model, record: f.record, folder: talk.folder}, opts...)
	if err != nil {
		return err
	}

	c.home.warn(loaded)
	c.home.firstLook(loaded)
	interrupts := make(chan os.Signal, 1) // one pending Ctrl-C is enough
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	def := loaded.Config.Agents.Defaults
	o := c.tuiOptions(bot, f, talk, loaded)
	o.Ask = c.gently(o.Ask)
	o.Interrupts = interrupts
	o.Late = late
	o.History = datadir.History.In(bot.DataDir(), "cli_history")
	o.Banner = tui.Banner{Name: def.BotName, Icon: def.BotIcon, Model: bot.Model(), Hints: c.greeting(bot, talk)}
	for _, cmd := range app.Commands(app.Options{}) {
		o.Commands = append(o.Commands, tui.Command{Name: "/" + cmd.Name, Args: cmd.Args, Help: c.in(cmd.Help)})
	}

	keep, stopKeeping := context.WithCancel(ctx)
	var reminders sync.WaitGroup
	closeMail := func() {}
	if reminds {
		reminders.Go(func() { bot.KeepTime(keep) })
		m := c.openMail(ctx, loaded, talk)
		o.Shown, closeMail = m.shown, m.close
		reminders.Go(func() { m.deliver(keep, late) })
	}

	err = tui.Chat(ctx, o)
	stopKeeping()
	reminders.Wait()
	closeMail()

	if !restart {
		leave, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt)
		c.consolidateMemory(leave, bot, f)
		c.dreamIfDue(leave, bot)
		stop()
	}

	cerr := bot.Close()
	if restart {
		return c.restart(f, talk)
	}

	if errors.Is(err, context.Canceled) {
		err = nil // the program was asked to end
	}
	return errors.Join(err, cerr)
}

// canRemind reports whether a chat runs the jobs that were made in the terminal: a
// person must sit at it, and it must be a chat of the terminal and not a look
// into that of a platform.
func (c *agentCommand) canRemind(f agentFlags, talk conversation) bool {
	at := c.tui()
	return at.InTTY && at.OutTTY && f.record == "" && tui.Route(talk.key).Channel == "cli"
}

// greeting is shown above the first prompt.
func (c *agentCommand) greeting(bot *nanobot.Bot, talk conversation) []string {
	hints := slices.Clone(talk.notes)
	for _, n := range bot.Notes() {
		hints = append(hints, c.known(n))
	}
	if at, err := strconv.ParseFloat(c.getenv(restartEnv), 64); err == nil {
		took := time.Since(time.Unix(0, int64(at*1e9))).Seconds()
		hints = append(hints, c.in("Restarted in %.1f s.", took))
	}
	return append(hints, c.in("Type a message, /help for commands, Ctrl-D to leave."))
}

// restartEnv carries the time of a /restart over to the new process.
const restartEnv = "NANOBOT_RESTART_STARTED_AT"

// restart replaces this process by a fresh one with the same arguments, in the
// same conversation.
func (c *agentCommand) restart(f agentFlags, talk conversation) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}

	env := append([]string{}, c.Env...)
	env = append(env, fmt.Sprintf("%s=%.3f", restartEnv, float64(time.Now().UnixMilli())/1000))
	args := slices.DeleteFunc(slices.Clone(os.Args), func(a string) bool { return a == "--continue" || a == "--resume" })
	if f.implied {
		args = c.arguments(os.Args[0])
	}
	return exited(daemon.ReplaceProcess(exe, append(args, "--session="+talk.key), env))
}

// arguments returns the command line of a chat that another command opened.
func (c *agentCommand) arguments(program string) []string {
	args := []string{program, "agent"}
	if c.home.configPath != "" {
		args = append(args, "--config="+c.home.configPath)
	}
	if c.home.workspace != "" {
		args = append(args, "--workspace="+c.home.workspace)
	}
	if c.home.logs {
		args = append(args, "--logs")
	}
	return args
}
