package document

import (
	"strings"
	"unicode/utf16"
)

// Limits of fonts.
const (
	maxFonts      = 512
	maxGlyphs     = 300_000 // entries in the tables of all fonts together
	maxFontTables = 4 << 20 // bytes of one decompressed table
)

// font turns the codes of a string into text and widths.
type font struct {
	unicode  *cmap // from codes to text; nil if the file has none
	spaces   *cmap // how codes are cut out of strings; nil: wide decides
	wide     bool  // codes have two bytes
	mixed    bool  // codes below 128 have one byte, others two
	utf16    bool  // codes are UTF-16
	vertical bool
	simple   *[256]string      // text by code
	widths   map[int]float64   // by code, in em
	fallback float64           // width without an entry
	builtin  func(int) float64 // widths of the fonts every reader has
}

// glyph is one decoded code.
type glyph struct {
	text  string
	known bool
	width float64
	space bool // word spacing applies: a code 32 of one byte
}

// font loads the font of a resource dictionary entry.
func (d *pdf) font(o object) *font {
	id, isRef := o.(ref)
	if isRef && d.fonts[id] != nil {
		return d.fonts[id]
	}

	fd, _ := d.resolve(o).(dict)
	f := d.loadFont(fd)
	if isRef && len(d.fonts) < maxFonts {
		d.fonts[id] = f
	}
	return f
}

func (d *pdf) loadFont(fd dict) *font {
	f := &font{fallback: 0.5}
	if s, ok := d.resolve(fd["ToUnicode"]).(stream); ok {
		f.unicode = d.loadCMap(s)
	}

	if d.resolve(fd["Subtype"]) == name("Type0") {
		d.loadComposite(f, fd)
		return f
	}

	d.loadSimple(f, fd)
	return f
}

// loadComposite sets up a font with codes of several bytes.
func (d *pdf) loadComposite(f *font, fd dict) {
	f.wide, f.fallback = true, 1
	switch enc := d.resolve(fd["Encoding"]).(type) {
	case name:
		n := string(enc)
		f.vertical = strings.HasSuffix(n, "-V")
		f.utf16 = strings.HasPrefix(n, "Uni") && (strings.Contains(n, "UCS2") || strings.Contains(n, "UTF16"))
		f.mixed = !f.utf16 && !strings.HasPrefix(n, "Identity") && n != "H" && n != "V"
	case stream:
		f.spaces = d.loadCMap(enc)
		f.vertical = d.resolve(enc.dict["WMode"]) == 1
	}

	if f.spaces == nil && f.mixed {
		f.spaces = f.unicode
	}

	kids := d.list(fd["DescendantFonts"])
	if len(kids) == 0 {
		return
	}

	kid, _ := d.resolve(kids[0]).(dict)
	if w, ok := toFloat(d.resolve(kid["DW"])); ok {
		f.fallback = w / 1000
	}

	f.widths = map[int]float64{}
	d.compositeWidths(f, d.list(kid["W"]))
}

// compositeWidths reads "first [w w ...]" and "first last w".
func (d *pdf) compositeWidths(f *font, w array) {
	for i := 0; i+1 < len(w); {
		first, ok := d.resolve(w[i]).(int)
		if !ok {
			return
		}

		switch next := d.resolve(w[i+1]).(type) {
		case array:
			for k, v := range next {
				if n, ok := toFloat(d.resolve(v)); ok && d.glyphs < maxGlyphs {
					f.widths[first+k] = n / 1000
					d.glyphs++
				}
			}
			i += 2

		case int:
			if i+2 >= len(w) {
				return
			}

			n, _ := toFloat(d.resolve(w[i+2]))
			for c := first; c <= next && c < 1<<16 && d.glyphs < maxGlyphs; c++ {
				f.widths[c] = n / 1000
				d.glyphs++
			}
			i += 3

		default:
			return
		}
	}
}

