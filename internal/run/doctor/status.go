package doctor

import (
	"context"
	"os"
	"slices"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Status says what is set up and which model answers.
type Status struct {
	Version      string          `json:"version"`
	Config       string          `json:"config"`
	ConfigExists bool            `json:"config_exists"`
	Workspace    string          `json:"workspace"`
	Exists       bool            `json:"workspace_exists"`
	Model        string          `json:"model,omitempty"`
	Provider     string          `json:"provider,omitempty"`
	Why          string          `json:"why,omitempty"`
	KeySource    string          `json:"key_source,omitempty"`
	Demo         bool            `json:"demo,omitempty"`
	Problem      string          `json:"problem,omitempty"`
	Exec         string          `json:"exec,omitempty"`
	Restricted   bool            `json:"restricted_to_workspace"`
	Providers    []KeyedProvider `json:"providers"`
	Warnings     []string        `json:"warnings,omitempty"`
}

// KeyedProvider is a provider that has a key or an address.
type KeyedProvider struct {
	Name string `json:"name"`
	Key  string `json:"key"` // where it was found
	Base string `json:"base,omitempty"`
}

// StatusOf tells what is set up. It calls no model and changes nothing.
func StatusOf(ctx context.Context, o app.Options) (Status, error) {
	loaded, err := config.Load(o.Config) // its warnings are part of the report
	if err != nil {
		return Status{}, err
	}

	ws, err := app.Workspace(o.Workspace, loaded)
	if err != nil {
		return Status{}, err
	}

	_, statErr := os.Stat(ws)
	r := Status{
		Version: o.Version, Config: loaded.File, ConfigExists: loaded.Exists, Workspace: ws, Exists: statErr == nil,
		Restricted: app.Posture(loaded).Restrict, Providers: KeyedProviders(loaded, app.Getenv(o.Env)),
	}
	for _, w := range loaded.Warnings {
		r.Warnings = append(r.Warnings, w.String())
	}

	r.Warnings = append(r.Warnings, Exposed(loaded)...)
	a, err := app.Inspect(ctx, o)
	if err != nil {
		r.Problem = err.Error()
		return r, nil //nolint:nilerr // part of the report
	}

	info := a.ModelInfo()
	known := func(p KeyedProvider) bool { return p.Name == info.Provider }
	if row, ok := catalog.Lookup(info.Provider); ok && row.Local && !slices.ContainsFunc(r.Providers, known) {
		r.Providers = append(r.Providers, KeyedProvider{Name: row.Name, Base: info.Base})
	}

	r.Model = info.Name
	r.Provider = info.Provider
	r.Why = info.Why
	r.KeySource = info.KeySource
	r.Demo = info.Demo
	r.Exec = a.Exec
	return r, nil
}

// KeyedProviders lists those that have a key or an address.
func KeyedProviders(loaded *config.Loaded, getenv func(string) string) []KeyedProvider {
	out := []KeyedProvider{}
	seen := map[string]bool{}
	for _, row := range catalog.Rows() {
		p := loaded.Config.Providers[row.Name]
		st := KeyedProvider{Name: row.Name, Base: p.APIBase}
		seen[row.Name] = true
		if !p.APIKey.IsZero() {
			st.Key = "configuration"
		}

		for _, e := range row.EnvKeys {
			if st.Key == "" && getenv(e) != "" {
				st.Key = e
			}
		}

		if st.Key != "" || st.Base != "" {
			out = append(out, st)
		}
	}

	for name, p := range loaded.Config.Providers {
		if !seen[name] && p.APIBase != "" {
			st := KeyedProvider{Name: name, Base: p.APIBase}
			if !p.APIKey.IsZero() {
				st.Key = "configuration"
			}
			out = append(out, st)
		}
	}

	return out
}
