package config

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// ErrUnknown is in the chain of an error about a name that no setting has.
var ErrUnknown = errors.New("unknown setting")

// Patch changes several settings at once, given as a JSON merge patch of the
// whole configuration: members are settings by name, null takes one out of the
// file, a list replaces the list that is there. It is refused as a whole when a
// name is unknown, which is ErrUnknown, or when the file would be wrong in a
// new way, which is an *Error. A text that is the mask of a hidden value leaves
// that value as it is. The result names the settings that are different now.
func (f *File) Patch(patch json.RawMessage) (changed []string, err error) {
	n, err := parseValue(string(patch), origin{})
	if err != nil || n.kind != '{' {
		return nil, errors.New("a change of settings must be an object in { }")
	}

	r := &reader{doc: f.doc, root: rootPlace(f.sections), keep: true}
	tree := f.doc.tree(&f.doc.value, make([]string, 0, 8), func(Problem) {})
	r.clean(tree, r.root)
	saved := f.doc.value.Clone()
	p := patching{file: f}
	err = p.members(r.root, tree, n)
	if err == nil && len(p.changed) > 0 {
		err = f.verify()
	}

	if err != nil {
		f.doc.value = saved
		return nil, err
	}

	f.changed = f.changed || len(p.changed) > 0
	return p.changed, nil
}

// patching is a patch on its way into a file.
type patching struct {
	file    *File
	changed []string
}

// members applies an object of a patch at a place, where the file has have.
func (p *patching) members(at place, have, patch *node) error {
	for _, m := range patch.members {
		c, hint := walk(at, []string{m.name}, have, false)
		if c.path == nil {
			return unknownSetting(append(at.path[:len(at.path):len(at.path)], m.name), hint)
		}
		if err := p.value(c, have.get(c.path[len(c.path)-1]), m.val); err != nil {
			return err
		}
	}
	return nil
}

func (p *patching) value(at place, have, patch *node) error {
	switch {
	case patch.kind == 'n':
		if p.file.remove(at) {
			p.changed = append(p.changed, at.dotted())
		}
		return nil

	case patch.kind == '{' && at.open() && (len(patch.members) > 0 || isObject(have)):
		return p.members(at, have, patch)
	case patch.kind == '"' && patch.text == mask:
		return nil
	case patch.masks():
		if have != nil && string(have.masked(at).appendJSON(nil)) == string(patch.appendJSON(nil)) {
			return nil
		}
		return &Error{Kind: InvalidSchema, File: p.file.path, Issues: []Problem{{
			Path: showPath(at.path), Message: "*** stands for a hidden value, which cannot be kept in a new list", Hint: "give all values of the list",
		}}}

	case string(p.file.at(at)) == string(patch.appendJSON(nil)):
		return nil
	}

	if err := p.file.insert(at, patch); err != nil {
		return err
	}

	p.changed = append(p.changed, at.dotted())
	return nil
}

// open reports whether there are settings below p.
func (p place) open() bool {
	return p.free() || p.typ.Kind() == reflect.Map || isSection(p.typ)
}

// masks reports whether a hidden value is somewhere in n.
func (n *node) masks() bool {
	for _, m := range n.members {
		if m.val.masks() {
			return true
		}
	}

	for _, it := range n.items {
		if it.masks() {
			return true
		}
	}
	return n.kind == '"' && n.text == mask
}

// at returns the value at a place as it stands in the file, nil without one.
func (f *File) at(p place) json.RawMessage {
	cur, at := &f.doc.value, rootPlace(f.sections)
	for _, part := range p.path {
		if cur = below(cur, at, part); cur == nil {
			return nil
		}
		at, _ = at.child(part, false)
	}

	v := cur.Clone()
	v.Minimize()
	return json.RawMessage(v.Pack())
}

// remove takes a setting out of the text in all its spellings and reports
// whether it was there.
func (f *File) remove(p place) (found bool) {
	cur, at := &f.doc.value, rootPlace(f.sections)
	last := len(p.path) - 1
	for _, part := range p.path[:last] {
		if cur = below(cur, at, part); cur == nil {
			return false
		}
		at, _ = at.child(part, false)
	}

	switch t := cur.Value.(type) {
	case *hujson.Object:
		for i := spelled(t, at, p.path[last]); i >= 0; i = spelled(t, at, p.path[last]) {
			removeMember(t, i)
			found = true
		}
	case *hujson.Array:
		if i, err := strconv.Atoi(p.path[last]); err == nil && i >= 0 && i < len(t.Elements) {
			removeElement(t, i)
			found = true
		}
	}

	return found
}

// Escape makes one part of a path of a name that has dots.
func Escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, ".", `\.`, "[", `\[`).Replace(name)
}

// Nest makes a merge patch of settings that are given by their paths, such as
// agents.defaults.model. Names without dots are members as they are.
func Nest(patch json.RawMessage) (map[string]any, error) {
	var flat map[string]json.RawMessage
	if err := json.Unmarshal(patch, &flat); err != nil {
		return nil, errors.New("a change of settings must be an object in { }")
	}

	out := map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(flat)) {
		parts, err := splitPath(path)
		if err != nil {
			return nil, err
		}

		at, last := out, len(parts)-1
		for _, part := range parts[:last] {
			if at[part] == nil {
				at[part] = map[string]any{}
			}
			below, ok := at[part].(map[string]any)
			if !ok {
				return nil, errors.New(showPath(parts) + " is changed twice")
			}
			at = below
		}

		if at[parts[last]] != nil {
			return nil, errors.New(showPath(parts) + " is changed twice")
		}
		at[parts[last]] = flat[path]
	}

	return out, nil
}
