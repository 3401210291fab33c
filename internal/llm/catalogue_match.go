package llm

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// ProviderConfig is what the user wrote about one provider.
type ProviderConfig struct {
	Key      httpsafe.Secret
	Base     string
	Wire     Wire          // for named custom providers; "" means ChatWire
	Thinking ThinkingStyle // for custom providers
}

// MatchInput is what a model's provider is decided from.
type MatchInput struct {
	Model    string // as configured; "" means the default of the chosen provider
	Provider string // "" or "auto": decide by the model
	// Providers are the configured blocks; names that are not in the catalogue
	// are the user's own OpenAI-compatible endpoints.
	Providers map[string]ProviderConfig
	Getenv    func(string) string // nil: the environment is not consulted
}

// Choice is a provider, ready to make a driver from.
type Choice struct {
	Row       Row    // quirks; for a custom endpoint those of the brand its URL reveals
	Name      string // the configured name, which becomes Message.Origin
	Key       httpsafe.Secret
	KeySource string // where the key was found, "" if there is none
	Base      string
	WireModel string
	Why       string // one line for logs and status
}

// Match decides which provider serves a model. The order: a forced provider; a
// name before the first slash; a model with an installation tag and a local
// server; the longest keyword among the words of the model name; a local
// server; the first configured provider. Providers without a key (or, for
// local ones, a base URL) are never guessed, and what the configuration file
// says goes before keys found in the environment.
func Match(in MatchInput) (Choice, error) {
	m := matcher{in: in, rows: Catalogue()}
	if p := in.Provider; p != "" && p != "auto" {
		return m.forced(p)
	}
	for _, step := range []func() (found, bool){
		m.byPrefix(false), m.byTag, m.byKeyword(false), m.byGateway, m.byPrefix(true), m.byKeyword(true),
		m.byLocalServer, m.byOrder(false), m.byCustom, m.byOrder(true),
	} {
		if f, ok := step(); ok {
			return m.choice(f)
		}
	}
	return Choice{}, m.nothing()
}

type matcher struct {
	in   MatchInput
	rows []Row
}

// found is a decision: a row, or a block of the user's own.
type found struct {
	row   Row
	block string // name of the configured block, "" if there is none
	why   string
}

func (m *matcher) forced(name string) (Choice, error) {
	if row, ok := m.row(name); ok {
		block, _ := m.block(row.Name)
		return m.choice(found{row, block, "the provider setting"})
	}
	if block, ok := m.block(name); ok {
		return m.choice(found{m.customRow(block), block, "the provider setting"})
	}
	names := make([]string, 0, len(m.rows))
	for _, r := range m.rows {
		names = append(names, r.Name)
	}
	return Choice{}, configError("there is no provider %q; known are %s, and the names under \"providers\" in the configuration", name, strings.Join(names, ", "))
}

// byPrefix takes the word before the first slash as a provider's name. With
// env, keys from the environment count and a local server is believed to run.
func (m *matcher) byPrefix(env bool) func() (found, bool) {
	return func() (found, bool) {
		prefix, _, ok := strings.Cut(m.in.Model, "/")
		if !ok {
			return found{}, false
		}
		if row, ok := m.row(prefix); ok {
			block, _ := m.block(row.Name)
			if m.configured(row, env) || row.Local && env {
				return found{row, block, fmt.Sprintf("the model name starts with %q", prefix)}, true
			}
			return found{}, false
		}
		if block, ok := m.block(prefix); ok {
			return found{m.customRow(block), block, fmt.Sprintf("the model name starts with %q", prefix)}, true
		}
		return found{}, false
	}
}

// byTag sends name:tag models, the way Ollama spells them, to a local server.
func (m *matcher) byTag() (found, bool) {
	name, tag, ok := strings.Cut(m.in.Model[strings.LastIndexByte(m.in.Model, '/')+1:], ":")
	if !ok || name == "" {
		return found{}, false
	}
	switch tag {
	case "free", "nitro", "floor", "online", "extended", "thinking", "beta", "exacto": // variants at gateways
		return found{}, false
	}
	f, ok := m.localServer()
	f.why = "the model name has an installation tag and a local server is configured"
	return f, ok
}

func (m *matcher) byKeyword(env bool) func() (found, bool) {
	return func() (found, bool) {
		model := strings.ToLower(m.in.Model)
		var best found
		size := 0
		for _, row := range m.rows {
			for _, k := range row.Keywords {
				if len(k) > size && hasWords(model, k) && m.configured(row, env) && (!row.Local || !m.prefixIsOther(row)) {
					block, _ := m.block(row.Name)
					best, size = found{row, block, fmt.Sprintf("the model name contains %q", k)}, len(k)
				}
			}
		}
		return best, size > 0
	}
}

