package llmtest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// checkMessages judges a request of the Messages protocol. Only an answer that
// the server paused may stand at the end.
func checkMessages(h http.Header, body []byte, paused bool) error {
	if h.Get("X-Api-Key") == "" && !strings.HasPrefix(h.Get("Authorization"), "Bearer ") {
		return errors.New("no x-api-key")
	}
	if h.Get("Anthropic-Version") == "" {
		return errors.New("no anthropic-version")
	}
	if n := bytes.Count(body, []byte(`"cache_control"`)); n > 4 {
		return fmt.Errorf("%d cache breakpoints, at most 4 are allowed", n)
	}

	o, err := decodeObject(body)
	if err != nil {
		return err
	}
	if err := o.only("model messages system max_tokens temperature stream tools tool_choice thinking output_config metadata stop_sequences top_p top_k service_tier"); err != nil {
		return err
	}

	limit, _ := o["max_tokens"].(float64)
	if o.text("model") == "" || limit < 1 {
		return errors.New("no model or no max_tokens")
	}
	if err := checkThinking(o, limit); err != nil {
		return err
	}

	switch s := o["system"].(type) {
	case nil:
	case string:
		if s == "" {
			return errors.New("empty system")
		}
	case []any:
		for _, b := range s {
			m, _ := b.(map[string]any)
			if object(m).text("text") == "" {
				return errors.New("empty system block")
			}
		}

	default:
		return errors.New("malformed system")
	}

	tools, err := o.objects("tools")
	if err != nil {
		return err
	}

	for i, t := range tools {
		if s, _ := t["input_schema"].(map[string]any); !isToolName(t.text("name")) || object(s).text("type") != "object" {
			return fmt.Errorf("tools[%d] is malformed", i)
		}
	}

	msgs, err := o.objects("messages")
	if err != nil {
		return err
	}
	if len(msgs) == 0 {
		return errors.New("messages is empty")
	}
	return checkTurns(msgs, paused)
}

func checkThinking(o object, limit float64) error {
	t, _ := o["thinking"].(map[string]any)
	if t == nil || t["type"] == "disabled" {
		return nil
	}
	if budget, ok := t["budget_tokens"].(float64); ok && (budget < 1024 || budget >= limit) {
		return fmt.Errorf("thinking budget %v with max_tokens %v", budget, limit)
	}
	if temp, ok := o["temperature"].(float64); ok && temp != 1 {
		return errors.New("temperature with thinking must be 1")
	}
	return nil
}

func checkTurns(msgs []object, paused bool) error {
	open := map[string]bool{}
	seen := map[string]bool{}
	for i, m := range msgs {
		want := "user"
		if i%2 == 1 {
			want = "assistant"
		}

		if role := m.text("role"); role != want {
			return fmt.Errorf("messages[%d] is from %q, want %q", i, role, want)
		}
		if err := m.only("role content"); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}

		if s, ok := m["content"].(string); ok && strings.TrimSpace(s) != "" {
			if id := unanswered(open); id != "" {
				return fmt.Errorf("messages[%d]: tool_use %q has no result", i, id)
			}
			continue
		}

		blocks, err := m.objects("content")
		if err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		if len(blocks) == 0 {
			return fmt.Errorf("messages[%d]: empty content", i)
		}
		if err := checkTurn(blocks, want, open, seen); err != nil {
			return fmt.Errorf("messages[%d] (%s): %w", i, want, err)
		}
	}

	if msgs[len(msgs)-1].text("role") != "user" && !paused {
		return errors.New("the last turn is not the user's")
	}
	return nil
}

func checkTurn(blocks []object, role string, open, seen map[string]bool) error {
	results := true // tool results come first
	for i, b := range blocks {
		kind := b.text("type")
		if kind != "tool_result" {
			results = false
		}

		var err error
		switch kind {
		case "text":
			if strings.TrimSpace(b.text("text")) == "" {
				err = errors.New("empty text block")
			}
		case "image", "document":
			if role != "user" {
				err = errors.New("image in an assistant turn")
			}
		case "thinking", "redacted_thinking":
			if role != "assistant" || i > 0 && !strings.HasSuffix(blocks[i-1].text("type"), "thinking") {
				err = errors.New("thinking is not at the start of an assistant turn")
			}
		case "tool_use":
			err = checkToolUse(b, role, open, seen)
		case "tool_result":
			id := b.text("tool_use_id")
			if role != "user" || !open[id] || !results {
				err = fmt.Errorf("result for %q, which is not waiting for one or comes after other blocks", id)
			}
			open[id] = false

		default:
			err = fmt.Errorf("unknown block %q", kind)
		}

		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}

	if role == "user" {
		if id := unanswered(open); id != "" {
			return fmt.Errorf("tool_use %q has no result", id)
		}
	}
	return nil
}

func checkToolUse(b object, role string, open, seen map[string]bool) error {
	id := b.text("id")
	_, isObject := b["input"].(map[string]any)
	switch {
	case role != "assistant":
		return errors.New("tool_use in a user turn")
	case !isToolName(id) || seen[id]:
		return fmt.Errorf("tool_use id %q is malformed or used twice", id)
	case !isToolName(b.text("name")) || !isObject:
		return fmt.Errorf("malformed tool_use %q", id)
	}

	seen[id], open[id] = true, true
	return nil
}
