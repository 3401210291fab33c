package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Limits of a schema a server may put into every request.
const (
	maxSchemaBytes = 64 << 10
	maxSchemaDepth = 48
	maxSchemaNodes = 4000 // after all references are followed
	maxProperty    = 64
	maxSchemaText  = 1000 // characters of one description inside
)

// wrapped is the parameter that holds the real arguments of a tool whose
// schema is a choice at its root, which providers refuse there.
const wrapped = "input"

// params is a schema in the form providers take, and the way back from
// arguments that fit it to arguments the server expects.
type params struct {
	schema  json.RawMessage
	renamed map[string]string // property name offered -> the server's own
	wrapped bool
	notes   []string // what had to be changed beyond rewriting
}

// openSchema accepts any object.
func openSchema() map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{}, "required": []any{}}
}

// normalise rewrites an input schema. Whatever it is given, the result is a
// valid object schema within the limits.
func normalise(in any) params {
	n := &normaliser{renamed: map[string]string{}, defs: map[string]any{}, hoisted: map[string]string{}}
	root, ok := in.(map[string]any)
	if !ok {
		return n.assemble(openSchema())
	}
	if depth(in, maxSchemaDepth) > maxSchemaDepth {
		n.addNote("its parameters are nested too deeply to be described")
		return n.assemble(openSchema())
	}

	n.root = root
	out := n.node(n.derefRoot(root))
	if t, _ := out["type"].(string); t != "object" {
		if t != "" || out["enum"] != nil {
			n.addNote("its parameters are not an object")
			out = openSchema()
		}
		out["type"] = "object"
	}

	delete(out, "nullable")
	if out["properties"] == nil {
		out["properties"] = map[string]any{}
	}
	if out["required"] == nil {
		out["required"] = []any{}
	}

	if combined(out) {
		n.wrap = true
		inner := out
		out = openSchema()
		out["properties"] = map[string]any{wrapped: inner}
		out["required"] = []any{wrapped}
	}

	return n.assemble(out)
}

// combined reports whether a schema is a choice or has conditions at its root.
func combined(m map[string]any) bool {
	for _, k := range []string{"anyOf", "oneOf", "allOf", "not", "if", "enum", "const"} {
		if _, ok := m[k]; ok {
			return true
		}
	}
	return false
}

type normaliser struct {
	root    map[string]any
	defs    map[string]any    // the definitions of the result
	hoisted map[string]string // pointer -> name in defs
	renamed map[string]string
	wrap    bool
	notes   []string
}

func (n *normaliser) addNote(s string) {
	if !slices.Contains(n.notes, s) {
		n.notes = append(n.notes, s)
	}
}

// assemble attaches the definitions and holds the limits.
func (n *normaliser) assemble(out map[string]any) params {
	if len(n.defs) > 0 {
		out["$defs"] = n.defs
	}
	if expansion(out) > maxSchemaNodes {
		cutLoops(out, n.defs)
	}

	if expansion(out) > maxSchemaNodes {
		n.addNote("its parameters refer to each other too often to be described")
		return n.open()
	}

	b, err := json.Marshal(out)
	if err == nil && len(b) > maxSchemaBytes {
		dropTexts(out)
		n.addNote("descriptions of its parameters are left out, because they are too long")
		b, err = json.Marshal(out)
	}

	if err != nil || len(b) > maxSchemaBytes {
		n.addNote("its parameters are too long to be described")
		return n.open()
	}
	return params{schema: b, renamed: n.renamed, wrapped: n.wrap, notes: n.notes}
}

// open gives up on describing the parameters.
func (n *normaliser) open() params {
	b, _ := json.Marshal(openSchema()) // cannot fail
	return params{schema: b, notes: n.notes}
}