// byGateway lets a configured gateway serve vendor/model names before keys
// from the environment are considered.
func (m *matcher) byGateway() (found, bool) {
	if !strings.Contains(m.in.Model, "/") {
		return found{}, false
	}
	for _, row := range m.rows {
		if row.Gateway && m.configured(row, false) {
			block, _ := m.block(row.Name)
			return found{row, block, "it is the configured gateway"}, true
		}
	}
	return found{}, false
}

func (m *matcher) byLocalServer() (found, bool) {
	if prefix, _, ok := strings.Cut(m.in.Model, "/"); ok {
		if _, known := m.row(prefix); known {
			return found{}, false
		}
	}
	return m.localServer()
}

// localServer prefers the row whose usual port is in its base URL.
func (m *matcher) localServer() (found, bool) {
	var first found
	ok := false
	for _, row := range m.rows {
		if !row.Local || !m.configured(row, true) {
			continue
		}
		block, _ := m.block(row.Name)
		f := found{row, block, "a local server is configured"}
		if strings.Contains(m.base(row, block), row.URLPart) {
			return f, true
		}
		if !ok {
			first, ok = f, true
		}
	}
	return first, ok
}

func (m *matcher) byOrder(env bool) func() (found, bool) {
	return func() (found, bool) {
		for _, row := range m.rows {
			if !row.Local && m.configured(row, env) {
				block, _ := m.block(row.Name)
				return found{row, block, "it is the first configured provider"}, true
			}
		}
		return found{}, false
	}
}

func (m *matcher) byCustom() (found, bool) {
	for _, name := range slices.Sorted(maps.Keys(m.in.Providers)) {
		if _, known := m.row(name); !known && m.in.Providers[name].Base != "" {
			return found{m.customRow(name), name, "it is the first configured provider"}, true
		}
	}
	return found{}, false
}

// configured says whether a row can be used: a key, or a base URL where that
// is enough. env admits keys from the environment.
func (m *matcher) configured(row Row, env bool) bool {
	name, ok := m.block(row.Name)
	b := m.in.Providers[name]
	if row.Local || row.Direct {
		return ok && b.Base != "" || env && row.Name == "ollama" && m.getenv("OLLAMA_HOST") != ""
	}
	if ok && !b.Key.IsZero() {
		return true
	}
	return env && slices.ContainsFunc(row.EnvKeys, func(k string) bool { return m.getenv(k) != "" })
}

func (m *matcher) getenv(k string) string {
	if m.in.Getenv == nil {
		return ""
	}
	return strings.TrimSpace(m.in.Getenv(k))
}

func (m *matcher) row(name string) (Row, bool) {
	name = fold(name)
	i := slices.IndexFunc(m.rows, func(r Row) bool { return fold(r.Name) == name })
	if i < 0 {
		return Row{}, false
	}
	return m.rows[i], true
}

// block finds the configured block of a name, whatever its spelling.
func (m *matcher) block(name string) (string, bool) {
	if _, ok := m.in.Providers[name]; ok {
		return name, true
	}
	want := fold(name)
	best := ""
	for k := range m.in.Providers {
		if fold(k) == want && (best == "" || k < best) {
			best = k
		}
	}
	return best, best != ""
}

func (m *matcher) customRow(block string) Row {
	b := m.in.Providers[block]
	row := Row{Name: block, Display: block, Wire: b.Wire, Direct: true, Thinking: b.Thinking}
	if row.Wire == "" {
		row.Wire = ChatWire
	}
	return row
}

func (m *matcher) prefixIsOther(row Row) bool {
	prefix, _, ok := strings.Cut(m.in.Model, "/")
	other, known := m.row(prefix)
	return ok && known && other.Name != row.Name
}

// choice completes a decision and checks that it can work.
func (m *matcher) choice(f found) (Choice, error) {
	b := m.in.Providers[f.block]
	c := Choice{Row: f.row, Name: f.row.Name, Key: b.Key, Base: m.base(f.row, f.block), Why: f.why}
	if !c.Key.IsZero() {
		c.KeySource = "providers." + f.block + ".apiKey"
	}
	for _, k := range f.row.EnvKeys {
		if v := m.getenv(k); c.Key.IsZero() && v != "" {
			c.Key, c.KeySource = httpsafe.NewSecret(v), "environment variable "+k
		}
	}
	m.identify(&c, b.Base != "")
	model := m.in.Model
	if model == "" {
		model = c.Row.DefaultModel
	}
	c.WireModel = wireModel(c.Row, c.Name, model)
	switch {
	case c.Base == "":
		return c, configError("provider %s needs providers.%s.apiBase", c.Name, c.Name)
	case c.Key.IsZero() && !c.Row.Local && !c.Row.Direct && !httpsafe.IsLocal(c.Base):
		return c, configError("no API key for %s (model %q): looked at %s", c.Row.Display, m.in.Model, keyPlaces(f.row))
	case c.WireModel == "":
		return c, configError("provider %s has no default model; set agents.defaults.model", c.Name)
	}
	return c, nil
}

