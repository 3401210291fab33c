// Package cli is the command line: it hides flags, help texts, exit codes and
// how errors are told to a person. Commands that chat use the SDK like any
// other program.
package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/session"
)

// Exit codes, after sysexits where one fits.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitUnavailable = 69
	exitAuth        = 77
	exitConfig      = 78
	exitInterrupted = 130
)

// Stdio is what a command talks to.
type Stdio struct {
	In, Out, Err *os.File
	Env          []string
}

// command carries what every subcommand needs.
type command struct {
	Stdio
	configPath string
	workspace  string
	logs       bool
}

// failure is an error that was told to the user already.
type failure struct{ code int }

func (f failure) Error() string { return fmt.Sprintf("exit code %d", f.code) }

// usageError marks a wrong call, so that the exit code says so.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, args []string, io Stdio) int {
	c := &command{Stdio: io}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(io.In)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if _, told := errors.AsType[failure](err); !told {
		fmt.Fprintln(io.Err, "nanobot: "+strings.TrimSpace(describe(err)))
	}
	return code
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "nanobot",
		Short: "A personal AI agent that lives in your terminal",
		Long: `nanobot is a personal AI agent. It chats, reads and edits files in its
workspace, runs commands and remembers conversations. It works before it is
configured: with a key from the environment, a model server on this machine,
or a built-in demo.`,
		Example: `  nanobot agent                              chat in the terminal
  nanobot agent -m "what is in my workspace?"   one question, one answer
  echo "explain this" | nanobot agent -m -      read the question from a pipe
  nanobot onboard                            write a configuration to start from
  nanobot status                             what is set up and which model is used`,
		SilenceErrors: true, SilenceUsage: true,
		Version: nanobot.Version(),
	}
	root.SetVersionTemplate("nanobot {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\nSee: %s --help", err, cmd.CommandPath())}
	})
	f := root.PersistentFlags()
	f.StringVarP(&c.configPath, "config", "c", "", "configuration `file` (default ~/.nanobot/config.json)")
	f.StringVarP(&c.workspace, "workspace", "w", "", "`folder` the agent works in")
	f.BoolVar(&c.logs, "logs", false, "write logs to standard error")
	root.AddCommand(c.agentCommand(), c.onboardCommand(), c.statusCommand(), c.sessionsCommand(), c.configCommand(), c.versionCommand())
	return root
}

func (c *command) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Println("nanobot " + nanobot.Version())
			return nil
		},
	}
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

// configOptions says where settings come from for this call.
func (c *command) configOptions() config.Options {
	return config.Options{Path: c.configPath, Env: c.Env}
}

// load reads the configuration and tells its warnings.
func (c *command) load() (*config.Loaded, error) {
	l, err := config.Load(c.configOptions())
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (c *command) logger() *slog.Logger {
	if !c.logs {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (c *command) getenv(name string) string {
	for i := len(c.Env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(c.Env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

func exitCode(err error) int {
	if f, ok := errors.AsType[failure](err); ok {
		return f.code
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return exitConfig
	}
	if _, ok := errors.AsType[*session.BusyError](err); ok {
		return exitUnavailable
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		switch e.Kind {
		case llm.Auth, llm.Permission, llm.Billing:
			return exitAuth
		case llm.Configuration:
			return exitConfig
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, nanobot.ErrStopped) {
		return exitInterrupted
	}
	return exitFailure
}

// describe is the text of an error for a person.
func describe(err error) string {
	if errors.Is(err, nanobot.ErrStopped) || errors.Is(err, context.Canceled) {
		return "stopped; your message is kept in the session"
	}
	s := err.Error()
	if strings.HasPrefix(s, "unknown command") {
		s += "\nSee: nanobot --help"
	}
	return s
}
