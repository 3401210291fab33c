package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// providerCommand is nanobot provider.
type providerCommand struct {
	*console
	home     *home
	settings *settings
	signIns  *signIns
}

func (c *providerCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "provider", Aliases: []string{"providers"}, Short: "Show providers and how one is selected",
		Long: `provider shows the known providers, your own endpoints, where their keys come from,
and which provider is selected for a model.`,
		Example: `  nanobot provider list --ready
  nanobot provider explain gpt-4o
  nanobot provider explain openrouter/anthropic/claude-sonnet-4.5`,
		Args: subcommand, RunE: showHelp,
	}

	cmd.AddCommand(c.listCommand(), c.explainCommand())
	cmd.AddCommand(c.signinCommands()...)
	return cmd
}

func (c *providerCommand) listCommand() *cobra.Command {
	var asJSON, ready bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List providers, where their keys come from and their addresses",
		Args:    noArgs,
		Long: `list shows all known providers and your own endpoints, configured ones first. To
add another OpenAI-compatible endpoint, give it a name and an address with
nanobot config set providers.NAME.apiBase URL.`,
		Example: `  nanobot provider list
  nanobot provider list --ready
  nanobot provider list --json | jq -r '.[] | select(.ready) | .name'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}

			list, err := provider.Survey(cmd.Context(), c.home.providerOptions(loaded))
			if err != nil {
				return err
			}

			if ready {
				list = slices.DeleteFunc(list, func(s catalog.Status) bool { return !s.Ready })
			}

			slices.SortStableFunc(list, func(a, b catalog.Status) int { return cmp.Compare(rank(a), rank(b)) })
			return c.show(asJSON, provider.States(list), func() error { return c.print(list) })
		},
	}

	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&ready, "ready", false, "only configured providers")
	return cmd
}

// rank puts what is set up first.
func rank(s catalog.Status) int {
	if s.Ready {
		return 0
	}
	return 1
}

func (c *providerCommand) print(list []catalog.Status) error {
	if len(list) == 0 {
		c.say("No provider is configured. Set one up with: nanobot onboard\n")
		return nil
	}

	w := c.table(" ", "PROVIDER", "KEY", "ADDRESS", "PROTOCOL")
	for _, s := range list {
		mark := " "
		if s.Ready {
			mark = "✓"
		}

		wire := string(s.Row.Wire)
		if s.Row.Speech {
			wire = c.in("speech only")
		}

		name := s.Name
		if own := s.Row.Display; s.Own && own != name {
			name += " (" + own + ")"
		}
		w.row(mark, name, c.keyNote(s), cmp.Or(s.Base, "-"), wire)
	}

	if err := w.Flush(); err != nil {
		return err
	}

	for _, s := range list {
		for _, text := range s.Warnings {
			c.sayErr("nanobot: warning: %s: %s\n", s.Name, c.known(text))
		}
	}
	return nil
}

// keyNote says where a key comes from, or how to give one.
func (c *providerCommand) keyNote(s catalog.Status) string {
	switch {
	case s.KeySource != "":
		return c.in("from %s", s.KeySource)
	case s.Row.Auth != "":
		return c.in("sign in: nanobot provider login %s", s.Name)
	case s.Row.Wire == catalog.BedrockWire:
		return c.in("AWS credentials")
	case s.Row.Local:
		return c.in("none needed")
	case s.Own || s.Row.Direct:
		if s.Base == "" {
			return c.in("needs providers.%s.apiBase", s.Name)
		}
		return c.in("none")

	case len(s.Row.EnvKeys) > 0:
		return c.in("set %s", s.Row.EnvKeys[0])
	}
	return c.in("none")
}

// choiceJSON is written by provider explain --json.
type choiceJSON struct {
	Model     string         `json:"model"`
	Provider  string         `json:"provider"`
	Display   string         `json:"display"`
	Step      catalog.Step   `json:"step"`
	Why       string         `json:"why"`
	KeySource string         `json:"key_source,omitempty"`
	SignIn    bool           `json:"sign_in,omitempty"`
	Base      string         `json:"base,omitempty"`
	Wires     []catalog.Wire `json:"wires"`
	WireModel string         `json:"wire_model"`
	Window    int            `json:"context_window,omitempty"`
	Warnings  []string       `json:"warnings,omitempty"`
}

func (c *providerCommand) explainCommand() *cobra.Command {
	var asJSON bool
	var named, effort string
	cmd := &cobra.Command{
		Use: "explain MODEL", Short: "Show which provider is selected for a model, and why", Args: exactArgs(1),
		Long: `explain shows which provider is selected for a model or a preset, which rule
selected it, where the key comes from, and the model name that the provider
receives. It makes no requests.`,
		Example: `  nanobot provider explain claude-sonnet-4-6
  nanobot provider explain qwen3:8b
  nanobot provider explain gpt-5 --provider openrouter --json`,
		ValidArgsFunction: c.home.completePresets,
		RunE: func(_ *cobra.Command, args []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}

			in := provider.MatchInput(loaded, c.getenv)
			in.Model, in.Provider = args[0], named
			if p, ok := loaded.Config.ModelPresets[args[0]]; ok {
				in.Model, effort = p.Model, cmp.Or(effort, p.ReasoningEffort)
				in.Provider = cmp.Or(named, p.Provider)
			}

			choice, err := catalog.Match(in)
			missing := err
			if err != nil {
				// What a key would lead to is worth knowing before there is one.
				if choice, err = catalog.Match(withKeys(in)); err != nil {
					return missing
				}
				choice.KeySource = ""
			}

			e := choiceJSON{
				Model:     in.Model,
				Provider:  choice.Name,
				Display:   choice.Row.Display,
				Step:      choice.Step,
				Why:       choice.Why,
				KeySource: choice.KeySource,
				SignIn:    choice.Row.Auth != "",
				Base:      choice.Base,
				Wires:     choice.Wires(effort),
				WireModel: choice.WireModel,
				Window:    windowOf(loaded, choice.WireModel),
				Warnings:  choice.Warnings,
			}

			err = c.show(asJSON, e, func() error {
				c.printChoice(e)
				return nil
			})
			return errors.Join(err, missing)
		},
	}

	cmd.Flags().StringVar(&named, "provider", "", "as if agents.defaults.provider were this `name`")
	cmd.Flags().StringVar(&effort, "effort", "", "as if this reasoning `effort` were set")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// withKeys returns the choice as if every key of the environment were set.
func withKeys(in catalog.MatchInput) catalog.MatchInput {
	getenv := in.Getenv
	in.Getenv = func(name string) string {
		if v := getenv(name); v != "" || !strings.HasSuffix(name, "_API_KEY") {
			return v
		}
		return "missing"
	}
	return in
}

// windowOf returns the context window that is known of a model.
func windowOf(loaded *config.Loaded, model string) int {
	return provider.OpenFacts(loaded).Of(model).Window
}

func (c *providerCommand) printChoice(e choiceJSON) {
	key := c.in("none")
	switch {
	case e.SignIn:
		key = c.in("from the sign-in (nanobot provider login %s)", e.Provider)
	case e.KeySource != "":
		key = c.in("from %s", e.KeySource)
	}

	name := e.Provider
	if e.Display != name {
		name += " (" + e.Display + ")"
	}

	c.say("Provider    %s\nDecided by  %s: %s\nKey         %s\n", name, e.Step, c.known(e.Why), key)
	c.say("Address     %s\nProtocol    %s\nSent as     %s\n", cmp.Or(e.Base, c.in("by region")), strings.Join(wireNames(e.Wires), c.in(", else ")), e.WireModel)
	if e.Window > 0 {
		c.say("Window      %d tokens\n", e.Window)
	} else {
		c.say("Window      not known; set agents.defaults.contextWindowTokens or add the model to models.json\n")
	}

	for _, w := range e.Warnings {
		c.say("Warning     %s\n", c.known(w))
	}
}

func wireNames(wires []catalog.Wire) []string {
	var names []string
	for _, w := range wires {
		switch w {
		case catalog.ChatWire:
			names = append(names, "Chat Completions")
		case catalog.ResponsesWire:
			names = append(names, "Responses")
		case catalog.AnthropicWire:
			names = append(names, "Anthropic Messages")
		case catalog.BedrockWire:
			names = append(names, "Bedrock Converse")
		}
	}

	return names
}
