package cli

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// setupAnswers are what a setup was told so far.
type setupAnswers struct {
	home      *home
	loaded    *config.Loaded // before the setup
	workspace string         // absolute; "" leaves it as it is

	row    catalog.Row // of the provider
	block  string      // where the configuration has the provider, if it does
	base   string      // "" is the usual one
	key    string      // to write; "" if it is known or not needed
	model  string
	window int // of the model; 0 is not known
}

// keySource says where the provider's key is already; "" is nowhere.
func (a *setupAnswers) keySource() string {
	if !a.loaded.Config.Providers[a.block].APIKey.IsZero() || len(a.loaded.Config.Providers[a.block].APIKeys) > 0 {
		return a.home.short(a.loaded.File)
	}
	for _, name := range a.row.EnvKeys {
		if strings.TrimSpace(a.home.getenv(name)) != "" {
			return name
		}
	}
	return ""
}

// setModel sets a model, with the window that the provider tells.
func (a *setupAnswers) setModel(model string, offers []catalog.Offer) {
	a.model, a.window = model, provider.OpenFacts(a.loaded).Of(model).Window
	if i := slices.IndexFunc(offers, func(o catalog.Offer) bool { return o.ID == model }); i >= 0 {
		a.window = cmp.Or(offers[i].Window, a.window)
	}
}

// list requests the models with the answers so far.
func (a *setupAnswers) list(ctx context.Context, l *config.Loaded) ([]catalog.Offer, error) {
	in := provider.MatchInput(l, a.home.getenv)
	in.Provider, in.Model = a.row.Name, "any" // the list does not depend on it
	choice, err := catalog.Match(in)
	if err != nil {
		return nil, err
	}
	return provider.ListModels(ctx, l, choice)
}

// price returns what a model costs, for people; "" is not known.
func (a *setupAnswers) price(o catalog.Offer, prices *ledger.Prices) string {
	if a.row.Local {
		return ""
	}

	p := prices.Lookup(a.row.Name, o.ID)
	if o.Priced && !p.Own {
		p = ledger.Price{Billing: ledger.Priced, In: o.In, Out: o.Out, Currency: "USD"}
	}

	switch p.Billing {
	case ledger.Free:
		return a.home.in("free")
	case ledger.Subscription:
		return a.home.in("subscription")
	case ledger.Priced:
		if p.In == 0 && p.Out == 0 {
			return a.home.in("free")
		}
		unit := p.Currency + " "
		if p.Currency == "USD" {
			unit = "$"
		}
		return unit + amount(p.In) + " / " + unit + amount(p.Out)
	}

	return ""
}

func amount(f float64) string {
	return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64)
}

// candidate returns the configuration with the answers so far.
func (a *setupAnswers) candidate() (*config.Loaded, error) {
	o := a.home.options()
	f, err := config.Open(a.loaded.File, o.Sections)
	if err != nil {
		return nil, err
	}
	if err := a.write(f); err != nil {
		return nil, err
	}

	o.Optional = true
	o.Text = f.Text()
	return config.Load(o)
}

// save writes the answers into the file as it is now: nothing held it while a person was
// asked. A configuration that could not be used is not written.
func (a *setupAnswers) save() error {
	if _, err := a.candidate(); err != nil {
		return err
	}
	return config.Edit(a.loaded.File, gateway.Sections(nil), a.write)
}

// write puts the answers into the text of a file.
func (a *setupAnswers) write(f *config.File) error {
	name := ""
	if a.row.Name != "" {
		name = "providers." + config.Escape(cmp.Or(a.block, a.row.Name))
	}

	for _, set := range []struct{ path, value string }{
		{name + ".apiBase", a.base},
		{name + ".apiKey", a.key},
		{"agents.defaults.provider", a.row.Name},
		{"agents.defaults.model", a.model},
		{"agents.defaults.workspace", a.workspace},
	} {
		if set.value == "" {
			continue
		}
		if err := f.SetValue(set.path, set.value); err != nil {
			return err
		}
	}

	if a.model != "" && a.loaded.IsSet("agents.defaults.modelPreset") {
		if _, err := f.Unset("agents.defaults.modelPreset"); err != nil {
			return err
		}
	}

	// A new file says 200,000, which is too much for some models.
	if fresh := !a.loaded.Exists; fresh && a.window > 0 && a.window < 200_000 {
		if err := f.SetValue("agents.defaults.contextWindowTokens", a.window); err != nil {
			return err
		}
	}

	// An answer takes its room from the window: a quarter leaves the rest to the question.
	if most := a.window / 4; a.window > 0 && a.loaded.Config.Agents.Defaults.MaxTokens > most {
		if fresh := !a.loaded.Exists; fresh || a.loaded.Config.Agents.Defaults.MaxTokens >= a.window {
			if err := f.SetValue("agents.defaults.maxTokens", most); err != nil {
				return err
			}
		}
	}

	return nil
}
