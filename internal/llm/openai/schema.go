package openai

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxSchemaDepth bounds simplified schemas; deeper parts accept anything.
const maxSchemaDepth = 24

// schema returns a tool's parameter schema in the form the vendor takes.
func (d *driver) schema(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if !d.o.Quirks.KeepSchemaSimple {
		return raw
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	if s, ok := d.schemas[string(raw)]; ok {
		return s
	}

	s := simplify(raw)
	d.schemas[string(raw)] = s
	return s
}

// simplify reduces a schema to what every vendor understands: references are
// replaced by their target, unions by their first real branch, and only type,
// description, enum, properties, required and items are kept.
func simplify(raw json.RawMessage) json.RawMessage {
	var root map[string]any
	if json.Unmarshal(raw, &root) != nil {
		return raw
	}
	out, err := json.Marshal((&simplifier{root: root}).value(root, 0))
	if err != nil {
		return raw
	}
	return out
}

type simplifier struct {
	root map[string]any
	open []string // references being replaced, to end recursion
}

func (s *simplifier) value(m map[string]any, depth int) map[string]any {
	if depth > maxSchemaDepth {
		return map[string]any{"type": "string"}
	}

	if ref, ok := m["$ref"].(string); ok {
		if target := s.resolve(ref); target != nil && !slices.Contains(s.open, ref) {
			s.open = append(s.open, ref)
			defer func() { s.open = s.open[:len(s.open)-1] }()
			return s.value(target, depth+1)
		}
		return map[string]any{"type": "object"}
	}

	out := map[string]any{}
	for _, k := range []string{"description", "enum", "nullable"} {
		if v, ok := m[k]; ok {
			out[k] = v
		}
	}

	s.kind(m, out)
	if c, ok := m["const"]; ok {
		out["enum"] = []any{c}
	}

	for _, k := range []string{"anyOf", "oneOf", "allOf"} {
		if list, ok := m[k].([]any); ok {
			s.union(list, out, depth)
		}
	}

	if props, ok := m["properties"].(map[string]any); ok {
		simple := map[string]any{}
		for name, p := range props {
			if pm, ok := p.(map[string]any); ok {
				simple[name] = s.value(pm, depth+1)
			} else {
				simple[name] = map[string]any{"type": "string"}
			}
		}

		out["properties"] = simple
		if req, ok := m["required"].([]any); ok {
			out["required"] = slices.DeleteFunc(slices.Clone(req), func(v any) bool {
				name, _ := v.(string)
				return simple[name] == nil
			})
		}
	}

	if items, ok := m["items"].(map[string]any); ok {
		out["items"] = s.value(items, depth+1)
	} else if out["type"] == "array" {
		out["items"] = map[string]any{"type": "string"}
	}
	return out
}

// kind copies the type; of a list of types the first real one counts.
func (s *simplifier) kind(m, out map[string]any) {
	switch t := m["type"].(type) {
	case string:
		out["type"] = t
	case []any:
		for _, v := range t {
			if name, _ := v.(string); name == "null" {
				out["nullable"] = true
			} else if name != "" && out["type"] == nil {
				out["type"] = name
			}
		}
	}
}

// union takes over the first branch that is not null.
func (s *simplifier) union(list []any, out map[string]any, depth int) {
	done := false
	for _, v := range list {
		branch, ok := v.(map[string]any)
		if !ok {
			continue
		}
		if branch["type"] == "null" {
			out["nullable"] = true
			continue
		}
		if done {
			continue
		}

		done = true
		for k, v := range s.value(branch, depth+1) {
			if _, set := out[k]; !set {
				out[k] = v
			}
		}
	}
}

func (s *simplifier) resolve(ref string) map[string]any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}

	at := any(s.root)
	for part := range strings.SplitSeq(path, "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}

	m, _ := at.(map[string]any)
	return m
}
