package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// decode fills c, which holds the defaults, from a cleaned tree.
func (r *reader) decode(c *Config, root *node) {
	r.value(reflect.ValueOf(c).Elem(), root, r.root)
}

// isSection reports whether a struct type is a section of settings rather than
// a single value.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[httpsafe.Secret]() && t != reflect.TypeFor[Raw]()
}

// unset reports whether a value stands for nothing: an empty text must not
// hide a default, because older versions wrote one for every key. On the
// command line it was typed on purpose.
func (n *node) unset(p place) bool {
	if n == nil || n.unknown {
		return true
	}
	return n.isBlank() && !p.free() && p.tag.Get("blank") != "keep" && n.from.layer != LayerFlag
}

// value decodes n into v.
func (r *reader) value(v reflect.Value, n *node, p place) {
	if n.unset(p) {
		return
	}
	if r.keep && n.kind == '"' && strings.Contains(n.text, "${") && !p.free() {
		return
	}

	switch p.typ {
	case reflect.TypeFor[Raw]():
		v.Set(reflect.ValueOf(Raw{n}))
		return
	case reflect.TypeFor[httpsafe.Secret]():
		if s, ok := r.str(n, p); ok {
			v.Set(reflect.ValueOf(httpsafe.NewSecret(strings.TrimSpace(s))))
		}
		return

	case reflect.TypeFor[Channel]():
		r.channel(v, n, p)
		return
	}

	switch v.Kind() {
	case reflect.Pointer:
		elem := reflect.New(v.Type().Elem())
		before := len(r.issues)
		r.value(elem.Elem(), n, p.as(v.Type().Elem(), p.tag))
		if len(r.issues) == before {
			v.Set(elem)
		}

	case reflect.Struct:
		r.section(v, n, p)
	case reflect.Map:
		r.mapping(v, n, p)
	case reflect.Slice:
		r.list(v, n, p)
	case reflect.String:
		if s, ok := r.str(n, p); ok {
			if s, ok = r.format(s, n, p); ok {
				v.SetString(s)
			}
		}

	case reflect.Bool:
		if b, ok := boolOf(n); ok {
			v.SetBool(b)
		} else {
			r.issue(n, p, "must be true or false", "")
		}

	case reflect.Int:
		r.integer(v, n, p)
	case reflect.Float64:
		if f, ok := numberOf(n); !ok {
			r.issue(n, p, "must be a number", "")
		} else if r.inRange(f, n, p) {
			v.SetFloat(f)
		}
	}
}

// section decodes an object of settings. A bare text is accepted by the types
// that have a field for it.
func (r *reader) section(v reflect.Value, n *node, p place) {
	if f := v.Field(0); v.Type().Field(0).Tag.Get("bare") != "" && n.kind == '"' {
		f.SetString(n.text)
		return
	}
	if n.kind != '{' {
		r.issue(n, p, "must be an object in { }", "")
		return
	}

	sh := p.shapes.of(v.Type())
	for _, m := range n.members {
		f, ok := sh.named(m.name)
		switch {
		case ok:
			r.value(v.FieldByIndex(f.index), m.val, p.at(f.name, f.typ, f.tag))
		case sh.rest != nil && !m.val.unknown:
			r.entry(v.FieldByIndex(sh.rest.index), m, p.at(m.name, sh.rest.typ.Elem(), ""))
		}
	}
}

func (r *reader) mapping(v reflect.Value, n *node, p place) {
	if n.kind != '{' {
		r.issue(n, p, "must be an object in { }", "")
		return
	}
	elem := elemTag(p.tag)
	for _, m := range n.members {
		r.entry(v, m, p.at(m.name, v.Type().Elem(), elem))
	}
}

// entry decodes one member into a map.
func (r *reader) entry(v reflect.Value, m member, p place) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	elem := reflect.New(p.typ).Elem()
	elem.Set(elementDefault(p.typ))
	r.value(elem, m.val, p)
	v.SetMapIndex(reflect.ValueOf(m.name), elem)
}

