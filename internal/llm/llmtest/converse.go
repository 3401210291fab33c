package llmtest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
)

func isConverse(path string) bool {
	return strings.Contains(path, "/model/") && (strings.HasSuffix(path, "/converse-stream") || strings.HasSuffix(path, "/converse"))
}

// ConverseFrames renders lines of the form "event-type {payload}" as frames of
// the binary event stream; a type that ends in Exception becomes an exception.
func ConverseFrames(lines string) string {
	var out []byte
	for line := range strings.Lines(lines) {
		name, payload, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}

		kind, key := "event", ":event-type"
		if strings.HasSuffix(name, "Exception") {
			kind, key = "exception", ":exception-type"
		}

		var h []byte
		for _, kv := range [][2]string{{":message-type", kind}, {key, name}, {":content-type", "application/json"}} {
			h = append(h, byte(len(kv[0]))) //nolint:gosec // a short name
			h = append(h, kv[0]...)
			h = append(h, 7)                                         // a string follows
			h = binary.BigEndian.AppendUint16(h, uint16(len(kv[1]))) //nolint:gosec // a short value
			h = append(h, kv[1]...)
		}

		f := binary.BigEndian.AppendUint32(nil, uint32(12+len(h)+len(payload)+4)) //nolint:gosec // a line of a test
		f = binary.BigEndian.AppendUint32(f, uint32(len(h)))                      //nolint:gosec // as above
		f = binary.BigEndian.AppendUint32(f, crc32.ChecksumIEEE(f))
		f = append(append(f, h...), payload...)
		out = append(out, binary.BigEndian.AppendUint32(f, crc32.ChecksumIEEE(f))...)
	}

	return string(out)
}

// checkConverse judges a request of the Converse protocol.
func checkConverse(h http.Header, body []byte) error {
	if a := h.Get("Authorization"); !strings.HasPrefix(a, "Bearer ") && !strings.HasPrefix(a, "AWS4-HMAC-SHA256 ") {
		return errors.New("neither a bearer token nor a signature")
	}

	o, err := decodeObject(body)
	if err != nil {
		return err
	}
	if err := o.only(`messages system inferenceConfig toolConfig additionalModelRequestFields guardrailConfig performanceConfig
		requestMetadata promptVariables additionalModelResponseFieldPaths serviceTier outputConfig`); err != nil {
		return err
	}

	msgs, err := o.objects("messages")
	if err != nil {
		return err
	}
	if len(msgs) == 0 {
		return errors.New("messages is empty")
	}

	used, err := checkConverseTurns(msgs)
	if err != nil {
		return err
	}
	return checkConverseTools(o, used)
}

func checkConverseTools(o object, used bool) error {
	cfg, _ := o["toolConfig"].(map[string]any)
	if cfg == nil {
		if used {
			return errors.New("the history uses tools, but toolConfig is missing")
		}
		return nil
	}

	tools, err := object(cfg).objects("tools")
	if err != nil {
		return err
	}

	n := 0
	for i, t := range tools {
		if t["cachePoint"] != nil {
			continue
		}

		n++
		spec, _ := t["toolSpec"].(map[string]any)
		schema, _ := spec["inputSchema"].(map[string]any)
		if _, ok := schema["json"].(map[string]any); !ok || !isToolName(object(spec).text("name")) {
			return fmt.Errorf("tools[%d] is malformed", i)
		}
	}

	if n == 0 {
		return errors.New("tools is empty")
	}
	return nil
}

func checkConverseTurns(msgs []object) (used bool, err error) {
	open, seen := map[string]bool{}, map[string]bool{}
	points := 0
	for i, m := range msgs {
		want := []string{"user", "assistant"}[i%2]
		if err := m.only("role content"); err != nil || m.text("role") != want {
			return used, fmt.Errorf("messages[%d] is from %q, want %q (%w)", i, m.text("role"), want, err)
		}

		blocks, err := m.objects("content")
		if err != nil || len(blocks) == 0 {
			return used, fmt.Errorf("messages[%d]: no content (%w)", i, err)
		}

		for j, b := range blocks {
			if b["cachePoint"] != nil {
				points++
			}
			u, err := checkConverseBlock(b, want, open, seen)
			if err != nil {
				return used, fmt.Errorf("messages[%d] block %d: %w", i, j, err)
			}
			used = used || u
		}

		if id := unanswered(open); want == "user" && id != "" {
			return used, fmt.Errorf("messages[%d]: toolUse %q has no result", i, id)
		}
	}

	if len(msgs)%2 == 0 {
		return used, errors.New("the last turn is not the user's")
	}
	if points > 4 {
		return used, fmt.Errorf("%d cache points", points)
	}
	return used, nil
}

func checkConverseBlock(b object, role string, open, seen map[string]bool) (used bool, err error) {
	if len(b) != 1 {
		return false, fmt.Errorf("a block has exactly one kind: %v", b)
	}

	inner := func(key string) object {
		m, _ := b[key].(map[string]any)
		return m
	}
	switch {
	case b["text"] != nil:
		if strings.TrimSpace(b.text("text")) == "" {
			return false, errors.New("empty text")
		}
	case b["image"] != nil:
		src, _ := inner("image")["source"].(map[string]any)
		if role != "user" || object(src).text("bytes") == "" || inner("image").text("format") == "" {
			return false, errors.New("malformed image")
		}

	case b["toolUse"] != nil:
		u := inner("toolUse")
		id := u.text("toolUseId")
		if _, ok := u["input"].(map[string]any); role != "assistant" || !ok || !isToolName(id) || seen[id] || !isToolName(u.text("name")) {
			return true, fmt.Errorf("malformed toolUse %q", id)
		}
		seen[id], open[id] = true, true
		return true, nil

	case b["toolResult"] != nil:
		r := inner("toolResult")
		content, err := r.objects("content")
		if id := r.text("toolUseId"); role != "user" || !open[id] || err != nil || len(content) == 0 {
			return true, fmt.Errorf("result for %q, which is not waiting for one, or without content", id)
		}
		open[r.text("toolUseId")] = false
		return true, nil

	case b["reasoningContent"] != nil:
		if role != "assistant" {
			return false, errors.New("reasoning from the user")
		}
	case b["cachePoint"] != nil:
	default:
		return false, fmt.Errorf("unknown block %v", json.RawMessage(js(b)))
	}

	return false, nil
}
