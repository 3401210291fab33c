package anthropic

import (
	"context"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// adaptations are the changes a model made necessary, learned from its errors.
type adaptations uint8

const (
	noStream adaptations = 1 << iota
	noTemperature
	noThinking
	noEffort
	noCache
	noLongTTL
	noToolChoice
)

// maxAdaptations bounds how often one request is sent again because the server
// named a field it does not take.
const maxAdaptations = 4

// adapt learns from an error which field to leave out. It reports whether there is
// something new to try.
func (d *driver) adapt(ctx context.Context, model string, e *llm.Error) bool {
	bit := lesson(e)
	d.mu.Lock()
	known := d.learned[model]
	d.learned[model] = known | bit
	d.mu.Unlock()
	if bit == 0 || known&bit != 0 {
		return false
	}

	d.log.InfoContext(ctx, "the server refuses a field, sending without it", "provider", d.name, "model", model, "err", e)
	return true
}

func (d *driver) adapted(model string) adaptations {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.learned[model]
}

// lesson says what an error asks us to change, 0 if nothing. The vendor writes the
// path of a field into the text: "output_config.effort: Extra inputs are not
// permitted".
func lesson(e *llm.Error) adaptations {
	if e.Kind != llm.UnsupportedParam || e.Status < 400 || e.Status > 499 {
		return 0
	}

	text := strings.ToLower(e.Param + " " + e.Message)
	for _, l := range []struct {
		word string
		bit  adaptations
	}{
		{"cache_control.ttl", noLongTTL},
		{"cache_control", noCache},
		{"prompt caching", noCache},
		{"effort", noEffort}, // output_config.effort
		{"temperature", noTemperature},
		{"tool_choice", noToolChoice},
		{"thinking", noThinking},
		{"stream:", noStream},
		{"streaming", noStream},
	} {
		if strings.Contains(text, l.word) {
			return l.bit
		}
	}

	return 0
}
