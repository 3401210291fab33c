package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/doctor"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// statusReport is what nanobot status tells.
type statusReport struct {
	Version      string           `json:"version"`
	Config       string           `json:"config"`
	ConfigExists bool             `json:"config_exists"`
	Workspace    string           `json:"workspace"`
	Exists       bool             `json:"workspace_exists"`
	Model        string           `json:"model,omitempty"`
	Provider     string           `json:"provider,omitempty"`
	Why          string           `json:"why,omitempty"`
	KeySource    string           `json:"key_source,omitempty"`
	Demo         bool             `json:"demo,omitempty"`
	Problem      string           `json:"problem,omitempty"`
	Exec         string           `json:"exec,omitempty"`
	Restricted   bool             `json:"restricted_to_workspace"`
	Providers    []providerStatus `json:"providers"`
	Warnings     []string         `json:"warnings,omitempty"`
}

type providerStatus struct {
	Name string `json:"name"`
	Key  string `json:"key"` // where it was found
	Base string `json:"base,omitempty"`
}

func (c *command) statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show the configuration and the model in use", Args: noArgs,
		Long: `status shows where the configuration and the workspace are, which model is used
and why, and how commands are contained. It never calls a model.`,
		Example: "  nanobot status\n  nanobot status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := c.status(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			printStatus(cmd, r)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func (c *command) status(cmd *cobra.Command) (statusReport, error) {
	loaded, ws, err := c.inUse() // its warnings are part of the report
	if err != nil {
		return statusReport{}, err
	}
	_, statErr := os.Stat(ws)
	r := statusReport{
		Version: nanobot.Version(), Config: loaded.File, ConfigExists: loaded.Exists, Workspace: ws, Exists: statErr == nil,
		Restricted: app.PostureOf(loaded).Restrict, Providers: c.providers(loaded),
	}
	for _, w := range loaded.Warnings {
		r.Warnings = append(r.Warnings, w.String())
	}
	r.Warnings = append(r.Warnings, doctor.Exposed(loaded)...)
	a, err := app.Inspect(cmd.Context(), app.Options{Config: c.configOptions(), Workspace: c.workspace, Env: c.Env, Version: nanobot.Version()})
	if err != nil {
		r.Problem = err.Error()
		return r, nil //nolint:nilerr // part of the report
	}
	info := a.ModelInfo()
	r.Model, r.Provider, r.Why, r.KeySource, r.Demo, r.Exec = info.Name, info.Provider, info.Why, info.KeySource, info.Demo, a.Exec
	return r, nil
}

// providers lists those that have a key or an address.
func (c *command) providers(loaded *config.Loaded) []providerStatus {
	out := []providerStatus{}
	seen := map[string]bool{}
	for _, row := range llm.Catalogue() {
		p := loaded.Config.Providers[row.Name]
		st := providerStatus{Name: row.Name, Base: p.APIBase}
		seen[row.Name] = true
		if !p.APIKey.IsZero() {
			st.Key = "configuration"
		}
		for _, e := range row.EnvKeys {
			if st.Key == "" && c.getenv(e) != "" {
				st.Key = e
			}
		}
		if st.Key != "" || st.Base != "" {
			out = append(out, st)
		}
	}
	for name, p := range loaded.Config.Providers {
		if !seen[name] && p.APIBase != "" {
			st := providerStatus{Name: name, Base: p.APIBase}
			if !p.APIKey.IsZero() {
				st.Key = "configuration"
			}
			out = append(out, st)
		}
	}
	return out
}

func printStatus(cmd *cobra.Command, r statusReport) {
	mark := func(ok bool) string {
		if ok {
			return "✓"
		}
		return "✗ not there yet"
	}
	cmd.Printf("nanobot %s\n\n", r.Version)
	cmd.Printf("Configuration  %s %s\n", r.Config, mark(r.ConfigExists))
	cmd.Printf("Workspace      %s %s\n", r.Workspace, mark(r.Exists))
	switch {
	case r.Problem != "":
		cmd.Printf("Model          ✗ %s\n", r.Problem)
	default:
		cmd.Printf("Model          %s\n               %s\n", r.Model, r.Why)
	}
	if r.KeySource != "" {
		cmd.Printf("Key            from %s\n", r.KeySource)
	}
	files := "the whole disk except protected paths"
	if r.Restricted {
		files = "the workspace only"
	}
	cmd.Printf("Files          %s\nCommands       %s\n", files, r.Exec)
	for i, p := range r.Providers {
		head := "Providers      "
		if i > 0 {
			head = "               "
		}
		key := "no key"
		if p.Key != "" {
			key = "key from " + p.Key
		}
		if p.Base != "" {
			key += ", " + p.Base
		}
		cmd.Printf("%s%s (%s)\n", head, p.Name, key)
	}
	for _, w := range r.Warnings {
		cmd.Printf("Warning        %s\n", w)
	}
	if !r.ConfigExists || r.Demo {
		cmd.Print("\nSet up a model with: nanobot onboard\n")
	}
}