// loadSimple sets up a font with codes of one byte.
func (d *pdf) loadSimple(f *font, fd dict) {
	base, _ := d.resolve(fd["BaseFont"]).(name)
	f.simple = new([256]string)
	start := name("StandardEncoding")
	if d.resolve(fd["Subtype"]) == name("TrueType") {
		start = "WinAnsiEncoding"
	}

	symbol := strings.HasSuffix(string(base), "Symbol")
	if symbol {
		start = "Symbol"
	}

	var changes array
	switch enc := d.resolve(fd["Encoding"]).(type) {
	case name:
		start = enc
	case dict:
		if b, ok := d.resolve(enc["BaseEncoding"]).(name); ok {
			start = b
		}
		changes, _ = d.resolve(enc["Differences"]).(array)
	}

	fillEncoding(f.simple, start)
	code := 0
	for _, o := range changes {
		switch v := d.resolve(o).(type) {
		case int:
			code = v
		case name:
			if code >= 0 && code < 256 {
				f.simple[code] = glyphText(string(v))
			}
			code++
		}
	}

	d.simpleWidths(f, fd, string(base))
}

func fillEncoding(table *[256]string, enc name) {
	codes, at := standardCodes, 32
	switch enc {
	case "WinAnsiEncoding":
		codes, at = windowsCodes, 128
	case "MacRomanEncoding":
		codes, at = macCodes, 128
	case "Symbol":
		codes = symbolCodes
	}

	for c := 32; c < at; c++ {
		table[c] = string(rune(c))
	}

	for _, r := range codes {
		if r != ' ' || at == 32 {
			table[at] = string(r)
		}
		at++
	}
}

func (d *pdf) simpleWidths(f *font, fd dict, base string) {
	scale := 0.001
	if m := d.list(fd["FontMatrix"]); len(m) > 0 { // of a font drawn by procedures
		if v, ok := toFloat(d.resolve(m[0])); ok && v > 0 && v < 10 {
			scale = v
		}
	}

	if desc, ok := d.resolve(fd["FontDescriptor"]).(dict); ok {
		if v, ok := toFloat(d.resolve(desc["MissingWidth"])); ok && v > 0 {
			f.fallback = v * scale
		}
	}

	first, _ := d.resolve(fd["FirstChar"]).(int)
	list := d.list(fd["Widths"])
	f.widths = make(map[int]float64, min(len(list), 256))

	for i, o := range list[:min(len(list), 256)] {
		if v, ok := toFloat(d.resolve(o)); ok {
			f.widths[first+i] = v * scale
		}
	}

	if len(f.widths) > 0 {
		return
	}

	table := helveticaWidths
	switch {
	case strings.Contains(base, "Courier"):
		f.fallback = 0.6
		return
	case strings.Contains(base, "Times"):
		table = timesWidths
	}

	f.builtin = func(code int) float64 {
		if code < 32 || code-32 >= len(table) {
			return f.fallback
		}
		return float64(table[code-32]-' ') * 0.012
	}
}

func toFloat(o object) (float64, bool) {
	switch v := o.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// cut takes the next code off a string.
func (f *font) cut(s text) (code, size int) {
	switch {
	case f.simple != nil:
		return int(s[0]), 1
	case f.spaces != nil && len(f.spaces.ranges) > 0:
		return f.spaces.cut(s)
	case f.mixed && s[0] < 0x80, len(s) == 1:
		return int(s[0]), 1
	}
	return int(s[0])<<8 | int(s[1]), 2
}

// decode turns the first code of a string into a glyph.
func (f *font) decode(s text) (g glyph, rest text) {
	code, size := f.cut(s)
	char := rune(code & 0xFFFF)
	if f.utf16 && size == 2 && utf16.IsSurrogate(char) && len(s) >= 4 {
		char = utf16.DecodeRune(char, rune(s[2])<<8|rune(s[3]))
		return glyph{text: string(char), known: true, width: f.fallback}, s[4:]
	}

	g.space = size == 1 && code == 32
	g.width = f.width(code)
	if f.unicode != nil {
		g.text, g.known = f.unicode.lookup(code, size)
	}

	switch {
	case g.known && g.text != "":
	case f.simple != nil:
		g.text = f.simple[code]
		g.known = g.text != ""
	case f.utf16, f.mixed && size == 1:
		g.text, g.known = string(char), true
	}

	return g, s[size:]
}

func (f *font) width(code int) float64 {
	if w, ok := f.widths[code]; ok {
		return w
	}
	if f.builtin != nil {
		return f.builtin(code)
	}
	return f.fallback
}
