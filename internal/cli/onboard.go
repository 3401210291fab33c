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

func onboardCommand(c *command) *cobra.Command {
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
		RunE: func(cmd *cobra.Command, _ []string) error { return onboard(c, cmd, f) },
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
func firstContact(c *command, cmd *cobra.Command) error {
	if !c.atTerminal() {
		return piped(cmd.Context(), c, cmd)
	}
	o := c.options()
	o.Optional = true
	loaded, err := config.Load(o)
	if err != nil {
		return err
	}
	models := provider.New(c.providerOptions(loaded))
	if !models.Configured() {
		_, err := models.Settle(cmd.Context())
		if !loaded.Exists || err == nil && models.Info().Demo {
			return onboard(c, cmd, onboardFlags{})
		}
	}
	return converse(cmd.Context(), c, agentFlags{markup: true, implied: true})
}

// piped answers a question that comes through a pipe. Without one, such as in a
// service or in an editor's task, it shows the help.
func piped(ctx context.Context, c *command, cmd *cobra.Command) error {
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
	return oneShot(ctx, c, agentFlags{message: question, given: true, markup: true, implied: true})
}

func onboard(c *command, cmd *cobra.Command, f onboardFlags) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	o := c.options()
	o.Optional = true
	loaded, err := config.Load(o)
	if err != nil {
		return err
	}
	if c.workspace != "" {
		if f.workspace, err = filepath.Abs(c.workspace); err != nil {
			return err
		}
	}
	s := newSetup(c, cmd, loaded, f)
	asks := f.wizard || c.atTerminal() && !f.yes
	switch {
	case asks:
		s.say("nanobot setup. Enter goes back one step; nothing is written before the end.")
		err = s.run(ctx)
	case f.provider != "" || f.model != "" || f.base != "" || f.keyEnv != "":
		err = s.scripted(ctx)
	default:
		err = errNoModel
	}
	switch {
	case errors.Is(err, errSkipped):
		say(cmd, "Nothing was changed.\n")
		return nil
	case errors.Is(err, errNoModel):
		s = newSetup(c, cmd, loaded, onboardFlags{workspace: f.workspace})
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
	written, err := tellPlaces(c, cmd, loaded, s.model != "" || f.workspace != "")
	if err != nil {
		return err
	}
	c.settings.warnStronger("agents.defaults.model")
	if !asks || !c.atTerminal() {
		for _, name := range written {
			say(cmd, "  wrote %s\n", name)
		}
		nextSteps(c, cmd)
		return nil
	}
	stop() // Ctrl-C is the chat's from here on
	cmd.Println()
	return converse(cmd.Context(), c, agentFlags{markup: true, implied: true})
}

func writeConfig(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("make the configuration folder: %w", err)
	}
	return diskio.WriteFile(file, config.NewFile(), 0o600)
}

// tellPlaces makes the workspace, says where everything is, and returns the
// files that it wrote there.
func tellPlaces(c *command, cmd *cobra.Command, was *config.Loaded, changed bool) ([]string, error) {
	state := "new"
	switch {
	case was.Exists && changed:
		state = "updated; the previous version is kept beside it"
	case was.Exists:
		state = "unchanged"
	}
	say(cmd, "Configuration: %s (%s)\n", was.File, words(cmd, state))
	loaded, err := c.read()
	if err != nil {
		return nil, err
	}
	ws, err := c.workspaceOf(loaded)
	if err != nil {
		return nil, err
	}
	say(cmd, "Workspace:     %s\n", ws)
	return app.SyncTemplates(loaded, ws)
}

// nextSteps tells what is missing until the first real answer.
func nextSteps(c *command, cmd *cobra.Command) {
	a, err := app.Inspect(cmd.Context(), app.Options{Config: c.options(), Workspace: c.workspace, Env: c.Env})
	if err != nil {
		say(cmd, "\nNext, fix this:\n  %s\n", strings.ReplaceAll(known(cmd, strings.TrimSpace(err.Error())), "\n", "\n  "))
		return
	}
	info := a.ModelInfo()
	if info.Demo {
		say(cmd, `
No model yet. Do one of these:
  nanobot onboard                                  in a terminal: provider, key and model
  export OPENROUTER_API_KEY=sk-or-...              or ANTHROPIC_API_KEY, OPENAI_API_KEY, ...
  start Ollama, LM Studio, llama.cpp or vLLM on this machine

Until then a built-in demo answers (it is not an AI):
  nanobot agent -m "what can you do?"
`)
		return
	}
	say(cmd, "Model:         %s (%s)\n\nTry:\n  nanobot agent -m \"hello\"\n  nanobot\n  nanobot channels add telegram        or slack, discord, matrix, ...\n", info.Name, known(cmd, info.Why))
}
