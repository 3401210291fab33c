package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// configCommand is nanobot config.
type configCommand struct {
	*console
	home     *home
	settings *settings
}

func (c *configCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show, check and change settings", Args: subcommand,
		Long: `config shows and changes the settings of nanobot. A setting is named by its path,
such as agents.defaults.model. The first of these sources that has a value wins:
the command line, an environment variable (NANOBOT_AGENTS__DEFAULTS__MODEL), the
configuration file, the default. Credentials are never printed.`,
		Example: `  nanobot config set agents.defaults.model openrouter/anthropic/claude-sonnet-4.5
  nanobot config set providers.openrouter.apiKey '${OPENROUTER_API_KEY}'
  nanobot config set providers.openrouter.apiKey -     read it from standard input
  nanobot config get agents.defaults.maxTokens
  nanobot config explain agents.defaults.model         why this value?
  nanobot config validate --strict`,
		RunE: showHelp,
	}

	cmd.AddCommand(c.showCommand(), c.getCommand(), c.setCommand(), c.unsetCommand(), c.validateCommand(),
		c.schemaCommand(), c.explainCommand(), c.pathCommand(), c.editCommand(), c.restoreCommand())
	return cmd
}

// settingNames completes paths of settings.
func settingNames(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	other := func(path string) bool { return !strings.HasPrefix(path, typed) }
	return slices.DeleteFunc(config.Paths(gateway.Sections(nil)), other), cobra.ShellCompDirectiveNoFileComp
}

func (c *configCommand) showCommand() *cobra.Command {
	var set bool
	cmd := &cobra.Command{
		Use: "show", Short: "Print all settings in effect as JSON", Args: noArgs,
		Example: "  nanobot config show\n  nanobot config show --set     only settings that are set",
		RunE: func(*cobra.Command, []string) error {
			l, err := c.home.load()
			if err != nil {
				return err
			}
			_, err = c.Out.Write(l.Show(set))
			return err
		},
	}

	cmd.Flags().BoolVar(&set, "set", false, "omit settings that have their default")
	return cmd
}

func (c *configCommand) getCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "get PATH", Short: "Print the value of a setting or section", Args: exactArgs(1),
		Example:           "  nanobot config get agents.defaults.model\n  nanobot config get gateway.heartbeat",
		ValidArgsFunction: settingNames,
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := c.home.load()
			if err != nil {
				return err
			}

			value, err := l.Get(args[0])
			if err != nil {
				return usageError{err}
			}

			var text string
			if !asJSON && json.Unmarshal([]byte(value), &text) == nil {
				value = text
			}

			fmt.Fprintln(c.Out, value)
			return nil
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print strings with quotes, as JSON")
	return cmd
}

func (c *configCommand) setCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "set PATH VALUE", Short: "Change one setting in the file", Args: exactArgs(2),
		Long: `set changes one setting and preserves the rest of the file: order, comments,
unknown keys and ${...} references. It refuses an invalid value. The previous
version is kept as config.json.bak-<time>.

Write lists as JSON or separated by commas, and objects as JSON. The value - is
read from standard input, which keeps keys out of the shell history.`,
		Example: `  nanobot config set agents.defaults.maxTokens 4096
  nanobot config set agents.defaults.disabledSkills tmux,weather
  nanobot config set channels.telegram.enabled true
  nanobot config set channels.telegram.allowFrom '["123456789"]'
  pbpaste | nanobot config set providers.anthropic.apiKey -`,
		ValidArgsFunction: settingNames,
		RunE: func(_ *cobra.Command, args []string) error {
			value := args[1]
			if value == "-" {
				const most = 1 << 20 // no setting is longer
				b, err := io.ReadAll(io.LimitReader(c.In, most))
				if err != nil {
					return fmt.Errorf("read the value: %w", err)
				}
				value = strings.TrimRight(string(b), "\r\n")
			}

			return c.settings.edit(args[0], dry, func(f *config.File) (string, error) {
				return setIn, f.Set(args[0], value)
			})
		},
	}

	cmd.Flags().BoolVar(&dry, "dry-run", false, "only check the change")
	return cmd
}

func (c *configCommand) unsetCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "unset PATH", Short: "Remove one setting from the file", Args: exactArgs(1),
		Example:           "  nanobot config unset agents.defaults.modelPreset",
		ValidArgsFunction: settingNames,
		RunE: func(_ *cobra.Command, args []string) error {
			return c.settings.edit(args[0], dry, func(f *config.File) (string, error) {
				found, err := f.Unset(args[0])
				if err == nil && !found {
					return nothingIn, nil
				}
				return removedFrom, err
			})
		},
	}

	cmd.Flags().BoolVar(&dry, "dry-run", false, "only check the change")
	return cmd
}

// validation is written by config validate --json.
type validation struct {
	File     string           `json:"file"`
	Exists   bool             `json:"exists"`
	OK       bool             `json:"ok"`
	Kind     config.Kind      `json:"kind,omitempty"`
	Issues   []config.Problem `json:"issues,omitempty"`
	Warnings []config.Problem `json:"warnings,omitempty"`
}

