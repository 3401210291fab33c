package responses

import (
	"context"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// adaptations are the changes a model made necessary, learned from its errors.
type adaptations uint16

const (
	noTemperature adaptations = 1 << iota
	noMaxTokens
	noEffort
	noSummary
	noContext
	noInclude
	noCacheKey
	noVerbosity
	noParallel
	noToolChoice
	noStrict
	noStore
	noIDs       // no ids on input items
	flatOutput  // tool results are text only; their images follow as a user message
	noReasoning // nothing opaque is replayed
)

// adapt learns from an error what to leave out. It reports whether there is
// something new to try.
func (d *driver) adapt(ctx context.Context, req llm.Request, e *llm.Error) bool {
	bit := lesson(e)
	if bit == 0 {
		return false
	}

	key := req.Model
	if bit == noReasoning {
		key = sessionKey(req) // it is the history that is stale, not the model
	}

	d.mu.Lock()
	known := d.learned[key]
	d.learned[key] = known | bit
	d.mu.Unlock()
	if known&bit != 0 {
		return false
	}

	d.o.Log.InfoContext(ctx, "the server refuses a part of the request, sending without it", "provider", d.o.Name, "model", req.Model, "err", e)
	return true
}

func (d *driver) adapted(req llm.Request) adaptations {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.learned[req.Model] | d.learned[sessionKey(req)]
}

func sessionKey(req llm.Request) string { return req.Model + "\x00" + req.SessionKey }

// lesson says what an error asks us to change, 0 if nothing.
func lesson(e *llm.Error) adaptations {
	if e.Status != 400 && e.Status != 404 && e.Status != 422 {
		return 0
	}

	text := strings.ToLower(e.Message)
	has := func(s string) bool { return strings.Contains(text, s) }
	name := strings.ToLower(strings.TrimPrefix(e.Param, "body."))
	switch {
	case e.Code == "invalid_encrypted_content",
		has("encrypted content") && (has("verif") || has("decrypt")),
		has("without its required following item"),
		has("items are not persisted"):
		return noReasoning

	case e.Status == 404:
		return 0
	case strings.HasPrefix(name, "input[") && strings.HasSuffix(name, ".id"), has("'input[") && has("].id'"):
		return noIDs
	case strings.HasPrefix(name, "input[") && strings.HasSuffix(name, ".output"), has("'input[") && has("].output'"):
		return flatOutput
	}

	if e.Kind != llm.UnsupportedParam {
		return 0
	}
	if bit := parameter(name); bit != 0 {
		return bit
	}

	for _, p := range []string{ // the longer names first: some are parts of others
		"reasoning.encrypted_content", "encrypted content", "reasoning.summary", "reasoning.context", "reasoning.effort", "parallel_tool_calls", "max_output_tokens",
		"prompt_cache_key", "tool_choice", "temperature", "verbosity", "strict", "include", "reasoning", "store",
	} {
		if has(p) {
			return parameter(p)
		}
	}

	return 0
}

// parameter finds the change for the name of a parameter.
func parameter(name string) adaptations {
	switch {
	case name == "temperature":
		return noTemperature
	case name == "max_output_tokens":
		return noMaxTokens
	case name == "reasoning.summary":
		return noSummary
	case name == "reasoning.context":
		return noContext
	case strings.HasPrefix(name, "include"), name == "reasoning.encrypted_content", name == "encrypted content":
		return noInclude
	case name == "reasoning", name == "reasoning.effort":
		return noEffort
	case name == "prompt_cache_key":
		return noCacheKey
	case name == "text", name == "text.verbosity", name == "verbosity":
		return noVerbosity
	case name == "parallel_tool_calls":
		return noParallel
	case name == "tool_choice":
		return noToolChoice
	case name == "strict", strings.HasSuffix(name, ".strict"):
		return noStrict
	case name == "store":
		return noStore
	}
	return 0
}
