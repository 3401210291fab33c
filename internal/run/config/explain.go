package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Source is one place a setting has a value in.
type Source struct {
	Layer     Layer
	Name      string // environment variable, if the layer is env
	File      string // if the layer is file
	Line      int    // if the layer is file; 1-based
	Column    int
	Value     string // JSON with credentials hidden
	Reference bool   // the file holds a ${...} reference instead of the value
}

// String names the source in a few words.
func (s Source) String() string {
	switch s.Layer {
	case LayerEnv:
		return "environment variable " + s.Name
	case LayerFile:
		via := ""
		if s.Reference {
			via = ", through a ${...} reference"
		}
		return fmt.Sprintf("%s:%d:%d%s", s.File, s.Line, s.Column, via)

	case LayerFlag:
		return "command line"
	}
	return "default"
}

// Explanation says what a setting is and why.
type Explanation struct {
	Path     string // canonical, camelCase
	Value    string // effective value as JSON, credentials hidden
	Source   Source
	Shadowed []Source // weaker sources, strongest first, the default last
	Doc      string   // what the setting is for
}

// find returns the node at a canonical path.
func (n *node) find(path []string) *node {
	for _, part := range path {
		switch {
		case n == nil:
			return nil
		case n.kind == '[':
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(n.items) {
				return nil
			}
			n = n.items[i]

		default:
			n = n.get(part)
		}
	}
	return n
}

// locatePath turns a path as typed into its place.
func (l *Loaded) locatePath(path string) (place, error) {
	parts, err := splitPath(path)
	if err != nil {
		return place{}, err
	}
	p, hint := walk(rootPlace(l.state.sections), parts, l.state.tree, false)
	if p.path == nil {
		return place{}, unknownSetting(parts, hint)
	}
	return p, nil
}

func unknownSetting(parts []string, hint string) error {
	if hint != "" {
		hint = "; " + hint
	}
	return fmt.Errorf("%w %s%s", ErrUnknown, showPath(parts), hint)
}

// IsSet reports whether any source gives the setting a value. An empty text in
// the file is none. It is how a caller tells a chosen value from a default.
func (l *Loaded) IsSet(path string) bool {
	p, err := l.locatePath(path)
	if err != nil {
		return false
	}
	n := l.state.tree.find(p.path)
	return !n.unset(p) && (n.kind != '{' || len(n.members) > 0)
}

// Get returns the effective value of a setting or section as JSON, credentials
// hidden. A setting that has no value is null.
func (l *Loaded) Get(path string) (string, error) {
	p, err := l.locatePath(path)
	if err != nil {
		return "", err
	}
	return l.display(&l.Config, p), nil
}

// Show returns the effective configuration as indented JSON, credentials hidden.
// With set it holds only what some source has set.
func (l *Loaded) Show(set bool) []byte {
	if set {
		return indent(l.state.tree.masked(rootPlace(l.state.sections)).appendJSON(nil))
	}
	return indent(hideCredentials(plainJSON(l.Config), rootPlace(l.state.sections)))
}

