package llm

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// MarshalJSON writes the session-file form.
func (m Message) MarshalJSON() ([]byte, error) {
	return append(m.AppendFields([]byte{'{'}), '}'), nil
}

// AppendFields appends the message's keys without the surrounding braces, so
// that a session record can add its own.
func (m Message) AppendFields(b []byte) []byte {
	b = append(b, `"role":`...)
	b = text.AppendJSON(b, string(m.Role))
	b = append(b, `,"content":`...)
	b = m.Content.AppendJSON(b, true)
	if len(m.ToolCalls) > 0 {
		b = append(b, `,"tool_calls":[`...)
		for i, c := range m.ToolCalls {
			if i > 0 {
				b = append(b, ',')
			}
			b = c.AppendJSON(b)
		}
		b = append(b, ']')
	}

	if m.Role == ToolRole || m.ToolCallID != "" {
		b = append(b, `,"tool_call_id":`...)
		b = text.AppendJSON(b, m.ToolCallID)
	}
	if m.Name != "" {
		b = append(b, `,"name":`...)
		b = text.AppendJSON(b, m.Name)
	}
	if m.IsError {
		b = append(b, `,"is_error":true`...)
	}
	if m.HasReasoning {
		b = append(b, `,"reasoning_content":`...)
		b = text.AppendJSON(b, m.Reasoning)
	}

	if len(m.Thinking) > 0 {
		b = append(b, `,"thinking_blocks":[`...)
		for i, t := range m.Thinking {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, t...)
		}
		b = append(b, ']')
	}

	if len(m.ReasoningDetails) > 0 {
		b = append(b, `,"reasoning_details":`...)
		b = append(b, m.ReasoningDetails...)
	}
	if m.Origin != "" {
		b = append(b, `,"_origin":`...)
		b = text.AppendJSON(b, m.Origin)
	}
	return b
}

// AppendJSON appends the content as a JSON string or list. meta says whether
// the local path of an image is written as _meta (never on the wire).
func (c Content) AppendJSON(b []byte, meta bool) []byte {
	if c.Blocks == nil {
		return text.AppendJSON(b, c.Text)
	}

	b = append(b, '[')
	for i, blk := range c.Blocks {
		if i > 0 {
			b = append(b, ',')
		}
		b = blk.AppendJSON(b, meta)
	}
	return append(b, ']')
}

// AppendJSON appends the block in the OpenAI chat shape.
func (blk Block) AppendJSON(b []byte, meta bool) []byte {
	switch blk.Type {
	case "text":
		b = append(b, `{"type":"text","text":`...)
		b = text.AppendJSON(b, blk.Text)
	case "image_url":
		b = append(b, `{"type":"image_url","image_url":{"url":`...)
		b = text.AppendJSON(b, blk.ImageURL)
		b = append(b, '}')
	default:
		if len(blk.Raw) == 0 {
			return append(b, `{"type":"text","text":""}`...)
		}
		return append(b, blk.Raw...)
	}

	if meta && blk.Path != "" {
		b = append(b, `,"_meta":{"path":`...)
		b = text.AppendJSON(b, blk.Path)
		b = append(b, '}')
	}
	return append(b, '}')
}

// AppendJSON appends the call in the OpenAI chat shape, vendor extras included.
func (c ToolCall) AppendJSON(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = text.AppendJSON(b, c.ID)
	b = append(b, `,"type":"function","function":{"name":`...)
	b = text.AppendJSON(b, c.Name)
	b = append(b, `,"arguments":`...)
	b = text.AppendJSON(b, c.Arguments)
	if v, ok := c.Extra[functionFields]; ok {
		b = append(b, `,"provider_specific_fields":`...)
		b = append(b, v...)
	}

	b = append(b, '}')
	for _, k := range []string{"extra_content", "provider_specific_fields"} {
		if v, ok := c.Extra[k]; ok {
			b = append(b, ',')
			b = text.AppendJSON(b, k)
			b = append(b, ':')
			b = append(b, v...)
		}
	}

	return append(b, '}')
}

