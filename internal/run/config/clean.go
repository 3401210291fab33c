package config

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// clean gives every key its canonical name, so that all later steps compare
// plain strings: camelCase wins over snake_case, null members go away, unknown
// keys are reported and marked.
func (r *reader) clean(n *node, p place) {
	t := p.typ
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	switch {
	case t == nil:
	case t == reflect.TypeFor[Raw]():
		if p.tag.Get("camel") != "" {
			r.camelKeys(n, p, 1)
		}
	case t == reflect.TypeFor[Channel]():
		own, _ := p.platform()
		for _, section := range accounts(n) {
			if own.IsValid() {
				r.cleanSection(section, p, own.Type())
				continue
			}
			r.camelKeys(section, p, 2)
			stringify(section, "")
		}

	case t.Kind() == reflect.Slice:
		n.items = slices.DeleteFunc(n.items, func(it *node) bool { return it.kind == 'n' })
		for i, it := range n.items {
			if c, ok := p.child(itoa(i), false); ok {
				r.clean(it, c)
			}
		}

	case n.kind == '{' && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map):
		r.cleanObject(n, p, t)
	}
}

func (r *reader) cleanObject(n *node, p place, t reflect.Type) {
	old := n.members
	n.members = make([]member, 0, len(old))
	var rank map[string]int // of the keys that are not spelled the usual way
	elem := elemTag(p.tag)
	for _, m := range old {
		if m.val.kind == 'n' {
			continue
		}

		c, how, known := r.canonical(m, p, t, elem)
		if !known {
			m.val.unknown = true
			r.unknownKey(m, p)
			n.members = append(n.members, m)
			continue
		}

		name := c.path[len(c.path)-1]
		if n.get(name) != nil {
			r.warning(m.val, c.path, "two spellings of the same key are present; the camelCase one counts", "")
			if how >= rank[name] {
				continue
			}
		}

		if how > 0 || rank[name] > 0 {
			if rank == nil {
				rank = map[string]int{}
			}
			rank[name] = how
		}

		n.set(name, m.off, m.val)
		r.clean(m.val, c)
	}
}

// canonical returns the place a member stands for and how strong its spelling is,
// 0 being the strongest.
func (r *reader) canonical(m member, p place, t reflect.Type, elem reflect.StructTag) (c place, how int, known bool) {
	if t.Kind() == reflect.Map {
		name := m.name
		if p.tag.Get("names") == "snake" {
			if name = snake(m.name); name == m.name && strings.Contains(name, "_") {
				how = 1 // another spelling of the same name wins
			}
		}
		return p.at(name, t.Elem(), elem), how, true
	}

	sh := p.shapes.of(t)
	if f, how, ok := sh.match(m.name); ok {
		return p.at(f.name, f.typ, f.tag), how, true
	}
	if sh.rest != nil && (m.val.kind == '{' || m.val.kind == '[') {
		return p.at(m.name, sh.rest.typ.Elem(), ""), 0, true
	}
	return place{}, 0, false
}

// unknownKey warns about a key that is not a setting.
func (r *reader) unknownKey(m member, p place) {
	if len(p.path) == 0 && m.name == "$schema" || strings.HasPrefix(m.name, "x-") {
		return
	}

	w := Problem{
		Path: showPath(append(slices.Clip(p.path), m.name)), Unknown: true,
		Message: "unknown key, ignored", Hint: suggest(m.name, p.names()),
	}
	switch m.val.from.layer {
	case LayerFile:
		w.Line, w.Column = r.doc.position(m.off)
	default:
		w = r.where(m.val, w)
	}

	r.warn(w)
}

// camelKeys renames snake_case keys and drops null members, depth levels deep.
func (r *reader) camelKeys(n *node, p place, depth int) {
	if n.kind != '{' || depth == 0 {
		return
	}

	old := n.members
	n.members = make([]member, 0, len(old))
	snaked := map[string]bool{}
	for _, m := range old {
		if m.val.kind == 'n' {
			continue
		}

		name := camel(m.name)
		isSnake := name != m.name
		if other := n.get(name); other != nil {
			r.warning(m.val, append(slices.Clip(p.path), name), "two spellings of the same key are present; the camelCase one counts", "")
			if isSnake && !snaked[name] {
				continue
			}
		}

		snaked[name] = isSnake
		n.set(name, m.off, m.val)
		r.camelKeys(m.val, p.at(name, nil, ""), depth-1)
	}
}

// stringify turns numbers into texts where platforms want texts: in lists and
// in fields that hold identifiers or credentials. The digits stay as written,
// so 64-bit identifiers lose nothing.
func stringify(n *node, key string) {
	switch n.kind {
	case '{':
		for _, m := range n.members {
			stringify(m.val, m.name)
		}
	case '[':
		for _, it := range n.items {
			if it.kind == '0' {
				it.kind = '"'
			}
			stringify(it, key)
		}

	case '0':
		if idKey(key) {
			n.kind = '"'
		}
	}
}

func idKey(key string) bool {
	last := key
	if i := strings.LastIndexFunc(key, unicode.IsUpper); i >= 0 {
		last = key[i:]
	}
	switch strings.ToLower(last) {
	case "id", "token", "secret", "key", "password", "username", "number", "tag":
		return true
	}
	return false
}

// textNode makes the node of a setting given as text outside the file. quoted
// says that a JSON string is read as such, as a person at a shell means it.
func textNode(p place, text string, from origin, quoted bool) (*node, error) {
	str := &node{kind: '"', text: text, from: from}
	t := p.typ
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	if quoted && strings.HasPrefix(text, `"`) {
		if n, err := parseValue(text, from); err == nil {
			return n, nil
		}
	}

	switch {
	case p.free() || t == reflect.TypeFor[Channel]():
		n, err := parseValue(text, from)
		isJSON := err == nil // if not, it is taken as text
		if !isJSON || n.kind == '"' && !quoted {
			return str, nil
		}
		return n, nil

	case t == reflect.TypeFor[Fallback](): // a preset name is plain text
		if n, err := parseValue(text, from); err == nil && n.kind == '{' {
			return n, nil
		}
		return str, nil

	case t.Kind() == reflect.Slice:
		n, err := parseValue(text, from)
		if err == nil && n.kind == '[' {
			return n, nil
		}
		if strings.HasPrefix(strings.TrimSpace(text), "[") || t.Elem().Kind() == reflect.Struct && isSection(t.Elem()) {
			return nil, &shapeError{"a JSON list"}
		}
		return commaList(text, from), nil

	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct && isSection(t):
		n, err := parseValue(text, from)
		if err != nil || n.kind != '{' {
			return nil, &shapeError{"a JSON object"}
		}
		return n, nil
	}

	return str, nil
}

// shapeError says what a value given as text should have been.
type shapeError struct{ want string }

func (e *shapeError) Error() string { return "must be " + e.want }

func commaList(text string, from origin) *node {
	n := &node{kind: '[', from: from}
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			n.items = append(n.items, &node{kind: '"', text: s, from: from})
		}
	}
	return n
}
