package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
	"github.com/nanobot-go/nanobot/internal/llm/demo"
	"github.com/nanobot-go/nanobot/internal/llm/local"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
)

// ModelInfo says which model is in use and why.
type ModelInfo struct {
	Name      string // as the user knows it
	Provider  string
	Why       string
	KeySource string
	Demo      bool
}

// models resolves presets to models. Drivers are made on first use.
type models struct {
	loaded  *config.Loaded
	model   string    // override
	fixed   llm.Model // from an embedding program
	getenv  func(string) string
	version string
	log     *slog.Logger

	info     ModelInfo
	fallback *agent.Runtime // local server or demo model, when nothing is configured

	mu    sync.Mutex
	cache map[string]agent.Runtime
}

// settle decides what "the default model" is. With nothing configured it takes
// a key found in the environment, else a model server on this machine, else
// the built-in demo model, and says so.
func (m *models) settle(ctx context.Context) ([]string, error) {
	m.cache = map[string]agent.Runtime{}
	if m.fixed != nil {
		m.info = ModelInfo{Name: "custom", Provider: "embedded", Why: "given by the program"}
		rt := m.withDefaults(agent.Runtime{Model: m.fixed, Name: "custom", Display: "custom"})
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
		m.info = ModelInfo{Name: name, Provider: choice.Name, Why: choice.Why, KeySource: choice.KeySource}
		if !m.configured() {
			return []string{fmt.Sprintf("Using %s, because %s.", name, choice.Why)}, nil
		}
		return nil, nil
	case m.configured():
		return nil, err
	}
	return m.discover(ctx)
}

// configured reports whether the user chose a model or provider somewhere.
func (m *models) configured() bool {
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
func (m *models) discover(ctx context.Context) ([]string, error) {
	for _, s := range local.Discover(ctx, local.Options{Getenv: m.getenv}) {
		if len(s.Models) == 0 {
			continue
		}
		row, _ := Row(string(s.Kind))
		rt, err := m.build(llm.Choice{Row: row, Name: row.Name, Base: s.Base, WireModel: s.Models[0].ID}, config.Provider{})
		if err != nil {
			return nil, err
		}
		rt.Display, rt.Window = row.Name+"/"+s.Models[0].ID, s.Models[0].Context
		rt = m.withDefaults(rt)
		m.fallback = &rt
		m.info = ModelInfo{Name: rt.Display, Provider: row.Name, Why: "found on this machine at " + s.Base}
		return []string{fmt.Sprintf("Using %s, found on this machine at %s. Choose a model with: nanobot config set agents.defaults.model NAME", rt.Display, s.Base)}, nil
	}
	rt := m.withDefaults(agent.Runtime{Model: demo.New(demo.Options{}), Name: "demo", Display: "demo (not an AI)"})
	m.fallback = &rt
	m.info = ModelInfo{Name: rt.Display, Provider: "demo", Why: "no key and no model server was found", Demo: true}
	return []string{"No model is configured: answering with the built-in demo, which is not an AI. To add a real one, set a key, for example: export OPENROUTER_API_KEY=...  or run: nanobot onboard"}, nil
}

// runtime resolves a preset; "" is the default.
func (m *models) runtime(preset string) (agent.Runtime, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rt, ok := m.cache[preset]; ok {
		return rt, nil
	}
	if m.fallback != nil && preset == "" {
		return *m.fallback, nil
	}
	choice, p, err := m.match(preset)
	if err != nil {
		return agent.Runtime{}, err
	}
	rt, err := m.build(choice, m.loaded.Config.Providers[choice.Name])
	if err != nil {
		return agent.Runtime{}, err
	}
	rt.Display, rt.Preset = p.Model, preset
	if rt.Display == "" {
		rt.Display = choice.Name + "/" + choice.WireModel
	}
	rt.MaxTokens, rt.Effort, rt.Window = p.MaxTokens, p.ReasoningEffort, p.ContextWindowTokens
	t := p.Temperature
	rt.Temperature = &t
	if known := llm.ContextWindow(choice.WireModel); known > 0 && !m.windowIsSet(preset) {
		rt.Window = known
	}
	rt = m.withDefaults(rt)
	m.cache[preset] = rt
	return rt, nil
}

func (m *models) windowIsSet(preset string) bool {
	if preset == "" {
		preset = m.loaded.Config.Agents.Defaults.ModelPreset
	}
	if preset == "" {
		return m.loaded.IsSet("agents.defaults.contextWindowTokens")
	}
	return m.loaded.IsSet("modelPresets." + preset + ".contextWindowTokens")
}

// withDefaults fills in what a preset leaves open and keeps the answer from
// taking more than half of a small window.
func (m *models) withDefaults(rt agent.Runtime) agent.Runtime {
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

func (m *models) presets() []string {
	return slices.Sorted(maps.Keys(m.loaded.Config.ModelPresets))
}

// match finds the provider of a preset's model.
func (m *models) match(preset string) (llm.Choice, config.Preset, error) {
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
			return llm.Choice{}, p, fmt.Errorf("there is no model preset %q", preset)
		}
	}
	if m.model != "" {
		p.Model, p.Provider = m.model, "auto"
	}
	in := llm.MatchInput{Model: p.Model, Provider: p.Provider, Getenv: m.getenv, Providers: map[string]llm.ProviderConfig{}}
	for name, pc := range m.loaded.Config.Providers {
		in.Providers[name] = llm.ProviderConfig{
			Key: firstKey(pc), Base: pc.APIBase, Wire: llm.Wire(pc.Wire), Thinking: llm.ThinkingStyle(pc.ThinkingStyle),
		}
	}
	if !m.configured() {
		// The shipped default model is nobody's choice: let the key decide. A
		// model server on this machine comes second, found by discovery.
		in.Model, p.Model = "", ""
		in.Getenv = func(name string) string {
			if name == "OLLAMA_HOST" {
				return ""
			}
			return m.getenv(name)
		}
	}
	c, err := llm.Match(in)
	return c, p, err
}