// functionFields is the Extra key of function.provider_specific_fields.
const functionFields = "function.provider_specific_fields"

// UnmarshalJSON reads the session-file form tolerantly: content may be null, a
// string, an object or a list; arguments may be a string or an object.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w struct {
		Role             Role              `json:"role"`
		Content          Content           `json:"content"`
		ToolCalls        []ToolCall        `json:"tool_calls"`
		ToolCallID       string            `json:"tool_call_id"`
		Name             string            `json:"name"`
		IsError          bool              `json:"is_error"`
		Reasoning        *string           `json:"reasoning_content"`
		Thinking         []json.RawMessage `json:"thinking_blocks"`
		ReasoningDetails json.RawMessage   `json:"reasoning_details"`
		Origin           string            `json:"_origin"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}

	switch w.Role {
	case System, User, Assistant, ToolRole:
	default:
		return fmt.Errorf("unknown role %q", w.Role)
	}

	*m = Message{
		Role: w.Role, Content: w.Content, ToolCalls: w.ToolCalls, ToolCallID: w.ToolCallID, Name: w.Name,
		IsError: w.IsError, Thinking: w.Thinking, ReasoningDetails: w.ReasoningDetails, Origin: w.Origin,
	}
	if w.Reasoning != nil {
		m.Reasoning, m.HasReasoning = *w.Reasoning, true
	}
	if string(m.ReasoningDetails) == "null" {
		m.ReasoningDetails = nil
	}
	return nil
}

// UnmarshalJSON reads a string, null, one block or a list of blocks.
func (c *Content) UnmarshalJSON(data []byte) error {
	*c = Content{}
	if len(data) == 0 || string(data) == "null" {
		return nil
	}

	switch data[0] {
	case '"':
		return json.Unmarshal(data, &c.Text)
	case '{':
		var b Block
		if err := json.Unmarshal(data, &b); err != nil {
			return err
		}
		c.Blocks = []Block{b}
		return nil

	case '[':
		c.Blocks = []Block{}
		return json.Unmarshal(data, &c.Blocks)
	}

	return errors.New("content is neither text nor blocks")
}

// UnmarshalJSON reads one content block; unknown types are kept verbatim.
func (blk *Block) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		blk.Type = "text"
		return json.Unmarshal(data, &blk.Text)
	}

	var w struct {
		Type     string          `json:"type"`
		Text     *string         `json:"text"`
		ImageURL json.RawMessage `json:"image_url"`
		Meta     struct {
			Path string `json:"path"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}

	blk.Type = w.Type
	switch {
	case w.Type == "text" && w.Text != nil:
		blk.Text = *w.Text
	case w.Type == "image_url":
		blk.Path = w.Meta.Path
		var u struct {
			URL string `json:"url"`
		}
		if json.Unmarshal(w.ImageURL, &u) == nil {
			blk.ImageURL = u.URL
		} else {
			_ = json.Unmarshal(w.ImageURL, &blk.ImageURL)
		}

	default:
		blk.Raw = append(json.RawMessage(nil), data...)
	}

	return nil
}

// UnmarshalJSON reads a call; arguments given as an object are kept as their JSON text.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	var w struct {
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
			Fields    json.RawMessage `json:"provider_specific_fields"`
		} `json:"function"`
		ExtraContent json.RawMessage `json:"extra_content"`
		Fields       json.RawMessage `json:"provider_specific_fields"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}

	*c = ToolCall{ID: w.ID, Name: w.Function.Name}
	if a := w.Function.Arguments; len(a) > 0 && a[0] == '"' {
		if err := json.Unmarshal(a, &c.Arguments); err != nil {
			return err
		}
	} else if string(a) != "null" {
		c.Arguments = string(a)
	}

	for k, v := range map[string]json.RawMessage{
		"extra_content": w.ExtraContent, "provider_specific_fields": w.Fields, functionFields: w.Function.Fields,
	} {
		if len(v) > 0 && string(v) != "null" {
			if c.Extra == nil {
				c.Extra = map[string]json.RawMessage{}
			}
			c.Extra[k] = v
		}
	}

	return nil
}