// derefRoot follows a reference at the root, where providers want an object.
func (n *normaliser) derefRoot(root map[string]any) map[string]any {
	cur := root
	for range 16 {
		ref, ok := cur["$ref"].(string)
		if !ok {
			return cur
		}

		target, ok := n.resolve(ref).(map[string]any)
		if !ok {
			break
		}

		merged := maps.Clone(target)
		for k, v := range cur {
			if _, has := merged[k]; !has && k != "$ref" {
				merged[k] = v
			}
		}

		cur = merged
	}

	n.addNote("its parameters are described by a reference that leads nowhere")
	return openSchema()
}

// resolve follows a pointer inside the document, percent-decoded.
func (n *normaliser) resolve(ref string) any {
	frag, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}

	if dec, err := url.PathUnescape(frag); err == nil {
		frag = dec
	}

	var cur any = n.root
	if frag == "" {
		return cur
	}

	rest, ok := strings.CutPrefix(frag, "/")
	if !ok {
		return nil
	}

	for part := range strings.SplitSeq(rest, "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := cur.(type) {
		case map[string]any:
			cur = v[part]
		case []any:
			i := 0
			if _, err := fmt.Sscanf(part, "%d", &i); err != nil || i < 0 || i >= len(v) {
				return nil
			}
			cur = v[i]

		default:
			return nil
		}
	}

	return cur
}

// schemaOf rewrites a value that should be a schema; true and false are legal
// ones, and anything is allowed where we cannot say what is.
func (n *normaliser) schemaOf(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return map[string]any{}
	}
	return n.node(m)
}

func (n *normaliser) node(m map[string]any) map[string]any {
	if ref, ok := m["$ref"].(string); ok {
		return n.reference(ref, m)
	}

	out := make(map[string]any, len(m))
	for k, v := range m {
		switch k {
		case "$schema", "$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor",
			"$comment", "$vocabulary", "$defs", "definitions", "$ref":
			// Definitions come back when something refers to them.
		case "description", "title":
			if s, ok := v.(string); ok {
				out[k] = text.Ellipsis(text.Clean(s), maxSchemaText)
			}
		case "properties":
			if props, ok := v.(map[string]any); ok {
				out[k] = n.properties(props)
			}
		case "required":
			if list, ok := v.([]any); ok {
				out[k] = n.required(list)
			}
		case "items", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems":
			out[k] = n.schemaOf(v)
		case "additionalProperties", "unevaluatedProperties":
			if b, ok := v.(bool); ok {
				out[k] = b
			} else {
				out[k] = n.schemaOf(v)
			}

		case "anyOf", "oneOf", "allOf", "prefixItems":
			if list, ok := v.([]any); ok && len(list) > 0 {
				branches := make([]any, len(list))
				for i, b := range list {
					branches[i] = n.schemaOf(b)
				}
				out[k] = branches
			}

		case "patternProperties", "dependentSchemas", "dependencies", "dependentRequired":
			// No provider understands them; the server checks them itself.
		default:
			out[k] = v
		}
	}

	return n.shape(out)
}

// shape brings types into the form providers agree on.
func (n *normaliser) shape(out map[string]any) map[string]any {
	switch t := out["type"].(type) {
	case nil, string:
	case []any:
		n.typeList(out, t)
	default:
		delete(out, "type")
	}

	for _, k := range []string{"anyOf", "oneOf"} {
		if list, ok := out[k].([]any); ok {
			out = optional(out, k, list)
		}
	}

	if _, has := out["properties"]; has && out["type"] == nil {
		out["type"] = "object"
	}

	switch out["type"] {
	case "object":
		if out["properties"] == nil {
			out["properties"] = map[string]any{}
		}
		if out["required"] == nil {
			out["required"] = []any{}
		}
	case "array":
		if out["items"] == nil {
			out["items"] = map[string]any{}
		}
	}

	return out
}

func (n *normaliser) typeList(out map[string]any, list []any) {
	var names []any
	null := false
	for _, v := range list {
		switch s, _ := v.(string); {
		case s == "null":
			null = true
		case s != "" && !slices.Contains(names, v):
			names = append(names, v)
		}
	}

	switch {
	case len(names) == 0 && null:
		out["type"] = "null"
	case len(names) == 0:
		delete(out, "type")
	case len(names) == 1:
		out["type"] = names[0]
		if null {
			out["nullable"] = true
		}

	default:
		if null {
			names = append(names, "null")
		}
		out["type"] = names
	}
}