func (c *configCommand) validateCommand() *cobra.Command {
	var strict, asJSON bool
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check the configuration and explain problems",
		Args:  atMost(1),
		Long: `validate reads the configuration like every command and lists errors and
warnings. It exits with 78 if the configuration is not valid. With --strict,
unknown and duplicate keys are errors too, and so are parts that would stay off
because of a mistake in their section: channels, MCP servers and providers of
search, pictures and speech.`,
		Example: "  nanobot config validate\n  nanobot config validate ./config.json --strict\n  nanobot config validate --json",
		RunE: func(_ *cobra.Command, args []string) error {
			o := c.home.options()
			o.Strict = strict
			if len(args) > 0 {
				o.Path = args[0]
			}

			l, err := config.Load(o)
			if err == nil {
				err = doctor.CheckSettings(l, strict)
			}

			v, ok := validationOf(l, err)
			if !ok {
				return err
			}

			shown := c.show(asJSON, v, func() error {
				if err != nil {
					return err
				}
				c.printValid(l)
				return nil
			})
			if shown == nil && !v.OK {
				return failure{exitConfig}
			}
			return shown
		},
	}

	cmd.Flags().BoolVar(&strict, "strict", false, "treat unknown and duplicate keys as errors")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// validationOf returns what a check found, and false if it could not be made.
func validationOf(l *config.Loaded, err error) (validation, bool) {
	if err == nil {
		return validation{File: l.File, Exists: l.Exists, OK: true, Warnings: l.Warnings}, true
	}
	e, ok := errors.AsType[*config.Error](err)
	if !ok {
		return validation{}, false
	}
	return validation{File: e.File, Exists: !errors.Is(err, fs.ErrNotExist), Kind: e.Kind, Issues: e.Issues}, true
}

func (c *configCommand) printValid(l *config.Loaded) {
	for _, w := range l.Warnings {
		c.say("warning: %s\n", c.known(w.String()))
	}
	if l.Exists {
		c.say("ok: %s\n", l.File)
	} else {
		c.say("ok: there is no %s, so defaults are used\n", l.File)
	}
}

func (c *configCommand) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration file, for editors", Args: noArgs,
		Example: "  nanobot config schema > nanobot.schema.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := c.Out.Write(config.Schema(gateway.Sections(nil)))
			return err
		},
	}
}

// explanation is written by config explain --json.
type explanation struct {
	Path     string       `json:"path"`
	Doc      string       `json:"doc,omitempty"`
	Value    any          `json:"value"`
	Source   sourceJSON   `json:"source"`
	Shadowed []sourceJSON `json:"shadowed,omitempty"`
}

type sourceJSON struct {
	Layer     config.Layer    `json:"layer"`
	Name      string          `json:"name,omitempty"`
	File      string          `json:"file,omitempty"`
	Line      int             `json:"line,omitempty"`
	Column    int             `json:"column,omitempty"`
	Reference bool            `json:"reference,omitempty"`
	Value     json.RawMessage `json:"value"`
}

func sourceOf(s config.Source) sourceJSON {
	return sourceJSON{s.Layer, s.Name, s.File, s.Line, s.Column, s.Reference, json.RawMessage(s.Value)}
}

func (c *configCommand) explainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "explain PATH", Short: "Show where the value of a setting comes from", Args: exactArgs(1),
		Long: `explain prints the value of a setting, its source, and the sources that it
overrides, down to the default. For a section, it explains every setting in it.`,
		Example:           "  nanobot config explain agents.defaults.model\n  nanobot config explain providers",
		ValidArgsFunction: settingNames,
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := c.home.load()
			if err != nil {
				return err
			}

			es, err := l.Describe(args[0])
			if err != nil {
				return usageError{err}
			}
			return c.show(asJSON, explanationsOf(es), func() error {
				for _, e := range es {
					c.printExplanation(e)
				}
				return nil
			})
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func explanationsOf(es []config.Explanation) []explanation {
	out := []explanation{}
	for _, e := range es {
		x := explanation{Path: e.Path, Doc: e.Doc, Value: json.RawMessage(e.Value), Source: sourceOf(e.Source)}
		for _, s := range e.Shadowed {
			x.Shadowed = append(x.Shadowed, sourceOf(s))
		}
		out = append(out, x)
	}
	return out
}

func (c *configCommand) printExplanation(e config.Explanation) {
	fmt.Fprintf(c.Out, "%s = %s\n", e.Path, e.Value)
	if e.Doc != "" {
		fmt.Fprintf(c.Out, "  %s\n", c.known(e.Doc))
	}
	c.say("  from  %s\n", e.Source)
	for _, s := range e.Shadowed {
		c.say("  hides %s: %s\n", s, s.Value)
	}
}

func (c *configCommand) pathCommand() *cobra.Command {
	return &cobra.Command{
		Use: "path", Short: "Print the path of the configuration file", Args: noArgs,
		Example: "  $EDITOR \"$(nanobot config path)\"",
		RunE: func(*cobra.Command, []string) error {
			file, err := c.home.file()
			if err != nil {
				return err
			}
			fmt.Fprintln(c.Out, file)
			return nil
		},
	}
}
