// Package cli is the command line: it hides flags, help texts, exit codes and
// how errors are told to a person. Commands that chat use the SDK like any
// other program.
package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

// program is the command line of one call.
type program struct {
	*console
	home     *home
	version  bool
	misnamed error // help was wanted for a command that does not exist
}

// newProgram makes the command line of a call. Flags may name another configuration and
// workspace than it begins with.
func newProgram(io Stdio, configPath, workspace string) *program {
	c := newConsole(io)
	return &program{console: c, home: &home{console: c, configPath: configPath, workspace: workspace}}
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, args []string, io Stdio) int {
	if io.Now == nil {
		io.Now = time.Now
	}

	p := newProgram(io, "", "")
	root := p.root(args)
	root.SetArgs(args)
	root.SetIn(io.In)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = p.misnamed
	}

	if err == nil {
		return exitOK
	}

	code := exitCode(err)
	if _, told := errors.AsType[failure](err); !told {
		fmt.Fprintln(io.Err, "nanobot: "+phrase.Recognize(p.language, strings.TrimSpace(describe(err))))
	}
	return code
}

// root makes the command tree for a call. Where the first argument names a
// command that one is made alone: all the others, with their flags and texts,
// take longer than most of them run.
func (p *program) root(args []string) *cobra.Command {
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
			if p.version {
				fmt.Fprintln(p.Out, "nanobot "+nanobot.Version())
				return nil
			}
			return p.onboard(p.agent()).firstContact(cmd)
		},
	}

	f := root.PersistentFlags()
	f.StringVarP(&p.home.configPath, "config", "c", "", "configuration `file` (default ~/.nanobot/config.json)")
	f.StringVarP(&p.home.workspace, "workspace", "w", "", "`folder` of the agent's memory and files (default ~/.nanobot/workspace); it then works there, not in the folder of the start")
	f.BoolVar(&p.home.logs, "logs", false, "write logs to standard error")
	f.BoolVar(&p.home.noLogs, "no-logs", false, "write no logs (default)")
	_ = f.MarkHidden("no-logs") // it exists
	root.Flags().BoolVarP(&p.version, "version", "v", false, "print the version")
	all := p.nouns()
	if i := slices.IndexFunc(all, func(n noun) bool { return len(args) > 0 && n.name == args[0] }); i >= 0 {
		all = all[i : i+1]
		root.CompletionOptions.DisableDefaultCmd = true
	}

	for _, n := range all {
		root.AddCommand(n.build())
	}

	teach(root, &p.misnamed)
	speak(root, p.language)
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

// agent makes nanobot agent, which the call without a command opens, too.
func (p *program) agent() *agentCommand {
	bots := &bots{p.console, p.home}
	talks := &conversations{p.console, p.home, &folders{p.console, p.home}}
	return &agentCommand{p.console, p.home, bots, talks}
}

func (p *program) onboard(agent *agentCommand) *onboardCommand {
	return &onboardCommand{p.console, p.home, &settings{p.console, p.home}, &signIns{p.console, p.home}, agent}
}

// nouns returns the commands of the first level, in the order of the help.
func (p *program) nouns() []noun {
	c, h := p.console, p.home
	stores := &stores{c, h}
	folders := &folders{c, h}
	bots := &bots{c, h}
	settings := &settings{c, h}
	signIns := &signIns{c, h}
	accounts := &channelAccounts{c, h}

	agent := p.agent()
	service := &serviceCommand{c, h}
	gateway := &gatewayCommand{c, h, service}

	return []noun{
		{"agent", agent.command},
		{"gateway", gateway.command},
		{"web", (&webCommand{c, h, gateway}).command},
		{"onboard", p.onboard(agent).command},
		{"status", (&statusCommand{c, h, folders}).command},
		{"sessions", (&sessionsCommand{c, stores}).command},
		{"migrate", (&migrateCommand{c, h}).command},
		{"trust", (&trustCommand{c, h}).command},
		{"memory", (&memoryCommand{c, h, stores}).command},
		{"dream", (&dreamCommand{c, bots}).command},
		{"undo", (&undoCommand{c, h, stores}).command},
		{"config", (&configCommand{c, h, settings}).command},
		{"keys", (&keysCommand{c, h, settings}).command},
		{"provider", (&providerCommand{c, h, settings, signIns}).command},
		{"models", (&modelsCommand{c, h}).command},
		{"usage", (&usageCommand{c, h}).command},
		{"replay", (&replayCommand{c, h}).command},
		{"transcribe", (&transcribeCommand{c, h}).command},
		{"mcp", (&mcpCommand{c, h, stores, bots, settings}).command},
		{"skill", (&skillCommand{c, h}).command},
		{"channels", (&channelsCommand{c, h, accounts}).command},
		{"pairing", (&pairingCommand{c, h}).command},
		{"doctor", (&doctorCommand{c, h, folders}).command},
		{"version", func() *cobra.Command { return versionCommand(c) }},
		{"service", service.command},
		{"health", (&healthCommand{c, h}).command},
		{"backup", (&backupCommand{c, h}).command},
		{"cron", (&cronCommand{c, h, stores}).command},
		{"trigger", (&triggerCommand{c, stores}).command},
		{"serve", (&serveCommand{c, h}).command},
		{"plugins", (&pluginsCommand{c, h}).command},
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
