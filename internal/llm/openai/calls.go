package openai

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// callBuffer collects the pieces of one tool call.
type callBuffer struct {
	index int
	id    string
	name  string
	args  strings.Builder
	extra map[string]json.RawMessage
}

// callSet collects the tool calls of an answer in the order in which they
// begin. Indexes may be missing, sparse, or the same for all calls.
type callSet struct {
	list []*callBuffer
	size wire.Size
	show func(ev llm.Event) error // pieces as they come; may be nil
}

// add takes a piece of a call; pos is its place in the list it came in.
func (s *callSet) add(c callDelta, pos int) error {
	text := argumentPiece(c.Function.Arguments)
	if err := s.size.Add(text); err != nil {
		return err
	}

	b := s.find(c, pos, text)
	if c.ID != "" {
		b.id = c.ID
	}
	if c.Function.Name != "" {
		b.name = c.Function.Name
	}

	b.args.WriteString(text)
	for k, v := range map[string]json.RawMessage{
		"extra_content": c.ExtraContent, "provider_specific_fields": c.Fields, "function.provider_specific_fields": c.Function.Fields,
	} {
		if present(v) {
			if b.extra == nil {
				b.extra = map[string]json.RawMessage{}
			}
			b.extra[k] = slices.Clone(v)
		}
	}

	if s.show == nil || text == "" && c.Function.Name == "" {
		return nil
	}
	return s.show(llm.Event{Kind: llm.ToolDelta, Text: text, Tool: &llm.ToolPart{ID: b.id, Name: b.name, Index: slices.Index(s.list, b)}})
}

// find returns the buffer a piece belongs to, or a new one. A new id, a second
// name, or arguments after complete ones open a new call at the same index:
// several servers send index 0 for all parallel calls.
func (s *callSet) find(c callDelta, pos int, text string) *callBuffer {
	index := pos
	if c.Index != nil {
		index = *c.Index
	}

	var b *callBuffer
	for _, x := range slices.Backward(s.list) {
		if x.index == index || c.Index == nil && c.ID == "" && c.Function.Name == "" {
			b = x
			break
		}
	}

	switch name := c.Function.Name; {
	case b == nil:
	case c.ID != "" && b.id != "" && c.ID != b.id:
	case name != "" && b.name != "" && name != b.name:
	case name != "" && b.name != "" && (c.ID == "" || c.ID != b.id) && text != "" && complete(b.args.String()):
	default:
		return b
	}

	b = &callBuffer{index: index}
	s.list = append(s.list, b)
	return b
}

func complete(args string) bool {
	return strings.HasPrefix(strings.TrimSpace(args), "{") && json.Valid([]byte(args))
}

// argumentPiece reads a piece of arguments: a string, or, at some servers, the
// whole object.
func argumentPiece(raw json.RawMessage) string {
	if !present(raw) {
		return ""
	}
	if raw[0] == '"' {
		return unquote(raw)
	}
	return string(raw)
}

// calls returns the finished calls. Those without a name are dropped; missing
// and repeated ids are replaced.
func (s *callSet) calls() []llm.ToolCall {
	var out []llm.ToolCall
	seen := map[string]bool{}
	for _, b := range s.list {
		name := strings.TrimSpace(b.name)
		if name == "" {
			continue
		}

		if b.id == "" || seen[b.id] {
			b.id = newID()
		}

		seen[b.id] = true
		out = append(out, llm.ToolCall{ID: b.id, Name: name, Arguments: b.args.String(), Extra: b.extra})
	}

	return out
}

// newID makes an id that every vendor takes: nine letters and digits.
func newID() string { return rand.Text()[:9] }
