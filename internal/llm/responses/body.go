package responses

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// field is one key of a request body.
type field struct {
	key   string
	value json.RawMessage
}

// parseExtra reads the user's extraBody in the order of its keys, so that
// requests are byte-stable.
func parseExtra(o Options) ([]field, error) {
	if len(o.ExtraBody) == 0 || string(o.ExtraBody) == "null" {
		return nil, nil
	}

	var m map[string]json.RawMessage
	if err := json.Unmarshal(o.ExtraBody, &m); err != nil {
		return nil, &llm.Error{Kind: llm.Configuration, Provider: o.Name, Message: "extraBody must be a JSON object", Err: err}
	}

	delete(m, "input") // the history is ours
	fields := make([]field, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, field{k, m[k]})
	}
	return fields, nil
}

// merge puts the user's fields over ours. New ones come before the tools,
// which are the part of the head that changes most often.
func merge(ours, extra []field) []field {
	for _, x := range extra {
		i := slices.IndexFunc(ours, func(f field) bool { return f.key == x.key })
		switch {
		case i >= 0 && x.key == "tools":
			ours[i].value = appendTools(ours[i].value, x.value)
		case i >= 0 && x.key == "include":
			ours[i].value = union(ours[i].value, x.value)
		case i >= 0:
			ours[i].value = overlay(ours[i].value, x.value)
		case len(ours) > 0 && ours[len(ours)-1].key == "tools":
			ours = slices.Insert(ours, len(ours)-1, x)
		default:
			ours = append(ours, x)
		}
	}
	return ours
}

// overlay merges objects key by key; anything else is replaced.
func overlay(ours, theirs json.RawMessage) json.RawMessage {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(ours, &a) != nil || json.Unmarshal(theirs, &b) != nil || a == nil || b == nil {
		return theirs
	}

	for k, v := range b {
		if old, ok := a[k]; ok {
			v = overlay(old, v)
		}
		a[k] = v
	}
	return encoded(a, theirs)
}

// union adds what is new in theirs; something that is not a list replaces.
func union(ours, theirs json.RawMessage) json.RawMessage {
	var a, b []string
	if json.Unmarshal(ours, &a) != nil || json.Unmarshal(theirs, &b) != nil {
		return theirs
	}

	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return encoded(a, theirs)
}

// appendTools adds the user's tools. A web search that the server runs itself
// is kept once and replaces the function of that name.
func appendTools(ours, theirs json.RawMessage) json.RawMessage {
	var a, b []json.RawMessage
	if json.Unmarshal(ours, &a) != nil || json.Unmarshal(theirs, &b) != nil {
		return theirs
	}

	type named struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	look := func(raw json.RawMessage) (n named) {
		_ = json.Unmarshal(raw, &n)
		return n
	}
	all := append(a, b...)
	hosted := slices.IndexFunc(all, func(raw json.RawMessage) bool { return strings.HasPrefix(look(raw).Type, "web_search") })
	if hosted < 0 {
		return encoded(all, theirs)
	}

	kept := make([]json.RawMessage, 0, len(all))
	for i, raw := range all {
		n := look(raw)
		if n.Type == "function" && n.Name == "web_search" || i != hosted && strings.HasPrefix(n.Type, "web_search") {
			continue
		}
		kept = append(kept, raw)
	}

	return encoded(kept, theirs)
}

func encoded(v any, otherwise json.RawMessage) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		return otherwise
	}
	return out
}

// leastTokens is the smallest answer limit the protocol takes.
const leastTokens = 16

// defaultInstructions are sent where a server refuses a request without any.
const defaultInstructions = "Answer the user."

// encode writes the request: what never changes in a conversation first, the
// input last.
func (d *driver) encode(ctx context.Context, req llm.Request) []byte {
	a := d.adapted(req)
	fields := merge(d.head(req, a), d.extra)
	size := 64
	for _, f := range fields {
		size += len(f.key) + len(f.value) + 4
	}

	b := make([]byte, 0, size+inputSize(req.Messages))
	b = append(b, '{')
	for _, f := range fields {
		b = text.AppendJSON(b, f.key)
		b = append(b, ':')
		b = append(b, f.value...)
		b = append(b, ',')
	}

	b = append(b, `"input":`...)
	b = d.input(ctx, b, req, a)
	return append(b, '}')
}

// inputSize estimates the length of the input, so that the request is written
// into one buffer.
func inputSize(msgs []llm.Message) int {
	n := 1024
	for _, m := range msgs {
		n += len(m.Content.Text) + len(m.Reasoning) + 120
		for _, t := range m.Thinking {
			n += len(t)
		}

		for _, b := range m.Content.Blocks {
			n += len(b.Text) + len(b.ImageURL) + 60
		}

		for _, c := range m.ToolCalls {
			n += len(c.Arguments) + 200
		}
	}

	return n + n/16 // escapes
}

