package config

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

func itoa(i int) string { return strconv.Itoa(i) }

const envPrefix = "NANOBOT_"

// overlay lays environment variables and then overrides over the file.
func (r *reader) overlay(root *node, o Options) {
	r.legacyEnv(root)
	type setting struct {
		name  string
		parts []string
		value string
	}

	var list []setting
	for _, kv := range o.Env {
		name, value, _ := strings.Cut(kv, "=")
		if len(name) <= len(envPrefix) || !strings.EqualFold(name[:len(envPrefix)], envPrefix) || value == "" {
			continue // an empty variable is as good as none, as in most shells
		}
		list = append(list, setting{name, strings.Split(name[len(envPrefix):], "__"), value})
	}

	// Whole objects first, so that a variable for one key of them wins.
	slices.SortStableFunc(list, func(a, b setting) int {
		return cmp.Or(cmp.Compare(len(a.parts), len(b.parts)), strings.Compare(a.name, b.name))
	})
	for _, s := range list {
		r.setEnv(root, s.parts, s.value, origin{layer: LayerEnv, name: s.name})
	}

	for _, ov := range o.Overrides {
		from := origin{layer: LayerFlag, name: ov.Path}
		parts, err := splitPath(ov.Path)
		if err != nil {
			r.issues = append(r.issues, Problem{Message: err.Error(), Env: "the command line"})
			continue
		}

		p, bad := walk(r.root, parts, root, false)
		if bad != "" {
			r.issues = append(r.issues, Problem{Path: showPath(parts), Message: "unknown setting", Hint: bad, Env: "the command line"})
			continue
		}
		r.setText(root, p, ov.Value, from)
	}
}

// legacyEnv reads the short variable names that older versions had.
func (r *reader) legacyEnv(root *node) {
	if !slices.ContainsFunc(r.env, func(kv string) bool {
		return len(kv) > len(envPrefix) && strings.EqualFold(kv[:len(envPrefix)], envPrefix)
	}) {
		return
	}

	at := place{path: []string{"agents", "defaults", "limits"}, shapes: r.root.shapes, sections: r.root.sections}
	for _, f := range at.shapes.of(reflect.TypeFor[Limits]()).fields {
		name := f.tag.Get("env")
		value, _ := r.lookup(name)
		if name == "" || value == "" {
			continue
		}

		if top, err := strconv.Atoi(f.tag.Get("max")); err == nil {
			if v, err := strconv.Atoi(value); err == nil && v > top {
				value = itoa(top) // older versions capped it silently
			}
		}

		r.setText(root, at.at(f.name, f.typ, f.tag), value, origin{layer: LayerEnv, name: name})
	}
}

// setEnv places one variable. Names whose first part is not a section are not
// ours: the prefix is shared with switches of the process.
func (r *reader) setEnv(root *node, parts []string, value string, from origin) {
	if _, ok := r.root.child(parts[0], true); !ok || slices.Contains(parts, "") {
		return
	}

	p, bad := walk(r.root, parts, root, true)
	if p.path == nil {
		w := Problem{
			Path:    showPath(lower(parts)),
			Message: "unknown setting, ignored",
			Hint:    bad,
			Env:     from.name,
			Unknown: true,
		}

		r.warn(w)
		return
	}

	r.setText(root, p, value, from)
}

func lower(parts []string) []string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = camel(strings.ToLower(p))
	}
	return out
}

// walk finds the place of a path below p. Below open maps it prefers the spelling that
// the tree already has. loose is for names of variables, which have lost their
// case. It returns no path, and a hint, when there is no such setting.
func walk(p place, parts []string, n *node, loose bool) (place, string) {
	for _, part := range parts {
		key := part
		known := slices.Contains(p.names(), key)
		if !known {
			key = present(n, part, loose)
		}

		if key == part && !known {
			if loose {
				key = strings.ToLower(part)
			}
			if loose && p.free() || p.typ == reflect.TypeFor[Channel]() || p.tag.Get("camel") != "" && p.free() {
				key = camel(key)
			}
		}

		c, ok := p.child(key, loose)
		if !ok {
			hint := suggest(part, p.names())
			if hint == "" && len(p.names()) == 0 {
				hint = showPath(p.path) + " is a single value"
			}
			return place{}, hint
		}

		p = c
		n = n.get(p.path[len(p.path)-1])
	}
	return p, ""
}

// present returns the spelling of key that n has, or key itself.
func present(n *node, key string, loose bool) string {
	if n == nil || n.get(key) != nil {
		return key
	}
	for _, m := range n.members {
		if loose && fold(m.name) == fold(key) || m.name == camel(key) {
			return m.name
		}
	}
	return key
}

// setText places a value given as text.
func (r *reader) setText(root *node, p place, text string, from origin) {
	n, err := textNode(p, text, from, false)
	if err != nil {
		r.issue(&node{from: from}, p, err.Error(), "")
		return
	}

	r.clean(n, p)
	if len(p.path) > 1 && p.path[0] == "channels" && p.typ == nil {
		stringify(n, p.path[len(p.path)-1])
	}
	merge(root, p.path, n)
}

// merge puts v at path. Objects are merged key by key, everything else is
// replaced; the replaced value stays reachable for explanations.
func merge(root *node, path []string, v *node) {
	n := root
	for i, part := range path {
		if n.kind == '[' {
			idx, err := strconv.Atoi(part)
			if err != nil || idx < 0 || idx >= len(n.items) {
				return
			}
			if i == len(path)-1 {
				v.under, n.items[idx] = n.items[idx], v
				return
			}

			n = n.items[idx]
			continue
		}

		next := n.get(part)
		if i == len(path)-1 {
			if next != nil && next.kind == '{' && v.kind == '{' {
				for _, m := range v.members {
					merge(next, []string{m.name}, m.val)
				}
				return
			}

			v.under = next
			n.set(part, 0, v)
			return
		}

		if next == nil || next.kind != '{' && next.kind != '[' {
			next = &node{kind: '{', from: v.from, under: next}
			n.set(part, 0, next)
		}
		n = next
	}
}
