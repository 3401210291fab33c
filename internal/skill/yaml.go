package skill

import (
	"fmt"
	"strings"
)

// parseYAML reads the part of YAML that front matter uses: maps and lists by
// indentation, plain, quoted and block scalars, flow lists and maps over any
// number of lines (so also JSON), comments. Values are string, []any,
// map[string]any, or nil for null. There are no numbers, anchors or tags: they
// stay text. What cannot be understood is left out and noted.
func parseYAML(src string) (fields map[string]any, notes []note) {
	fields, p := readYAML(src)
	return fields, p.notes
}

// note is something odd on a line of the file.
type note struct {
	line int // of the file, whose first line is 1
	text string
}

func (n note) String() string { return fmt.Sprintf("front matter line %d: %s", n.line, n.text) }

// readYAML is parseYAML that also tells where the outermost keys stand.
func readYAML(src string) (fields map[string]any, p *yamlParser) {
	p = &yamlParser{keys: map[string]int{}}
	for line := range strings.SplitSeq(src, "\n") {
		content := strings.TrimLeft(line, " \t")
		p.lines = append(p.lines, yamlLine{indent: len(line) - len(content), text: strings.TrimRight(content, " \t")})
	}
	if line, ok := p.peek(); ok {
		v := p.block(line.indent, 0)
		var isMap bool
		if fields, isMap = v.(map[string]any); !isMap {
			p.note("not a map")
		}
	}
	for line, ok := p.peek(); ok; line, ok = p.peek() {
		p.note("not understood: %.40q", line.text)
		p.at++
	}
	return fields, p
}

const (
	maxDepth = 16  // of nested values
	maxNotes = 8   // more say nothing new
	maxSpan  = 200 // lines of one quoted or flow value
	maxFails = 8   // values that never end; then only their first line is tried
)

type yamlLine struct {
	indent int    // blanks before the text; a tab counts as one
	text   string // without outer blanks
}

func (l yamlLine) item() bool { return l.text == "-" || strings.HasPrefix(l.text, "- ") }

type yamlParser struct {
	lines []yamlLine
	at    int
	fails int // values that did not end within maxSpan lines
	notes []note
	keys  map[string]int // outermost key -> its line of the file
}

func (p *yamlParser) note(format string, args ...any) {
	if len(p.notes) < maxNotes {
		p.notes = append(p.notes, note{p.line(), fmt.Sprintf(format, args...)})
	}
}

// line is the number of the current line in the file: the first one is a fence.
func (p *yamlParser) line() int { return min(p.at, len(p.lines)-1) + 2 }

// peek goes to the next line that is neither blank nor a comment.
func (p *yamlParser) peek() (yamlLine, bool) {
	for ; p.at < len(p.lines); p.at++ {
		if l := p.lines[p.at]; l.text != "" && l.text[0] != '#' {
			return l, true
		}
	}
	return yamlLine{}, false
}

// block reads the map or list that begins on the current line.
func (p *yamlParser) block(indent, depth int) any {
	if depth > maxDepth {
		p.note("nested too deeply")
		p.skipBlock(indent)
		return nil
	}
	if l, ok := p.peek(); ok && l.item() {
		return p.list(indent, depth)
	}
	return p.mapping(indent, depth)
}

func (p *yamlParser) skipBlock(indent int) {
	for l, ok := p.peek(); ok && l.indent >= indent; l, ok = p.peek() {
		p.at++
	}
}

func (p *yamlParser) mapping(indent, depth int) map[string]any {
	m := map[string]any{}
	for {
		l, ok := p.peek()
		if !ok || l.indent < indent {
			return m
		}
		key, rest, isEntry := cutKey(l.text)
		if l.indent > indent || !isEntry {
			p.note("not understood: %.40q", l.text)
			p.at++
			continue
		}
		if _, double := m[key]; double {
			p.note("%q is given twice; the last counts", key)
		}
		if depth == 0 {
			p.keys[key] = p.line()
		}
		m[key] = p.value(rest, indent, depth)
	}
}

func (p *yamlParser) list(indent, depth int) []any {
	list := []any{}
	for {
		l, ok := p.peek()
		if !ok || l.indent < indent || l.indent == indent && !l.item() {
			return list
		}
		if l.indent > indent {
			p.note("not understood: %.40q", l.text)
			p.at++
			continue
		}
		rest := strings.TrimLeft(l.text[1:], " \t")
		inner := yamlLine{indent: l.indent + len(l.text) - len(rest), text: rest}
		if _, _, isEntry := cutKey(rest); isEntry && rest[0] != '{' && rest[0] != '[' || inner.item() && rest != "" {
			p.lines[p.at] = inner
			list = append(list, p.block(inner.indent, depth+1))
			continue
		}
		list = append(list, p.value(rest, indent, depth))
	}
}

