package anthropic

import (
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Token budgets of thinking for models that take one; the vendor's minimum is
// the low one. Visible text gets at least answerTokens on top.
const (
	lowBudget     = 1024
	mediumBudget  = 4096
	highBudget    = 8192
	answerTokens  = 4096
	defaultTokens = 8192
)

// generation is the part of a request that depends on effort and model.
type generation struct {
	maxTokens   int
	temperature *float64
	thinking    string // "", disabled, adaptive, enabled
	budget      int    // for enabled
	effort      string // output_config.effort, "" to leave it out
}

// thinks reports whether the model will think, which forbids forcing a tool.
func (g generation) thinks() bool { return g.thinking == "adaptive" || g.thinking == "enabled" }

// generationFor applies the table of thinking modes.
func generationFor(req llm.Request) generation {
	m := parseModel(req.Model)
	g := generation{maxTokens: req.MaxTokens, temperature: clampTemperature(req.Temperature)}
	if g.maxTokens <= 0 {
		g.maxTokens = defaultTokens
	}
	if m.rejectsTemperature() {
		g.temperature = nil
	}
	one := 1.0
	effort := req.Effort
	if effort == "adaptive" && m.beforeAdaptive() {
		effort = "medium"
	}
	switch {
	case effort == "" || m.cannotThink():
	case effort == "none":
		if m.thinksByDefault() {
			g.thinking = "disabled"
		}
	case m.adaptiveOnly():
		g.thinking, g.temperature = "adaptive", nil
		if effort != "adaptive" {
			g.effort = wireEffort(effort)
		}
	case effort == "adaptive":
		g.thinking = "adaptive"
		if !m.rejectsTemperature() {
			g.temperature = &one
		}
	default:
		g.thinking, g.budget = "enabled", budgetFor(effort, g.maxTokens)
		g.maxTokens = max(g.maxTokens, g.budget+answerTokens)
		if !m.rejectsTemperature() {
			g.temperature = &one
		}
	}
	return g
}

// withoutThinking is g for a history that does not allow thinking to start.
func (g generation) withoutThinking(req llm.Request) generation {
	req.Effort = ""
	return generationFor(req)
}

func clampTemperature(t *float64) *float64 {
	if t == nil {
		return nil
	}
	v := min(max(*t, 0), 1) // the vendor's scale ends at 1
	return &v
}

func budgetFor(effort string, maxTokens int) int {
	switch effort {
	case "minimal", "minimum", "low":
		return lowBudget
	case "high", "xhigh", "max":
		return max(highBudget, maxTokens)
	default:
		return mediumBudget
	}
}

func wireEffort(effort string) string {
	switch effort {
	case "low", "medium", "high", "xhigh", "max":
		return effort
	case "minimal", "minimum":
		return "low"
	default:
		return "medium"
	}
}

// modelVersion is what a Claude model's name tells. The zero value is a model
// of another vendor, or one that is not understood.
type modelVersion struct {
	family       string // opus, sonnet, haiku, ...; "" if unknown
	major, minor int
	preview      bool // claude-mythos-preview
}

// parseModel reads claude-<family>-<major>[-<minor>] anywhere in a name; a dot
// may separate the numbers, and a date is not a minor version. The old order
// claude-<major>[-<minor>]-<family> is understood too.
func parseModel(name string) modelVersion {
	_, rest, ok := strings.Cut(strings.ToLower(name), "claude-")
	if !ok {
		return modelVersion{}
	}
	f := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune("-.:@/[", r) })
	if len(f) < 2 {
		return modelVersion{}
	}
	var v modelVersion
	if n, ok := version(f[0]); ok { // the old order
		v.major = n
		f = f[1:]
		if n, ok := version(f[0]); ok && len(f) > 1 {
			v.minor = n
			f = f[1:]
		}
		v.family = f[0]
		return v
	}
	v.family = f[0]
	if f[1] == "preview" {
		v.preview = true
		return v
	}
	n, ok := version(f[1])
	if !ok {
		return modelVersion{}
	}
	v.major = n
	if len(f) > 2 {
		v.minor, _ = version(f[2])
	}
	return v
}

// version reads a number of one or two digits.
func version(s string) (int, bool) {
	if len(s) > 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 8)
	return int(n), err == nil
}

func (v modelVersion) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

// adaptiveOnly models decide themselves how long to think and refuse budgets.
func (v modelVersion) adaptiveOnly() bool {
	return v.atLeast(5, 0) || v.family == "opus" && v.atLeast(4, 7)
}

func (v modelVersion) rejectsTemperature() bool {
	return v.adaptiveOnly() || v.preview && v.family == "mythos"
}

// thinksByDefault models must be told not to.
func (v modelVersion) thinksByDefault() bool {
	switch v.family {
	case "opus", "sonnet", "haiku":
		return v.atLeast(5, 0)
	}
	return false
}

// beforeAdaptive models know budgets only.
func (v modelVersion) beforeAdaptive() bool { return v.major > 0 && !v.atLeast(4, 6) }

// cannotThink models refuse every thinking parameter.
func (v modelVersion) cannotThink() bool { return v.major > 0 && !v.atLeast(3, 7) }
