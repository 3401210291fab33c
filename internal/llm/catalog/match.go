package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// ProviderConfig holds what the user wrote about one provider.
type ProviderConfig struct {
	Key     httpsafe.Secret
	Display string // name for people; "" leaves it as it is
	Base    string
	// Wire is for named endpoints of the user's own, where "" means ChatWire,
	// and for the few rows that can speak another one.
	Wire     Wire
	APIType  string             // "", "auto", "chat_completions" or "responses"; for OpenAI
	Thinking wire.ThinkingStyle // for custom providers
	Region   string             // for Bedrock; like Profile it shows that the block is meant
	Profile  string
}

// MatchInput holds what decides about the provider of a model.
type MatchInput struct {
	Model    string // as configured; "" means the default of the chosen provider
	Provider string // "" or "auto": decide by the model
	// Providers are the configured blocks; names that are not in the catalog
	// are the user's own OpenAI-compatible endpoints.
	Providers map[string]ProviderConfig
	Getenv    func(string) string // nil: the environment is not consulted
}

// Step names the rule that decided a Choice.
type Step string

// The steps, in the order in which they are tried.
const (
	ByForce   Step = "forced"  // the provider setting
	ByPrefix  Step = "prefix"  // the word before the first slash
	ByTag     Step = "tag"     // name:tag and a local server
	ByKeyword Step = "keyword" // a word of the model name
	ByGateway Step = "gateway" // a configured gateway
	ByLocal   Step = "local"   // a configured local server
	ByOwn     Step = "own"     // the user's custom endpoint
	ByDefault Step = "only"    // nothing else is configured
)

// Choice is a provider, ready to make a driver from.
type Choice struct {
	Row       Row    // quirks; for a custom endpoint those of the brand its URL reveals
	Name      string // the provider's name, which becomes Message.Origin
	Block     string // the key of its block under "providers", "" if there is none
	Key       httpsafe.Secret
	KeySource string // where the key was found, "" if there is none
	Base      string // without a trailing slash; "" only for Bedrock, where the region decides
	WireModel string
	Step      Step
	Why       string   // one line for logs and status
	Warnings  []string // what looks wrong although it may work, for the user

	apiType string
	ownBase bool // the base URL is the user's
}

// Wires lists the protocols to speak, for a reasoning effort, the preferred one
// first. A second one is for servers that turn out not to know the first.
func (c Choice) Wires(effort string) []Wire {
	if c.Row.Wire != ChatWire || c.apiType == "chat_completions" {
		return []Wire{c.Row.Wire}
	}
	if c.apiType == "responses" {
		return []Wire{ResponsesWire}
	}
	// Only the brand's own endpoint is sure to have the newer protocol.
	if c.ownBase && (c.Row.URLPart == "" || !strings.Contains(strings.ToLower(c.Base), c.Row.URLPart)) {
		return []Wire{ChatWire}
	}

	slug := strings.ToLower(c.WireModel[strings.LastIndexByte(c.WireModel, '/')+1:])
	listed := false
	for p := range strings.FieldsSeq(c.Row.Responses) {
		rest, ok := strings.CutPrefix(slug, p)
		listed = listed || ok && (rest == "" || isSeparator(rune(rest[0])))
	}

	switch {
	case listed && c.Row.ResponsesOnly:
		return []Wire{ResponsesWire}
	case listed, c.Row.ResponsesEffort && effort != "" && effort != "none":
		return []Wire{ResponsesWire, ChatWire}
	}
	return []Wire{ChatWire}
}

