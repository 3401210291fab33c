package skill

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
)

const (
	maxDepth = 16 // of nested values
	maxNotes = 8  // more say nothing new

	// tooManyDashes is a line of lists in lists, which is expensive to parse.
	tooManyDashes = "- - - - - - - - - - - - - - - - - "
)

// note is something odd on a line of the file.
type note struct {
	line int // of the file, whose first line is 1
	text string
}

func (n note) String() string { return fmt.Sprintf("front matter line %d: %s", n.line, n.text) }

// parseYAML reads front matter. Values are string, []any, map[string]any, or nil
// for null; numbers and truth values stay text. Many published skills are not
// valid YAML ("description: Use when: asked"), so a part that the YAML
// library refuses is taken apart by indentation and its values count as plain
// text. Anchors, aliases and tags are not followed; they stay text, too.
func parseYAML(src string) (fields map[string]any, notes []note) {
	fields, p := readYAML(src)
	return fields, p.notes
}

// parseFlow reads a value that stands in a string, such as JSON; nil if it
// cannot be read.
func parseFlow(src string) any {
	v, err := new(yamlParser).strict(yamlLines(src), 0)
	if err != nil {
		return nil
	}
	return v
}

// readYAML is parseYAML that also tells where the outermost keys stand.
func readYAML(src string) (fields map[string]any, p *yamlParser) {
	p = &yamlParser{keys: map[string]int{}}
	lines := yamlLines(src)
	if first := significant(lines); first < len(lines) {
		var isMap bool
		if fields, isMap = p.value(lines[first:], 0).(map[string]any); !isMap {
			p.addNote(lines[first], "not a map")
		}
	}
	return fields, p
}

type yamlParser struct {
	notes []note
	keys  map[string]int // outermost key -> its line of the file
}

func (p *yamlParser) addNote(l yamlLine, format string, args ...any) {
	if len(p.notes) < maxNotes {
		p.notes = append(p.notes, note{l.number, fmt.Sprintf(format, args...)})
	}
}

// value reads the lines of one value: with the library, or else in parts.
func (p *yamlParser) value(lines []yamlLine, depth int) any {
	if v, err := p.strict(lines, depth); err == nil {
		return v
	}

	lines = dedent(lines)
	first := lines[0]
	if depth > maxDepth {
		p.addNote(first, "nested too deeply")
		return nil
	}

	if _, _, isEntry := cutKey(first.text); isEntry || depth == 0 && !first.item() {
		return p.mapping(lines, depth)
	}
	if first.item() {
		return p.list(lines, depth)
	}
	return p.plain(first.text, lines)
}

// mapping reads one entry after the other.
func (p *yamlParser) mapping(lines []yamlLine, depth int) map[string]any {
	m := map[string]any{}
	for len(lines) > 0 {
		key, rest, isEntry := cutKey(lines[0].text)
		n := extent(lines, isEntry && rest == "")
		entry := lines[:n]
		lines = lines[n:]

		if !isEntry {
			p.odd(entry)
			continue
		}

		p.entered(m, key, entry[0], depth)
		m[key] = p.entry(key, rest, entry, depth)
	}

	return m
}

// entry reads the value of a key: with the library, or from the lines below the
// key, or from its own line alone, or as plain text.
func (p *yamlParser) entry(key, rest string, lines []yamlLine, depth int) any {
	if v, err := p.strict(lines, depth); err == nil {
		single, _ := v.(map[string]any)
		return single[key]
	}

	below := lines[1:]
	if first := significant(below); rest == "" && first < len(below) {
		return p.value(below[first:], depth+1)
	}

	if quotedOrFlow(rest) && len(below) > 0 {
		if v, err := p.strict(lines[:1], depth); err == nil {
			p.odd(below)
			single, _ := v.(map[string]any)
			return single[key]
		}
	}

	return p.plain(rest, lines)
}

// odd notes lines that belong to nothing.
func (p *yamlParser) odd(lines []yamlLine) {
	for _, l := range lines {
		if !l.empty() {
			p.addNote(l, "not understood: %.40q", strings.TrimSpace(l.text))
		}
	}
}

// entered notes a key of a map before its value is read.
func (p *yamlParser) entered(m map[string]any, key string, l yamlLine, depth int) {
	if _, double := m[key]; double {
		p.addNote(l, "%q is given twice; the last counts", key)
	}
	if depth == 0 && p.keys != nil {
		p.keys[key] = l.number
	}
}

// list reads one item after the other.
func (p *yamlParser) list(lines []yamlLine, depth int) []any {
	list := []any{}
	for len(lines) > 0 {
		n := extent(lines, false)
		item := append([]yamlLine(nil), lines[:n]...)
		lines = lines[n:]

		if !item[0].item() {
			p.odd(item)
			continue
		}

		item[0].text = " " + item[0].text[1:]
		if first := significant(item); first < n {
			list = append(list, p.value(item[first:], depth+1))
		} else {
			list = append(list, nil)
		}
	}

	return list
}

// plain takes a value and the lines below its first one as text.
func (p *yamlParser) plain(first string, lines []yamlLine) any {
	strip := stripComment
	switch {
	case quotedOrFlow(first):
		p.addNote(lines[0], "taken as plain text: %.40q", first)
	case blockHeader().MatchString(first):
		first, strip = "", strings.TrimSpace
	}

	parts := []string{strip(first)}
	for _, l := range lines[1:] {
		parts = append(parts, strip(l.text))
	}

	switch s := strings.Join(strings.Fields(strings.Join(parts, " ")), " "); s {
	case "", "~", "null":
		return nil
	default:
		return s
	}
}

