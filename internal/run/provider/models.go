// Package provider turns a configuration into models: it chooses the provider
// that answers, makes its driver with meter, throttle, key rotation, retry and
// fallback around it, and opens what belongs to that: the ledger with the
// spending limits, sign-ins, lists of models, trials and transcription. It hides
// which drivers there are.
package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/chain"
	"github.com/nanobot-go/nanobot/internal/llm/demo"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/llm/local"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Info says which model is in use and why.
type Info struct {
	Name      string // as the user knows it
	Provider  string
	Why       string
	KeySource string
	Base      string // of a server that was found on this machine
	Demo      bool
}

// Options of Models.
type Options struct {
	Config  *config.Loaded
	Model   string    // instead of the configured one
	Fixed   llm.Model // of a program that embeds nanobot; used instead of any configured one
	Getenv  func(string) string
	Version string
	Watch   func(ledger.Entry) // called for every model call; may be nil
	Now     func() time.Time   // of days and months in the costs; nil is time.Now
	Servers []local.Endpoint   // where model servers of this machine may be; nil means their usual ports
	Log     *slog.Logger
}

// Models resolves presets to models. It creates drivers on first use.
type Models struct {
	loaded  *config.Loaded
	model   string    // override
	fixed   llm.Model // from an embedding program
	getenv  func(string) string
	version string
	servers []local.Endpoint
	log     *slog.Logger

	info     Info
	fallback *turn.Runtime // local server or demo model, when nothing is configured

	ledger   *ledger.Ledger
	prices   *ledger.Prices
	facts    *catalog.Facts
	breakers *chain.Breakers
	windows  *local.Windows
	wrap     func(llm.Model) llm.Model // around every model; nil leaves them alone

	mu    sync.Mutex
	cache map[string]turn.Runtime

	limiting sync.Mutex                // drivers are made while mu is held, and without it
	limiters map[string]*chain.Limiter // per key, or local server
	clients  []*http.Client            // of all drivers
}

// New creates Models. Call Settle before a model is used.
func New(o Options) *Models {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Models{
		loaded:   o.Config,
		model:    o.Model,
		fixed:    o.Fixed,
		getenv:   o.Getenv,
		version:  o.Version,
		servers:  o.Servers,
		log:      o.Log,
		ledger:   openLedger(o),
		prices:   OpenPrices(o.Config, o.Log),
		facts:    OpenFacts(o.Config),
		windows:  local.NewWindows(local.Options{Getenv: o.Getenv}),
		breakers: chain.NewBreakers(chain.BreakersOptions{Store: disk.Open(o.Config.DataDir, o.Log), Log: o.Log}),
	}
}

// Info describes the default model. It is empty before Settle.
func (m *Models) Info() Info { return m.info }

// Ledger returns the record of model calls and their costs.
func (m *Models) Ledger() *ledger.Ledger { return m.ledger }

// Price returns what a model costs with a provider; its name is the one on the
// wire.
func (m *Models) Price(provider, model string) ledger.Price { return m.prices.Lookup(provider, model) }

// Wrap adds a decorator to every model that is created from now on.
func (m *Models) Wrap(around func(llm.Model) llm.Model) { m.wrap = around }

// Window returns the context window of the default model.
func (m *Models) Window(ctx context.Context) (int, error) {
	rt, err := m.open(ctx, "")
	return rt.Window, err
}

// Close gives back connections that wait for another call, and the ledger.
func (m *Models) Close() error {
	m.limiting.Lock()
	defer m.limiting.Unlock()
	for _, c := range m.clients {
		c.CloseIdleConnections()
	}
	return m.ledger.Close()
}

// Meter counts the calls of another paid service as model calls: it checks the
// budget before each call and records the cost after it.
func (m *Models) Meter(call llm.Model, provider string) llm.Model {
	return ledger.Meter(call, ledger.MeterOptions{Ledger: m.ledger, Prices: m.prices, Provider: provider})
}

