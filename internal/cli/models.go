package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/local"
)

func (c *command) modelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "models", Aliases: []string{"model"}, Short: "List the models of a provider, or try one",
		Long: `models asks providers which models they have, and tries out what a model can do.`,
		Example: `  nanobot models list openrouter --filter claude
  nanobot models test
  nanobot models test ollama/qwen3:8b --vision`,
		Args: subcommand, RunE: showHelp,
	}
	cmd.AddCommand(c.modelsList(), c.modelsTest())
	return cmd
}

// modelJSON is an element of models list --json.
type modelJSON struct {
	Provider string      `json:"provider"`
	ID       string      `json:"id"`
	Window   int         `json:"context_window,omitempty"`
	Tools    llm.Ability `json:"tools,omitempty"`
	Vision   llm.Ability `json:"vision,omitempty"`
}

func (c *command) modelsList() *cobra.Command {
	var asJSON bool
	var filter string
	cmd := &cobra.Command{
		Use: "list [PROVIDER]", Aliases: []string{"ls"}, Short: "List the models a provider offers", Args: atMost(1),
		Long: `list asks a provider for its models. Without a name it asks every provider that is
set up, and looks for model servers on this machine. The window is what the
provider tells; for a server on this machine it is the one really in use.`,
		Example: `  nanobot models list
  nanobot models list ollama
  nanobot models list openrouter --filter gemini --json`,
		ValidArgsFunction: c.readyNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			list, err := c.list(cmd, loaded, args)
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(m modelJSON) bool {
				return !strings.Contains(strings.ToLower(m.ID), strings.ToLower(filter))
			})
			if asJSON {
				return printJSON(cmd, list)
			}
			return printModels(cmd, list)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVarP(&filter, "filter", "f", "", "only names that contain this `text`")
	return cmd
}

// readyNames completes names of providers that are set up.
func (c *command) readyNames(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	loaded, err := config.Load(c.configOptions())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := llm.Survey(c.matchInput(loaded))
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

// list asks the named provider, or all that are set up. Of several, one that
// does not answer is only told about.
func (c *command) list(cmd *cobra.Command, loaded *config.Loaded, args []string) ([]modelJSON, error) {
	ctx := cmd.Context()
	in := c.matchInput(loaded)
	out := []modelJSON{}
	add := func(provider string, offers []llm.Offer) {
		for _, o := range offers {
			out = append(out, modelJSON{provider, o.ID, o.Window, o.Tools, o.Vision})
		}
	}
	if len(args) == 1 {
		in.Provider, in.Model = args[0], "any" // the list does not depend on it
		choice, err := llm.Match(in)
		if err != nil {
			return nil, err
		}
		offers, err := app.ListModels(ctx, loaded, choice)
		add(choice.Name, offers)
		return out, err
	}
	all, err := llm.Survey(in)
	if err != nil {
		return nil, err
	}
	asked := map[string]bool{}
	for _, s := range all {
		if !s.Ready || s.Row.Speech {
			continue
		}
		asked[s.Base] = true
		offers, err := app.ListModels(ctx, loaded, s.Choice)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			cmd.PrintErrf("nanobot: %s: %v\n", s.Name, err)
		}
		add(s.Name, offers)
	}
	for _, s := range local.Discover(ctx, local.Options{Getenv: c.getenv}) {
		if base := strings.Replace(s.Base, "127.0.0.1", "localhost", 1); !asked[s.Base] && !asked[base] {
			add(string(s.Kind), app.LocalOffers(s))
		}
	}
	return out, nil
}

func printModels(cmd *cobra.Command, list []modelJSON) error {
	if len(list) == 0 {
		cmd.PrintErrln("No models. nanobot provider list shows what is set up.")
		return nil
	}
	w := newTable(cmd.OutOrStdout(), "PROVIDER", "MODEL", "WINDOW", "TOOLS", "IMAGES")
	for _, m := range list {
		window := "-"
		if m.Window > 0 {
			window = fmt.Sprint(m.Window)
		}
		w.row(m.Provider, oneLine(m.ID, 100), window, cmp.Or(m.Tools, "-"), cmp.Or(m.Vision, "-"))
	}
	return w.Flush()
}
