package provider

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
	"github.com/nanobot-go/nanobot/internal/llm/azure"
	"github.com/nanobot-go/nanobot/internal/llm/bedrock"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/chain"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
	"github.com/nanobot-go/nanobot/internal/llm/responses"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
	"github.com/nanobot-go/nanobot/internal/store"
	"github.com/nanobot-go/nanobot/internal/store/disk"
)

// bare creates the model of a choice, metered but without retries, key rotation or
// fallback, for trials of that model alone.
func (m *Models) bare(choice catalog.Choice) (llm.Model, error) {
	model, err := m.keyed(target{choice: choice}, m.loaded.Config.Providers[choice.Block], choice.Key)
	if err != nil {
		return nil, fmt.Errorf("providers.%s: %w", choice.Name, err)
	}
	return model, nil
}

// target is a model with the settings of its requests.
type target struct {
	choice      catalog.Choice
	display     string
	maxTokens   int
	window      int
	effort      string
	temperature float64
}

// chain creates one runtime of a model and its fallbacks. From the wire outwards:
// driver, meter, throttle, key rotation, retry, breaker, fallback. The window is the
// smallest of the chain, so that a prompt fits every model in it.
func (m *Models) chain(targets []target) (agent.Runtime, error) {
	links := make([]chain.Link, 0, len(targets))
	window := targets[0].window
	persistent := m.loaded.Config.Agents.Defaults.ProviderRetryMode == "persistent"
	for i, t := range targets {
		p := m.loaded.Config.Providers[t.choice.Block]
		model, err := m.provider(t, p)
		if err != nil {
			if i > 0 {
				m.log.Warn("a fallback model cannot be used", "model", t.display, "err", err)
				continue
			}
			return agent.Runtime{}, fmt.Errorf("providers.%s: %w", t.choice.Name, err)
		}
		links = append(links, chain.Link{
			// Persistent mode repeats the whole chain, or the one model there is.
			Model: chain.Retry(model, chain.RetryOptions{Persistent: persistent && len(targets) == 1, Log: m.log}),
			Name:  t.display, Adjust: t.adjust(i), Window: t.window, Attempt: m.attempt(p),
			Breaker: m.breakers.At(chain.BreakerID(t.choice.Name, t.choice.Base, append(slices.Clone(p.APIKeys), t.choice.Key)...)),
		})
		if t.window > 0 && (window == 0 || t.window < window) {
			window = t.window
		}
	}
	model := chain.Fallback(links, chain.FallbackOptions{Log: m.log})
	if persistent && len(targets) > 1 {
		model = chain.Retry(model, chain.RetryOptions{Persistent: true, Log: m.log})
	}
	t := targets[0]
	return agent.Runtime{
		Model: model, Name: t.choice.WireModel, Display: t.display, MaxTokens: t.maxTokens, Effort: t.effort,
		Temperature: &t.temperature, Window: window, Block: m.loaded.Config.Agents.Defaults.ContextBlockLimit,
	}, nil
}

// adjust applies the settings of a fallback to a request for the first model.
func (t target) adjust(i int) func(llm.Request) llm.Request {
	if i == 0 {
		return nil
	}
	return func(r llm.Request) llm.Request {
		r.Model, r.MaxTokens, r.Effort, r.Temperature = t.choice.WireModel, t.maxTokens, t.effort, &t.temperature
		return r
	}
}

// attempt limits the duration of one attempt.
func (m *Models) attempt(p config.Provider) time.Duration {
	if p.RequestTimeoutS > 0 {
		return time.Duration(p.RequestTimeoutS) * time.Second
	}
	return time.Duration(m.loaded.Config.Agents.Defaults.Limits.LLMTimeoutS) * time.Second
}

// provider creates the metered model of a provider, one per key if there are several.
func (m *Models) provider(t target, p config.Provider) (llm.Model, error) {
	if len(p.APIKeys) < 2 || !strings.HasPrefix(t.choice.KeySource, "providers.") {
		return m.keyed(t, p, t.choice.Key)
	}
	keys := make([]chain.Keyed, len(p.APIKeys))
	for i, key := range p.APIKeys {
		keys[i] = chain.Keyed{
			Name: "apiKeys[" + strconv.Itoa(i) + "]",
			Make: func() (llm.Model, error) { return m.keyed(t, p, key) },
		}
	}
	return chain.Rotate(keys, chain.RotateOptions{Provider: t.choice.Name, InOrder: p.KeyStrategy == "order", Log: m.log}), nil
}

// keyed creates the model of one key: driver, meter and, for a local server, a
// limit of one request at a time.
func (m *Models) keyed(t target, p config.Provider, key httpsafe.Secret) (llm.Model, error) {
	isLocal := t.choice.Row.Local || t.choice.Base != "" && httpsafe.IsLocal(t.choice.Base)
	t.choice.Key = key
	driver, err := m.driver(t, p, isLocal)
	if err != nil {
		return nil, err
	}
	var billing ledger.Billing
	switch {
	case isLocal:
		billing = ledger.Free
	case t.choice.Row.Auth != "":
		billing = ledger.Subscription
	}
	model := ledger.Meter(driver, ledger.MeterOptions{Ledger: m.ledger, Prices: m.prices, Provider: t.choice.Name, Billing: billing, Window: t.window})
	if !t.choice.Row.Local {
		return model, nil
	}
	if m.limiters == nil {
		m.limiters = map[string]*chain.Limiter{}
	}
	if m.limiters[t.choice.Base] == nil {
		m.limiters[t.choice.Base] = chain.NewLimiter(0, 1)
	}
	return chain.Throttle(model, m.limiters[t.choice.Base]), nil
}

