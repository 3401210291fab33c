package tool

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// schema is the part of JSON Schema that arguments are cast and checked
// against. Unknown keywords are ignored.
type schema struct {
	types    []string // empty: any
	nullable bool
	desc     string
	order    []string // property names as declared
	props    map[string]*schema
	required []string
	aliases  map[string]string // other spelling -> property
	items    *schema
	extra    *schema // additionalProperties as a schema
	closed   bool    // additionalProperties: false, and no patterns of names
	enum     []any
	constant *any
	anyOf    []*schema
	min, max *float64
	exMin    *float64
	exMax    *float64
	minLen   *int
	maxLen   *int
	minItems *int
	maxItems *int
	hidden   bool // accepted and checked, but not shown to the model
}

// schemaOf derives a schema from a struct type.
func schemaOf(t reflect.Type) *schema {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.String:
		return &schema{types: []string{"string"}}
	case reflect.Bool:
		return &schema{types: []string{"boolean"}}
	case reflect.Int, reflect.Int64, reflect.Int32:
		return &schema{types: []string{"integer"}}
	case reflect.Float64:
		return &schema{types: []string{"number"}}
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return &schema{}
		}
		return &schema{types: []string{"array"}, items: schemaOf(t.Elem())}

	case reflect.Map:
		return &schema{types: []string{"object"}, extra: schemaOf(t.Elem())}
	case reflect.Struct:
		s := &schema{types: []string{"object"}, props: map[string]*schema{}, aliases: map[string]string{}, closed: true}
		for f := range t.Fields() {
			name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}

			p := schemaOf(f.Type)
			p.describe(f.Tag)
			s.props[name] = p
			s.order = append(s.order, name)
			if f.Type.Kind() != reflect.Pointer && !strings.Contains(opts, "omitempty") {
				s.required = append(s.required, name)
			}

			for a := range strings.SplitSeq(f.Tag.Get("alias"), "|") {
				if a != "" {
					s.aliases[a] = name
				}
			}
		}

		return s

	default:
		panic("tool: no schema for " + t.String())
	}
}

func (s *schema) describe(tag reflect.StructTag) {
	s.desc, s.hidden = tag.Get("desc"), tag.Get("hidden") != ""
	if e := tag.Get("enum"); e != "" {
		for v := range strings.SplitSeq(e, "|") {
			s.enum = append(s.enum, v)
		}
	}

	bound := func(name string) *float64 {
		v, err := strconv.ParseFloat(tag.Get(name), 64)
		if err != nil {
			return nil
		}
		return &v
	}

	toInt := func(f *float64) *int {
		if f == nil {
			return nil
		}
		n := int(*f)
		return &n
	}

	lo, hi := bound("min"), bound("max")
	switch {
	case slices.Contains(s.types, "string"):
		s.minLen, s.maxLen = toInt(lo), toInt(hi)
	case slices.Contains(s.types, "array"):
		s.minItems, s.maxItems = toInt(lo), toInt(hi)
	default:
		s.min, s.max = lo, hi
	}
}

// json renders the schema for the model, keys and properties in a fixed order.
// Each request carries it, so it leaves out what goes without saying: bounds of
// zero and one from below, and properties that results name when they help.
// Both are checked all the same.
func (s *schema) json() json.RawMessage {
	b := []byte{'{'}
	field := func(name string) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = text.AppendJSON(b, name)
		b = append(b, ':')
	}
	if len(s.types) == 1 {
		field("type")
		b = text.AppendJSON(b, s.types[0])
	}
	if s.desc != "" {
		field("description")
		b = text.AppendJSON(b, s.desc)
	}

	for _, n := range []struct {
		name string
		v    any
	}{
		{"enum", s.enum},
		{"minimum", above(s.min, 1)},
		{"maximum", s.max},
		{"minLength", above(s.minLen, 1)},
		{"maxLength", s.maxLen},
		{"minItems", above(s.minItems, 1)},
		{"maxItems", s.maxItems},
	} {
		if rv := reflect.ValueOf(n.v); rv.IsNil() {
			continue
		}
		field(n.name)
		v, _ := json.Marshal(n.v)
		b = append(b, v...)
	}

	if s.items != nil {
		field("items")
		b = append(b, s.items.json()...)
	}

	if s.props != nil {
		field("properties")
		b = append(b, '{')
		first := len(b)
		for _, p := range s.order {
			if s.props[p].hidden {
				continue
			}

			if len(b) > first {
				b = append(b, ',')
			}

			b = text.AppendJSON(b, p)
			b = append(b, ':')
			b = append(b, s.props[p].json()...)
		}

		b = append(b, '}')
		if len(s.required) > 0 {
			field("required")
			v, _ := json.Marshal(s.required)
			b = append(b, v...)
		}
	}

	if s.extra != nil {
		field("additionalProperties")
		b = append(b, s.extra.json()...)
	}
	return append(b, '}')
}