// value reads what follows a key or a dash at the given indentation, and
// leaves the current line.
func (p *yamlParser) value(rest string, indent, depth int) any {
	if rest == "" || rest[0] == '#' {
		p.at++
		next, ok := p.peek()
		if ok && (next.indent > indent || next.indent == indent && next.item() && !p.inList(indent)) {
			return p.nested(next, depth)
		}
		return nil
	}
	switch rest[0] {
	case '|', '>':
		if header := strings.TrimLeft(stripComment(rest[1:]), "+-0123456789"); header == "" {
			return p.scalarBlock(rest, indent)
		}
	case '{', '[', '"', '\'':
		if v, ok := p.spanning(rest); ok {
			return v
		}
		p.note("taken as plain text: %.40q", rest)
	}
	return p.plain(rest, indent)
}

// nested reads a value that stands on lines of its own.
func (p *yamlParser) nested(l yamlLine, depth int) any {
	if l.item() {
		return p.block(l.indent, depth+1)
	}
	if _, _, isEntry := cutKey(l.text); isEntry && l.text[0] != '{' && l.text[0] != '[' {
		return p.block(l.indent, depth+1)
	}
	return p.value(l.text, l.indent-1, depth+1)
}

// inList reports whether the line before the current one was a list item of
// that indentation: its value is then empty and the next item is its brother.
func (p *yamlParser) inList(indent int) bool {
	for i := p.at - 1; i >= 0; i-- {
		if l := p.lines[i]; l.text != "" && l.text[0] != '#' {
			return l.indent == indent && l.item()
		}
	}
	return false
}

// spanning reads a quoted or flow value, which may go on over several lines.
func (p *yamlParser) spanning(rest string) (any, bool) {
	src := rest
	for n := 1; ; n++ {
		f := flowParser{src: src}
		v, ok := f.value(0)
		if ok && stripComment(src[f.at:]) == "" {
			p.at += n
			return v, true
		}
		next := p.at + n
		if !f.unfinished || n >= maxSpan || next >= len(p.lines) || p.fails >= maxFails {
			p.fails++
			return nil, false
		}
		src += "\n" + p.lines[next].text
	}
}

// plain reads an unquoted scalar; deeper lines go on with it.
func (p *yamlParser) plain(rest string, indent int) any {
	parts := []string{stripComment(rest)}
	for p.at++; p.at < len(p.lines); p.at++ {
		l := p.lines[p.at]
		if l.text == "" || l.text[0] == '#' {
			continue
		}
		if l.indent <= indent {
			break
		}
		parts = append(parts, stripComment(l.text))
	}
	return plainValue(strings.Join(parts, " "))
}

func plainValue(s string) any {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return nil
	}
	return s
}

// scalarBlock reads the lines behind "|" or ">".
func (p *yamlParser) scalarBlock(header string, indent int) any {
	folded := header[0] == '>'
	var b strings.Builder
	base, blank := -1, 0
	for p.at++; p.at < len(p.lines); p.at++ {
		l := p.lines[p.at]
		if l.text == "" {
			blank++
			continue
		}
		if l.indent <= indent {
			break
		}
		if base < 0 {
			base = l.indent
		} else if folded && blank == 0 && l.indent <= base {
			b.WriteByte(' ')
		} else {
			b.WriteString(strings.Repeat("\n", blank+1))
		}
		blank = 0
		b.WriteString(strings.Repeat(" ", max(l.indent-base, 0)))
		b.WriteString(l.text)
	}
	return b.String()
}

// cutKey splits "key: value". A key may be quoted.
func cutKey(s string) (key, rest string, ok bool) {
	if s == "" {
		return "", "", false
	}
	var at int
	if s[0] == '"' || s[0] == '\'' {
		f := flowParser{src: s}
		v, closed := f.quoted()
		if !closed {
			return "", "", false
		}
		key, at = v, f.at
		if rest, ok = strings.CutPrefix(strings.TrimLeft(s[at:], " \t"), ":"); !ok {
			return "", "", false
		}
	} else {
		for at = strings.IndexByte(s, ':'); at >= 0 && at+1 < len(s) && s[at+1] != ' ' && s[at+1] != '\t'; {
			next := strings.IndexByte(s[at+1:], ':')
			if next < 0 {
				return "", "", false
			}
			at += 1 + next
		}
		if at <= 0 {
			return "", "", false
		}
		key, rest = strings.TrimSpace(s[:at]), s[at+1:]
	}
	return key, strings.TrimLeft(rest, " \t"), true
}

// stripComment removes " # ..." from plain text, and outer blanks.
func stripComment(s string) string {
	for at := strings.IndexByte(s, '#'); at >= 0; {
		if at == 0 || s[at-1] == ' ' || s[at-1] == '\t' {
			s = s[:at]
			break
		}
		next := strings.IndexByte(s[at+1:], '#')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return strings.TrimSpace(s)
}
