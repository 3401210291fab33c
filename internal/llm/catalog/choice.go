package catalog

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// customRow describes an endpoint of the user's own.
func (m *matcher) customRow(block string) Row {
	return Row{Name: block, Display: block, Wire: ChatWire, Direct: true}
}

// choice completes a decision and checks that it can work.
func (m *matcher) choice(f found) (Choice, error) {
	b := m.in.Providers[f.block]
	c := Choice{
		Row: f.row, Name: f.row.Name, Block: f.block, Key: b.Key, Base: m.base(f.row, f.block), Step: f.step, Why: f.why,
		apiType: b.APIType, ownBase: strings.TrimSpace(b.Base) != "",
	}
	c.Row.Display = cmp.Or(b.Display, c.Row.Display)
	if !c.Key.IsZero() {
		c.KeySource = "providers." + f.block + ".apiKey"
	}

	for _, k := range f.row.EnvKeys {
		if v := m.getenv(k); c.Key.IsZero() && v != "" {
			c.Key, c.KeySource = httpsafe.NewSecret(v), "environment variable "+k
		}
	}

	speak(&c, b)
	m.identify(&c)
	model := m.in.Model
	if model == "" {
		model = c.Row.DefaultModel
	}

	c.WireModel = wireModel(c.Row, c.Name, model)
	c.Warnings = m.warnings(c)
	switch {
	case c.Base == "" && c.Row.Wire != BedrockWire:
		return c, configError("provider %s needs providers.%s.apiBase", c.Name, c.Name)
	case c.Key.IsZero() && !c.Row.Local && !c.Row.Direct && c.Row.Auth == "" && !httpsafe.IsLocal(c.Base):
		return c, configError("no API key for %s (model %q): looked at %s", c.Row.Display, m.in.Model, keyPlaces(f.row))
	case c.WireModel == "":
		return c, configError("provider %s has no default model; set agents.defaults.model", c.Name)
	}

	return c, nil
}

// speak applies the protocol the user asked for.
func speak(c *Choice, b ProviderConfig) {
	switch {
	case b.Wire == "":
	case c.Row.Responses != "": // OpenAI and the like: the same as apiType
		if c.apiType == "" || c.apiType == "auto" {
			c.apiType = map[Wire]string{ChatWire: "chat_completions", ResponsesWire: "responses"}[b.Wire]
		}
	default:
		c.Row.Wire = b.Wire
	}
	if b.Thinking != "" {
		c.Row.Thinking = b.Thinking
	}
}

// identify recognises a brand by its key or URL behind the name of another
// provider, e.g. an OpenRouter key in OPENAI_API_KEY. Of several URLs that fit
// the longest is right.
func (m *matcher) identify(c *Choice) {
	if !c.Row.Direct && c.Row.Name != "openai" || c.Row.APIKeyHeader || c.Row.Wire == BedrockWire {
		return
	}

	var best Row
	byKey := false
	for _, r := range m.rows {
		if r.Name == c.Row.Name || r.Wire != c.Row.Wire || r.Auth != "" || r.Local {
			continue
		}

		if c.ownBase && len(r.URLPart) > len(best.URLPart) && strings.Contains(strings.ToLower(c.Base), r.URLPart) {
			best = r
		}
		if !c.ownBase && r.KeyPrefix != "" && strings.HasPrefix(c.Key.Reveal(), r.KeyPrefix) {
			best, byKey = r, true
		}
	}

	switch {
	case best.Name == "":
	case byKey:
		c.Row = best
		c.Name = best.Name
		c.Base = best.BaseURL
		c.Why += "; its key is " + best.Display + "'s"

	default:
		old := c.Row
		c.Row = best
		c.Row.Direct = best.Direct || old.Direct
		if old.Thinking != "" {
			c.Row.Thinking = old.Thinking
		}
		c.Why += "; its URL is " + best.Display + "'s"
	}
}

// warnings lists what is probably a mistake.
func (m *matcher) warnings(c Choice) []string {
	var out []string
	key := c.Key.Reveal()
	if strings.ContainsAny(key, " \t\r\n\"'") {
		out = append(out, fmt.Sprintf("the key from %s contains spaces or quotes", c.KeySource))
	}

	for _, r := range m.rows {
		if r.KeyPrefix == "" || !strings.HasPrefix(key, r.KeyPrefix) || r.Name == c.Row.Name || c.Row.KeyPrefix == r.KeyPrefix {
			continue
		}
		// Behind an endpoint of one's own any key may be right.
		if !c.Row.Direct && !c.ownBase {
			out = append(out, fmt.Sprintf("the key from %s looks like one of %s, not of %s", c.KeySource, r.Display, c.Row.Display))
		}
	}

	brand, word := m.brand(func(r Row) bool { return !r.Local && !r.Gateway && r.Auth == "" && r.Wire != BedrockWire })
	switch {
	case word == "" || brand.Name == c.Row.Name:
	case c.Row.VendorNames && !strings.Contains(c.WireModel, "/"):
		vendor := brand.Vendor
		if vendor == "" {
			vendor = brand.Name
		}
		out = append(out, fmt.Sprintf("%s calls models vendor/model; %q is probably %q there", c.Row.Display, c.WireModel, vendor+"/"+c.WireModel))

	case c.Step == ByDefault && !c.Row.Direct:
		out = append(out, fmt.Sprintf("%q looks like a model of %s, for which there is no key", m.in.Model, brand.Display))
	}

	return out
}

