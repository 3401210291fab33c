package provider

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/local"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// MatchInput returns the input for choosing a provider, without a model.
func MatchInput(l *config.Loaded, getenv func(string) string) catalog.MatchInput {
	in := catalog.MatchInput{Getenv: getenv, Providers: make(map[string]catalog.ProviderConfig, len(l.Config.Providers))}
	for name, p := range l.Config.Providers {
		in.Providers[name] = catalog.ProviderConfig{
			Key: FirstKey(p), Display: p.DisplayName, Base: p.APIBase, Wire: catalog.Wire(p.Wire), APIType: p.APIType,
			Thinking: wire.ThinkingStyle(p.ThinkingStyle), Region: p.Region, Profile: p.Profile,
		}
	}
	return in
}

// State describes a provider in JSON output.
type State struct {
	Name      string       `json:"name"`
	Display   string       `json:"display"`
	Ready     bool         `json:"ready"`
	Own       bool         `json:"own,omitempty"`
	KeySource string       `json:"key_source,omitempty"`
	Variables []string     `json:"variables,omitempty"`
	SignIn    bool         `json:"sign_in,omitempty"`
	Base      string       `json:"base,omitempty"`
	Wire      catalog.Wire `json:"wire,omitempty"`
	Model     string       `json:"default_model,omitempty"`
	Gateway   bool         `json:"gateway,omitempty"`
	Local     bool         `json:"local,omitempty"`
	Speech    bool         `json:"speech_only,omitempty"`
	Warnings  []string     `json:"warnings,omitempty"`
}

// States converts the results of catalog.Survey for JSON output.
func States(list []catalog.Status) []State {
	out := []State{}
	for i := range list {
		s, r := &list[i], list[i].Row
		out = append(out, State{
			Name:      s.Name,
			Display:   r.Display,
			Ready:     s.Ready,
			Own:       s.Own,
			KeySource: s.KeySource,
			Variables: r.EnvKeys,
			SignIn:    r.Auth != "",
			Base:      s.Base,
			Wire:      r.Wire,
			Model:     r.DefaultModel,
			Gateway:   r.Gateway,
			Local:     r.Local,
			Speech:    r.Speech,
			Warnings:  s.Warnings,
		})
	}

	return out
}

// ListModels asks one provider for its models. For a local server it tries the
// server's own protocol first, because only that reports the window in use.
func ListModels(ctx context.Context, l *config.Loaded, choice catalog.Choice) ([]catalog.Offer, error) {
	if choice.Row.Local {
		root := choice.Base
		for _, path := range []string{"/v1", "/v3"} {
			root = strings.TrimSuffix(root, path)
		}

		found := local.Discover(ctx, local.Options{
			Timeout: 3 * time.Second, Endpoints: []local.Endpoint{{Kind: local.Kind(choice.Row.Name), URL: root}},
		})
		if len(found) > 0 {
			return localOffers(found[0]), nil
		}
	}

	if choice.Row.Auth != "" && choice.Row.Models == "" {
		return nil, fmt.Errorf("%s lists its models only after sign-in; see its own pages", choice.Row.Display)
	}

	p := l.Config.Providers[choice.Block]
	client, err := httpsafe.Client(httpsafe.Options{Proxy: p.Proxy.Reveal(), Direct: choice.Row.Local || httpsafe.IsLocal(choice.Base)})
	if err != nil {
		return nil, fmt.Errorf("providers.%s: %w", choice.Name, err)
	}

	defer client.CloseIdleConnections()
	return catalog.ListModels(ctx, choice, catalog.ListOptions{Client: client, Headers: p.ExtraHeaders, Query: reveal(p.ExtraQuery)})
}

// localOffers returns the models of a local server.
func localOffers(s local.Server) []catalog.Offer {
	out := make([]catalog.Offer, 0, len(s.Models))
	for _, m := range s.Models {
		out = append(out, catalog.Offer{ID: m.ID, Window: m.Context})
	}
	return out
}

// Account returns the sign-in of a provider without keys; see signin.Known.
func Account(o Options, name string) (*signin.Account, error) {
	p, getenv := o.Config.Config.Providers[signin.ConfigName(name)], o.Getenv
	client, err := httpsafe.Client(httpsafe.Options{Proxy: p.Proxy.Reveal()})
	if err != nil {
		return nil, fmt.Errorf("providers.%s: %w", name, err)
	}

	home := getenv("HOME")
	if runtime.GOOS == "windows" {
		home = getenv("USERPROFILE")
	}
	return signin.New(name, signin.Options{
		Store:   store.Under(disk.Open(o.Config.DataDir, o.Log), string(datadir.Auth)),
		Home:    home,
		Getenv:  getenv,
		Client:  client,
		Version: o.Version,
		Log:     o.Log,
		BaseURL: p.APIBase,
	})
}

// OfferedModel is a model that a provider offers.
type OfferedModel struct {
	Provider string          `json:"provider"`
	ID       string          `json:"id"`
	Window   int             `json:"context_window,omitempty"`
	Tools    catalog.Ability `json:"tools,omitempty"`
	Vision   catalog.Ability `json:"vision,omitempty"`
}

// OfferedModels asks the named provider or, for "", all that are set up and the
// local servers. With several providers, it reports one that fails and continues.
func OfferedModels(ctx context.Context, loaded *config.Loaded, getenv func(string) string, name string, tell func(provider string, err error)) ([]OfferedModel, error) {
	in := MatchInput(loaded, getenv)
	out := []OfferedModel{}
	add := func(provider string, offers []catalog.Offer) {
		for _, o := range offers {
			out = append(out, OfferedModel{provider, o.ID, o.Window, o.Tools, o.Vision})
		}
	}
	if name != "" {
		in.Provider, in.Model = name, "any" // the list does not depend on it
		choice, err := catalog.Match(in)
		if err != nil {
			return nil, err
		}
		offers, err := ListModels(ctx, loaded, choice)
		add(choice.Name, offers)
		return out, err
	}

	all, err := Survey(ctx, Options{Config: loaded, Getenv: getenv})
	if err != nil {
		return nil, err
	}

	for _, s := range all {
		if !s.Ready || s.Row.Speech {
			continue
		}

		offers, err := ListModels(ctx, loaded, s.Choice)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}

		if err != nil {
			tell(s.Name, err)
		}
		add(s.Name, offers)
	}

	return out, nil
}