// driver creates the driver for the model's wire protocol.
func (m *Models) driver(t target, p config.Provider, isLocal bool) (llm.Model, error) {
	client, err := httpsafe.Client(httpsafe.Options{Proxy: p.Proxy.Reveal(), Direct: isLocal})
	if err != nil {
		return nil, err
	}
	signer, base, err := m.signer(t.choice, p, client)
	if err != nil {
		return nil, err
	}
	if base != "" {
		t.choice.Base = base
	}
	wires := t.choice.Wires(t.effort)
	if len(wires) == 0 {
		return nil, errors.New("no wire protocol fits this model")
	}
	models := make([]llm.Model, 0, len(wires))
	for _, w := range wires {
		d, err := m.speak(w, t.choice, wireOptions{provider: p, client: client, signer: signer, idle: m.idle(p, isLocal)})
		if err != nil {
			return nil, err
		}
		models = append(models, d)
	}
	if len(models) > 1 && wires[0] == catalog.ResponsesWire {
		return responses.WithChat(models[0], models[1], responses.ChatOptions{Log: m.log}), nil
	}
	return models[0], nil
}

// wireOptions holds what all drivers need besides the choice.
type wireOptions struct {
	provider config.Provider
	client   *http.Client
	signer   wire.Signer
	idle     time.Duration
}

func (m *Models) speak(w catalog.Wire, c catalog.Choice, o wireOptions) (llm.Model, error) {
	p := o.provider
	switch w {
	case catalog.AnthropicWire:
		return anthropic.New(anthropic.Options{
			Name: c.Name, BaseURL: c.Base, Key: c.Key, Headers: p.ExtraHeaders, Client: o.client, IdleTimeout: o.idle, Version: m.version, Log: m.log,
		})
	case catalog.ChatWire:
		return openai.New(openai.Options{
			Name: c.Name, BaseURL: c.Base, Local: c.Row.Local, Key: c.Key, Signer: o.signer, Quirks: c.Row.Quirks, Headers: p.ExtraHeaders,
			ExtraQuery: reveal(p.ExtraQuery), ExtraBody: p.ExtraBody.JSON(), Client: o.client, IdleTimeout: o.idle, Log: m.log,
		})
	case catalog.ResponsesWire:
		header := ""
		if c.Row.APIKeyHeader {
			header, c.Row.CacheKey = "api-key", true
		}
		path := ""
		if c.Row.Auth == "codex" {
			path = "/codex/responses"
		}
		return responses.New(responses.Options{
			Name: c.Name, BaseURL: c.Base, Path: path, Key: c.Key, KeyHeader: header, Signer: o.signer, Headers: p.ExtraHeaders,
			ExtraBody: p.ExtraBody.JSON(), ExtraQuery: reveal(p.ExtraQuery), Local: c.Row.Local, Quirks: c.Row.Quirks, Codex: c.Row.Auth == "codex",
			PlainReasoning: c.Row.Name == "deepseek", Client: o.client, IdleTimeout: o.idle, Version: m.version, Log: m.log,
		})
	case catalog.BedrockWire:
		home, _ := os.UserHomeDir() // without one there are no AWS files
		return bedrock.New(bedrock.Options{
			Name: c.Name, Region: p.Region, Profile: p.Profile, BaseURL: c.Base, Key: c.Key, Headers: p.ExtraHeaders,
			ExtraBody: p.ExtraBody.JSON(), Getenv: m.getenv, Home: home, Client: o.client, IdleTimeout: o.idle, Version: m.version, Log: m.log,
		})
	}
	return nil, errors.New("unknown wire protocol " + string(w))
}

// signer returns the credentials that replace a fixed key: a sign-in, or the
// identity of a cloud machine. base is the address that belongs to it, if any.
func (m *Models) signer(c catalog.Choice, p config.Provider, client *http.Client) (s wire.Signer, base string, err error) {
	switch {
	case c.Row.Auth != "":
		home, _ := os.UserHomeDir() // without one no older tokens are found
		a, err := signin.New(c.Row.Auth, signin.Options{
			Store: store.Under(disk.Open(m.loaded.DataDir, m.log), string(datadir.Auth)), Home: home, Getenv: m.getenv, Client: client, Version: m.version, Log: m.log, BaseURL: p.APIBase,
		})
		if err != nil {
			return nil, "", err
		}
		return a.Signer(), a.BaseURL(), nil
	case c.Row.APIKeyHeader && c.Key.IsZero():
		s, err := azure.New(azure.Options{Client: client, Getenv: m.getenv, Log: m.log})
		return s, "", err
	}
	return nil, "", nil
}

// idle returns how long a stream may be silent.
func (m *Models) idle(p config.Provider, isLocal bool) time.Duration {
	switch {
	case p.StreamIdleTimeoutS > 0:
		return time.Duration(p.StreamIdleTimeoutS) * time.Second
	case isLocal && !m.loaded.IsSet("agents.defaults.limits.streamIdleTimeoutS"):
		return 0 // the driver's longer default for local servers
	}
	return time.Duration(m.loaded.Config.Agents.Defaults.Limits.StreamIdleTimeoutS) * time.Second
}

// FirstKey returns the first key of a provider.
func FirstKey(p config.Provider) httpsafe.Secret {
	if p.APIKey.IsZero() && len(p.APIKeys) > 0 {
		return p.APIKeys[0]
	}
	return p.APIKey
}

func reveal(m map[string]httpsafe.Secret) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v.Reveal()
	}
	return out
}