// SelectDefault chooses "the default model". With nothing configured it is
// a key found in the environment, else a model server on this machine, else
// the built-in demo model. The notes are for the user.
func (m *Models) SelectDefault(ctx context.Context) ([]string, error) {
	m.cache = map[string]turn.Runtime{}
	if m.fixed != nil {
		m.info = Info{Name: "custom", Provider: "embedded", Why: "given by the program"}
		rt := m.withDefaults(turn.Runtime{Model: m.fixed, Name: "custom", Display: "custom"})
		m.fallback = &rt
		return nil, nil
	}

	choice, preset, err := m.match("")
	switch {
	case err == nil:
		name := preset.Model
		if name == "" {
			name = choice.Name + "/" + choice.WireModel
		}

		m.info = Info{Name: name, Provider: choice.Name, Why: choice.Why, KeySource: choice.KeySource}
		notes := choice.Warnings
		if !m.Configured() {
			notes = append([]string{fmt.Sprintf("Using %s, because %s.", name, choice.Why)}, notes...)
		}

		for _, ferr := range []error{m.prices.Err(), m.facts.Err()} {
			if ferr != nil {
				notes = append(notes, ferr.Error())
			}
		}
		return notes, nil
	case m.Configured():
		return nil, err
	}

	return m.discover(ctx)
}

// Configured reports whether the user chose a model or provider somewhere.
func (m *Models) Configured() bool {
	if m.model != "" {
		return true
	}

	d := m.loaded.Config.Agents.Defaults
	for _, p := range m.loaded.Config.Providers {
		if !p.APIKey.IsZero() || p.APIBase != "" || len(p.APIKeys) > 0 {
			return true
		}
	}
	return d.ModelPreset != "" || (d.Provider != "" && d.Provider != "auto") ||
		(m.loaded.IsSet("agents.defaults.model") && d.Model != config.Default().Agents.Defaults.Model)
}

// discover looks for a model server on this machine and falls back to the demo model.
func (m *Models) discover(ctx context.Context) ([]string, error) {
	if choice, window, ok := (Options{Getenv: m.getenv, Servers: m.servers}).discovered(ctx, ""); ok {
		d := m.loaded.Config.Agents.Defaults
		rt, err := m.chain([]target{m.settings(choice, config.Preset{
			Model: choice.Name + "/" + choice.WireModel, MaxTokens: d.MaxTokens, Temperature: d.Temperature,
			ContextWindowTokens: either(nil, window, d.ContextWindowTokens),
		}, "")})
		if err != nil {
			return nil, err
		}

		m.fallback = &rt
		m.info = Info{Name: rt.Display, Provider: choice.Name, Why: choice.Why, Base: choice.Base}
		return []string{fmt.Sprintf("Using %s, %s. Choose a model with: nanobot config set agents.defaults.model NAME", rt.Display, choice.Why)}, nil
	}

	rt := m.withDefaults(turn.Runtime{Model: demo.New(demo.Options{}), Name: "demo", Display: "demo (not an AI)"})
	m.fallback = &rt
	m.info = Info{Name: rt.Display, Provider: "demo", Why: "no key and no model server was found", Demo: true}
	return []string{"No model is configured: answering with the built-in demo, which is not an AI. To add a real one, set a key, for example: export OPENROUTER_API_KEY=...  or run: nanobot onboard"}, nil
}