// identify recognises a brand by its key or URL behind the name of another
// provider, e.g. an OpenRouter key in OPENAI_API_KEY.
func (m *matcher) identify(c *Choice, ownBase bool) {
	for _, r := range m.rows {
		byURL := ownBase && r.URLPart != "" && !r.Local && strings.Contains(strings.ToLower(c.Base), r.URLPart)
		byKey := !ownBase && c.Row.Name == "openai" && r.KeyPrefix != "" && strings.HasPrefix(c.Key.Reveal(), r.KeyPrefix)
		if r.Name == c.Row.Name || r.Wire != c.Row.Wire || !byURL && !byKey {
			continue
		}
		if byURL && (c.Row.Direct || c.Row.Name == "openai") {
			direct := c.Row.Direct
			if c.Row.Thinking != "" {
				r.Thinking = c.Row.Thinking
			}
			c.Row = r
			c.Row.Direct = c.Row.Direct || direct
			c.Why += "; its URL is " + r.Display + "'s"
			return
		}
		if byKey {
			c.Row, c.Name, c.Base = r, r.Name, r.BaseURL
			c.Why += "; its key is " + r.Display + "'s"
			return
		}
	}
}

func (m *matcher) base(row Row, block string) string {
	base := strings.TrimRight(strings.TrimSpace(m.in.Providers[block].Base), "/")
	if base == "" && row.Name == "ollama" {
		base = ollamaHost(m.getenv("OLLAMA_HOST"))
	}
	if base == "" {
		return strings.TrimRight(row.BaseURL, "/")
	}
	if row.Local {
		if u, err := url.Parse(base); err == nil && u.Host != "" && (u.Path == "" || u.Path == "/") {
			base += "/v1"
		}
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

// wireModel is the name the vendor knows.
func wireModel(row Row, name, model string) string {
	if row.StripPrefix {
		return model[strings.LastIndexByte(model, '/')+1:]
	}
	prefix, rest, ok := strings.Cut(model, "/")
	if !ok || fold(prefix) != fold(name) && fold(prefix) != fold(row.Name) {
		return model
	}
	switch {
	case row.Gateway && !strings.Contains(rest, "/"): // openrouter/auto is a model
		return model
	case row.Name == "groq" && strings.HasPrefix(rest, "compound"): // so is groq/compound
		return model
	}
	return rest
}

func (m *matcher) nothing() error {
	if prefix, _, ok := strings.Cut(m.in.Model, "/"); ok {
		if row, known := m.row(prefix); known {
			return configError("no API key for %s (model %q): looked at %s", row.Display, m.in.Model, keyPlaces(row))
		}
	}
	model := strings.ToLower(m.in.Model)
	var names []string
	for _, row := range m.rows {
		if slices.ContainsFunc(row.Keywords, func(k string) bool { return hasWords(model, k) }) && !row.Local {
			return configError("no API key for %s (model %q): looked at %s", row.Display, m.in.Model, keyPlaces(row))
		}
		names = append(names, row.EnvKeys...)
	}
	return configError("no provider for model %q: no block under \"providers\" has a key or a base URL, and none of %s is set", m.in.Model, strings.Join(names, ", "))
}

func keyPlaces(row Row) string {
	s := "providers." + row.Name + ".apiKey in the configuration"
	if len(row.EnvKeys) > 0 {
		s += " and the environment variable " + strings.Join(row.EnvKeys, " or ")
	}
	return s
}

func configError(format string, args ...any) *Error {
	return &Error{Kind: Configuration, Message: fmt.Sprintf(format, args...)}
}

// hasWords reports whether the words of a keyword follow each other among the
// words of a model name. A word may carry a version: qwen3 is qwen.
func hasWords(model, keyword string) bool {
	sep := func(r rune) bool { return strings.ContainsRune("/-_:. ", r) }
	words, want := strings.FieldsFunc(model, sep), strings.FieldsFunc(keyword, sep)
	for i := 0; i+len(want) <= len(words); i++ {
		if slices.EqualFunc(words[i:i+len(want)], want, func(w, k string) bool {
			return w == k || strings.TrimRight(w, "0123456789") == k
		}) {
			return true
		}
	}
	return false
}

// fold makes lm-studio, lmStudio and LM_STUDIO equal.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}
