package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// onboardFlags are the flags of nanobot onboard.
type onboardFlags struct {
	wizard, yes, noTest           bool
	provider, keyEnv, base, model string
	workspace                     string // absolute; "" leaves it as it is
}

// onboardCommand is nanobot onboard.
type onboardCommand struct {
	*console
	home     *home
	settings *settings
	signIns  *signIns
	agent    *agentCommand
}

func (c *onboardCommand) command() *cobra.Command {
	var f onboardFlags
	cmd := &cobra.Command{
		Use:     "onboard",
		Aliases: []string{"setup"},
		Short:   "Set up a model, a configuration and a workspace",
		Long: `onboard shows the keys and model servers that it finds on this machine, asks for a
provider, a key and a model, tests them with one small call, and opens a chat.
Enter goes back one step, skip skips one, Ctrl-C leaves without a change. It
changes only what you answer; you can run it again at any time.

With --yes, or without a terminal, it asks nothing: it writes what the flags say
and otherwise a small configuration with safe defaults. It creates the workspace
with its initial files and overwrites none.`,
		Example: `  nanobot onboard
  nanobot onboard --provider anthropic          ask only for the rest
  nanobot onboard --yes --provider openai --key-env OPENAI_API_KEY --model gpt-4.1
  nanobot onboard --yes --provider vllm --base-url http://10.0.0.5:8000/v1
  nanobot onboard -c ~/lab/nanobot.json -w ~/lab/agent`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), f) },
	}

	fl := cmd.Flags()
	fl.BoolVarP(&f.yes, "yes", "y", false, "ask nothing and use the flags")
	fl.StringVar(&f.provider, "provider", "", "`name` of the provider (nanobot provider list)")
	fl.StringVar(&f.keyEnv, "key-env", "", "environment `variable` that holds the key; the file refers to it")
	fl.StringVar(&f.base, "base-url", "", "`URL` of a server without a usual address")
	fl.StringVar(&f.model, "model", "", "`model` to use")
	fl.BoolVar(&f.noTest, "no-test", false, "do not test the model with a small call")
	fl.BoolVar(&f.wizard, "wizard", false, "ask even if the input is not a terminal")
	fl.Bool("refresh", false, "kept for compatibility; onboard always keeps your values")
	return cmd
}

// firstContact runs when no command is given: it sets the program up if
// nothing is configured, and else chats. Without a terminal it shows its help.
func (c *onboardCommand) firstContact(cmd *cobra.Command) error {
	if !c.atTerminal() {
		return c.piped(cmd.Context(), cmd)
	}

	loaded, err := c.home.readOptional()
	if err != nil {
		return err
	}

	models := provider.New(c.home.providerOptions(loaded))
	if !models.Configured() {
		_, err := models.SelectDefault(cmd.Context())
		if !loaded.Exists || err == nil && models.Info().Demo {
			return c.run(cmd.Context(), onboardFlags{})
		}
	}
	return c.agent.converse(cmd.Context(), agentFlags{markup: true, implied: true})
}

// piped answers a question that comes through a pipe. Without one, such as in a
// service or in an editor's task, it shows the help.
func (c *onboardCommand) piped(ctx context.Context, cmd *cobra.Command) error {
	info, err := c.In.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 && !info.Mode().IsRegular() {
		return cmd.Help()
	}

	question, err := readQuestion(c.In)
	if errors.Is(err, errNoQuestion) {
		return cmd.Help()
	}
	if err != nil {
		return err
	}
	return c.agent.oneShot(ctx, agentFlags{message: question, given: true, markup: true, implied: true})
}

func (c *onboardCommand) run(ctx context.Context, f onboardFlags) error {
	asking, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	loaded, err := c.home.readOptional()
	if err != nil {
		return err
	}

	if c.home.workspace != "" {
		if f.workspace, err = filepath.Abs(c.home.workspace); err != nil {
			return err
		}
	}

	s := c.newSetup(loaded, f)
	asks := f.wizard || c.atTerminal() && !f.yes
	switch {
	case asks:
		s.say("nanobot setup. Enter goes back one step; nothing is written before the end.")
		err = s.run(asking)
	case f.provider != "" || f.model != "" || f.base != "" || f.keyEnv != "":
		err = s.scripted(asking)
	default:
		err = errNoModel
	}

	switch {
	case errors.Is(err, errSkipped):
		c.say("Nothing was changed.\n")
		return nil
	case errors.Is(err, errNoModel):
		s = c.newSetup(loaded, onboardFlags{workspace: f.workspace})
	case err != nil:
		return err
	}

	if err := s.save(); err != nil {
		return err
	}

	if s.model == "" && f.workspace == "" && !loaded.Exists {
		if err := writeConfig(loaded.File); err != nil {
			return err
		}
	}

	written, err := c.printPlaces(loaded, s.model != "" || f.workspace != "")
	if err != nil {
		return err
	}

	c.settings.warnStronger("agents.defaults.model")
	if !asks || !c.atTerminal() {
		for _, name := range written {
			c.say("  wrote %s\n", name)
		}
		c.printNext(ctx)
		return nil
	}

	stop() // Ctrl-C is the chat's from here on
	fmt.Fprintln(c.Out)
	return c.agent.converse(ctx, agentFlags{markup: true, implied: true})
}

func writeConfig(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("make the configuration folder: %w", err)
	}
	return diskio.WriteFile(file, config.NewFile(), 0o600)
}

// printPlaces makes the workspace, says where everything is, and returns the
// files that it wrote there.
func (c *onboardCommand) printPlaces(was *config.Loaded, changed bool) ([]string, error) {
	state := "new"
	switch {
	case was.Exists && changed:
		state = "updated; the previous version is kept beside it"
	case was.Exists:
		state = "unchanged"
	}

	c.say("Configuration: %s (%s)\n", was.File, c.in(state))
	loaded, err := c.home.read()
	if err != nil {
		return nil, err
	}

	ws, err := c.home.workspaceOf(loaded)
	if err != nil {
		return nil, err
	}

	c.say("Workspace:     %s\n", ws)
	return app.SyncTemplates(loaded, ws)
}

// printNext tells what is missing until the first real answer.
func (c *onboardCommand) printNext(ctx context.Context) {
	a, err := app.Inspect(ctx, app.Options{Config: c.home.options(), Workspace: c.home.workspace, Env: c.Env})
	if err != nil {
		c.say("\nNext, fix this:\n  %s\n", strings.ReplaceAll(c.known(strings.TrimSpace(err.Error())), "\n", "\n  "))
		return
	}

	info := a.ModelInfo()
	if info.Demo {
		c.say(`
No model yet. Do one of these:
  nanobot onboard                                  in a terminal: provider, key and model
  export OPENROUTER_API_KEY=sk-or-...              or ANTHROPIC_API_KEY, OPENAI_API_KEY, ...
  start Ollama, LM Studio, llama.cpp or vLLM on this machine

Until then a built-in demo answers (it is not an AI):
  nanobot agent -m "what can you do?"
`)
		return
	}

	c.say("Model:         %s (%s)\n\nTry:\n  nanobot agent -m \"hello\"\n  nanobot\n  nanobot channels add telegram        or slack, discord, matrix, ...\n", info.Name, c.known(info.Why))
}