func (r *reader) list(v reflect.Value, n *node, p place) {
	if n.kind != '[' {
		r.issue(n, p, "must be a list in [ ]", "")
		return
	}

	elemType, tag := v.Type().Elem(), elemTag(p.tag)
	out := reflect.MakeSlice(v.Type(), 0, len(n.items))
	for i, it := range n.items {
		elem := reflect.New(elemType).Elem()
		elem.Set(elementDefault(elemType))
		r.value(elem, it, p.at(itoa(i), elemType, tag))
		out = reflect.Append(out, elem)
	}

	v.Set(out)
}

// channel decodes the common fields of a platform and keeps the rest as JSON.
func (r *reader) channel(v reflect.Value, n *node, p place) {
	c := defaultChannel()
	section := n
	switch n.kind {
	case '{':
		cv := reflect.ValueOf(&c).Elem()
		for _, f := range p.shapes.of(cv.Type()).fields {
			if m := n.get(f.name); m != nil {
				r.value(cv.FieldByIndex(f.index), m, p.at(f.name, f.typ, f.tag))
				section = section.understood(f.name, cv.FieldByIndex(f.index))
			}
		}

	case '[':
		c.Enabled = channelOn(n)
	default:
		r.issue(n, p, "must be an object in { }", "")
		return
	}

	c.Raw = Raw{section}
	v.Set(reflect.ValueOf(c))
}

// understood returns the section with the value of a member that was given as text
// although it is none, such as "true" from the environment, so that the
// platform's own decoder reads the same. n stays as it is.
func (n *node) understood(name string, v reflect.Value) *node {
	m := n.get(name)
	if m.kind != '"' {
		return n
	}

	text, err := json.Marshal(v.Interface())
	if err != nil {
		return n
	}

	value, err := parseValue(string(text), m.from)
	if err != nil {
		return n
	}

	out := *n
	out.members = slices.Clone(n.members)
	out.set(name, 0, value)
	return &out
}

// str reads a text; a number counts as its digits.
func (r *reader) str(n *node, p place) (string, bool) {
	switch n.kind {
	case '"', '0':
		return n.text, true
	}
	r.issue(n, p, "must be a text in double quotes", "")
	return "", false
}

func (r *reader) integer(v reflect.Value, n *node, p place) {
	f, ok := numberOf(n)
	switch {
	case !ok:
		r.issue(n, p, "must be a whole number", "")
	case f != math.Trunc(f) || math.Abs(f) > 1<<53:
		r.issue(n, p, "must be a whole number", "")
	case r.inRange(f, n, p):
		v.SetInt(int64(f))
	}
}

func (r *reader) inRange(f float64, n *node, p place) bool {
	lo, hi := p.tag.Get("min"), p.tag.Get("max")
	low, errLow := strconv.ParseFloat(lo, 64)
	high, errHigh := strconv.ParseFloat(hi, 64)
	if (errLow != nil || f >= low) && (errHigh != nil || f <= high) {
		return true
	}

	switch {
	case errLow == nil && errHigh == nil:
		r.issue(n, p, fmt.Sprintf("must be between %s and %s", lo, hi), "")
	case errLow == nil:
		r.issue(n, p, "must be at least "+lo, "")
	default:
		r.issue(n, p, "must be at most "+hi, "")
	}

	return false
}

// boolOf reads the words older versions accepted.
func boolOf(n *node) (value, ok bool) {
	switch n.kind {
	case 't', 'f':
		return n.kind == 't', true
	case '0', '"':
		switch strings.ToLower(strings.TrimSpace(n.text)) {
		case "true", "1", "1.0", "yes", "on", "t", "y":
			return true, true
		case "false", "0", "0.0", "no", "off", "f", "n":
			return false, true
		}
	}
	return false, false
}

func numberOf(n *node) (float64, bool) {
	if n.kind != '0' && n.kind != '"' {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(n.text), 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}
