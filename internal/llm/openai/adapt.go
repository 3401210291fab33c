package openai

import (
	"context"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// adaptations are the changes a model made necessary, learned from its errors.
type adaptations uint16

const (
	noStream adaptations = 1 << iota
	noStreamOptions
	noEffort
	noThinking
	noTemperature
	noCacheKey
	noCacheControl
	noToolChoice
	noToolStream
	noReasoning   // no reasoning_content in the history
	wantReasoning // reasoning_content in every assistant turn
	otherMax      // max_tokens instead of max_completion_tokens or the reverse
	systemRole    // "system" instead of "developer"
)

// adapt learns from an error which parameter to leave out. It reports whether
// there is something new to try.
func (d *driver) adapt(ctx context.Context, model string, e *llm.Error) bool {
	bit := lesson(e)
	if bit == 0 {
		return false
	}

	d.mu.Lock()
	known := d.learned[model]
	d.learned[model] = known | bit
	d.mu.Unlock()
	if known&bit != 0 {
		return false
	}

	d.o.Log.InfoContext(ctx, "the server refuses a parameter, sending without it", "provider", d.o.Name, "model", model, "err", e)
	return true
}

func (d *driver) adapted(model string) adaptations {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.learned[model]
}

// lesson says what an error asks us to change, 0 if nothing.
func lesson(e *llm.Error) adaptations {
	text := strings.ToLower(e.Message)
	if e.Status != 0 && (e.Status < 400 || e.Status > 499) {
		return 0
	}
	if strings.Contains(text, "reasoning_content") && (strings.Contains(text, "missing") || strings.Contains(text, "must be") || strings.Contains(text, "required")) {
		return wantReasoning
	}
	if e.Kind != llm.UnsupportedParam {
		return 0
	}

	switch name := strings.TrimPrefix(e.Param, "body."); {
	case name == "stream":
		return noStream
	case strings.HasPrefix(name, "stream_options"):
		return noStreamOptions
	case name == "reasoning_effort":
		return noEffort
	case strings.HasPrefix(name, "thinking"), strings.HasPrefix(name, "reasoning.") || name == "reasoning", name == "enable_thinking", name == "reasoning_split":
		return noThinking
	case name == "temperature":
		return noTemperature
	case name == "prompt_cache_key":
		return noCacheKey
	case strings.HasSuffix(name, "cache_control"):
		return noCacheControl
	case name == "tool_choice":
		return noToolChoice
	case name == "tool_stream":
		return noToolStream
	case strings.HasSuffix(name, "reasoning_content"):
		return noReasoning
	case name == "max_tokens", name == "max_completion_tokens":
		return otherMax
	case strings.Contains(text, "developer"):
		return systemRole
	}

	return 0
}
