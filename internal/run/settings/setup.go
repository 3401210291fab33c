package settings

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
	"github.com/nanobot-go/nanobot/internal/llm/trial"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Bounds of what a first look takes, and of a trial: a server on this machine may
// have to load the model first.
const (
	surveyWait = 4 * time.Second
	trialWait  = 50 * time.Second
)

// sourceState is a provider that can be used at once, or set up.
type sourceState struct {
	Name     string   `json:"name"`
	Display  string   `json:"display"`
	Kind     string   `json:"kind"`               // server, variable, file, sign_in or known
	Variable string   `json:"variable,omitempty"` // that holds the key
	Base     string   `json:"base,omitempty"`
	Models   []string `json:"models,omitempty"` // of a server on this machine
	Default  string   `json:"default_model,omitempty"`
	Keys     string   `json:"keys_url,omitempty"` // the page that gives keys
	Address  bool     `json:"needs_address,omitempty"`
	NoKey    bool     `json:"key_optional,omitempty"`
	SignIn   bool     `json:"sign_in,omitempty"`
}

// readSetup tells what could answer: servers on this machine, keys in the
// environment by the names of their variables, sign-ins, and all providers.
func (md *models) readSetup(ctx context.Context, _ *http.Request) (any, error) {
	a, err := md.current(ctx)
	if err != nil {
		return nil, err
	}

	_, file, err := md.onDisk()
	if err != nil {
		return nil, err
	}

	look, cancel := context.WithTimeout(ctx, surveyWait)
	defer cancel()
	l := md.Config()
	list, err := provider.Survey(look, app.ProviderOptions(l, md.app))
	if err != nil {
		return nil, web.Refuse(http.StatusConflict, "%v", err)
	}

	found, known := []sourceState{}, []sourceState{}
	seen := map[string]bool{}
	for i := range list {
		st := &list[i]
		if st.Row.Speech || st.Row.Auth != "" && !signin.Known(st.Name) {
			continue
		}

		s := md.source(look, l, st)
		if s.Kind != "known" && !seen[cmp.Or(s.Variable, s.Name)] { // two rows may share a key
			seen[cmp.Or(s.Variable, s.Name)] = true
			found = append(found, s)
		}

		s.Kind = "known"
		s.Variable = ""
		s.Models = nil
		known = append(known, s)
	}

	rank := func(s sourceState) int {
		return slices.Index([]string{"server", "variable", "file", "sign_in"}, s.Kind)
	}
	slices.SortStableFunc(found, func(x, y sourceState) int { return cmp.Compare(rank(x), rank(y)) })
	usual := provider.Usual()
	place := func(s sourceState) int {
		if i := slices.IndexFunc(usual, func(u provider.UsualProvider) bool { return u.Name == s.Name }); i >= 0 {
			return i
		}
		return len(usual)
	}

	slices.SortStableFunc(known, func(x, y sourceState) int { return cmp.Compare(place(x), place(y)) })
	m, d := a.ModelInfo(), l.Config.Agents.Defaults
	missing := []string{}
	if m.Demo {
		missing = append(missing, "model")
	}
	return map[string]any{
		"demo": m.Demo, "model": m.Name, "provider": m.Provider, "found": found, "providers": known, "missing": missing, "preset": d.ModelPreset,
		"daily_usd": d.Budget.DailyUSD, "window": d.ContextWindowTokens, "base": config.Version(file),
	}, nil
}

// source returns what is known about a provider.
func (md *models) source(ctx context.Context, l *config.Loaded, st *catalog.Status) sourceState {
	row := st.Row
	s := sourceState{
		Name: st.Name, Display: row.Display, Kind: "known", Base: md.Secrets.Redact(st.Base), Default: row.DefaultModel,
		Address: row.Direct || row.Local, NoKey: row.Direct || row.Local, SignIn: row.Auth != "",
	}
	for _, u := range provider.Usual() {
		if u.Name == st.Name {
			s.Keys = u.Keys
		}
	}

	switch {
	case row.Auth != "":
		if acc, err := md.account(st.Name); err == nil {
			if _, s.Default, _ = strings.Cut(acc.DefaultModel(), "/"); acc.Status().SignedIn {
				s.Kind = "sign_in"
			}
		}

	case !st.Ready:
	case row.Local:
		offers, err := provider.ListModels(ctx, l, st.Choice)
		if err != nil || len(offers) == 0 {
			break
		}
		s.Kind = "server"
		for _, o := range offers[:min(len(offers), 50)] {
			s.Models = append(s.Models, o.ID)
		}

	case st.KeySource == "" || strings.HasPrefix(st.KeySource, "providers."):
		s.Kind = "file"
	default:
		s.Kind, s.Variable = "variable", strings.TrimPrefix(st.KeySource, "environment variable ")
	}

	return s
}

// offerState is a model with what it costs, in US dollars per million tokens.
type offerState struct {
	modelState
	Billing ledger.Billing `json:"billing,omitempty"` // "" is not known
	In      float64        `json:"in_usd,omitempty"`
	Out     float64        `json:"out_usd,omitempty"`
}

