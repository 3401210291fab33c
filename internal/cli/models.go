package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// modelsCommand is nanobot models.
type modelsCommand struct {
	*console
	home *home
}

func (c *modelsCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "models", Aliases: []string{"model"}, Short: "List and test models",
		Long: `models lists the models of providers and tests what a model can do.`,
		Example: `  nanobot models list openrouter --filter claude
  nanobot models test
  nanobot models test ollama/qwen3:8b --vision`,
		Args: subcommand, RunE: showHelp,
	}

	cmd.AddCommand(c.listCommand(), c.testCommand())
	return cmd
}

func (c *modelsCommand) listCommand() *cobra.Command {
	var asJSON bool
	var filter string
	cmd := &cobra.Command{
		Use:     "list [PROVIDER]",
		Aliases: []string{"ls"},
		Short:   "List the models of a provider",
		Args:    atMost(1),
		Long: `list requests the models of a provider. Without a name it asks every configured
provider and looks for model servers on this machine. The context window is the
one that the provider reports; for a server on this machine, the one in use.`,
		Example: `  nanobot models list
  nanobot models list ollama
  nanobot models list openrouter --filter gemini --json`,
		ValidArgsFunction: c.providerNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}

			name := ""
			if len(args) == 1 {
				name = args[0]
			}

			list, err := provider.OfferedModels(cmd.Context(), loaded, c.getenv, name, func(provider string, err error) {
				fmt.Fprintf(c.Err, "nanobot: %s: %s\n", provider, c.known(err.Error()))
			})
			if err != nil {
				return err
			}

			list = slices.DeleteFunc(list, func(m provider.OfferedModel) bool {
				return !strings.Contains(strings.ToLower(m.ID), strings.ToLower(filter))
			})
			return c.show(asJSON, list, func() error { return c.print(list) })
		},
	}

	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVarP(&filter, "filter", "f", "", "only names that contain this `text`")
	return cmd
}

// providerNames completes names of providers that are set up.
func (c *modelsCommand) providerNames(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	loaded, err := c.home.read()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	list, err := provider.Survey(cmd.Context(), c.home.providerOptions(loaded))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	var out []string
	for _, s := range list {
		if s.Ready && strings.HasPrefix(s.Name, typed) {
			out = append(out, s.Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (c *modelsCommand) print(list []provider.OfferedModel) error {
	if len(list) == 0 {
		c.sayErr("No models. nanobot provider list shows the configured providers.\n")
		return nil
	}

	w := c.table("PROVIDER", "MODEL", "WINDOW", "TOOLS", "IMAGES")
	for _, m := range list {
		window := "-"
		if m.Window > 0 {
			window = fmt.Sprint(m.Window)
		}
		w.row(m.Provider, text.Label(m.ID, 100), window, cmp.Or(m.Tools, "-"), cmp.Or(m.Vision, "-"))
	}

	return w.Flush()
}
