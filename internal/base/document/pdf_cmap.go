package document

import (
	"cmp"
	"io"
	"slices"
	"sort"
	"unicode/utf16"
)

// cmap is a table from the codes of a font to text.
type cmap struct {
	ranges []codeRange
	single map[codeKey]string
	spans  []codeSpan // sorted by start once loaded
}

// codeRange says which codes of a length there are.
type codeRange struct {
	size   int
	lo, hi int
}

type codeKey struct{ size, code int }

// codeSpan maps consecutive codes to consecutive characters.
type codeSpan struct {
	size, lo, hi int
	dst          []rune // for lo; the last one counts up
}

// loadCMap reads a table, as far as it goes.
func (d *pdf) loadCMap(s stream) *cmap {
	m := &cmap{single: map[codeKey]string{}}
	r, err := d.decode(s)
	if err != nil {
		return m
	}

	l := newLexer(io.LimitReader(r, maxFontTables), 0, false)
	var args []object
	for {
		o, err := l.next()
		if err != nil {
			break
		}

		l.budget = maxElements
		k, isWord := o.(keyword)
		if !isWord {
			if len(args) < 1024 {
				args = append(args, o)
			}
			continue
		}

		switch k {
		case "endcodespacerange":
			m.addRanges(args)
		case "endbfchar":
			d.addChars(m, args)
		case "endbfrange":
			d.addSpans(m, args)
		}

		args = args[:0]
	}

	slices.SortStableFunc(m.spans, func(a, b codeSpan) int { return cmp.Compare(a.lo, b.lo) })
	return m
}

func codeOf(o object) (code, size int, ok bool) {
	s, ok := o.(text)
	if !ok || s == "" || len(s) > 4 {
		return 0, 0, false
	}
	for i := range len(s) {
		code = code<<8 | int(s[i])
	}
	return code, len(s), true
}

func (m *cmap) addRanges(args []object) {
	for i := 0; i+1 < len(args) && len(m.ranges) < 100; i += 2 {
		lo, size, ok := codeOf(args[i])
		hi, _, ok2 := codeOf(args[i+1])
		if ok && ok2 {
			m.ranges = append(m.ranges, codeRange{size, lo, hi})
		}
	}
}

func (d *pdf) addChars(m *cmap, args []object) {
	for i := 0; i+1 < len(args) && d.glyphs < maxGlyphs; i += 2 {
		code, size, ok := codeOf(args[i])
		if !ok {
			continue
		}

		switch dst := args[i+1].(type) {
		case text:
			m.single[codeKey{size, code}] = unicodeText(dst)
		case name:
			m.single[codeKey{size, code}] = glyphText(string(dst))
		}

		d.glyphs++
	}
}

func (d *pdf) addSpans(m *cmap, args []object) {
	for i := 0; i+2 < len(args) && d.glyphs < maxGlyphs; i += 3 {
		lo, size, ok := codeOf(args[i])
		hi, _, ok2 := codeOf(args[i+1])
		if !ok || !ok2 {
			continue
		}

		switch dst := args[i+2].(type) {
		case text:
			if r := []rune(unicodeText(dst)); len(r) > 0 {
				m.spans = append(m.spans, codeSpan{size, lo, hi, r})
				d.glyphs++
			}
		case array:
			for k, o := range dst {
				if s, ok := o.(text); ok && lo+k <= hi && d.glyphs < maxGlyphs {
					m.single[codeKey{size, lo + k}] = unicodeText(s)
					d.glyphs++
				}
			}
		}
	}
}

// unicodeText decodes the UTF-16 of a table, at most 32 characters of it.
func unicodeText(s text) string {
	if len(s) == 1 {
		return string(rune(s[0]))
	}
	var units []uint16
	for i := 0; i+1 < len(s) && i < 64; i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return string(utf16.Decode(units))
}

// lookup finds the text of a code. Tables are careless about the length of
// codes, so another length counts if there is nothing better.
func (m *cmap) lookup(code, size int) (string, bool) {
	for _, n := range [...]int{size, 2, 1} {
		if s, ok := m.single[codeKey{n, code}]; ok {
			return s, true
		}
	}

	// Spans may overlap; the nearest start that reaches the code counts.
	i := sort.Search(len(m.spans), func(i int) bool { return m.spans[i].lo > code })
	for k := i - 1; k >= 0 && k > i-16; k-- {
		if s := m.spans[k]; code <= s.hi {
			r := append([]rune(nil), s.dst...)
			r[len(r)-1] += rune((code - s.lo) & 0xFFFFF)
			return string(r), true
		}
	}

	return "", false
}

// cut takes the next code off a string, by the lengths the table allows.
func (m *cmap) cut(s text) (code, size int) {
	shortest := 4
	for n := 1; n <= min(4, len(s)); n++ {
		code = code<<8 | int(s[n-1])
		for _, r := range m.ranges {
			shortest = min(shortest, r.size)
			if r.size == n && code >= r.lo && code <= r.hi && within(code, r) {
				return code, n
			}
		}
	}

	size = min(shortest, len(s))
	code = 0
	for i := range size {
		code = code<<8 | int(s[i])
	}
	return code, size
}

// within checks each byte of a code against its bounds.
func within(code int, r codeRange) bool {
	for i := range r.size {
		b, lo, hi := code>>(8*i)&0xFF, r.lo>>(8*i)&0xFF, r.hi>>(8*i)&0xFF
		if b < lo || b > hi {
			return false
		}
	}
	return true
}