func quotedOrFlow(s string) bool { return s != "" && strings.ContainsAny(s[:1], "{[\"'") }

var errYAML = errors.New("not front matter")

// strict reads lines with the YAML library. It adds notes and keys only if all
// of them can be read.
func (p *yamlParser) strict(lines []yamlLine, depth int) (any, error) {
	var b strings.Builder
	for _, l := range lines {
		if strings.Contains(l.text, tooManyDashes) {
			return nil, errYAML
		}
		b.WriteString(l.text + "\n")
	}

	var doc yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(b.String()))
	if err := decoder.Decode(&doc); err != nil || len(doc.Content) == 0 {
		return nil, errYAML
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errYAML // something follows the value
	}

	try := yamlParser{notes: p.notes}
	if depth == 0 && p.keys != nil {
		try.keys = map[string]int{}
	}

	v, err := try.convert(doc.Content[0], lines, depth)
	if err != nil {
		return nil, err
	}

	p.notes = try.notes
	maps.Copy(p.keys, try.keys)
	return v, nil
}

// convert turns a node of the library into a plain value.
func (p *yamlParser) convert(n *yaml.Node, lines []yamlLine, depth int) (any, error) {
	if depth > maxDepth || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return nil, errYAML
	}

	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return nil, nil
		}
		return strings.TrimRight(n.Value, "\n"), nil

	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			v, err := p.convert(item, lines, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}

		return list, nil

	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Line > len(lines) {
				return nil, errYAML
			}

			p.entered(m, key.Value, lines[max(key.Line, 1)-1], depth)
			v, err := p.convert(n.Content[i+1], lines, depth+1)
			if err != nil {
				return nil, err
			}
			m[key.Value] = v
		}

		return m, nil
	}

	return nil, errYAML // an alias
}

// yamlLine is a line of front matter.
type yamlLine struct {
	number int // in the file
	text   string
}

func (l yamlLine) item() bool { return l.text == "-" || strings.HasPrefix(l.text, "- ") }

func (l yamlLine) empty() bool {
	s := strings.TrimLeft(l.text, " ")
	return s == "" || s[0] == '#'
}

func (l yamlLine) indent() int { return len(l.text) - len(strings.TrimLeft(l.text, " ")) }

// surrogates is how JSON writes a character that does not fit in 16 bits. YAML
// has a form of its own.
var surrogates = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
})

// blockHeader matches the text before the lines of a block scalar.
var blockHeader = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[|>][-+0-9]*( +#.*)?$`) })

// yamlLines splits front matter. A tab that indents counts as one blank, and
// characters that YAML forbids or takes for line ends are left out.
func yamlLines(src string) (lines []yamlLine) {
	src = surrogates().ReplaceAllStringFunc(src, func(s string) string {
		high, _ := strconv.ParseUint(s[2:6], 16, 16)
		low, _ := strconv.ParseUint(s[8:12], 16, 16)
		return fmt.Sprintf(`\U%08X`, utf16.DecodeRune(rune(high), rune(low)))
	})

	src = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r == '\u2028', r == '\u2029', r == '\uFEFF', r >= '\uFFFE' && r <= '\uFFFF':
			return -1
		}
		return r
	}, src)

	number := 2 // the first line of the file is a fence
	for line := range strings.SplitSeq(src, "\n") {
		content := strings.TrimLeft(line, " \t")
		indent := strings.Repeat(" ", len(line)-len(content))
		lines = append(lines, yamlLine{number, indent + strings.TrimRight(content, " \t")})
		number++
	}
	return lines
}

// significant returns the index of the first line that is neither blank nor a comment.
func significant(lines []yamlLine) int {
	for i, l := range lines {
		if !l.empty() {
			return i
		}
	}
	return len(lines)
}

// dedent removes the indentation of the first line from all lines.
func dedent(lines []yamlLine) []yamlLine {
	by := lines[0].indent()
	out := make([]yamlLine, len(lines))
	for i, l := range lines {
		out[i] = yamlLine{l.number, l.text[min(by, l.indent()):]}
	}
	return out
}

// extent counts the lines of the entry or item that begins on the first line.
// The items of a list may stand below their key without indentation.
func extent(lines []yamlLine, open bool) int {
	for i, l := range lines[1:] {
		if l.empty() || l.indent() > 0 || open && l.item() {
			continue
		}
		return i + 1
	}
	return len(lines)
}

// cutKey splits "key: value". What begins like a flow value has no key.
func cutKey(s string) (key, rest string, ok bool) {
	if s == "" || strings.ContainsAny(s[:1], " {[") || s == "-" || strings.HasPrefix(s, "- ") {
		return "", "", false
	}

	key, rest, ok = strings.Cut(s+" ", ": ")
	if !ok || key == "" {
		return "", "", false
	}

	if unquoted, err := strconv.Unquote(key); err == nil {
		key = unquoted
	}
	return strings.TrimSpace(key), stripLead(rest), true
}

// stripLead returns a value without blanks around it; a comment is none.
func stripLead(s string) string {
	if s = strings.TrimSpace(s); strings.HasPrefix(s, "#") {
		return ""
	}
	return s
}

// stripComment removes " # ..." from plain text, and outer blanks.
func stripComment(s string) string {
	for i := range len(s) {
		if s[i] == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t') {
			s = s[:i]
			break
		}
	}
	return strings.TrimSpace(s)
}