func (m *matcher) base(row Row, block string) string {
	base := strings.TrimRight(strings.TrimSpace(m.in.Providers[block].Base), "/")
	if base == "" && row.Name == "ollama" {
		base = ollamaHost(m.getenv("OLLAMA_HOST"))
	}

	if base == "" {
		return strings.TrimRight(row.BaseURL, "/")
	}

	path := row.BasePath
	if path == "" && row.Direct && row.Wire == ChatWire && m.in.Providers[block].Wire != AnthropicWire && httpsafe.IsLocal(base) {
		path = "/v1" // what servers at home expect
	}

	u, err := url.Parse(base)
	if err != nil || u.Host == "" || path == "" || u.RawQuery != "" {
		return base
	}
	// A first part of the path may be there already: /openai of /openai/v1.
	if u.Path == "" || u.Path != path && strings.HasPrefix(path, u.Path+"/") {
		return strings.TrimSuffix(base, u.Path) + path
	}
	return base
}

// ollamaHost turns the server's own variable (host, host:port or URL; 0.0.0.0
// when it listens everywhere) into an address to connect to.
func ollamaHost(v string) string {
	if v == "" {
		return ""
	}

	if !strings.Contains(v, "://") {
		v = "http://" + v
	}

	u, err := url.Parse(v)
	if err != nil || u.Hostname() == "" {
		return ""
	}

	host, port := u.Hostname(), u.Port()
	if host == "0.0.0.0" {
		host = "127.0.0.1"
	}
	if port == "" && u.Scheme == "http" {
		port = "11434"
	}
	if port != "" {
		host += ":" + port
	}
	return u.Scheme + "://" + host
}

// wireModel returns the name the vendor knows.
func wireModel(row Row, name, model string) string {
	if row.StripPrefix {
		return model[strings.LastIndexByte(model, '/')+1:]
	}

	prefix, rest, ok := strings.Cut(model, "/")
	if !ok || rest == "" {
		return model
	}

	own := sameName(prefix, name) || sameName(prefix, row.Name)
	if !own && !sameName(prefix, row.Alias) && (row.Gateway || !sameName(prefix, row.Vendor)) {
		return model
	}

	switch {
	case row.OwnModels == "":
	case row.OwnModels == "*" && !strings.Contains(rest, "/"), strings.HasPrefix(rest, row.OwnModels): // openrouter/auto is a model
		return model
	}
	return rest
}

// hasKeyword reports whether the words of a keyword follow each other among
// the words of a model name. A word may carry a version: qwen3 is qwen. A
// keyword with a dot must be there as it is, at the beginning of a word.
func hasKeyword(model string, words []string, keyword string) bool {
	if strings.Contains(keyword, ".") {
		for at := 0; ; at++ {
			i := strings.Index(model[at:], keyword)
			if i < 0 {
				return false
			}
			if at += i; at == 0 || isSeparator(rune(model[at-1])) {
				return true
			}
		}
	}

	for i := range words {
		at := i
		for k := range strings.SplitSeq(keyword, "-") {
			if at < 0 || at == len(words) || words[at] != k && strings.TrimRight(words[at], "0123456789") != k {
				at = -1
				break
			}
			at++
		}

		if at > 0 {
			return true
		}
	}

	return false
}

func isSeparator(r rune) bool {
	return r == '/' || r == '-' || r == '_' || r == ':' || r == '.' || r == ' '
}

// sameName reports whether two names are the same but for case, dashes,
// underscores and spaces: lm-studio, lmStudio and LM_STUDIO. Nothing is the
// same as an empty name.
func sameName(a, b string) bool {
	i, j := 0, 0
	for {
		for i < len(a) && isFiller(a[i]) {
			i++
		}

		for j < len(b) && isFiller(b[j]) {
			j++
		}

		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b) && i > 0 && j > 0
		}
		if lower(a[i]) != lower(b[j]) {
			return false
		}
		i, j = i+1, j+1
	}
}

func isFiller(c byte) bool { return c == '-' || c == '_' || c == ' ' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
