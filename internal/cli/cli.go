// Package cli is the command line: it hides flags, help texts, exit codes and
// how errors are told to a person. Commands that chat use the SDK like any
// other program.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// Stdio holds what a command talks to.
type Stdio struct {
	In, Out, Err *os.File
	Env          []string
	Dir          string           // the folder the program was started in; "" is the workspace
	Now          func() time.Time // nil is time.Now; for simulations
}

// command carries what every subcommand needs.
type command struct {
	*console
	*home
	stores   *stores
	folders  *folders
	bots     *bots
	settings *settings
	signins  *signins
	version  bool
	misnamed error // help was wanted for a command that does not exist
}

// newCommand makes the commands of a call. Flags may name another configuration and
// workspace than it begins with.
func newCommand(io Stdio, configPath, workspace string) *command {
	c := newConsole(io)
	h := &home{console: c, configPath: configPath, workspace: workspace}
	return &command{
		console:  c,
		home:     h,
		stores:   &stores{c, h},
		folders:  &folders{c, h},
		bots:     &bots{c, h},
		settings: &settings{c, h},
		signins:  &signins{c, h},
	}
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, args []string, io Stdio) int {
	if io.Now == nil {
		io.Now = time.Now
	}
	c := newCommand(io, "", "")
	root := c.root(args)
	root.SetArgs(args)
	root.SetIn(io.In)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = c.misnamed
	}
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if _, told := errors.AsType[failure](err); !told {
		fmt.Fprintln(io.Err, "nanobot: "+phrase.Recognize(c.language, strings.TrimSpace(describe(err))))
	}
	return code
}

// root makes the command tree for a call. Where the first argument names a
// command that one is made alone: all the others, with their flags and texts,
// take longer than most of them run.
func (c *command) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "nanobot",
		Short: "A personal AI agent that lives in your terminal",
		Long: `nanobot is a personal AI agent. It chats, reads and edits files in the folder it
is started in and in its workspace, runs commands and remembers conversations.

Without a command, nanobot opens a chat in the terminal; the first time, it asks
for a model before that. The other commands work before it is configured: with a
key from the environment, a model server on this machine, or a built-in demo.`,
		Example: `  nanobot                                       chat; set up a model the first time
  nanobot agent -m "what is in my workspace?"   one question, one answer
  git log -5 | nanobot agent -m -               read the question from a pipe
  nanobot onboard                               set up a model and a workspace
  nanobot status                                what is set up, which model answers`,
		SilenceErrors: true, SilenceUsage: true, Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.version {
				cmd.Println("nanobot " + nanobot.Version())
				return nil
			}
			return firstContact(c, cmd)
		},
	}
	f := root.PersistentFlags()
	f.StringVarP(&c.configPath, "config", "c", "", "configuration `file` (default ~/.nanobot/config.json)")
	f.StringVarP(&c.workspace, "workspace", "w", "", "`folder` of the agent's memory and files (default ~/.nanobot/workspace); it then works there, not in the folder of the start")
	f.BoolVar(&c.logs, "logs", false, "write logs to standard error")
	f.BoolVar(&c.noLogs, "no-logs", false, "write no logs (default)")
	_ = f.MarkHidden("no-logs") // it exists
	root.Flags().BoolVarP(&c.version, "version", "v", false, "print the version")
	all := c.nouns()
	if i := slices.IndexFunc(all, func(n noun) bool { return len(args) > 0 && n.name == args[0] }); i >= 0 {
		all = all[i : i+1]
		root.CompletionOptions.DisableDefaultCmd = true
	}
	for _, n := range all {
		root.AddCommand(n.build())
	}
	teach(root, &c.misnamed)
	speak(root, c.language)
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd { // the shell shows the help
		translateHelp(root, languageOf(root))
	}
	return root
}

// noun is a command of the first level.
type noun struct {
	name  string
	build func() *cobra.Command
}

// nouns are the commands of the first level, in the order of the help.
func (c *command) nouns() []noun {
	accounts := &channelAccounts{c.console, c.home}
	service := &serviceCommand{c.console, c.home}
	gateways := &gatewayCommand{c.console, c.home, service}
	return []noun{
		{"agent", func() *cobra.Command { return agentCommand(c) }},
		{"gateway", gateways.command},
		{"web", (&webCommand{c.console, c.home, gateways}).command},
		{"onboard", func() *cobra.Command { return onboardCommand(c) }},
		{"status", (&statusCommand{c.console, c.home, c.folders}).command},
		{"sessions", (&sessionsCommand{c.console, c.stores}).command},
		{"migrate", (&migrateCommand{c.console, c.home}).command},
		{"trust", (&trustCommand{c.console, c.home}).command},
		{"memory", (&memoryCommand{c.console, c.home, c.stores}).command},
		{"dream", func() *cobra.Command { return dreamCommand(c) }},
		{"undo", (&undoCommand{c.console, c.home, c.stores}).command},
		{"config", (&configCommand{c.console, c.home, c.settings}).command},
		{"keys", (&keysCommand{c.console, c.home, c.settings}).command},
		{"provider", (&providerCommand{c.console, c.home, c.settings, c.signins}).command},
		{"models", (&modelsCommand{c.console, c.home}).command},
		{"usage", (&usageCommand{c.console, c.home}).command},
		{"replay", (&replayCommand{c.console, c.home}).command},
		{"transcribe", (&transcribeCommand{c.console, c.home}).command},
		{"mcp", (&mcpCommand{c.console, c.home, c.stores, c.bots, c.settings}).command},
		{"skill", (&skillCommand{c.console, c.home}).command},
		{"channels", (&channelsCommand{c.console, c.home, accounts}).command},
		{"pairing", (&pairingCommand{c.console, c.home}).command},
		{"doctor", (&doctorCommand{c.console, c.home, c.folders}).command},
		{"version", func() *cobra.Command { return versionCommand(c.console) }},
		{"service", service.command},
		{"health", (&healthCommand{c.console, c.home}).command},
		{"backup", (&backupCommand{c.console, c.home}).command},
		{"cron", (&cronCommand{c.console, c.home, c.stores}).command},
		{"trigger", (&triggerCommand{c.console, c.stores}).command},
		{"serve", (&serveCommand{c.console, c.home}).command},
		{"plugins", (&pluginsCommand{c.console, c.home}).command},
	}
}

func versionCommand(c *console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Example: "  nanobot version\n  nanobot version --json",
		RunE: func(*cobra.Command, []string) error {
			about := map[string]string{
				"version": nanobot.Version(),
				"go":      runtime.Version(),
				"os":      runtime.GOOS,
				"arch":    runtime.GOARCH,
			}
			return c.show(asJSON, about, func() error {
				fmt.Fprintln(c.Out, "nanobot "+nanobot.Version())
				return nil
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// noArgs refuses arguments with the right exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, got %q\nSee: %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}

// exactArgs wants n arguments named by the usage line.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("usage: %s\nSee: %s --help", cmd.UseLine(), cmd.CommandPath())}
		}
		return nil
	}
}

// complete offers a shell the names that fit what was typed.
func (c *command) complete(names func(c *command, cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return names(c, cmd, args, typed)
	}
}