// tried holds what came of a trial.
type tried struct {
	OK        bool         `json:"ok"`
	Status    string       `json:"status"` // ok, or the kind of error
	Seconds   float64      `json:"seconds"`
	Hint      string       `json:"hint,omitempty"` // in the words of the provider
	Models    []offerState `json:"models"`
	Default   string       `json:"default_model,omitempty"`
	Truncated bool         `json:"truncated,omitempty"`
}

// try uses a provider, a key and a model without saving them: it asks for the
// models and, if one is named, lets it answer a few words.
func (md *models) try(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Provider string `json:"provider"`
		Key      string `json:"key"` // "": the one that is set up
		Base     string `json:"base"`
		Model    string `json:"model"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if !knownProvider(md.Config(), in.Provider) {
		return nil, web.Refuse(http.StatusNotFound, "there is no provider %q", in.Provider)
	}

	block := map[string]any{}
	for name, value := range map[string]string{"apiKey": in.Key, "apiBase": in.Base} {
		if value != "" {
			block[name] = value
		}
	}

	defaults := map[string]any{"provider": in.Provider, "modelPreset": nil}
	if in.Model != "" {
		defaults["model"] = in.Model
	}

	patch := map[string]any{"providers": map[string]any{in.Provider: block}, "agents": map[string]any{"defaults": defaults}}
	_, next, _, err := md.prepare(edit{make: always(patch)})
	if err != nil {
		return nil, refuseEdit(err)
	}

	for name, s := range next.Secrets() {
		_ = md.Secrets.Add(name, s) // errors must not show them
	}

	ctx, cancel := context.WithTimeout(ctx, trialWait)
	defer cancel()
	out := tried{Status: "ok", Models: []offerState{}}
	start := md.Now()
	offers, choice, err := md.offers(ctx, next, in.Provider)
	if err == nil || in.Model == "" {
		out.Seconds = md.Now().Sub(start).Seconds()
	}

	out.Models = priced(next, md, choice, offers)
	out.Default = choice.Row.DefaultModel
	out.Truncated = len(offers) > modelsShown

	if in.Model != "" { // many providers have no list; the model decides
		start = md.Now()
		var t *trial.Trial
		if t, err = provider.OpenTrial(ctx, app.ProviderOptions(next, md.app), ""); err == nil {
			t.Hello(ctx)
			err = t.Err()
		}
		out.Seconds = md.Now().Sub(start).Seconds()
	}

	if out.OK = err == nil; err != nil {
		e := llm.AsError(err)
		out.Status, out.Hint = string(e.Kind), md.without(in.Key, text.Label(e.Message, 300))
	}
	return out, nil
}

// without takes a key that is not saved, and all that are, out of a text.
func (md *models) without(key, s string) string {
	if key != "" {
		s = strings.ReplaceAll(s, key, "***")
	}
	return md.Secrets.Redact(s)
}

// offers returns the models of a provider.
func (md *models) offers(ctx context.Context, l *config.Loaded, name string) ([]catalog.Offer, catalog.Choice, error) {
	in := provider.MatchInput(l, app.Getenv(md.app.Env))
	in.Provider, in.Model = name, "any" // the list does not depend on it
	choice, err := catalog.Match(in)
	if err != nil {
		return nil, catalog.Choice{}, err
	}

	ctx, cancel := context.WithTimeout(ctx, modelsWait)
	defer cancel()
	offers, err := provider.ListModels(ctx, l, choice)
	return offers, choice, err
}

// priced adds prices and windows to models: the usual one first, then those of
// which something is known, because lists also contain models that cannot chat.
func priced(l *config.Loaded, md *models, choice catalog.Choice, offers []catalog.Offer) []offerState {
	facts, prices := provider.OpenFacts(l), provider.OpenPrices(l, md.Log)
	out := []offerState{}
	for _, o := range offers[:min(len(offers), modelsShown)] {
		s := offerState{modelState: modelState{o.ID, cmp.Or(o.Window, facts.Of(o.ID).Window), o.Tools, o.Vision}}
		p := prices.Lookup(choice.Name, o.ID)
		switch {
		case choice.Row.Local:
			s.Billing = ledger.Free
		case o.Priced && !p.Own:
			s.Billing = ledger.Priced
			s.In = o.In
			s.Out = o.Out
		case p.Billing == ledger.Priced:
			s.Billing = p.Billing
			s.In = p.In * p.Rate
			s.Out = p.Out * p.Rate
		case p.Billing != ledger.Unknown:
			s.Billing = p.Billing
		}

		out = append(out, s)
	}

	rank := func(s offerState) int {
		switch {
		case s.ID == choice.Row.DefaultModel:
			return 0
		case s.Window > 0 && s.Billing != "":
			return 1
		}
		return 2
	}

	slices.SortStableFunc(out, func(a, b offerState) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}