// above returns a bound if it is greater than n.
func above[T int | float64](bound *T, n T) *T {
	if bound == nil || *bound <= n {
		return nil
	}
	return bound
}

// parseSchema reads a schema written by others: an MCP server or the SDK's user.
func parseSchema(raw json.RawMessage) (*schema, error) {
	if len(raw) == 0 {
		return &schema{types: []string{"object"}}, nil
	}

	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, err
	}

	m, ok := root.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want an object")
	}
	return (&schemaReader{root: m, refs: map[string]*schema{}}).read(m, 0), nil
}

type schemaReader struct {
	root map[string]any
	refs map[string]*schema
}

func (r *schemaReader) read(m map[string]any, depth int) *schema {
	s := &schema{}
	if depth > 32 {
		return s
	}

	if ref, ok := m["$ref"].(string); ok {
		if known := r.refs[ref]; known != nil {
			return known
		}
		if target := r.resolve(ref); target != nil {
			r.refs[ref] = s // what refers to itself becomes a cycle, not a tree without end
			*s = *r.read(target, depth+1)
		}
		return s
	}

	switch t := m["type"].(type) {
	case string:
		s.types = []string{t}
	case []any:
		for _, v := range t {
			if name, ok := v.(string); ok && name == "null" {
				s.nullable = true
			} else if ok {
				s.types = append(s.types, name)
			}
		}
	}

	if n, _ := m["nullable"].(bool); n {
		s.nullable = true
	}

	if props, ok := m["properties"].(map[string]any); ok {
		s.props = map[string]*schema{}
		for k, v := range props {
			if pm, ok := v.(map[string]any); ok {
				s.props[k] = r.read(pm, depth+1)
			} else {
				s.props[k] = &schema{}
			}
			s.order = append(s.order, k)
		}

		slices.Sort(s.order)
	}

	if req, ok := m["required"].([]any); ok {
		for _, v := range req {
			if k, ok := v.(string); ok {
				s.required = append(s.required, k)
			}
		}
	}

	if it, ok := m["items"].(map[string]any); ok {
		s.items = r.read(it, depth+1)
	}

	switch a := m["additionalProperties"].(type) {
	case bool:
		s.closed = !a && m["patternProperties"] == nil
	case map[string]any:
		s.extra = r.read(a, depth+1)
	}

	s.enum, _ = m["enum"].([]any)
	if c, ok := m["const"]; ok {
		s.constant = &c
	}

	for _, k := range []string{"anyOf", "oneOf"} {
		list, _ := m[k].([]any)
		for _, v := range list {
			if vm, ok := v.(map[string]any); ok {
				s.anyOf = append(s.anyOf, r.read(vm, depth+1))
			}
		}
	}

	s.min, s.max = number(m["minimum"]), number(m["maximum"])
	s.exMin, s.exMax = number(m["exclusiveMinimum"]), number(m["exclusiveMaximum"])
	s.minLen, s.maxLen = whole(m["minLength"]), whole(m["maxLength"])
	s.minItems, s.maxItems = whole(m["minItems"]), whole(m["maxItems"])
	return s
}

// resolve follows a reference inside the same document.
func (r *schemaReader) resolve(ref string) map[string]any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}

	cur := r.root
	for part := range strings.SplitSeq(path, "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		next, ok := cur[part].(map[string]any)
		if !ok {
			return nil
		}
		cur = next
	}

	return cur
}

func number(v any) *float64 {
	f, ok := v.(float64)
	if !ok {
		return nil
	}
	return &f
}

func whole(v any) *int {
	f, ok := v.(float64)
	if !ok {
		return nil
	}
	n := int(f)
	return &n
}
