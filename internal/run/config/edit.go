package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// File is the text of a config file under edit. Edits touch only the named
// path: order, comments, unknown keys and ${...} references elsewhere stay as
// they are. Nothing reaches the disk before Save. A File is for one goroutine.
type File struct {
	path    string
	data    []byte // as read
	exists  bool
	doc     *document
	before  []Problem // what was wrong before the edits
	changed bool

	sections Sections
}

// Open reads a file for editing. A file that does not exist starts as NewFile;
// a file that is not JSON is an *Error, since there is no path to edit in it.
func Open(path string, known Sections) (*File, error) {
	f := &File{path: path, exists: true, sections: known}
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.exists = false
		err = nil
	}

	if err != nil {
		return nil, err
	}

	f.data = data
	text := data
	if !f.exists {
		text = NewFile()
	}

	if f.doc, err = parse(path, text); err != nil {
		return nil, err
	}

	f.before = f.judge(text)
	for _, m := range migrations() {
		m.apply(f.doc.root(), func(int, Problem) {})
	}
	return f, nil
}

// Text returns the file as it would be saved.
func (f *File) Text() []byte { return f.doc.pack() }

// judge checks a text on its own, leaving ${...} references alone: whether
// they resolve depends on the environment of the process that will run.
func (f *File) judge(text []byte) (issues []Problem) {
	doc, err := parse(f.path, text)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			return e.Issues
		}
		return []Problem{{Message: err.Error()}}
	}

	r := &reader{doc: doc, root: rootPlace(f.sections), keep: true}
	for _, m := range migrations() {
		m.apply(doc.root(), r.warnAt)
	}

	tree := doc.tree(&doc.value, make([]string, 0, 8), r.double)
	r.clean(tree, r.root)
	r.python = isPython(tree)
	c := defaultsFor(r.python)
	r.decode(&c, tree)
	r.check(&c, tree)
	return r.issues
}

// find returns the place of a path as typed.
func (f *File) find(path string) (place, error) {
	parts, err := splitPath(path)
	if err != nil {
		return place{}, err
	}

	r := &reader{doc: f.doc, root: rootPlace(f.sections), keep: true}
	tree := f.doc.tree(&f.doc.value, make([]string, 0, 8), func(Problem) {})
	r.clean(tree, r.root)
	p, hint := walk(r.root, parts, tree, false)
	if p.path == nil {
		return place{}, unknownSetting(parts, hint)
	}
	return p, nil
}

// Get returns the value at path as it stands in the file, nil without one. It may
// hold credentials.
func (f *File) Get(path string) (json.RawMessage, error) {
	p, err := f.find(path)
	if err != nil {
		return nil, err
	}
	return f.at(p), nil
}

// Set puts a value given as a person types it: text for text settings, JSON or
// a comma-separated list for lists, JSON for objects. The edit is refused when
// it would make the file wrong in a new way.
func (f *File) Set(path, value string) error {
	p, err := f.find(path)
	if err != nil {
		return err
	}

	n, err := textNode(p, value, origin{}, true)
	if err != nil {
		return fmt.Errorf("%s %w", showPath(p.path), err)
	}

	n.natural(p)
	return f.set(p, n)
}

// SetValue puts a Go value, written as JSON.
func (f *File) SetValue(path string, value any) error {
	p, err := f.find(path)
	if err != nil {
		return err
	}

	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", showPath(p.path), err)
	}

	n, err := parseValue(string(b), origin{})
	if err != nil {
		return fmt.Errorf("%s: %w", showPath(p.path), err)
	}
	return f.set(p, n)
}

// set changes the text and keeps the change only if it is not worse.
func (f *File) set(p place, n *node) error {
	saved := f.doc.value.Clone()
	if err := f.insert(p, n); err != nil {
		return err
	}
	if err := f.verify(); err != nil {
		f.doc.value = saved
		return err
	}

	f.changed = true
	return nil
}

// verify refuses problems that were not there before.
func (f *File) verify() error {
	issues := f.judge(f.Text())
	var fresh []Problem
	for _, i := range issues {
		same := func(o Problem) bool { return o.Path == i.Path && o.Message == i.Message }
		if !slices.ContainsFunc(f.before, same) {
			i.Line, i.Column = 0, 0 // of a text that was never written
			fresh = append(fresh, i)
		}
	}

	if len(fresh) == 0 {
		return nil
	}
	return &Error{Kind: InvalidSchema, File: f.path, Issues: fresh, Advice: "Nothing was changed."}
}

// below returns the value under a canonical key, nil without one.
func below(v *hujson.Value, at place, part string) *hujson.Value {
	switch t := v.Value.(type) {
	case *hujson.Object:
		if i := spelled(t, at, part); i >= 0 {
			return &t.Members[i].Value
		}
	case *hujson.Array:
		if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(t.Elements) {
			return &t.Elements[i]
		}
	}
	return nil
}

// spelled returns the index of the member that counts for a canonical key.
func spelled(o *hujson.Object, at place, part string) int {
	names := []string{part, snake(part)}
	switch {
	case at.free() || at.typ == reflect.TypeFor[Channel]():
	case at.typ.Kind() == reflect.Struct:
		if f, ok := at.shapes.of(at.typ).named(part); ok && f.alias != "" {
			names = append(names, f.alias, snake(f.alias))
		}
	case at.tag.Get("names") == "snake":
		names = []string{camel(part), strings.ReplaceAll(part, "_", "-"), part}
		for _, m := range o.Members {
			if n := literal(m.Name).String(); snake(n) == part && !slices.Contains(names, n) {
				names = append([]string{n}, names...)
			}
		}

	default:
		names = []string{part}
	}

	for _, name := range names {
		for i, m := range slices.Backward(o.Members) {
			if literal(m.Name).String() == name {
				return i
			}
		}
	}

	return -1
}