// optional merges a choice between null and one other schema into the latter.
func optional(out map[string]any, key string, list []any) map[string]any {
	var other map[string]any
	null := 0
	for _, v := range list {
		m, _ := v.(map[string]any)
		if t, _ := m["type"].(string); t == "null" {
			null++
		} else {
			other = m
		}
	}

	if null != 1 || len(list) != 2 || other == nil {
		return out
	}
	if _, isRef := other["$ref"]; isRef {
		return out // what stands beside a reference is ignored by many
	}

	merged := maps.Clone(other)
	for k, v := range out {
		if k != key {
			merged[k] = v
		}
	}

	merged["nullable"] = true
	return merged
}

// properties rewrites the properties of an object; names that providers
// refuse are replaced.
func (n *normaliser) properties(props map[string]any) map[string]any {
	out := make(map[string]any, len(props))
	for _, name := range slices.Sorted(maps.Keys(props)) {
		out[n.property(name)] = n.schemaOf(props[name])
	}
	return out
}

func (n *normaliser) required(list []any) []any {
	out := []any{}
	for _, v := range list {
		if s, ok := v.(string); ok && !slices.Contains(out, any(n.property(s))) {
			out = append(out, n.property(s))
		}
	}
	return out
}

// property returns the name a property is offered under. A replaced name ends in a
// hash of the original, so one map serves all levels.
func (n *normaliser) property(name string) string {
	if plainProperty(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	short := plainName(name)
	short = short[:min(len(short), maxProperty-13)] + "_" + hex.EncodeToString(sum[:6])
	n.renamed[short] = name
	return short
}

func plainProperty(name string) bool {
	return name != "" && len(name) <= maxProperty && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '.' && r != '-'
	})
}

// reference rewrites a $ref: what it leads to moves to $defs under a name of
// our own. Remote references are dropped, because they must not be fetched.
func (n *normaliser) reference(ref string, m map[string]any) map[string]any {
	target := n.resolve(ref)
	if target == nil {
		n.addNote("a reference in its parameters leads nowhere")
		out := map[string]any{}
		if d, ok := m["description"].(string); ok {
			out["description"] = text.Ellipsis(text.Clean(d), maxSchemaText)
		}
		return out
	}

	name, done := n.hoisted[ref]
	if !done {
		sum := sha256.Sum256([]byte(ref))
		name = "ref_" + hex.EncodeToString(sum[:6])
		if own, ok := strings.CutPrefix(ref, "#/$defs/"); ok && plainProperty(own) && !strings.HasPrefix(own, "ref_") {
			name = own
		}
		n.hoisted[ref] = name
		n.defs[name] = map[string]any{} // while it is being made it may refer to itself
		n.defs[name] = n.schemaOf(target)
	}

	out := map[string]any{"$ref": "#/$defs/" + name}
	if d, ok := m["description"].(string); ok {
		out["description"] = text.Ellipsis(text.Clean(d), maxSchemaText)
	}
	return out
}

// arguments turns what the model sent into what the server expects.
func (p params) arguments(input json.RawMessage) (json.RawMessage, error) {
	if len(p.renamed) == 0 && !p.wrapped {
		return input, nil
	}

	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber() // long numbers keep their digits
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}

	if m, ok := v.(map[string]any); ok && p.wrapped {
		if inner, ok := m[wrapped].(map[string]any); ok {
			v = inner
		}
	}
	return json.Marshal(p.restore(v))
}

func (p params) restore(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			if own, ok := p.renamed[k]; ok {
				k = own
			}
			out[k] = p.restore(e)
		}
		return out
	case []any:
		for i := range x {
			x[i] = p.restore(x[i])
		}
	}
	return v
}
