package provider

import (
	"cmp"
	"context"
	"slices"

	"github.com/nanobot-go/nanobot/internal/core/explain"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/trial"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// OpenTrial prepares a trial of a model: the named one, a preset, or the
// configured one for "", or else one that was found on this machine. The driver is bare: no retries and no fallback, so
// that a verdict is about the model and nothing else.
func OpenTrial(ctx context.Context, o Options, name string) (*trial.Trial, error) {
	if o.Fixed != nil {
		return trial.New(name, o.Fixed, catalog.Choice{WireModel: name}, explain.Error), nil
	}

	loaded := o.Config
	in := MatchInput(loaded, o.Getenv)
	d := loaded.Config.Agents.Defaults
	if p, ok := loaded.Config.ModelPresets[cmp.Or(name, d.ModelPreset)]; ok {
		in.Model, in.Provider = p.Model, p.Provider
	} else if name != "" {
		in.Model = name
	} else if in.Provider = d.Provider; loaded.IsSet("agents.defaults.model") || len(loaded.Config.Providers) > 0 {
		in.Model = d.Model
	}

	choice, err := catalog.Match(in)
	if err != nil {
		found, _, ok := o.discovered(ctx, name)
		if !ok || name == "" && New(o).Configured() { // what was chosen cannot be used
			return nil, err
		}
		choice = found
	}

	model, err := New(o).bare(choice)
	if err != nil {
		return nil, err
	}
	return trial.New(cmp.Or(in.Model, choice.Name+"/"+choice.WireModel), model, choice, explain.Error), nil
}

// RunTrial makes the calls of a trial and reports each result. With vision it sends
// an image even if the model is not known to support images.
func RunTrial(ctx context.Context, loaded *config.Loaded, t *trial.Trial, vision bool, tell func(trial.Verdict)) error {
	claim := claims(ctx, loaded, t.Choice())
	if vision {
		claim.Vision = catalog.Supported
	}

	t.WarnOfWindow(claim.Window, loaded.Config.Agents.Defaults.ContextWindowTokens)
	t.Run(ctx, claim, tell)
	if ctx.Err() != nil {
		return ctx.Err()
	}

	SuggestModels(ctx, loaded, t)
	return nil
}

// SuggestModels adds similar names to the result of a trial whose model does not
// exist.
func SuggestModels(ctx context.Context, loaded *config.Loaded, t *trial.Trial) {
	if t.Err() == nil || llm.AsError(t.Err()).Kind != llm.NotFound {
		return
	}
	if offers, err := ListModels(ctx, loaded, t.Choice()); err == nil {
		t.Suggest(offers)
	}
}

// claims returns what the model should support according to the user, the
// provider's list or the model's name.
func claims(ctx context.Context, loaded *config.Loaded, choice catalog.Choice) catalog.Offer {
	facts := OpenFacts(loaded).Of(choice.WireModel)
	claim := catalog.Offer{Vision: facts.Vision, Tools: facts.Tools}
	if choice.Name == "" {
		return claim // a program's own
	}

	offers, _ := ListModels(ctx, loaded, choice) // many providers have no list; that says nothing about the model
	if i := slices.IndexFunc(offers, func(o catalog.Offer) bool { return o.ID == choice.WireModel }); i >= 0 {
		claim.Window = offers[i].Window
		claim.Tools = cmp.Or(offers[i].Tools, claim.Tools)
		claim.Vision = cmp.Or(offers[i].Vision, claim.Vision)
	}

	caps := loaded.Config.Providers[choice.Block].Caps
	claim.Vision, claim.Tools = abilityOf(caps.Vision, claim.Vision), abilityOf(caps.Tools, claim.Tools)
	return claim
}

func abilityOf(yes *bool, otherwise catalog.Ability) catalog.Ability {
	switch {
	case yes == nil:
		return otherwise
	case *yes:
		return catalog.Supported
	}
	return catalog.Unsupported
}