// insert puts n at p, making the objects on the way.
func (f *File) insert(p place, n *node) error {
	lay := f.style()
	cur, at, indent := &f.doc.value, rootPlace(f.sections), ""
	multi := true // the object cur is spread over lines, or may be
	for i, part := range p.path {
		switch t := cur.Value.(type) {
		case *hujson.Object:
			at0 := at
			at, _ = at.child(part, false)
			j := spelled(t, at0, part)
			if j < 0 {
				name := part
				if at0.tag.Get("names") == "snake" {
					name = camel(part)
				}
				lay.add(t, name, nest(p.path[i+1:], n), indent, multi)
				return nil
			}

			m := &t.Members[j]
			l := lead(m.Name.BeforeExtra)
			if multi = l != nil; multi {
				indent = strings.TrimLeft(string(l), "\r\n")
			}
			cur = &m.Value

		case *hujson.Array:
			at, _ = at.child(part, false)
			j, err := strconv.Atoi(part)
			switch {
			case err != nil || j < 0 || j > len(t.Elements):
				return fmt.Errorf("%s: the list has %d entries", showPath(p.path[:i+1]), len(t.Elements))
			case j == len(t.Elements):
				appendElement(t, lay.value(nest(p.path[i+1:], n), indent, false))
				return nil
			}

			multi = false
			cur = &t.Elements[j]

		default: // null or a value of another kind gives way
			cur.Value = lay.value(nest(p.path[i:], n), indent, multi).Value
			return nil
		}
	}

	cur.Value = lay.value(n, indent, multi).Value
	return nil
}

// nest wraps n in one object per path part.
func nest(path []string, n *node) *node {
	for _, part := range slices.Backward(path) {
		n = &node{kind: '{', members: []member{{name: part, val: n}}}
	}
	return n
}

// Unset removes a setting from the file in all its spellings and reports
// whether it was there.
func (f *File) Unset(path string) (bool, error) {
	p, err := f.find(path)
	if err != nil {
		return false, err
	}

	saved := f.doc.value.Clone()
	if !f.remove(p) {
		return false, nil
	}
	if err := f.verify(); err != nil {
		f.doc.value = saved
		return false, err
	}

	f.changed = true
	return true, nil
}

// style is how a file is written.
type style struct{ unit, newline string }

func (f *File) style() style {
	s := style{unit: "  ", newline: "\n"}
	if bytes.Contains(f.doc.text, []byte("\r\n")) {
		s.newline = "\r\n"
	}

	if o := f.doc.root(); len(o.Members) > 0 {
		if l := lead(o.Members[0].Name.BeforeExtra); l != nil {
			if u := strings.TrimLeft(string(l), "\r\n"); u != "" {
				s.unit = u
			}
		}
	}

	return s
}

// add appends a member to o, whose own line is indented by indent.
func (s style) add(o *hujson.Object, name string, n *node, indent string, multi bool) {
	inner := indent + s.unit
	if len(o.Members) > 0 {
		l := lead(o.Members[len(o.Members)-1].Name.BeforeExtra)
		if multi = l != nil; multi {
			inner = strings.TrimLeft(string(l), "\r\n")
		}
	} else if multi && lead(o.AfterExtra) == nil {
		o.AfterExtra = append(slices.Clone(o.AfterExtra), s.newline+indent...)
	}

	v := s.value(n, inner, multi)
	v.BeforeExtra = hujson.Extra(" ")
	appendMember(o, hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: v}, s.unit)
}

// value lays out n for a line indented by indent.
func (s style) value(n *node, indent string, multi bool) hujson.Value {
	var b []byte
	if multi {
		b = s.pretty(nil, n, indent)
	} else {
		b = n.appendJSON(nil)
	}

	v, err := hujson.Parse(b)
	if err != nil { // cannot happen: the text was just generated
		return hujson.Value{Value: hujson.String("")}
	}

	v.BeforeExtra, v.AfterExtra = nil, nil
	return v
}

func (s style) pretty(b []byte, n *node, indent string) []byte {
	flat := func(it *node) bool { return it.kind != '{' && it.kind != '[' }
	switch {
	case n.kind == '{' && len(n.members) > 0:
		b = append(b, '{')
		for i, m := range n.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, s.newline+indent+s.unit...)
			b = append(b, hujson.String(m.name)...)
			b = append(b, ": "...)
			b = s.pretty(b, m.val, indent+s.unit)
		}

		return append(append(b, s.newline+indent...), '}')

	case n.kind == '[' && !slices.ContainsFunc(n.items, func(it *node) bool { return !flat(it) }):
		b = append(b, '[')
		for i, it := range n.items {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = it.appendJSON(b)
		}
		return append(b, ']')

	case n.kind == '[':
		b = append(b, '[')
		for i, it := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, s.newline+indent+s.unit...)
			b = s.pretty(b, it, indent+s.unit)
		}

		return append(append(b, s.newline+indent...), ']')
	}

	return n.appendJSON(b)
}
