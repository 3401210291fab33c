package llmtest

import (
	"encoding/json"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// parseSent reads the history out of a request, the way a server understands
// it. The system prompt is left out.
func parseSent(wire string, body []byte) ([]llm.Message, error) {
	o, err := decodeObject(body)
	if err != nil {
		return nil, err
	}

	switch wire {
	case "chat":
		return parseChat(o)
	case "resp":
		return parseItems(o)
	}

	turns, err := o.objects("messages")
	if err != nil {
		return nil, err
	}

	var out []llm.Message
	for _, t := range turns {
		blocks, err := t.objects("content")
		if err != nil {
			return nil, err
		}

		m := llm.Message{Role: llm.Role(t.text("role")), Content: llm.Content{Blocks: []llm.Block{}}}
		var results []llm.Message
		for _, b := range blocks {
			if wire == "bedr" {
				b = fromConverse(b)
			}
			if err := addBlock(b, &m, &results); err != nil {
				return nil, err
			}
		}

		out = append(out, results...)
		out = append(out, m)
	}

	return out, nil
}

func parseChat(o object) ([]llm.Message, error) {
	list, err := o.objects("messages")
	if err != nil {
		return nil, err
	}

	var out []llm.Message
	for _, item := range list {
		var m llm.Message
		if item.text("role") == "developer" {
			continue
		}
		if err := json.Unmarshal([]byte(js(item)), &m); err != nil {
			return nil, err
		}

		if m.Role != llm.System {
			out = append(out, m)
		}
	}

	return out, nil
}

// addBlock puts a block of the Messages protocol where it belongs.
func addBlock(b object, m *llm.Message, results *[]llm.Message) error {
	switch kind := b.text("type"); kind {
	case "text", "image":
		m.Content.Blocks = append(m.Content.Blocks, imageOrText(b))
	case "thinking", "redacted_thinking":
		delete(b, "cache_control")
		m.Thinking = append(m.Thinking, json.RawMessage(js(b)))
	case "tool_use":
		m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: b.text("id"), Name: b.text("name"), Arguments: js(b["input"])})
	case "tool_result":
		r := llm.Message{Role: llm.ToolRole, ToolCallID: b.text("tool_use_id"), IsError: b["is_error"] == true}
		if s, ok := b["content"].(string); ok {
			r.Content = llm.Text(s)
		} else {
			parts, err := b.objects("content")
			if err != nil {
				return err
			}
			for _, p := range parts {
				r.Content.Blocks = append(r.Content.Blocks, imageOrText(p))
			}
		}

		*results = append(*results, r)

	case "":
	default:
		return fmt.Errorf("unknown block %q", kind)
	}
	return nil
}

func imageOrText(b object) llm.Block {
	if b.text("type") == "text" {
		return llm.Block{Type: "text", Text: b.text("text")}
	}
	src, _ := b["source"].(map[string]any)
	s := object(src)
	if u := s.text("url"); u != "" {
		return llm.Block{Type: "image_url", ImageURL: u}
	}
	return llm.Block{Type: "image_url", ImageURL: "data:" + s.text("media_type") + ";base64," + s.text("data")}
}

// fromConverse rewrites a block in the terms of the Messages protocol; a cache
// point has no counterpart and becomes an empty one.
func fromConverse(b object) object {
	inner := func(key string) object {
		v, _ := b[key].(map[string]any)
		return v
	}
	switch {
	case b["text"] != nil:
		return object{"type": "text", "text": b["text"]}
	case b["image"] != nil:
		src, _ := inner("image")["source"].(map[string]any)
		return object{"type": "image", "source": map[string]any{"media_type": "image/" + inner("image").text("format"), "data": src["bytes"]}}
	case b["toolUse"] != nil:
		u := inner("toolUse")
		return object{"type": "tool_use", "id": u["toolUseId"], "name": u["name"], "input": u["input"]}
	case b["toolResult"] != nil:
		r := inner("toolResult")
		content := []any{}
		parts, _ := r.objects("content")
		for _, p := range parts {
			content = append(content, map[string]any(fromConverse(p)))
		}
		return object{"type": "tool_result", "tool_use_id": r["toolUseId"], "is_error": r["status"] == "error", "content": content}

	case b["reasoningContent"] != nil:
		r := inner("reasoningContent")
		if t, ok := r["reasoningText"].(map[string]any); ok {
			return object{"type": "thinking", "thinking": t["text"], "signature": t["signature"]}
		}
		return object{"type": "redacted_thinking", "data": r["redactedContent"]}
	}

	return object{}
}

// parseItems reads the input of the Responses protocol.
func parseItems(o object) ([]llm.Message, error) {
	items, err := o.objects("input")
	if err != nil {
		return nil, err
	}

	var out []llm.Message
	for _, it := range items {
		switch kind := it.text("type"); kind {
		case "function_call":
			out = append(out, llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: it.text("call_id"), Name: it.text("name"), Arguments: it.text("arguments")}}})
		case "function_call_output":
			m := llm.Message{Role: llm.ToolRole, ToolCallID: it.text("call_id")}
			if s, ok := it["output"].(string); ok {
				m.Content = llm.Text(s)
			} else if m.Content, err = itemContent(it, "output"); err != nil {
				return nil, err
			}
			out = append(out, m)

		case "reasoning":
			out = append(out, llm.Message{Role: llm.Assistant, Thinking: []json.RawMessage{json.RawMessage(js(it))}})
		case "", "message":
			m := llm.Message{Role: llm.Role(it.text("role"))}
			if m.Content, err = itemContent(it, "content"); err != nil {
				return nil, err
			}
			if m.Role != "developer" {
				out = append(out, m)
			}

		default:
			return nil, fmt.Errorf("unknown item %q", kind)
		}
	}

	return out, nil
}

func itemContent(it object, key string) (llm.Content, error) {
	parts, err := it.objects(key)
	c := llm.Content{Blocks: []llm.Block{}}
	for _, p := range parts {
		if u := p.text("image_url"); u != "" {
			c.Blocks = append(c.Blocks, llm.Block{Type: "image_url", ImageURL: u})
			continue
		}
		c.Blocks = append(c.Blocks, llm.Block{Type: "text", Text: p.text("text")})
	}

	return c, err
}
