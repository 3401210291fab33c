package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// encoder writes the messages and tools of one request.
type encoder struct {
	d           *driver
	model       string
	role        string // of the system prompt
	mark        bool   // write prompt-cache markers
	noReasoning bool   // leave reasoning_content out
	g           generation
}

// messages writes the system prompt and the repaired history. With markers,
// the last message of the user's side and the one that was last in the
// previous request are marked, so each step reads what the one before wrote.
func (e *encoder) messages(ctx context.Context, b []byte, req llm.Request) []byte {
	msgs := e.d.repair(ctx, req.Messages)
	b = e.opening(b, req.System)
	if req.System != "" {
		b = append(b, ',')
	}

	last, before := -1, -1
	if e.mark {
		last, before = breakpoints(msgs)
	}

	for i, m := range msgs {
		b = e.message(b, m, i == last || i == before)
		b = append(b, ',')
	}
	return append(bytes.TrimSuffix(b, []byte{','}), ']')
}

// opening writes the beginning of the message list: the bracket and the system
// prompt, if there is one.
func (e *encoder) opening(b []byte, system string) []byte {
	b = append(b, '[')
	if system == "" {
		return b
	}
	b = append(b, `{"role":"`...)
	b = append(b, e.role...)
	b = append(b, `","content":`...)
	b = e.content(b, llm.Message{Role: llm.System, Content: llm.Text(system)}, e.mark)
	return append(b, '}')
}

// breakpoints finds the last message from the user's side, and the last one
// before the newest assistant turn.
func breakpoints(msgs []llm.Message) (last, before int) {
	last, before = len(msgs)-1, -1
	seen := false
	for i := last; i >= 0; i-- {
		switch {
		case msgs[i].Role == llm.Assistant:
			seen = true
		case seen:
			return last, i
		}
	}

	return last, before
}

func (e *encoder) message(b []byte, m llm.Message, mark bool) []byte {
	b = append(b, `{"role":`...)
	role := string(m.Role)
	if m.Role == llm.System {
		role = e.role
	}

	b = text.AppendJSON(b, role)
	if m.Role == llm.ToolRole {
		b = append(b, `,"tool_call_id":`...)
		b = text.AppendJSON(b, m.ToolCallID)
		if m.Name != "" {
			b = append(b, `,"name":`...)
			b = text.AppendJSON(b, m.Name)
		}
	}

	b = append(b, `,"content":`...)
	b = e.content(b, m, mark)
	if m.Role == llm.Assistant {
		b = e.calls(b, m)
		b = e.reasoning(b, m)
	}
	return append(b, '}')
}

// content writes a message's content: a string, a list, or null for a turn
// that only calls tools.
func (e *encoder) content(b []byte, m llm.Message, mark bool) []byte {
	c := m.Content
	if e.d.o.Quirks.FlatContent && c.Blocks != nil {
		c = llm.Text(flatten(c.Blocks))
	}
	if c.Blocks != nil {
		c.Blocks = solid(c.Blocks)
	}

	if len(c.Blocks) == 0 && c.Text == "" {
		if m.Role == llm.Assistant && len(m.ToolCalls) > 0 {
			return append(b, "null"...)
		}
		c = llm.Text(emptyText)
	}

	if !mark {
		return c.AppendJSON(b, false)
	}

	list := blocks(c)
	b = append(b, '[')
	for i, blk := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = blk.AppendJSON(b, false)
		if i == len(list)-1 && (blk.Type == "text" || blk.Type == "image_url") {
			b = append(wire.AppendCacheMark(b[:len(b)-1], m.Role == llm.System && e.d.o.CacheTTL > 5*time.Minute), '}')
		}
	}

	return append(b, ']')
}

// flatten turns blocks into text for models that read nothing else.
func flatten(list []llm.Block) string {
	parts := make([]string, 0, len(list))
	for _, blk := range list {
		switch {
		case blk.Type == "text":
			parts = append(parts, blk.Text)
		case blk.Type == "image_url":
			parts = append(parts, llm.ImageNote)
		case len(blk.Raw) > 0:
			parts = append(parts, string(blk.Raw))
		}
	}

	return strings.Join(parts, "\n")
}

// solid drops text blocks without text.
func solid(list []llm.Block) []llm.Block {
	out := make([]llm.Block, 0, len(list))
	for _, blk := range list {
		switch {
		case blk.Type == "text" && blk.Text == "" && len(blk.Raw) == 0, blk.Type == "image_url" && blk.ImageURL == "":
		case (blk.Type == "input_text" || blk.Type == "output_text") && emptyRaw(blk.Raw):
		default:
			out = append(out, blk)
		}
	}

	return out
}

func emptyRaw(raw json.RawMessage) bool {
	var w struct {
		Text string `json:"text"`
	}
	return json.Unmarshal(raw, &w) != nil || w.Text == ""
}

// calls writes the tool calls. Vendor extras go back only where they came
// from; Gemini additionally wants to be told when a step is not its own.
func (e *encoder) calls(b []byte, m llm.Message) []byte {
	if len(m.ToolCalls) == 0 {
		return b
	}

	gemini := strings.Contains(slug(e.model), "gemini")
	b = append(b, `,"tool_calls":[`...)
	for i, c := range m.ToolCalls {
		if i > 0 {
			b = append(b, ',')
		}
		if m.Origin != "" && m.Origin != e.d.o.Name && !gemini {
			c.Extra = nil
		}
		if gemini && i == 0 && !bytes.Contains(c.Extra["extra_content"], []byte("thought_signature")) {
			c.Extra = map[string]json.RawMessage{"extra_content": json.RawMessage(`{"google":{"thought_signature":"skip_thought_signature_validator"}}`)}
		}

		c.Arguments = wire.ReplayArguments(c.Arguments)
		b = c.AppendJSON(b)
	}

	return append(b, ']')
}

// reasoning writes the thinking of an assistant turn back to the vendor that
// produced it.
func (e *encoder) reasoning(b []byte, m llm.Message) []byte {
	ours := m.Origin == "" || m.Origin == e.d.o.Name
	switch {
	case e.noReasoning:
	case m.HasReasoning && ours:
		b = append(b, `,"reasoning_content":`...)
		b = text.AppendJSON(b, m.Reasoning)
	case e.g.backfill:
		b = append(b, `,"reasoning_content":""`...)
	}

	if len(m.ReasoningDetails) > 0 && m.Origin == e.d.o.Name {
		b = append(b, `,"reasoning_details":`...)
		b = append(b, m.ReasoningDetails...)
	}
	return b
}

// tools writes the tool list. With markers, the last built-in tool is marked
// when MCP tools follow: those change, the built-in ones stay cached. The
// marker on the system prompt covers the whole list.
func (e *encoder) tools(b []byte, tools []llm.ToolDef) []byte {
	lastOwn := -1
	for i, t := range tools {
		if !strings.HasPrefix(t.Name, "mcp_") {
			lastOwn = i
		}
	}

	b = append(b, '[')
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}

		b = append(b, `{"type":"function","function":{"name":`...)
		b = text.AppendJSON(b, t.Name)
		if t.Description != "" {
			b = append(b, `,"description":`...)
			b = text.AppendJSON(b, t.Description)
		}

		b = append(b, `,"parameters":`...)
		b = append(b, e.d.schema(t.Schema)...)
		b = append(b, '}')
		if e.mark && i == lastOwn {
			b = wire.AppendCacheMark(b, e.d.o.CacheTTL > 5*time.Minute)
		}
		b = append(b, '}')
	}

	return append(b, ']')
}
