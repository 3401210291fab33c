package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// Ability says whether a model can do something; "" is not known.
type Ability string

// The answers.
const (
	Supported   Ability = "yes"
	Unsupported Ability = "no"
)

// Offer is a model that a provider has.
type Offer struct {
	ID     string
	Window int // tokens; 0 if the provider does not tell
	Tools  Ability
	Vision Ability
	Priced bool    // the provider tells its price
	In     float64 // US dollars per million tokens of the prompt
	Out    float64 // and of the answer
}

// ListOptions holds what a request for the list of models needs besides the
// Choice.
type ListOptions struct {
	Client  *http.Client // nil: one from httpsafe
	Headers map[string]httpsafe.Secret
	Query   map[string]string
	Signer  wire.Signer // puts the credentials on the request in place of the key
}

const (
	listTimeout = 10 * time.Second
	maxList     = 16 << 20 // bytes; gateways describe hundreds of models at length
	maxName     = 200      // bytes of a model's name
)

// ListModels asks a provider which models it offers, sorted by name. It follows
// no redirect and takes at most ten seconds.
func ListModels(ctx context.Context, c Choice, o ListOptions) ([]Offer, error) {
	if c.Row.Models != "" {
		var out []Offer
		facts := NewFacts("")
		for id := range strings.FieldsSeq(c.Row.Models) {
			out = append(out, Offer{ID: id, Window: facts.Of(id).Window})
		}
		return out, nil
	}

	if c.Row.Wire == BedrockWire || c.Row.Speech {
		return nil, &llm.Error{Kind: llm.Configuration, Provider: c.Name, Message: c.Row.Display + " has no list of models that can be asked for"}
	}

	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	body, err := fetchList(ctx, c, o)
	if err != nil {
		return nil, err
	}

	out, ok := parseList(body)
	if !ok {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Provider: c.Name, Message: "the answer of " + c.Base + " is not a list of models; is the base URL right?"}
	}

	out = slices.DeleteFunc(out, func(o Offer) bool { return !text.Plain(o.ID, maxName) })
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return slices.CompactFunc(out, func(a, b Offer) bool { return a.ID == b.ID }), nil
}

func fetchList(ctx context.Context, c Choice, o ListOptions) ([]byte, error) {
	classify := wire.Classifier{Provider: c.Name, BaseURL: c.Base, Local: c.Row.Local || httpsafe.IsLocal(c.Base), Secrets: []httpsafe.Secret{c.Key}}
	req, err := listRequest(ctx, c, o)
	if err != nil {
		return nil, &llm.Error{Kind: llm.Configuration, Provider: c.Name, Message: err.Error(), Err: err}
	}

	if o.Signer != nil {
		if err := o.Signer.Sign(ctx, req, nil); err != nil {
			return nil, err
		}
	}

	if o.Client == nil {
		made, err := httpsafe.Client(httpsafe.Options{Direct: classify.Local})
		if err != nil {
			return nil, err
		}
		defer made.CloseIdleConnections()
		o.Client = made
	}

	client := *o.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return nil, classify.Transport(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, classify.Read(resp)
	}

	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxList))
	if err != nil {
		return nil, classify.Transport(ctx, err)
	}
	return body, nil
}

func listRequest(ctx context.Context, c Choice, o ListOptions) (*http.Request, error) {
	u, err := url.Parse(c.Base)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("base URL %q is not a URL", c.Base)
	}

	q := u.Query()
	if c.Row.Wire == AnthropicWire {
		u.Path = strings.TrimSuffix(u.Path, "/v1") + "/v1"
		q.Set("limit", "1000")
	}

	u.Path = strings.TrimSuffix(u.Path, "/chat/completions") + "/models"
	for k, v := range o.Query {
		q.Set(k, v)
	}

	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Accept", "application/json")
	switch {
	case o.Signer != nil:
	case c.Row.Wire == AnthropicWire:
		req.Header.Set("X-Api-Key", c.Key.Reveal())
	case c.Row.APIKeyHeader:
		req.Header.Set("Api-Key", c.Key.Reveal())
	case !c.Key.IsZero():
		req.Header.Set("Authorization", "Bearer "+c.Key.Reveal())
	}

	if c.Row.Wire == AnthropicWire {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}

	for k, v := range o.Headers {
		req.Header.Set(k, v.Reveal())
	}
	return req, nil
}

// parseList reads the many shapes of a list: under "data" or "models" or bare,
// of objects or of names.
func parseList(body []byte) ([]Offer, bool) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return nil, false
	}

	if m, ok := v.(map[string]any); ok {
		if v, ok = m["data"]; !ok || v == nil {
			v = m["models"]
		}
	}

	list, ok := v.([]any)
	if !ok {
		return nil, false
	}

	out := make([]Offer, 0, len(list))
	for _, item := range list {
		switch t := item.(type) {
		case string:
			out = append(out, Offer{ID: t})
		case map[string]any:
			if o := parseOffer(t); o.ID != "" {
				out = append(out, o)
			}
		}
	}

	return out, true
}

func parseOffer(m map[string]any) Offer {
	var o Offer
	for _, k := range []string{"id", "name", "model"} {
		if s, ok := m[k].(string); ok && o.ID == "" {
			o.ID = strings.TrimPrefix(s, "models/") // Gemini
		}
	}

	for _, k := range []string{"context_window", "context_length", "max_context_length", "max_model_len", "max_input_tokens"} {
		if o.Window == 0 {
			o.Window = count(m[k])
		}
	}

	if meta, ok := m["meta"].(map[string]any); ok && o.Window == 0 { // llama.cpp
		if o.Window = count(meta["n_ctx"]); o.Window == 0 {
			o.Window = count(meta["n_ctx_train"])
		}
	}

	if a, ok := m["architecture"].(map[string]any); ok {
		o.Vision = listed(a["input_modalities"], "image")
	}

	o.Tools = listed(m["supported_parameters"], "tools")
	if p, ok := m["pricing"].(map[string]any); ok { // OpenRouter and alike: texts, per token
		in, known := price(p["prompt"])
		out, too := price(p["completion"])
		if o.Priced = known && too; o.Priced {
			o.In, o.Out = in, out
		}
	}

	switch caps := m["capabilities"].(type) {
	case []any:
		o.Tools, o.Vision = listed(caps, "tools"), listed(caps, "vision")
	case map[string]any:
		o.Tools, o.Vision = flag(caps["function_calling"]), flag(caps["vision"])
	}
	return o
}

// price reads US dollars per token as dollars per million. A price below zero
// means that it depends.
func price(v any) (perMillion float64, known bool) {
	s, _ := v.(string)
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f < 1) {
		return 0, false
	}
	return math.Round(f*1e10) / 1e4, true
}

func count(v any) int {
	switch t := v.(type) {
	case float64:
		return max(0, int(t))
	case string:
		n, _ := strconv.Atoi(t) // not a number: not known
		return max(0, n)
	}
	return 0
}

// listed says whether a list of what is supported names something.
func listed(v any, want string) Ability {
	list, ok := v.([]any)
	if !ok {
		return ""
	}
	return flag(slices.Contains(list, any(want)))
}

func flag(v any) Ability {
	b, ok := v.(bool)
	switch {
	case !ok:
		return ""
	case b:
		return Supported
	}
	return Unsupported
}