func firstKey(p config.Provider) httpsafe.Secret {
	if p.APIKey.IsZero() && len(p.APIKeys) > 0 {
		return p.APIKeys[0]
	}
	return p.APIKey
}

// build makes the driver of a provider, with retries around it.
func (m *models) build(c llm.Choice, p config.Provider) (agent.Runtime, error) {
	lim := m.loaded.Config.Agents.Defaults.Limits
	isLocal := c.Row.Local || httpsafe.IsLocal(c.Base)
	client, err := httpsafe.Client(httpsafe.Options{Proxy: p.Proxy.Reveal(), Direct: isLocal})
	if err != nil {
		return agent.Runtime{}, fmt.Errorf("providers.%s: %w", c.Name, err)
	}
	idle := time.Duration(lim.StreamIdleTimeoutS) * time.Second
	if isLocal && !m.loaded.IsSet("agents.defaults.limits.streamIdleTimeoutS") {
		idle = 0 // the driver's longer default for local servers
	}
	if p.StreamIdleTimeoutS > 0 {
		idle = time.Duration(p.StreamIdleTimeoutS) * time.Second
	}
	var driver llm.Model
	switch c.Row.Wire {
	case llm.AnthropicWire:
		driver, err = anthropic.New(anthropic.Options{
			Name: c.Name, BaseURL: c.Base, Key: c.Key, Headers: p.ExtraHeaders, Client: client, IdleTimeout: idle,
			Version: m.version, Log: m.log,
		})
	case llm.ChatWire:
		driver, err = openai.New(openai.Options{
			Name: c.Name, BaseURL: c.Base, Key: c.Key, Row: c.Row, Headers: p.ExtraHeaders, ExtraQuery: reveal(p.ExtraQuery),
			ExtraBody: p.ExtraBody.JSON(), Client: client, IdleTimeout: idle, Log: m.log,
		})
	default:
		err = errors.New("unknown wire protocol " + string(c.Row.Wire))
	}
	if err != nil {
		return agent.Runtime{}, fmt.Errorf("providers.%s: %w", c.Name, err)
	}
	persistent := m.loaded.Config.Agents.Defaults.ProviderRetryMode == "persistent"
	return agent.Runtime{
		Model: llm.Retry(driver, llm.RetryOptions{Persistent: persistent, Log: m.log}), Name: c.WireModel,
	}, nil
}

func reveal(m map[string]httpsafe.Secret) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v.Reveal()
	}
	return out
}

// Row finds a provider of the catalogue by name.
func Row(name string) (llm.Row, bool) {
	for _, r := range llm.Catalogue() {
		if r.Name == name {
			return r, true
		}
	}
	return llm.Row{}, false
}
