package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// place is a spot in the tree of settings, whether or not a value stands
// there: its canonical path and what the Go type says about it.
type place struct {
	path     []string
	typ      reflect.Type // nil: free-form JSON
	tag      reflect.StructTag
	shapes   shapes
	sections Sections
}

func rootPlace(s Sections) place {
	return place{typ: reflect.TypeFor[Config](), shapes: shapes{}, sections: s}
}

func (p place) at(name string, typ reflect.Type, tag reflect.StructTag) place {
	return place{append(slices.Clip(p.path), name), typ, tag, p.shapes, p.sections}
}

// as returns the same spot seen as another type.
func (p place) as(typ reflect.Type, tag reflect.StructTag) place {
	return place{p.path, typ, tag, p.shapes, p.sections}
}

// free reports whether anything goes below this place.
func (p place) free() bool { return p.typ == nil || p.typ == reflect.TypeFor[Raw]() }

// shape lists the settings of a section and its catch-all, if it has one.
type shape struct {
	fields []field
	rest   *field
}

// field is one setting of a section.
type field struct {
	index []int
	name  string // camelCase
	alias string // older name
	typ   reflect.Type
	tag   reflect.StructTag
}

// shapes remembers the sections seen below one root: reading struct tags is
// most of the work of a load. It belongs to one goroutine.
type shapes map[reflect.Type]*shape

func (s shapes) of(t reflect.Type) *shape {
	if sh, ok := s[t]; ok {
		return sh
	}
	sh := &shape{fields: make([]field, 0, t.NumField())}
	s.collect(sh, t, nil)
	if s != nil {
		s[t] = sh
	}
	return sh
}

// collect adds the fields of a struct, and of those embedded in it, to a shape.
func (s shapes) collect(sh *shape, t reflect.Type, at []int) {
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(slices.Clip(at), i)
		if sf.Anonymous && sf.Type.Kind() == reflect.Struct {
			s.collect(sh, sf.Type, index)
			continue
		}
		if !sf.IsExported() {
			continue
		}

		f := field{index: index, name: sf.Tag.Get("json"), typ: sf.Type, tag: sf.Tag}
		f.name, _, _ = strings.Cut(f.name, ",")
		if f.typ == reflect.TypeFor[json.RawMessage]() {
			f.typ = nil
		}
		if strings.Contains(string(sf.Tag), "alias:") { // cheaper than parsing the tag
			f.alias = sf.Tag.Get("alias")
		}

		switch {
		case f.name != "-":
			sh.fields = append(sh.fields, f)
		case sf.Tag.Get("rest") != "":
			sh.rest = &f
		}
	}
}

// named returns the field with a canonical name.
func (sh *shape) named(name string) (field, bool) {
	for _, f := range sh.fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// match finds the field a key stands for. rank says how strong the spelling
// is: 0 camelCase, 1 snake_case, 2 and 3 the older name.
func (sh *shape) match(key string) (f field, rank int, ok bool) {
	if f, ok := sh.named(key); ok {
		return f, 0, true
	}

	for _, f := range sh.fields {
		switch {
		case snakeEqual(f.name, key):
			return f, 1, true
		case f.alias != "" && f.alias == key:
			return f, 2, true
		case f.alias != "" && snakeEqual(f.alias, key):
			return f, 3, true
		}
	}

	return field{}, 0, false
}

// snakeEqual reports whether key is the snake_case form of a camelCase name.
func snakeEqual(name, key string) bool {
	j := 0
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			if j >= len(key) || key[j] != '_' {
				return false
			}
			j++
			c |= 0x20
		}

		if j >= len(key) || key[j] != c {
			return false
		}
		j++
	}

	return j == len(key)
}

// child returns the place of a key below p. loose ignores case, dashes and
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
		return p.section(t, key, loose)

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

func (p place) section(t reflect.Type, key string, loose bool) (place, bool) {
	sh := p.shape(t)
	f, _, ok := sh.match(key)
	if !ok && loose {
		want := fold(key)
		for _, f = range sh.fields {
			if ok = fold(f.name) == want || f.alias != "" && fold(f.alias) == want; ok {
				break
			}
		}
	}

	switch {
	case ok:
		return p.at(f.name, f.typ, f.tag), true
	case t == reflect.TypeFor[Channel]() && strings.Trim(key, "0123456789") == "": // one of a list of accounts
		return p.at(key, nil, ""), true
	case sh.rest == nil:
		return place{}, false
	case sh.rest.typ.Kind() == reflect.Map:
		return p.at(key, sh.rest.typ.Elem(), ""), true
	}

	return p.at(key, nil, ""), true
}

// shape lists the settings of the section at p, which has this type.
func (p place) shape(t reflect.Type) *shape {
	sh := p.shapes.of(t)
	own, open := p.platform()
	if !own.IsValid() {
		return sh
	}

	known := *p.shapes.of(own.Type())
	if open {
		known.rest = sh.rest
	}
	return &known
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
	var out []string
	for _, f := range p.shape(p.typ).fields {
		out = append(out, f.name)
	}
	return out
}

// Paths lists the settings that are known by name, in the order of the
// sections; of open maps such as providers only the chat platforms are among
// them.
func Paths(s Sections) []string {
	var out []string
	var visit func(p place)
	visit = func(p place) {
		for _, f := range p.shape(p.typ).fields {
			if c := p.at(f.name, f.typ, f.tag); f.typ != nil && isSection(f.typ) {
				visit(c)
			} else {
				out = append(out, strings.Join(c.path, "."))
			}
		}
		if p.typ == reflect.TypeFor[Channels]() {
			for _, name := range s.platforms() {
				visit(p.at(name, reflect.TypeFor[Channel](), ""))
			}
		}
	}

	visit(rootPlace(s))
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

// snake turns camelCase or dashes into snake_case; a run of capitals is one
// word.
func snake(s string) string {
	var b strings.Builder
	rs := []rune(s)
	for i, r := range rs {
		switch {
		case r == '-':
			b.WriteByte('_')
		case unicode.IsUpper(r):
			starts := i > 0 && !unicode.IsUpper(rs[i-1]) || i > 0 && i+1 < len(rs) && unicode.IsLower(rs[i+1])
			if starts && rs[i-1] != '_' && rs[i-1] != '-' {
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

// suggest returns a hint naming the candidate closest to name, or "".
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

// distance returns the number of insertions, deletions, replacements and swaps of
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

// elementDefault returns what the fields of a map or list element start from.
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
