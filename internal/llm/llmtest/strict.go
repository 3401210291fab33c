package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// object is a decoded JSON object.
type object map[string]any

func decodeObject(body []byte) (object, error) {
	var v object
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("body is not a JSON object: %w", err)
	}
	if d.More() {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func (o object) only(allowed string) error {
	for k := range o {
		if !slices.Contains(strings.Fields(allowed), k) {
			return fmt.Errorf("unknown key %q", k)
		}
	}
	return nil
}

func (o object) text(key string) string {
	s, _ := o[key].(string)
	return s
}

func (o object) objects(key string) ([]object, error) {
	v, ok := o[key]
	if !ok {
		return nil, nil
	}

	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is not a list", key)
	}

	out := make([]object, len(list))
	for i, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d] is not an object", key, i)
		}
		out[i] = m
	}

	return out, nil
}

// checkChat judges a Chat Completions request as the strictest vendors do.
func checkChat(h http.Header, body []byte, rules chatRules) error {
	if key, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer "); !ok || key == "" {
		return errors.New("no bearer token")
	}
	if !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		return errors.New("content type is not JSON")
	}

	o, err := decodeObject(body)
	if err != nil {
		return err
	}
	if err := o.only(rules.keys); err != nil {
		return err
	}
	if o.text("model") == "" {
		return errors.New("no model")
	}

	for _, k := range []string{"max_tokens", "max_completion_tokens"} {
		if n, ok := o[k].(float64); o[k] != nil && (!ok || n < 1) {
			return fmt.Errorf("%s is %v", k, o[k])
		}
	}

	if o["stream_options"] != nil && o["stream"] != true {
		return errors.New("stream_options without stream")
	}
	if err := checkChatTools(o); err != nil {
		return err
	}

	msgs, err := o.objects("messages")
	if err != nil {
		return err
	}
	if len(msgs) == 0 {
		return errors.New("messages is empty")
	}
	if err := rules.messages(msgs); err != nil {
		return err
	}
	return checkChatMessages(msgs)
}

// chatRules are the keys a vendor knows.
type chatRules struct {
	keys     string // of a request
	message  string // of a message
	shortIDs bool   // ids of calls are nine letters or digits
}

// brandRules returns the rules of vendors that refuse what they do not know; for
// all others, what any of them takes.
func brandRules(brand string) chatRules {
	const shared = "model messages stream stream_options max_tokens temperature top_p reasoning_effort tools tool_choice metadata "
	switch brand {
	case "mistral":
		return chatRules{keys: shared + "random_seed stop n prompt_mode parallel_tool_calls", message: "role content tool_calls tool_call_id name prefix", shortIDs: true}
	case "groq":
		return chatRules{keys: shared + "max_completion_tokens seed stop n user service_tier reasoning_format include_reasoning parallel_tool_calls", message: "role content tool_calls tool_call_id name"}
	}
	return chatRules{
		keys:    shared + "max_completion_tokens reasoning thinking enable_thinking reasoning_split prompt_cache_key tool_stream seed",
		message: "role content tool_calls tool_call_id name reasoning_content reasoning_details",
	}
}

func (r chatRules) messages(msgs []object) error {
	for i, m := range msgs {
		if err := m.only(r.message); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}

		calls, err := m.objects("tool_calls")
		if err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}

		for _, c := range calls {
			if id := c.text("id"); r.shortIDs && (len(id) != 9 || !isToolName(id) || strings.ContainsAny(id, "_-")) {
				return fmt.Errorf("messages[%d]: id %q is not nine letters or digits", i, id)
			}
		}
	}
	return nil
}

func checkChatTools(o object) error {
	tools, err := o.objects("tools")
	if err != nil {
		return err
	}
	if o["tools"] != nil && len(tools) == 0 {
		return errors.New("tools is empty")
	}
	if o["tool_choice"] != nil && len(tools) == 0 {
		return errors.New("tool_choice without tools")
	}

	for i, t := range tools {
		f, _ := t["function"].(map[string]any)
		if t.text("type") != "function" || !isToolName(object(f).text("name")) {
			return fmt.Errorf("tools[%d] is malformed", i)
		}
		if p, _ := f["parameters"].(map[string]any); object(p).text("type") != "object" {
			return fmt.Errorf("tools[%d]: parameters are not an object schema", i)
		}
	}

	return nil
}

