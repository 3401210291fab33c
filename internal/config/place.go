package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// place is a spot in the tree of settings, whether or not a value stands
// there: its canonical path and what the Go type says about it.
type place struct {
	path []string
	typ  reflect.Type // nil: free-form JSON
	tag  reflect.StructTag
}

func rootPlace() place { return place{typ: reflect.TypeFor[Config]()} }

func (p place) at(name string, typ reflect.Type, tag reflect.StructTag) place {
	return place{path: append(slices.Clip(p.path), name), typ: typ, tag: tag}
}

// free reports whether anything goes below this place.
func (p place) free() bool { return p.typ == nil || p.typ == reflect.TypeFor[Raw]() }

// field is one setting of a section.
type field struct {
	index   int
	name    string // camelCase
	aliases []string
	typ     reflect.Type
	tag     reflect.StructTag
}

// fieldsOf lists the settings of a section and its catch-all, if it has one.
func fieldsOf(t reflect.Type) (fields []field, rest *field) {
	fields = make([]field, 0, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		f := field{index: i, name: sf.Tag.Get("json"), typ: sf.Type, tag: sf.Tag}
		if a := sf.Tag.Get("alias"); a != "" {
			f.aliases = []string{a}
		}
		switch {
		case f.tag.Get("rest") != "":
			rest = &f
		case f.name != "-":
			fields = append(fields, f)
		}
	}
	return fields, rest
}

// spellings are the keys a setting may have in a file, strongest first.
func (f field) spellings() []string {
	out := []string{f.name}
	for _, n := range append([]string{f.name}, f.aliases...) {
		for _, s := range []string{n, snake(n)} {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// child is the place of a key below p. loose ignores case, dashes and
// underscores, as names of environment variables need.
func (p place) child(key string, loose bool) (place, bool) {
	if p.free() {
		return p.at(key, nil, ""), true
	}
	t := p.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		if t == reflect.TypeFor[httpsafe.Secret]() {
			return place{}, false
		}
		fields, rest := fieldsOf(t)
		for _, f := range fields {
			for _, s := range f.spellings() {
				if s == key || loose && fold(s) == fold(key) {
					return p.at(f.name, f.typ, f.tag), true
				}
			}
		}
		switch {
		case rest == nil:
			return place{}, false
		case rest.typ.Kind() == reflect.Map:
			return p.at(key, rest.typ.Elem(), ""), true
		}
		return p.at(key, nil, ""), true
	case reflect.Map:
		if p.tag.Get("names") == "snake" {
			key = snake(key)
		}
		return p.at(key, t.Elem(), elemTag(p.tag)), true
	case reflect.Slice:
		if key == "" || strings.Trim(key, "0123456789") != "" {
			return place{}, false
		}
		return p.at(key, t.Elem(), elemTag(p.tag)), true
	}
	return place{}, false
}

// elemTag keeps the limits that apply to the elements of a list or map.
func elemTag(tag reflect.StructTag) reflect.StructTag {
	var b strings.Builder
	for _, k := range []string{"enum", "min", "max", "camel"} {
		if v, ok := tag.Lookup(k); ok {
			b.WriteString(k + `:"` + v + `" `)
		}
	}
	return reflect.StructTag(b.String())
}

// names lists the keys known below p.
func (p place) names() []string {
	if p.free() || p.typ.Kind() != reflect.Struct {
		return nil
	}
	fields, _ := fieldsOf(p.typ)
	out := make([]string, 0, len(fields))
	for _, f := range fields {
		out = append(out, f.name)
	}
	return out
}

// splitPath reads a dotted path; a backslash keeps the next character, so
// names with dots can be given. a[0] is the same as a.0.
func splitPath(path string) ([]string, error) {
	var parts []string
	var b strings.Builder
	done := func() error {
		if b.Len() == 0 {
			return errors.New("the path has an empty part")
		}
		parts = append(parts, b.String())
		b.Reset()
		return nil
	}
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\' && i+1 < len(path):
			i++
			b.WriteByte(path[i])
		case c == '.' || c == '[':
			if err := done(); err != nil {
				return nil, err
			}
		case c == ']' && (i+1 == len(path) || path[i+1] == '.' || path[i+1] == '['):
			if i+1 < len(path) && path[i+1] == '[' {
				continue
			}
		default:
			b.WriteByte(c)
		}
	}
	if err := done(); err != nil {
		return nil, err
	}
	return parts, nil
}

// snake turns camelCase or dashes into snake_case.
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '-':
			b.WriteByte('_')
		case unicode.IsUpper(r):
			if i > 0 && !strings.HasSuffix(b.String(), "_") {
				b.WriteByte('_')
			}
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// camel turns snake_case into camelCase; other names are left alone.
func camel(s string) string {
	if !strings.Contains(s, "_") || strings.HasPrefix(s, "_") || s != strings.ToLower(s) {
		return s
	}
	var b strings.Builder
	up := false
	for _, r := range s {
		switch {
		case r == '_':
			up = true
		case up:
			b.WriteRune(unicode.ToUpper(r))
			up = false
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// fold reduces a name to what its spellings have in common.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// suggest is a hint naming the candidate closest to name, or "".
func suggest(name string, candidates []string) string {
	best, dist := "", 3
	for _, c := range candidates {
		switch d := distance(fold(name), fold(c)); {
		case d < dist && (d <= len(c)/2):
			best, dist = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours between a and b; at least 3 is as good as far.
func distance(a, b string) int {
	if a == b {
		return 0
	}
	if len(a)-len(b) > 2 || len(b)-len(a) > 2 || len(a) > 64 {
		return 3
	}
	var before []int
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		cur := make([]int, len(b)+1)
		cur[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			cur[j+1] = min(prev[j+1]+1, cur[j]+1, prev[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cur[j+1] = min(cur[j+1], before[j-1]+1)
			}
		}
		before, prev = prev, cur
	}
	return prev[len(b)]
}

// elementDefault is what the fields of a map or list element start from.
func elementDefault(t reflect.Type) reflect.Value {
	switch t {
	case reflect.TypeFor[Preset]():
		return reflect.ValueOf(defaultPreset())
	case reflect.TypeFor[Fallback]():
		return reflect.ValueOf(defaultFallback())
	case reflect.TypeFor[Channel]():
		return reflect.ValueOf(defaultChannel())
	}
	return reflect.Zero(t)
}