// Match decides which provider serves a model. The order: a forced provider; a
// name before the first slash; a model with an installation tag and a local
// server; the longest keyword among the words of the model name; a gateway, for
// vendor/model names; a local server; the user's custom endpoint; a gateway for
// any name; the only provider that is configured. Where several are left,
// nothing is guessed: the error names them. Providers without a key (or, for
// local ones, a base URL) are never guessed, those with a sign-in are only
// taken by name, and what the configuration file says goes before keys found in
// the environment.
func Match(in MatchInput) (Choice, error) {
	m := matcher{in: in, rows: Rows()}
	m.rows = slices.DeleteFunc(m.rows, m.taken)
	if err := m.collision(); err != nil {
		return Choice{}, err
	}
	if p := in.Provider; p != "" && !strings.EqualFold(p, "auto") {
		return m.forced(p)
	}

	for _, step := range []func() (found, bool){
		m.byPrefix(false), m.byTag, m.byKeyword(false), m.byGateway, m.byPrefix(true), m.byKeyword(true), m.byLocalServer,
	} {
		if f, ok := step(); ok {
			return m.choice(f)
		}
	}

	for _, env := range []bool{false, true} {
		f, rivals := m.remaining(env)
		if len(rivals) > 0 {
			return Choice{}, m.ask(rivals)
		}
		if f.step != "" {
			return m.choice(f)
		}
	}

	if f, ok := m.localServer(); ok && in.Model == "" {
		return m.choice(f)
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
	step  Step
	why   string
}

func (m *matcher) forced(name string) (Choice, error) {
	if row, ok := m.row(name); ok {
		if row.Speech {
			return Choice{}, configError("%s turns speech into text and cannot chat; choose another provider", row.Display)
		}
		return m.choice(m.found(row, ByForce, "the provider setting"))
	}

	if block, ok := m.block(name); ok {
		return m.choice(found{m.customRow(block), block, ByForce, "the provider setting"})
	}

	names := slices.Collect(maps.Keys(m.in.Providers))
	for _, r := range m.rows {
		names = append(names, r.Name)
	}

	hint := ""
	if near := text.NearestRatio(strings.ToLower(name), names, 0.6); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return Choice{}, configError("there is no provider %q%s (nanobot provider list shows them; one of your own needs providers.%s.apiBase)", name, hint, name)
}

// byPrefix takes the word before the first slash as a provider's name. With
// env, keys from the environment count, a local server is believed to run and a
// sign-in to have happened.
func (m *matcher) byPrefix(env bool) func() (found, bool) {
	return func() (found, bool) {
		prefix, _, ok := strings.Cut(m.in.Model, "/")
		if !ok {
			return found{}, false
		}

		why := fmt.Sprintf("the model name starts with %q", prefix)
		if row, ok := m.row(prefix); ok {
			named := row.Auth != "" || row.Wire == BedrockWire || row.Local && env
			return m.found(row, ByPrefix, why), !row.Speech && (named || m.configured(row, env))
		}
		if block, ok := m.block(prefix); ok {
			return found{m.customRow(block), block, ByPrefix, why}, true
		}

		for _, row := range m.rows {
			if (sameName(row.Alias, prefix) || sameName(row.Vendor, prefix)) && (row.Auth != "" || m.configured(row, env)) {
				return m.found(row, ByPrefix, why), true
			}
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
	case "0", "1", "2": // versions at Bedrock
		return found{}, false
	}

	f, ok := m.localServer()
	f.step, f.why = ByTag, "the model name has an installation tag and a local server is configured"
	return f, ok
}

func (m *matcher) byKeyword(env bool) func() (found, bool) {
	return func() (found, bool) {
		row, word := m.brand(func(r Row) bool {
			return r.Auth == "" && m.configured(r, env) && (!r.Local || !m.prefixIsOther(r))
		})
		return m.found(row, ByKeyword, fmt.Sprintf("the model name contains %q", word)), word != ""
	}
}

// brand finds the row with the longest keyword in the model name, among those
// that count.
func (m *matcher) brand(counts func(Row) bool) (best Row, word string) {
	model := strings.ToLower(m.in.Model)
	words := strings.FieldsFunc(model, isSeparator)
	for i := range m.rows {
		for k := range strings.FieldsSeq(m.rows[i].Keywords) {
			if len(k) > len(word) && hasKeyword(model, words, k) && counts(m.rows[i]) {
				best, word = m.rows[i], k
			}
		}
	}

	return best, word
}

// byGateway lets a configured gateway serve vendor/model names before keys
// from the environment are considered.
func (m *matcher) byGateway() (found, bool) {
	if !strings.Contains(m.in.Model, "/") {
		return found{}, false
	}
	for _, row := range m.rows {
		if row.Gateway && m.configured(row, false) {
			return m.found(row, ByGateway, "it is the configured gateway"), true
		}
	}
	return found{}, false
}

func (m *matcher) byLocalServer() (found, bool) {
	if m.in.Model == "" { // which of the installed ones?
		return found{}, false
	}
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

		f := m.found(row, ByLocal, "a local server is configured")
		if row.URLPart != "" && strings.Contains(m.base(row, f.block), row.URLPart) {
			return f, true
		}

		if !ok {
			first, ok = f, true
		}
	}

	return first, ok
}

// remaining decides when the name of the model says nothing: the custom
// endpoint, the first gateway, or the only one there is. Otherwise the
// providers that could be meant are returned. Without the name of a model the
// first provider with a default model will do.
func (m *matcher) remaining(env bool) (f found, rivals []string) {
	all := m.candidates(env)
	pick := func(step Step, why string, fits func(found) bool) bool {
		i := slices.IndexFunc(all, fits)
		if i >= 0 {
			f = all[i]
			f.step, f.why = step, why
		}
		return i >= 0
	}

	every := func(found) bool { return true }
	switch {
	case len(all) == 0:
	case m.in.Model == "":
		_ = pick(ByDefault, "it is the first configured provider", func(f found) bool { return f.row.DefaultModel != "" }) ||
			pick(ByDefault, "it is the first configured provider", every)
	case pick(ByOwn, "it is your own endpoint", func(f found) bool { return f.row.Name == "custom" }):
	case pick(ByGateway, "it is the first configured gateway", func(f found) bool { return f.row.Gateway }):
	case len(all) == 1:
		pick(ByDefault, "no other provider is configured", every)
	default:
		for _, f := range all {
			rivals = append(rivals, f.row.Name)
		}
	}

	return f, rivals
}

// candidates lists the providers that could serve an unknown model.
func (m *matcher) candidates(env bool) []found {
	var all []found
	var used []string // variables; two rows may share one
	for _, row := range m.rows {
		if row.Local || !m.configured(row, env) {
			continue
		}

		if !m.configured(row, false) {
			i := slices.IndexFunc(row.EnvKeys, func(k string) bool { return m.getenv(k) != "" })
			if slices.Contains(used, row.EnvKeys[i]) {
				continue
			}
			used = append(used, row.EnvKeys[i])
		}

		all = append(all, m.found(row, "", ""))
	}

	for _, name := range slices.Sorted(maps.Keys(m.in.Providers)) {
		if _, known := m.row(name); !known && m.in.Providers[name].Base != "" {
			all = append(all, found{row: m.customRow(name), block: name})
		}
	}
	return all
}

// found returns a decision for a row of the catalog.
func (m *matcher) found(row Row, step Step, why string) found {
	block, _ := m.block(row.Name)
	return found{row, block, step, why}
}

// configured says whether a row can be used: a key, or a base URL where that
// is enough. env admits keys from the environment.
func (m *matcher) configured(row Row, env bool) bool {
	name, ok := m.block(row.Name)
	b := m.in.Providers[name]
	fromEnv := func() bool {
		return env && slices.ContainsFunc(row.EnvKeys, func(k string) bool { return m.getenv(k) != "" })
	}
	switch {
	case row.Speech || row.Auth != "":
		return false
	case row.Wire == BedrockWire:
		return ok && (!b.Key.IsZero() || b.Base != "" || b.Region != "" || b.Profile != "") || fromEnv()
	case row.Local || row.Direct:
		return ok && b.Base != "" || env && row.Name == "ollama" && m.getenv("OLLAMA_HOST") != ""
	}

	return ok && !b.Key.IsZero() || fromEnv()
}

func (m *matcher) getenv(k string) string {
	if m.in.Getenv == nil {
		return ""
	}
	return strings.TrimSpace(m.in.Getenv(k))
}

func (m *matcher) row(name string) (Row, bool) {
	i := slices.IndexFunc(m.rows, func(r Row) bool { return sameName(r.Name, name) })
	if i < 0 {
		return Row{}, false
	}
	return m.rows[i], true
}

// taken reports whether the user's own endpoint has the name of a row that
// yields it.
func (m *matcher) taken(row Row) bool {
	if !row.Yields {
		return false
	}
	block, ok := m.block(row.Name)
	base := strings.ToLower(m.in.Providers[block].Base)
	return ok && base != "" && !strings.Contains(base, row.URLPart)
}

// block finds the configured block of a name, whatever its spelling.
func (m *matcher) block(name string) (string, bool) {
	if _, ok := m.in.Providers[name]; ok {
		return name, true
	}

	best := ""
	for k := range m.in.Providers {
		if sameName(k, name) && (best == "" || k < best) {
			best = k
		}
	}
	return best, best != ""
}

// collision refuses blocks that cannot both be meant: two spellings of one
// name, or a protocol for a name that is a brand's.
func (m *matcher) collision() error {
	names := slices.Sorted(maps.Keys(m.in.Providers))
	for i, name := range names {
		for _, other := range names[i+1:] {
			if sameName(name, other) {
				return configError("providers.%s and providers.%s are the same provider; remove one", name, other)
			}
		}

		w := m.in.Providers[name].Wire
		switch w {
		case "", ChatWire, ResponsesWire, AnthropicWire:
		default:
			return configError("providers.%s.wire is %q; it can be chat, responses or anthropic", name, w)
		}

		row, known := m.row(name)
		free := w == "" || w == row.Wire || row.Direct && row.Wire != BedrockWire || row.Responses != "" && w == ResponsesWire
		if known && !free {
			return configError("providers.%s.wire: %s is built in and speaks %s; give an endpoint of your own another name", name, row.Name, row.Wire)
		}
	}

	return nil
}

func (m *matcher) prefixIsOther(row Row) bool {
	prefix, _, ok := strings.Cut(m.in.Model, "/")
	other, known := m.row(prefix)
	return ok && known && other.Name != row.Name
}

// ask returns the error for a model that several providers could serve.
func (m *matcher) ask(rivals []string) error {
	names := strings.Join(rivals, ", ")
	choose := fmt.Sprintf("write one before the model, as in %q, or set agents.defaults.provider", rivals[0]+"/"+m.in.Model)
	if row, ok := m.maker(); ok {
		return configError("no API key for %s (model %q): looked at %s. If one of %s serves it, %s", row.Display, m.in.Model, keyPlaces(row), names, choose)
	}
	return configError("which provider serves the model %q? Configured are %s: %s", m.in.Model, names, choose)
}

// maker returns the brand that a model's name points at, configured or not.
func (m *matcher) maker() (Row, bool) {
	if prefix, _, ok := strings.Cut(m.in.Model, "/"); ok {
		if row, known := m.row(prefix); known {
			return row, true
		}
	}
	row, word := m.brand(func(r Row) bool { return !r.Local && r.Auth == "" && r.Wire != BedrockWire })
	return row, word != ""
}

func (m *matcher) nothing() error {
	row, ok := m.maker()
	switch {
	case ok && row.Speech:
		return configError("%s turns speech into text and cannot chat; choose another model", row.Display)
	case ok && row.Direct:
		return configError("provider %s needs providers.%s.apiBase", row.Name, row.Name)
	case ok:
		return configError("no API key for %s (model %q): looked at %s", row.Display, m.in.Model, keyPlaces(row))
	}

	if m.in.Model == "" {
		return configError("no model is configured, and nothing on this machine offers one; set one up with nanobot onboard, or name one as in anthropic/claude-sonnet-4-5 (nanobot provider list shows all providers)")
	}
	return configError("no provider for model %q: no block under \"providers\" has a key or a base URL, and no variable such as OPENROUTER_API_KEY, ANTHROPIC_API_KEY or OPENAI_API_KEY is set (nanobot provider list shows them all)", m.in.Model)
}

func keyPlaces(row Row) string {
	s := "providers." + row.Name + ".apiKey in the configuration"
	if len(row.EnvKeys) > 0 {
		s += " and the environment variable " + strings.Join(row.EnvKeys, " or ")
	}
	return s
}

func configError(format string, args ...any) *llm.Error {
	return &llm.Error{Kind: llm.Configuration, Message: fmt.Sprintf(format, args...)}
}