func indent(b []byte) []byte {
	var out bytes.Buffer
	if json.Indent(&out, b, "", "  ") != nil {
		return b
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// plainJSON marshals without escaping HTML.
func plainJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// display returns the value at p of c as JSON.
func (l *Loaded) display(c *Config, p place) string {
	v := valueAt(reflect.ValueOf(c).Elem(), p.path, false)
	if !v.IsValid() {
		if usual := p.usual(); usual.IsValid() && l.state.tree.find(p.path) == nil {
			return string(hideCredentials(plainJSON(usual.Interface()), p))
		}
		if n := l.state.tree.find(p.path); n != nil && c == &l.Config {
			return string(n.masked(p).appendJSON(nil))
		}
		return "null"
	}

	return string(hideCredentials(plainJSON(v.Interface()), p))
}

// hideCredentials masks what marshalling has left, such as an address with a
// password in a setting that is not a credential by type.
func hideCredentials(b []byte, p place) []byte {
	n, err := parseValue(string(b), origin{})
	if err != nil {
		return []byte("null")
	}
	return n.masked(p).appendJSON(nil)
}

// valueAt follows a canonical path through a Config; the result is invalid
// where the path enters free-form JSON or an entry that is not there. With usual,
// such an entry has its defaults.
func valueAt(v reflect.Value, path []string, usual bool) reflect.Value {
	for _, part := range path {
		if kind := v.Kind(); usual && (kind == reflect.Map || kind == reflect.Slice) {
			v = elementDefault(v.Type().Elem())
			continue
		}
		switch v.Kind() {
		case reflect.Struct:
			sh := shapes(nil).of(v.Type())
			f, ok := sh.named(part)
			switch {
			case ok:
				v = v.FieldByIndex(f.index)
			case sh.rest != nil && sh.rest.typ.Kind() == reflect.Map:
				v = valueAt(v.FieldByIndex(sh.rest.index), []string{part}, usual)
			default:
				return reflect.Value{}
			}

		case reflect.Map:
			v = v.MapIndex(reflect.ValueOf(part))
		case reflect.Slice:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= v.Len() {
				return reflect.Value{}
			}
			v = v.Index(i)

		default:
			return reflect.Value{}
		}
	}
	return v
}

// Explain traces a setting. For a section it traces every setting in it that
// some source has set.
func (l *Loaded) Explain(path string) ([]Explanation, error) {
	p, err := l.locatePath(path)
	if err != nil {
		return nil, err
	}

	n := l.state.tree.find(p.path)
	if n == nil || n.kind != '{' {
		if p.typ != nil && isSection(p.typ) {
			return nil, nil
		}
		return []Explanation{l.explain(n, p)}, nil
	}

	var out []Explanation
	var visit func(n *node, p place)
	visit = func(n *node, p place) {
		if n.unset(p) {
			return
		}
		if n.kind != '{' {
			out = append(out, l.explain(n, p))
			return
		}

		for _, m := range n.members {
			if c, ok := p.child(m.name, false); ok {
				visit(m.val, c)
			}
		}
	}

	visit(n, p)
	return out, nil
}

// Describe traces every setting below a path, whether or not it is set. Below an
// open map, such as providers, that is every setting of the entries there are.
func (l *Loaded) Describe(path string) ([]Explanation, error) {
	p, err := l.locatePath(path)
	if err != nil {
		return nil, err
	}

	var out []Explanation
	var visit func(n *node, p place)
	visit = func(n *node, p place) {
		var names []string
		if p.typ != nil && isSection(p.typ) {
			names = p.names()
		}

		if n != nil && n.kind == '{' {
			for _, m := range n.members {
				if !m.val.unknown && !slices.Contains(names, m.name) {
					names = append(names, m.name)
				}
			}
		}

		if len(names) == 0 {
			out = append(out, l.explain(n, p))
			return
		}

		for _, name := range names {
			if c, ok := p.child(name, false); ok {
				visit(n.get(name), c)
			}
		}
	}

	visit(l.state.tree.find(p.path), p)
	return out, nil
}

// defaultAt returns what a setting is if nothing sets it, as JSON.
func (l *Loaded) defaultAt(p place) string {
	d := defaultsFor(l.Python)
	d.Agents.Defaults.Workspace = filepath.Join(l.state.base, "workspace")
	v := p.usual()
	if !v.IsValid() {
		v = valueAt(reflect.ValueOf(d), p.path, true)
	}

	if !v.IsValid() {
		return "null"
	}
	return string(hideCredentials(plainJSON(v.Interface()), p))
}

func (l *Loaded) explain(n *node, p place) Explanation {
	e := Explanation{Path: strings.Join(p.path, "."), Value: l.display(&l.Config, p), Doc: p.tag.Get("doc")}
	var all []Source
	for ; n != nil; n = n.under {
		if n.unset(p) {
			continue
		}

		s := Source{Layer: n.from.layer, Reference: n.raw != "", Value: string(n.masked(p).appendJSON(nil))}
		switch n.from.layer {
		case LayerEnv:
			s.Name = n.from.name
		case LayerFile:
			s.File = l.File
			s.Line, s.Column = l.state.doc.position(n.from.off)
		}

		all = append(all, s)
	}

	all = append(all, Source{Layer: LayerDefault, Value: l.defaultAt(p)})
	e.Source, e.Shadowed = all[0], all[1:]
	return e
}

// MarshalJSON writes the common fields and one masked section per platform.
func (c Channels) MarshalJSON() ([]byte, error) {
	type common Channels
	b := plainJSON(common(c))
	b = b[:len(b)-1]
	for _, name := range slices.Sorted(maps.Keys(c.Each)) {
		b = append(b, ',')
		b = append(b, plainJSON(name)...)
		b = append(b, ':')
		b = append(b, plainJSON(c.Each[name])...)
	}
	return append(b, '}'), nil
}

// MarshalJSON writes the whole section, masked.
func (c Channel) MarshalJSON() ([]byte, error) { return c.Raw.MarshalJSON() }

// MarshalJSON writes a preset name as a text.
func (f Fallback) MarshalJSON() ([]byte, error) {
	if f.Preset != "" {
		return plainJSON(f.Preset), nil
	}
	type settings Fallback
	return plainJSON(settings(f)), nil
}