// head gives all fields but the input.
func (d *driver) head(req llm.Request, a adaptations) []field {
	var fields []field
	raw := func(key, value string) { fields = append(fields, field{key, json.RawMessage(value)}) }
	text := func(key, value string) { fields = append(fields, field{key, text.AppendJSON(nil, value)}) }
	on := func(bit adaptations) bool { return a&bit == 0 }
	codex := d.o.Codex
	effort := d.effort(req.Effort)
	thinks := reasons(req.Model) || effort != "" && effort != "none"

	text("model", req.Model)
	switch {
	case req.System != "":
		text("instructions", req.System)
	case codex:
		text("instructions", defaultInstructions)
	}

	if on(noStore) {
		raw("store", "false")
	}

	raw("stream", "true")
	if req.MaxTokens != 0 && !codex && on(noMaxTokens) {
		raw("max_output_tokens", strconv.Itoa(max(leastTokens, req.MaxTokens)))
	}
	if req.Temperature != nil && !codex && !thinks && on(noTemperature) {
		raw("temperature", strconv.FormatFloat(*req.Temperature, 'f', -1, 64))
	}
	if codex && on(noVerbosity) {
		raw("text", `{"verbosity":"medium"}`)
	}
	if r := d.reasoning(req.Model, effort, a); r != "" {
		raw("reasoning", r)
	}
	if (thinks || codex) && !d.o.PlainReasoning && on(noInclude) {
		raw("include", `["reasoning.encrypted_content"]`)
	}
	if (d.o.Quirks.CacheKey || codex) && req.SessionKey != "" && on(noCacheKey) {
		sum := sha256.Sum256([]byte(req.SessionKey)) // session keys name chats and people
		text("prompt_cache_key", hex.EncodeToString(sum[:16]))
	}

	if len(req.Tools) == 0 {
		return fields
	}

	if codex && on(noParallel) {
		raw("parallel_tool_calls", "true")
	}

	choice := req.ToolChoice
	if choice == "" && codex {
		choice = "auto"
	}
	if choice != "" && on(noToolChoice) {
		fields = append(fields, field{"tool_choice", toolChoice(choice)})
	}
	return append(fields, field{"tools", tools(req.Tools, on(noStrict))})
}

// effort returns what goes over the wire; "" means to say nothing.
func (d *driver) effort(effort string) string {
	switch effort {
	case "minimum":
		return "minimal"
	case "adaptive":
		return ""
	case "none":
		if !d.o.PlainReasoning {
			return "" // the default of models that do not know the word
		}
	}
	return effort
}

// reasoning gives the reasoning parameter, "" if there is none. The newest
// models forget earlier turns unless they are told to keep them.
func (d *driver) reasoning(model, effort string, a adaptations) string {
	var parts []string
	if effort != "" && a&noEffort == 0 {
		parts = append(parts, `"effort":`+string(text.AppendJSON(nil, effort)))
	}
	if d.o.Codex && a&noSummary == 0 {
		parts = append(parts, `"summary":"auto"`)
	}
	if strings.HasPrefix(slug(model), "gpt-5.6") && a&(noContext|noInclude|noReasoning) == 0 && !d.o.PlainReasoning {
		parts = append(parts, `"context":"all_turns"`)
	}

	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// slug returns a model's own name: lower case, without vendor prefix.
func slug(model string) string {
	return strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
}

// reasons tells models that think whether asked or not; they take no
// temperature.
func reasons(model string) bool {
	s := slug(model)
	if strings.Contains(s, "gpt-5") {
		return true
	}

	for _, name := range [...]string{"o1", "o3", "o4"} {
		if rest, ok := strings.CutPrefix(s, name); ok && (rest == "" || rest[0] == '-' || rest[0] == '.') {
			return true
		}
	}
	return false
}

func toolChoice(choice string) json.RawMessage {
	switch choice {
	case "auto", "none", "required":
		return text.AppendJSON(nil, choice)
	}
	b := append([]byte(nil), `{"type":"function","name":`...)
	return append(text.AppendJSON(b, choice), '}')
}

// tools writes the tool list. Without the word, servers hold a schema to rules
// under which every parameter is required.
func tools(list []llm.ToolDef, strict bool) json.RawMessage {
	size := 2
	for _, t := range list {
		size += len(t.Name) + len(t.Description) + len(t.Schema) + 120
	}

	b := append(make([]byte, 0, size), '[')
	for i, t := range list {
		if i > 0 {
			b = append(b, ',')
		}

		b = append(b, `{"type":"function","name":`...)
		b = text.AppendJSON(b, t.Name)
		if t.Description != "" {
			b = append(b, `,"description":`...)
			b = text.AppendJSON(b, t.Description)
		}

		b = append(b, `,"parameters":`...)
		if len(t.Schema) == 0 || string(t.Schema) == "null" {
			b = append(b, `{"type":"object","properties":{}}`...)
		} else {
			b = append(b, t.Schema...)
		}

		if strict {
			b = append(b, `,"strict":false`...)
		}
		b = append(b, '}')
	}

	return append(b, ']')
}
