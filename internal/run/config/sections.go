package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Sections say what the sections of chat platforms hold: by platform, a func
// that makes the struct of a section with its defaults (a pointer). "" is the
// struct of platforms that are not listed, which may have more keys. The
// package learns from it which keys there are, what they are for, which of them
// are credentials, and how they are written.
type Sections map[string]func() any

// Platforms are the listed ones, sorted.
func (s Sections) platforms() []string {
	var out []string
	for name := range s {
		if name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// make returns the struct of a section with its defaults. Open says that it may have
// more keys. Invalid: nothing is known about it.
func (s Sections) make(name string) (v reflect.Value, open bool) {
	kind, _, _ := strings.Cut(name, ".")
	f := s[kind]
	if open = f == nil || kind == ""; open {
		f = s[""]
	}
	if f == nil {
		return reflect.Value{}, true
	}
	return reflect.ValueOf(f()).Elem(), open
}

// platform returns the struct of the section that p stands for, with its defaults;
// invalid if p is not a section of a chat platform or nothing is known about it.
func (p place) platform() (v reflect.Value, open bool) {
	if p.typ != reflect.TypeFor[Channel]() || len(p.path) != 2 {
		return reflect.Value{}, true
	}
	return p.sections.make(p.path[1])
}

// usual returns the default of a setting in a section of a chat platform; invalid if
// p is none.
func (p place) usual() reflect.Value {
	if len(p.path) < 3 || p.path[0] != "channels" {
		return reflect.Value{}
	}
	v, _ := p.sections.make(p.path[1])
	if !v.IsValid() {
		return v
	}
	return valueAt(v, p.path[2:], false)
}

// accounts returns the sections of a chat platform: one, or a list of them.
func accounts(n *node) []*node {
	if n.kind == '[' {
		return n.items
	}
	return []*node{n}
}

// cleanSection gives the keys of a chat platform's section their names, by the
// types of its struct, and makes texts of numbers where texts are wanted. The
// digits stay as written, so 64-bit identifiers lose nothing. What the struct
// does not know is left alone, for the platform to tell.
func (r *reader) cleanSection(n *node, p place, t reflect.Type) {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil || t == reflect.TypeFor[json.RawMessage]():
		r.camelKeys(n, p, 1)
		stringify(n, p.named())
	case n.kind == '0' && (t.Kind() == reflect.String || t == reflect.TypeFor[httpsafe.Secret]()):
		n.kind = '"'
	case n.kind == '[' && t.Kind() == reflect.Slice:
		for i, it := range n.items {
			r.cleanSection(it, p.at(itoa(i), t.Elem(), ""), t.Elem())
		}
	case n.kind == '{' && t.Kind() == reflect.Map:
		n.members = slices.DeleteFunc(n.members, func(m member) bool { return m.val.kind == 'n' })
		for _, m := range n.members {
			r.cleanSection(m.val, p.at(m.name, t.Elem(), ""), t.Elem())
		}

	case n.kind == '{' && isSection(t):
		r.cleanFields(n, p, p.shapes.of(t))
	}
}

// cleanFields does so for an object whose keys are fields.
func (r *reader) cleanFields(n *node, p place, sh *shape) {
	old := n.members
	n.members = make([]member, 0, len(old))
	rank := map[string]int{}
	for _, m := range old {
		if m.val.kind == 'n' {
			continue
		}

		f, how, known := sh.match(m.name)
		if !known {
			f, how = field{name: camel(m.name)}, 1
		}

		if n.get(f.name) != nil {
			r.warning(m.val, append(slices.Clip(p.path), f.name), "two spellings of the same key are present; the camelCase one counts", "")
			if how >= rank[f.name] {
				continue
			}
		}

		rank[f.name] = how
		n.set(f.name, m.off, m.val)
		r.cleanSection(m.val, p.at(f.name, f.typ, f.tag), f.typ)
	}
}
