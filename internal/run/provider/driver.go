package provider

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/turn"
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
	"github.com/nanobot-go/nanobot/internal/run/config"
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
	temperature *float64
	facts       catalog.Fact
}

// chain creates one runtime of a model and its fallbacks. From the wire outwards:
// driver, meter, throttle, key rotation, retry, breaker, fallback. The window is the
// smallest of the chain, so that a prompt fits every model in it.
func (m *Models) chain(targets []target) (turn.Runtime, error) {
	links := make([]chain.Link, 0, len(targets))
	window := targets[0].window
	persistent := m.loaded.Config.Agents.Defaults.ProviderRetryMode == "persistent"
	for i, t := range targets {
		p := m.loaded.Config.Providers[t.choice.Block]
		model, err := m.provider(t, p)
		no := func(able *bool, known catalog.Ability) bool { return abilityOf(able, known) == catalog.Unsupported }
		lacks := chain.Lacks{Images: no(p.Caps.Vision, t.facts.Vision), Tools: no(p.Caps.Tools, t.facts.Tools)}

		if err != nil {
			if i > 0 {
				m.log.Warn("a fallback model cannot be used", "model", t.display, "err", err)
				continue
			}
			return turn.Runtime{}, fmt.Errorf("providers.%s: %w", t.choice.Name, err)
		}

		links = append(links, chain.Link{
			// Persistent mode repeats the whole chain, or the one model there is.
			Model: chain.Retry(chain.Within(model, lacks), chain.RetryOptions{Persistent: persistent && len(targets) == 1, Log: m.log}),
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
	return turn.Runtime{
		Model: model, Name: t.choice.WireModel, Display: t.display, MaxTokens: t.maxTokens, Effort: t.effort,
		Temperature: t.temperature, Window: window, Block: m.loaded.Config.Agents.Defaults.ContextBlockLimit,
	}, nil
}

// adjust applies the settings of a fallback to a request for the first model.
func (t target) adjust(i int) func(llm.Request) llm.Request {
	if i == 0 {
		return nil
	}
	return func(r llm.Request) llm.Request {
		r.Model = t.choice.WireModel
		r.MaxTokens = t.maxTokens
		r.Effort = t.effort
		r.Temperature = t.temperature
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

	model := ledger.Meter(driver, ledger.MeterOptions{
		Ledger:   m.ledger,
		Prices:   m.prices,
		Provider: t.choice.Name,
		Billing:  billing,
		Window:   t.window,
	})
	return chain.Throttle(model, m.limiter(t.choice, p, key)), nil
}

// limiter is shared by all models behind one key, or one server on this machine.
// Nil does not limit.
func (m *Models) limiter(c catalog.Choice, p config.Provider, key httpsafe.Secret) *chain.Limiter {
	rate := chain.Rate{Requests: p.PerMinute.Requests, Tokens: p.PerMinute.Tokens}
	if c.Row.Local {
		rate.InFlight, key = 1, httpsafe.Secret{}
	}

	if rate == (chain.Rate{}) {
		return nil
	}

	id := chain.BreakerID(c.Name, c.Base, key)
	m.limiting.Lock()
	defer m.limiting.Unlock()

	if m.limiters == nil {
		m.limiters = map[string]*chain.Limiter{}
	}
	if m.limiters[id] == nil {
		m.limiters[id] = chain.NewLimiter(rate)
	}
	return m.limiters[id]
}

// driver creates the driver for the model's wire protocol.
func (m *Models) driver(t target, p config.Provider, isLocal bool) (llm.Model, error) {
	client, err := httpsafe.Client(httpsafe.Options{Proxy: p.Proxy.Reveal(), Direct: isLocal})
	if err != nil {
		return nil, err
	}

	m.limiting.Lock()
	m.clients = append(m.clients, client)
	m.limiting.Unlock()
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
	first, idle := m.silence(p)
	for _, w := range wires {
		d, err := m.speak(w, t.choice, wireOptions{
			provider: p,
			client:   client,
			signer:   signer,
			first:    first,
			idle:     idle,
		})
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
	first    time.Duration
	idle     time.Duration
}

func (m *Models) speak(w catalog.Wire, c catalog.Choice, o wireOptions) (llm.Model, error) {
	p := o.provider
	var ttl time.Duration
	if p.Claude.CacheTTL == "1h" {
		ttl = time.Hour
	}

	query := reveal(p.ExtraQuery)

	switch w {
	case catalog.AnthropicWire:
		return anthropic.New(anthropic.Options{
			Name:         c.Name,
			BaseURL:      c.Base,
			Key:          c.Key,
			Headers:      p.ExtraHeaders,
			ExtraBody:    p.ExtraBody.JSON(),
			ExtraQuery:   query,
			Betas:        p.Claude.Betas,
			CacheTTL:     ttl,
			Client:       o.client,
			FirstTimeout: o.first,
			IdleTimeout:  o.idle,
			Version:      m.version,
			Log:          m.log,
		})

	case catalog.ChatWire:
		return openai.New(openai.Options{
			Name:         c.Name,
			BaseURL:      c.Base,
			Local:        c.Row.Local,
			Key:          c.Key,
			Signer:       o.signer,
			Quirks:       c.Row.Quirks,
			Headers:      betas(p),
			ExtraBody:    p.ExtraBody.JSON(),
			ExtraQuery:   query,
			CacheTTL:     ttl,
			Client:       o.client,
			FirstTimeout: o.first,
			IdleTimeout:  o.idle,
			Log:          m.log,
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
			Name:           c.Name,
			BaseURL:        c.Base,
			Path:           path,
			Key:            c.Key,
			KeyHeader:      header,
			Signer:         o.signer,
			Headers:        betas(p),
			ExtraBody:      p.ExtraBody.JSON(),
			ExtraQuery:     query,
			Local:          c.Row.Local,
			Quirks:         c.Row.Quirks,
			Codex:          c.Row.Auth == "codex",
			PlainReasoning: c.Row.Name == "deepseek",
			Client:         o.client,
			FirstTimeout:   o.first,
			IdleTimeout:    o.idle,
			Version:        m.version,
			Log:            m.log,
		})

	case catalog.BedrockWire:
		home, _ := os.UserHomeDir() // without one there are no AWS files
		return bedrock.New(bedrock.Options{
			Name:         c.Name,
			Region:       p.Region,
			Profile:      p.Profile,
			BaseURL:      c.Base,
			Key:          c.Key,
			Headers:      p.ExtraHeaders,
			ExtraBody:    p.ExtraBody.JSON(),
			ExtraQuery:   query,
			Betas:        p.Claude.Betas,
			CacheTTL:     ttl,
			Getenv:       m.getenv,
			Home:         home,
			Client:       o.client,
			FirstTimeout: o.first,
			IdleTimeout:  o.idle,
			Version:      m.version,
			Log:          m.log,
		})
	}

	return nil, errors.New("unknown wire protocol " + string(w))
}

// betas returns the extra headers with the names of beta features, for protocols that
// have no place of their own for them.
func betas(p config.Provider) map[string]httpsafe.Secret {
	if len(p.Claude.Betas) == 0 {
		return p.ExtraHeaders
	}
	out := map[string]httpsafe.Secret{"Anthropic-Beta": httpsafe.NewSecret(strings.Join(p.Claude.Betas, ","))}
	maps.Copy(out, p.ExtraHeaders)
	return out
}

// signer returns what replaces a fixed key: a sign-in, or an identity of the
// cloud the program runs in. base is the address that belongs to it, if any.
func (m *Models) signer(c catalog.Choice, p config.Provider, client *http.Client) (s wire.Signer, base string, err error) {
	switch {
	case c.Row.Auth != "":
		home, _ := os.UserHomeDir() // without one no older tokens are found
		a, err := signin.New(c.Row.Auth, signin.Options{
			Store:   store.Under(disk.Open(m.loaded.DataDir, m.log), string(datadir.Auth)),
			Home:    home,
			Getenv:  m.getenv,
			Client:  client,
			Version: m.version,
			Log:     m.log,
			BaseURL: p.APIBase,
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

// silence returns how long the first byte may take, and how long a stream may
// stay silent later, as drivers take it: 0 leaves it to them, since servers on
// this machine need longer, and a negative value does not limit.
func (m *Models) silence(p config.Provider) (first, idle time.Duration) {
	limit := func(own, general int, name string) time.Duration {
		switch {
		case own > 0:
			return time.Duration(own) * time.Second
		case !m.loaded.IsSet("agents.defaults.limits." + name):
			return 0
		case general == 0:
			return -1
		}
		return time.Duration(general) * time.Second
	}

	all := m.loaded.Config.Agents.Defaults.Limits
	return limit(p.FirstByteTimeoutS, all.FirstByteTimeoutS, "firstByteTimeoutS"),
		limit(p.StreamIdleTimeoutS, all.StreamIdleTimeoutS, "streamIdleTimeoutS")
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