func isToolName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func checkChatMessages(msgs []object) error {
	open := map[string]bool{}
	prev := ""
	for i, m := range msgs {
		role := m.text("role")
		if role != "tool" {
			if id := unanswered(open); id != "" {
				return fmt.Errorf("messages[%d]: tool call %q has no result", i, id)
			}
			clear(open)
		}

		if err := checkChatMessage(m, role, prev, open); err != nil {
			return fmt.Errorf("messages[%d] (%s): %w", i, role, err)
		}

		if role != "system" && role != "developer" {
			prev = role
		}
	}

	if id := unanswered(open); id != "" {
		return fmt.Errorf("tool call %q has no result", id)
	}
	if prev != "user" && prev != "tool" {
		return fmt.Errorf("the last message is from %q", prev)
	}
	return nil
}

func checkChatMessage(m object, role, prev string, open map[string]bool) error {
	calls, err := m.objects("tool_calls")
	if err != nil {
		return err
	}
	if err := checkChatContent(m["content"], role, len(calls) > 0); err != nil {
		return err
	}

	switch role {
	case "system", "developer":
		if prev != "" {
			return errors.New("system message after the beginning")
		}
	case "user":
		if prev == "user" {
			return errors.New("two user messages in a row")
		}
	case "assistant":
		if prev == "" || prev == "assistant" {
			return fmt.Errorf("assistant after %q", prev)
		}
		return checkChatCalls(calls, m["tool_calls"] != nil, open)

	case "tool":
		id := m.text("tool_call_id")
		if waiting, known := open[id]; !known || !waiting {
			return fmt.Errorf("result for %q, which is not waiting for one", id)
		}
		open[id] = false

	default:
		return fmt.Errorf("unknown role")
	}

	return nil
}

func checkChatCalls(calls []object, present bool, open map[string]bool) error {
	if present && len(calls) == 0 {
		return errors.New("tool_calls is empty")
	}

	for _, c := range calls {
		f, _ := c["function"].(map[string]any)
		args, ok := f["arguments"].(string)
		var o map[string]any
		id := c.text("id")
		switch {
		case c.text("type") != "function" || id == "" || !isToolName(object(f).text("name")):
			return fmt.Errorf("malformed call %v", c)
		case !ok || json.Unmarshal([]byte(args), &o) != nil || o == nil:
			return fmt.Errorf("arguments of %q are not the text of a JSON object: %v", id, f["arguments"])
		case open[id]:
			return fmt.Errorf("two calls with id %q", id)
		}

		open[id] = true
	}

	return nil
}

func checkChatContent(v any, role string, calls bool) error {
	switch c := v.(type) {
	case nil:
		if role != "assistant" || !calls {
			return errors.New("no content")
		}
	case string:
		if c == "" {
			return errors.New("empty content")
		}
	case []any:
		if len(c) == 0 {
			return errors.New("empty content list")
		}
		for _, item := range c {
			b, _ := item.(map[string]any)
			if err := checkChatBlock(b, role); err != nil {
				return err
			}
		}

	default:
		return errors.New("content is neither text nor a list")
	}
	return nil
}

func checkChatBlock(b object, role string) error {
	if _, ok := b["_meta"]; ok {
		return errors.New("internal _meta on the wire")
	}

	switch b.text("type") {
	case "text":
		if b.text("text") == "" {
			return errors.New("empty text block")
		}
	case "image_url":
		u, _ := b["image_url"].(map[string]any)
		if role != "user" || object(u).text("url") == "" {
			return fmt.Errorf("image in a %s message, or without URL", role)
		}

	default:
		return fmt.Errorf("unknown block %q", b.text("type"))
	}

	return nil
}
