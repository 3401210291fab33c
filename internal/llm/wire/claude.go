package wire

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

// ClaudeGeneration is the part of a request to a Claude model that depends on
// effort and model. Every wire that reaches these models sends the same values,
// each in its own place.
type ClaudeGeneration struct {
	MaxTokens   int
	Temperature *float64 // nil: must not be sent
	Thinking    string   // "" says nothing; disabled, adaptive, enabled
	Budget      int      // thinking tokens, for enabled
	Effort      string   // output_config.Effort, "" to leave it out
}

// Thinks reports whether the model will think, which forbids forcing a tool.
func (g ClaudeGeneration) Thinks() bool { return g.Thinking == "adaptive" || g.Thinking == "enabled" }

// GenerationForClaude applies the table of thinking modes. A model it does not
// know is taken for one that thinks with a budget, as other vendors that speak
// the protocol do.
func GenerationForClaude(req llm.Request) ClaudeGeneration {
	m := ParseClaude(req.Model)
	g := ClaudeGeneration{MaxTokens: req.MaxTokens, Temperature: clampTemperature(req.Temperature)}
	if g.MaxTokens <= 0 {
		g.MaxTokens = defaultTokens
	}
	if m.rejectsTemperature() {
		g.Temperature = nil
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
			g.Thinking = "disabled"
		}
	case m.adaptiveOnly():
		g.Thinking, g.Temperature = "adaptive", nil
		if effort != "adaptive" {
			g.Effort = wireEffort(effort)
		}

	case effort == "adaptive":
		g.Thinking = "adaptive"
		if !m.rejectsTemperature() {
			g.Temperature = &one
		}

	default:
		g.Thinking, g.Budget = "enabled", budgetFor(effort, g.MaxTokens)
		g.MaxTokens = max(g.MaxTokens, g.Budget+answerTokens)
		if !m.rejectsTemperature() {
			g.Temperature = &one
		}
	}

	return g
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

// ClaudeVersion holds what a Claude model's name tells. The zero value is a
// model of another vendor, or one that is not understood.
type ClaudeVersion struct {
	Family       string // opus, sonnet, haiku, ...; "" if unknown
	Major, Minor int
	Preview      bool // claude-mythos-preview
}

// ParseClaude reads claude-<family>-<major>[-<minor>] anywhere in a name; a dot
// may separate the numbers, and a date is not a minor version. The old order
// claude-<major>[-<minor>]-<family> is understood too.
func ParseClaude(name string) ClaudeVersion {
	_, rest, ok := strings.Cut(strings.ToLower(name), "claude-")
	if !ok {
		return ClaudeVersion{}
	}

	f := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune("-.:@/[", r) })
	if len(f) < 2 {
		return ClaudeVersion{}
	}

	var v ClaudeVersion
	if n, ok := version(f[0]); ok { // the old order
		v.Major = n
		f = f[1:]
		if n, ok := version(f[0]); ok && len(f) > 1 {
			v.Minor = n
			f = f[1:]
		}
		v.Family = f[0]
		return v
	}

	v.Family = f[0]
	if f[1] == "preview" {
		v.Preview = true
		return v
	}

	n, ok := version(f[1])
	if !ok {
		return ClaudeVersion{}
	}

	v.Major = n
	if len(f) > 2 {
		v.Minor, _ = version(f[2])
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

// AtLeast compares versions across families.
func (v ClaudeVersion) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// adaptiveOnly models decide themselves how long to think and refuse budgets.
func (v ClaudeVersion) adaptiveOnly() bool {
	return v.AtLeast(5, 0) || v.Family == "opus" && v.AtLeast(4, 7)
}

func (v ClaudeVersion) rejectsTemperature() bool {
	return v.adaptiveOnly() || v.Preview && v.Family == "mythos"
}

// thinksByDefault models must be told not to.
func (v ClaudeVersion) thinksByDefault() bool {
	switch v.Family {
	case "opus", "sonnet", "haiku":
		return v.AtLeast(5, 0)
	}
	return false
}

// beforeAdaptive models know budgets only.
func (v ClaudeVersion) beforeAdaptive() bool { return v.Major > 0 && !v.AtLeast(4, 6) }

// cannotThink models refuse every thinking parameter.
func (v ClaudeVersion) cannotThink() bool { return v.Major > 0 && !v.AtLeast(3, 7) }
