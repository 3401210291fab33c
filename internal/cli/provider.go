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

func providerCommand(c *command) *cobra.Command {
	cmd := &cobra.Command{
		Use: "provider", Aliases: []string{"providers"}, Short: "Show providers and how one is selected",
		Long: `provider shows the known providers, your own endpoints, where their keys come from,
and which provider is selected for a model.`,
		Example: `  nanobot provider list --ready
  nanobot provider explain gpt-4o
  nanobot provider explain openrouter/anthropic/claude-sonnet-4.5`,
		Args: subcommand, RunE: showHelp,
	}
	cmd.AddCommand(providerList(c), providerExplain(c))
	cmd.AddCommand(loginCommands(c)...)
	return cmd
}

// matchInput returns what a provider is chosen from.
func matchInput(c *command, loaded *config.Loaded) catalog.MatchInput {
	return provider.MatchInput(loaded, c.getenv)
}

func providerList(c *command) *cobra.Command {
	var asJSON, ready bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List providers, where their keys come from and their addresses", Args: noArgs,
		Long: `list shows all known providers and your own endpoints, configured ones first. To
add another OpenAI-compatible endpoint, give it a name and an address with
nanobot config set providers.NAME.apiBase URL.`,
		Example: `  nanobot provider list
  nanobot provider list --ready
  nanobot provider list --json | jq -r '.[] | select(.ready) | .name'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			list, err := provider.Survey(cmd.Context(), c.providerOptions(loaded))
			if err != nil {
				return err
			}
			if ready {
				list = slices.DeleteFunc(list, func(s catalog.Status) bool { return !s.Ready })
			}
			slices.SortStableFunc(list, func(a, b catalog.Status) int { return cmp.Compare(rank(a), rank(b)) })
			if asJSON {
				return printJSON(cmd, provider.States(list))
			}
			return printProviders(cmd, list)
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

func printProviders(cmd *cobra.Command, list []catalog.Status) error {
	if len(list) == 0 {
		say(cmd, "No provider is configured. Set one up with: nanobot onboard\n")
		return nil
	}
	w := headed(cmd, " ", "PROVIDER", "KEY", "ADDRESS", "PROTOCOL")
	for _, s := range list {
		mark := " "
		if s.Ready {
			mark = "✓"
		}
		wire := string(s.Row.Wire)
		if s.Row.Speech {
			wire = words(cmd, "speech only")
		}
		name := s.Name
		if own := s.Row.Display; s.Own && own != name {
			name += " (" + own + ")"
		}
		w.row(mark, name, keyNote(cmd, s), cmp.Or(s.Base, "-"), wire)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range list {
		for _, text := range s.Warnings {
			sayErr(cmd, "nanobot: warning: %s: %s\n", s.Name, known(cmd, text))
		}
	}
	return nil
}

// keyNote says where a key comes from, or how to give one.
func keyNote(cmd *cobra.Command, s catalog.Status) string {
	switch {
	case s.KeySource != "":
		return words(cmd, "from %s", s.KeySource)
	case s.Row.Auth != "":
		return words(cmd, "sign in: nanobot provider login %s", s.Name)
	case s.Row.Wire == catalog.BedrockWire:
		return words(cmd, "AWS credentials")
	case s.Row.Local:
		return words(cmd, "none needed")
	case s.Own || s.Row.Direct:
		if s.Base == "" {
			return words(cmd, "needs providers.%s.apiBase", s.Name)
		}
		return words(cmd, "none")
	case len(s.Row.EnvKeys) > 0:
		return words(cmd, "set %s", s.Row.EnvKeys[0])
	}
	return words(cmd, "none")
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

func providerExplain(c *command) *cobra.Command {
	var asJSON bool
	var provider, effort string
	cmd := &cobra.Command{
		Use: "explain MODEL", Short: "Show which provider is selected for a model, and why", Args: exactArgs(1),
		Long: `explain shows which provider is selected for a model or a preset, which rule
selected it, where the key comes from, and the model name that the provider
receives. It makes no requests.`,
		Example: `  nanobot provider explain claude-sonnet-4-6
  nanobot provider explain qwen3:8b
  nanobot provider explain gpt-5 --provider openrouter --json`,
		ValidArgsFunction: c.complete(presetNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.load()
			if err != nil {
				return err
			}
			in := matchInput(c, loaded)
			in.Model, in.Provider = args[0], provider
			if p, ok := loaded.Config.ModelPresets[args[0]]; ok {
				in.Model, effort = p.Model, cmp.Or(effort, p.ReasoningEffort)
				in.Provider = cmp.Or(provider, p.Provider)
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
				Model: in.Model, Provider: choice.Name, Display: choice.Row.Display, Step: choice.Step, Why: choice.Why, KeySource: choice.KeySource,
				SignIn: choice.Row.Auth != "", Base: choice.Base, Wires: choice.Wires(effort), WireModel: choice.WireModel,
				Window: windowOf(loaded, choice.WireModel), Warnings: choice.Warnings,
			}
			if asJSON {
				return errors.Join(printJSON(cmd, e), missing)
			}
			printChoice(cmd, e)
			return missing
		},
	}
	cmd.Flags().StringVar(&provider, "provider", "", "as if agents.defaults.provider were this `name`")
	cmd.Flags().StringVar(&effort, "effort", "", "as if this reasoning `effort` were set")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// withKeys is the choice as if every key of the environment were set.
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

// presetNames completes names of presets.
func presetNames(c *command, _ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	loaded, err := c.read()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for name, p := range loaded.Config.ModelPresets {
		if strings.HasPrefix(name, typed) {
			out = append(out, name+"\t"+p.Model)
		}
	}
	slices.Sort(out)
	return out, cobra.ShellCompDirectiveNoFileComp
}

// windowOf is the context window that is known of a model.
func windowOf(loaded *config.Loaded, model string) int {
	return provider.OpenFacts(loaded).Of(model).Window
}

func printChoice(cmd *cobra.Command, e choiceJSON) {
	key := words(cmd, "none")
	switch {
	case e.SignIn:
		key = words(cmd, "from the sign-in (nanobot provider login %s)", e.Provider)
	case e.KeySource != "":
		key = words(cmd, "from %s", e.KeySource)
	}
	name := e.Provider
	if e.Display != name {
		name += " (" + e.Display + ")"
	}
	say(cmd, "Provider    %s\nDecided by  %s: %s\nKey         %s\n", name, e.Step, known(cmd, e.Why), key)
	say(cmd, "Address     %s\nProtocol    %s\nSent as     %s\n", cmp.Or(e.Base, words(cmd, "by region")), strings.Join(wireNames(e.Wires), words(cmd, ", else ")), e.WireModel)
	if e.Window > 0 {
		say(cmd, "Window      %d tokens\n", e.Window)
	} else {
		say(cmd, "Window      not known; set agents.defaults.contextWindowTokens or add the model to models.json\n")
	}
	for _, w := range e.Warnings {
		say(cmd, "Warning     %s\n", known(cmd, w))
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
