package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/diskio"
)

func onboardCommand(c *command) *cobra.Command {
	var wizard, refresh bool
	cmd := &cobra.Command{
		Use:   "onboard",
		Short: "Set up a configuration and a workspace",
		Long: `onboard writes a small configuration file with safe defaults and creates the
workspace with its initial files. You can run it again at any time: it never
overwrites anything.`,
		Example: `  nanobot onboard
  nanobot onboard --wizard          answer three questions: provider, key, model
  nanobot onboard -c ~/lab/nanobot.json -w ~/lab/agent`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return onboard(c, cmd, wizard) },
	}
	cmd.Flags().BoolVar(&wizard, "wizard", false, "ask for provider, key and model")
	cmd.Flags().BoolVar(&refresh, "refresh", false, "kept for compatibility; onboard always keeps your values")
	return cmd
}

func onboard(c *command, cmd *cobra.Command, wizard bool) error {
	o := c.configOptions()
	o.Optional = true
	loaded, err := config.Load(o)
	if err != nil {
		return err
	}
	if loaded.Exists {
		cmd.Printf("Configuration: %s (unchanged)\n", loaded.File)
	} else {
		if err := writeConfig(loaded.File); err != nil {
			return err
		}
		cmd.Printf("Configuration: %s (new)\n", loaded.File)
	}
	if c.workspace != "" {
		abs, err := filepath.Abs(c.workspace)
		if err != nil {
			return err
		}
		if err := setConfig(loaded.File, setting{"agents.defaults.workspace", abs}); err != nil {
			return err
		}
	}
	if loaded, err = config.Load(o); err != nil {
		return err
	}
	ws, err := app.Workspace(c.workspace, loaded)
	if err != nil {
		return err
	}
	written, err := app.SyncTemplates(loaded, ws)
	if err != nil {
		return err
	}
	cmd.Printf("Workspace:     %s\n", ws)
	for _, name := range written {
		cmd.Printf("  wrote %s\n", name)
	}
	if wizard {
		if err := runWizard(c, cmd, loaded.File); err != nil {
			return err
		}
	}
	return nextSteps(c, cmd)
}

func writeConfig(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("make the configuration folder: %w", err)
	}
	return diskio.WriteFile(file, config.NewFile(), 0o600)
}

// nextSteps tells what is missing until the first real answer.
func nextSteps(c *command, cmd *cobra.Command) error {
	a, err := app.Inspect(cmd.Context(), app.Options{Config: c.configOptions(), Workspace: c.workspace, Env: c.Env})
	if err != nil {
		cmd.Printf("\nNext, fix this:\n  %s\n", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n  "))
		return nil
	}
	info := a.ModelInfo()
	if info.Demo {
		cmd.Print(`
No model yet. Do one of these:
  nanobot onboard --wizard                         provider, key and model in three questions
  export OPENROUTER_API_KEY=sk-or-...              or ANTHROPIC_API_KEY, OPENAI_API_KEY, ...
  start Ollama, LM Studio, llama.cpp or vLLM on this machine

Until then a built-in demo answers (it is not an AI):
  nanobot agent -m "what can you do?"
`)
		return nil
	}
	cmd.Printf("Model:         %s (%s)\n\nReady. Try:\n  nanobot agent -m \"hello\"\n  nanobot agent\n", info.Name, info.Why)
	return nil
}

// setting is a setting and its new value; "" leaves it as it is.
type setting struct{ path, value string }

// setConfig changes settings in the file, together, and nothing else.
func setConfig(file string, settings ...setting) error {
	f, err := config.Open(file)
	if err != nil {
		return err
	}
	for _, s := range settings {
		if s.value == "" {
			continue
		}
		if err := f.SetValue(s.path, s.value); err != nil {
			return err
		}
	}
	return f.Save(time.Now())
}
