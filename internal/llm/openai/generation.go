package openai

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// slug returns a model's own name: lower case, without vendor prefix and tag.
func slug(model string) string {
	s := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	s, _, _ = strings.Cut(s, ":")
	return s
}

// isOSeries matches o1, o3 and o4 on boundaries, so that "pro3" is none.
func isOSeries(s string) bool {
	for _, name := range [...]string{"o1", "o3", "o4"} {
		if rest, ok := strings.CutPrefix(s, name); ok && (rest == "" || rest[0] == '-' || rest[0] == '.') {
			return true
		}
	}
	return false
}

// generation holds the sampling and thinking parameters of one request.
type generation struct {
	temperature *float64
	maxField    string
	effort      string // reasoning_effort, "" = not sent
	gateway     string // "reasoning":{"effort"}, "" = not sent
	thinking    []wire.ThinkingStyle
	thinkingOn  bool
	backfill    bool // reasoning_content in every assistant turn
}

func (d *driver) generation(req llm.Request, a adaptations) generation {
	s, row := slug(req.Model), d.o.Quirks
	effort := req.Effort
	if effort == "minimum" {
		effort = "minimal"
	}

	off := effort == "none" || effort == "minimal"
	g := generation{temperature: req.Temperature, maxField: "max_tokens", thinkingOn: effort != "" && !off}
	reasoner := strings.Contains(s, "gpt-5") || isOSeries(s) || s == "kimi-k3"
	if (row.MaxCompletionTokens || reasoner) != (a&otherMax != 0) {
		g.maxField = "max_completion_tokens"
	}

	switch {
	case effort != "" && effort != "none", reasoner, a&noTemperature != 0:
		g.temperature = nil
	case row.FixedTemperature && (s == "kimi-k2.5" || s == "kimi-k2.6"):
		g.temperature = nil
	case row.FixedTemperature && strings.HasPrefix(s, "kimi-k2.7"):
		one := 1.0
		g.temperature = &one
	}

	own := modelStyle(s)
	if effort != "" && effort != "adaptive" {
		g.effort = wireEffort(effort, s, row)
		g.thinking = styles(row.Thinking, own, s, g.thinkingOn)
		if row.GatewayReasoning && own != "" {
			g.gateway = effort
			g.effort = ""
			g.thinking = nil
		}
	}

	if a&noEffort != 0 {
		g.effort = ""
	}
	if a&noThinking != 0 {
		g.thinking, g.gateway = nil, ""
	}

	always := strings.Contains(s, "deepseek-v4") || strings.Contains(s, "deepseek-reasoner")
	g.backfill = a&wantReasoning != 0 || g.thinkingOn && (row.ReasoningBackfill || own != "") || always && !off
	return g
}

// wireEffort spells an effort the way the vendor wants it; "" leaves it out.
func wireEffort(effort, s string, row wire.Quirks) string {
	off := effort == "none" || effort == "minimal"
	switch {
	case effort == "none":
		return ""
	case s == "kimi-k3":
		if off {
			return ""
		}
		return "max"

	case strings.HasPrefix(s, "kimi-") || s == "k2.6-code-preview":
		return "" // thinks by its switch and rejects both
	case row.EffortAsSwitch:
		if off || effort == "low" || strings.Contains(s, "magistral") {
			return ""
		}
		return "high"

	case row.MinimumEffort && effort == "minimal":
		return "minimum"
	}

	return effort
}

// modelStyle returns the thinking switch a model has wherever it is served.
func modelStyle(s string) wire.ThinkingStyle {
	switch s {
	case "kimi-k2.5", "kimi-k2.6", "kimi-k2.7", "kimi-k2.7-code", "kimi-k2.7-code-highspeed", "k2.6-code-preview",
		"mimo-v2.5-pro", "mimo-v2.5", "mimo-v2-pro", "mimo-v2-omni":
		return wire.ThinkingType
	case "qwen3.7-max", "qwen3.7-plus", "qwen3.6-max-preview", "qwen3.6-plus", "qwen3.6-flash", "qwen3.5-plus", "qwen3.5-flash":
		return wire.EnableThinking
	}
	return ""
}

func styles(row, own wire.ThinkingStyle, s string, on bool) []wire.ThinkingStyle {
	var out []wire.ThinkingStyle
	for _, st := range []wire.ThinkingStyle{row, own} {
		if st == "" || slices.Contains(out, st) || !on && strings.HasPrefix(s, "kimi-k2.7-code") { // always thinks
			continue
		}
		out = append(out, st)
	}
	return out
}

// appendSwitch appends a thinking switch as a top-level field.
func appendSwitch(w *wire.Body, st wire.ThinkingStyle, on bool) {
	switch st {
	case wire.ThinkingType:
		word := "disabled"
		if on {
			word = "enabled"
		}
		w.Raw("thinking", `{"type":"`+word+`"}`)
	case wire.EnableThinking, wire.ReasoningSplit:
		w.Raw(string(st), strconv.FormatBool(on))
	}
}