// Runtime resolves a preset; "" is the default.
func (m *Models) Runtime(ctx context.Context, preset string) (turn.Runtime, error) {
	if name, ok := strings.CutPrefix(preset, turn.ModelChoice); ok {
		return m.chosen(ctx, name)
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	if rt, ok := m.cache[preset]; ok {
		return rt, nil
	}

	rt, err := m.open(ctx, preset)
	if err != nil {
		return turn.Runtime{}, err
	}

	if m.wrap != nil {
		rt.Model = m.wrap(rt.Model)
	}

	m.cache[preset] = rt
	return rt, nil
}

// Named resolves the name of a preset or else of a model; "" is the default.
func (m *Models) Named(ctx context.Context, name string) (turn.Runtime, error) {
	if _, preset := m.loaded.Config.ModelPresets[name]; preset || name == "" || m.fixed != nil {
		if m.fixed != nil {
			name = ""
		}
		return m.Runtime(ctx, name)
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	choice, err := m.choose(name, "auto")
	if err != nil {
		return turn.Runtime{}, err
	}
	return m.openModel(ctx, name, choice)
}

// chosen resolves a model that a person chose by its name. The provider is the
// one that the name tells; otherwise the one in use.
func (m *Models) chosen(ctx context.Context, name string) (turn.Runtime, error) {
	if m.fixed != nil {
		return turn.Runtime{}, errors.New("the program that runs the agent has fixed the model")
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	choice, err := m.choose(name, "auto")
	switch choice.Step {
	case catalog.ByPrefix, catalog.ByTag, catalog.ByKeyword:
	default:
		used, _, uerr := m.match("")
		if uerr != nil {
			return turn.Runtime{}, cmp.Or(err, uerr)
		}

		prefix, _, ok := strings.Cut(name, "/")
		if row, known := catalog.Lookup(prefix); ok && known && row.Name != used.Name && !used.Row.Gateway {
			return turn.Runtime{}, fmt.Errorf("%s is not configured; run nanobot onboard to add its key", row.Display)
		}
		choice, err = m.choose(name, used.Name)
	}

	if err != nil {
		return turn.Runtime{}, err
	}

	rt, err := m.openModel(ctx, name, choice)
	if err == nil && m.wrap != nil {
		rt.Model = m.wrap(rt.Model)
	}
	return rt, err
}

// openModel makes the runtime of a model that is not a preset, with the
// settings of the usual one.
func (m *Models) openModel(ctx context.Context, name string, choice catalog.Choice) (turn.Runtime, error) {
	key := "model " + name + " at " + choice.Name // no preset is called so
	if rt, ok := m.cache[key]; ok {
		return rt, nil
	}

	_, p, err := m.match("")
	if err != nil {
		return turn.Runtime{}, err
	}

	p.Model = name
	rt, err := m.chain([]target{m.settings(choice, p, "")})
	if err != nil {
		return turn.Runtime{}, err
	}

	m.fitServer(ctx, &rt, choice)
	m.cache[key] = rt
	return rt, nil
}

func (m *Models) open(ctx context.Context, preset string) (turn.Runtime, error) {
	if m.fallback != nil && preset == "" {
		return *m.fallback, nil
	}

	choice, p, err := m.match(preset)
	if err != nil {
		return turn.Runtime{}, err
	}

	first := m.settings(choice, p, preset)
	rt, err := m.chain(append([]target{first}, m.fallbacks(first, p)...))
	if err != nil {
		return turn.Runtime{}, err
	}

	rt.Preset = preset
	m.fitServer(ctx, &rt, choice)
	return rt, nil
}

// fitServer asks a local model server for its real window, and adds a warning to
// turns whose beginning the server would silently drop.
func (m *Models) fitServer(ctx context.Context, rt *turn.Runtime, choice catalog.Choice) {
	if !choice.Row.Local {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, local.DefaultTimeout)
	defer cancel()
	if n := m.windows.Of(ctx, choice.Base, choice.WireModel).Usable(); n > 0 && (rt.Window <= 0 || n < rt.Window) {
		rt.Window = n
		rt.MaxTokens = min(rt.MaxTokens, max(n/2, 1))
	}

	rt.Check = func(ctx context.Context, needed int) string {
		ctx, cancel := context.WithTimeout(ctx, local.DefaultTimeout)
		defer cancel()
		return local.Truncation(m.windows.Of(ctx, choice.Base, choice.WireModel), choice.WireModel, needed)
	}
}

// settings converts a preset to the settings of a request.
func (m *Models) settings(choice catalog.Choice, p config.Preset, preset string) target {
	t := target{
		choice:      choice,
		display:     p.Model,
		maxTokens:   p.MaxTokens,
		window:      p.ContextWindowTokens,
		effort:      p.ReasoningEffort,
		temperature: &p.Temperature,
		facts:       m.facts.Of(choice.WireModel),
	}
	if t.display == "" {
		t.display = choice.Name + "/" + choice.WireModel
	}
	if t.facts.Window > 0 && !m.windowIsSet(preset) {
		t.window = t.facts.Window
	}
	if t.facts.Thinking == catalog.Unsupported {
		t.effort = "" // it would refuse the request
	}
	if t.facts.Always {
		t.temperature = nil
	}
	if t.window > 0 && t.maxTokens > t.window/2 {
		t.maxTokens = max(t.window/2, 1) // an answer never takes more than half of a small window
	}
	return t
}

// fallbacks resolves the fallbacks of a preset, or else fallbackModels. It skips an
// unusable one with a warning, so that the first model still answers.
func (m *Models) fallbacks(first target, own config.Preset) []target {
	list := own.Fallbacks
	if len(list) == 0 {
		list = m.loaded.Config.Agents.Defaults.FallbackModels
	}

	var out []target
	for _, f := range list {
		p := config.Preset{Model: f.Model, Provider: f.Provider, ReasoningEffort: f.ReasoningEffort}
		if f.Preset != "" {
			p = m.loaded.Config.ModelPresets[f.Preset]
		}

		d := m.loaded.Config.Agents.Defaults
		p.MaxTokens = either(f.MaxTokens, p.MaxTokens, d.MaxTokens)
		p.ContextWindowTokens = either(f.ContextWindowTokens, p.ContextWindowTokens, d.ContextWindowTokens)
		p.Temperature = either(f.Temperature, p.Temperature, d.Temperature)
		choice, err := m.choose(p.Model, p.Provider)
		if err != nil {
			m.log.Warn("a fallback model cannot be used", "model", p.Model, "err", err)
			continue
		}

		if t := m.settings(choice, p, f.Preset); t.display != first.display {
			out = append(out, t)
		}
	}

	return out
}

// either returns the first value that is set.
func either[T comparable](set *T, values ...T) T {
	var zero T
	if set != nil {
		return *set
	}

	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}

func (m *Models) windowIsSet(preset string) bool {
	if preset == "" {
		preset = m.loaded.Config.Agents.Defaults.ModelPreset
	}
	if preset == "" {
		return m.loaded.IsSet("agents.defaults.contextWindowTokens")
	}
	return m.loaded.IsSet("modelPresets." + preset + ".contextWindowTokens")
}

// withDefaults fills in what a preset leaves out and limits the answer to half of a
// small window.
func (m *Models) withDefaults(rt turn.Runtime) turn.Runtime {
	d := m.loaded.Config.Agents.Defaults
	if rt.MaxTokens == 0 {
		rt.MaxTokens = d.MaxTokens
	}
	if rt.Window == 0 {
		rt.Window = d.ContextWindowTokens
	}

	rt.Block = d.ContextBlockLimit
	if rt.Window > 0 && rt.MaxTokens > rt.Window/2 {
		rt.MaxTokens = max(rt.Window/2, 1)
	}
	return rt
}

// Presets returns the names of the configured presets.
func (m *Models) Presets() []string {
	return slices.Sorted(maps.Keys(m.loaded.Config.ModelPresets))
}

// match finds the provider of a preset's model.
func (m *Models) match(preset string) (catalog.Choice, config.Preset, error) {
	d := m.loaded.Config.Agents.Defaults
	p := config.Preset{
		Model: d.Model, Provider: d.Provider, MaxTokens: d.MaxTokens, ContextWindowTokens: d.ContextWindowTokens,
		Temperature: d.Temperature, ReasoningEffort: d.ReasoningEffort,
	}
	if preset == "" {
		preset = d.ModelPreset
	}

	if preset != "" {
		var ok bool
		if p, ok = m.loaded.Config.ModelPresets[preset]; !ok {
			return catalog.Choice{}, p, fmt.Errorf("there is no model preset %q", preset)
		}
	}

	if m.model != "" {
		p.Model, p.Provider = m.model, "auto"
	}
	if !m.Configured() {
		// The user did not choose the shipped default model: let the key decide.
		p.Model = ""
	}

	c, err := m.choose(p.Model, p.Provider)
	return c, p, err
}

// choose finds the provider of a model.
func (m *Models) choose(model, provider string) (catalog.Choice, error) {
	in := MatchInput(m.loaded, m.getenv)
	in.Model, in.Provider = model, provider
	if !m.Configured() {
		// A model server on this machine comes after keys, found by discovery.
		in.Getenv = func(name string) string {
			if name == "OLLAMA_HOST" {
				return ""
			}
			return m.getenv(name)
		}
	}

	return catalog.Match(in)
}
