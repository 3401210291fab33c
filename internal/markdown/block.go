package markdown

import (
	"strconv"
	"strings"
)

const tabStop = 4

// splitLines cuts a text into lines without their ends, with the tabs in front
// made spaces.
func splitLines(s string) []string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.TrimRight(strings.ReplaceAll(s, "\r", "\n"), "\n")
	if s == "" {
		return nil
	}
	lines := strings.Split(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\n")
	for i, l := range lines {
		lines[i] = expand(l)
	}
	return lines
}

// expand makes spaces of the tabs a line begins with.
func expand(l string) string {
	col := 0
	for i := range len(l) {
		switch l[i] {
		case ' ':
			col++
		case '\t':
			col += tabStop - col%tabStop
		default:
			if col == i {
				return l
			}
			return strings.Repeat(" ", col) + l[i:]
		}
	}
	return l
}

func blank(l string) bool { return strings.TrimLeft(l, " \t") == "" }

// indent counts the spaces in front.
func indent(l string) int { return len(l) - len(strings.TrimLeft(l, " ")) }

// dedent takes up to n spaces away.
func dedent(l string, n int) string { return l[min(n, indent(l)):] }

// blocks reads lines of which containers have taken their marks away.
func blocks(lines []string, depth int) []Node {
	var out []Node
	for i := 0; i < len(lines); {
		l := lines[i]
		if blank(l) {
			i++
			continue
		}
		node, n := block(lines[i:], depth)
		out = append(out, node)
		i += n
	}
	return out
}

// block reads the block the lines begin with, and says how many are its.
func block(lines []string, depth int) (Node, int) {
	l := lines[0]
	if indent(l) >= tabStop {
		return indented(lines)
	}
	if f, ok := openFence(l); ok {
		return f.read(lines)
	}
	if h, ok := heading(l); ok {
		return h, 1
	}
	if isRule(l) {
		return Node{Kind: Rule}, 1
	}
	if depth < maxDepth {
		if _, ok := quoted(l); ok {
			return quote(lines, depth)
		}
		if m, ok := marker(l); ok {
			return list(lines, m, depth)
		}
	}
	if align, ok := tableAt(lines); ok {
		return table(lines, align)
	}
	return paragraph(lines)
}

func indented(lines []string) (Node, int) {
	n, last := 0, 0
	var text []string
	for ; n < len(lines) && (blank(lines[n]) || indent(lines[n]) >= tabStop); n++ {
		text = append(text, dedent(lines[n], tabStop))
		if !blank(lines[n]) {
			last = n + 1
		}
	}
	return Node{Kind: Code, Text: strings.Join(text[:last], "\n")}, last
}

// fence is the line a code block begins with.
type fence struct {
	char   byte
	len    int
	indent int
	info   string
}

func openFence(l string) (fence, bool) {
	in := indent(l)
	rest := l[in:]
	if in >= tabStop || rest == "" || rest[0] != '`' && rest[0] != '~' {
		return fence{}, false
	}
	n := run(rest, rest[0])
	info := strings.TrimSpace(rest[n:])
	if n < 3 || rest[0] == '`' && strings.Contains(info, "`") {
		return fence{}, false
	}
	return fence{char: rest[0], len: n, indent: in, info: info}, true
}

// run counts how often c stands at the beginning.
func run(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

func (f fence) closes(l string) bool {
	in := indent(l)
	n := run(l[in:], f.char)
	return in < tabStop && n >= f.len && blank(l[in+n:])
}

func (f fence) read(lines []string) (Node, int) {
	info, _, _ := strings.Cut(f.info, " ")
	node := Node{Kind: Code, Info: unescape(info)}
	var text []string
	for i, l := range lines[1:] {
		if f.closes(l) {
			node.Text = strings.Join(text, "\n")
			return node, i + 2
		}
		text = append(text, dedent(l, f.indent))
	}
	node.Text = strings.TrimRight(strings.Join(text, "\n"), "\n")
	return node, len(lines)
}

func heading(l string) (Node, bool) {
	in := indent(l)
	level := run(l[in:], '#')
	rest := l[in+level:]
	if in >= tabStop || level == 0 || level > 6 || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return Node{}, false
	}
	rest = strings.TrimSpace(rest)
	if bare := strings.TrimRight(rest, "#"); bare == "" || strings.HasSuffix(bare, " ") || strings.HasSuffix(bare, "\t") {
		rest = strings.TrimSpace(bare)
	}
	return Node{Kind: Heading, Level: level, Children: inline(rest)}, true
}

func isRule(l string) bool {
	if indent(l) >= tabStop {
		return false
	}
	n := 0
	var mark byte
	for _, c := range []byte(l) {
		switch {
		case c == ' ' || c == '\t':
		case n == 0 && (c == '*' || c == '-' || c == '_'), n > 0 && c == mark:
			mark = c
			n++
		default:
			return false
		}
	}
	return n >= 3
}

// quoted takes the mark of a quotation away.
func quoted(l string) (string, bool) {
	in := indent(l)
	rest, ok := strings.CutPrefix(l[in:], ">")
	if in >= tabStop || !ok {
		return l, false
	}
	return strings.TrimPrefix(expand(rest), " "), true
}

func quote(lines []string, depth int) (Node, int) {
	var inner []string
	n := 0
	for ; n < len(lines); n++ {
		rest, ok := quoted(lines[n])
		if !ok && (blank(lines[n]) || begins(lines[n]) || !openParagraph(inner, depth)) {
			break
		}
		inner = append(inner, lazy(rest, ok))
	}
	return Node{Kind: Quote, Children: blocks(inner, depth+1)}, n
}

// lazy keeps a line that only goes on with a paragraph from being read as
// something else.
func lazy(l string, own bool) string {
	if own {
		return l
	}
	l = strings.TrimLeft(l, " \t")
	if strings.HasPrefix(l, "=") || strings.HasPrefix(l, "-") {
		return strings.Repeat(" ", tabStop) + l
	}
	return l
}

// begins reports whether a line starts a block that ends a paragraph.
func begins(l string) bool {
	if indent(l) >= tabStop {
		return false
	}
	_, f := openFence(l)
	_, h := heading(l)
	_, q := quoted(l)
	m, item := marker(l)
	return f || h || q || isRule(l) || item && !m.empty && (!m.ordered || m.start == 1)
}

// openParagraph reports whether lines end in a paragraph that another line may
// go on with.
func openParagraph(lines []string, depth int) bool {
	if len(lines) == 0 || blank(lines[len(lines)-1]) {
		return false
	}
	last := lines[len(lines)-1]
	if depth < maxDepth {
		if rest, ok := quoted(last); ok {
			return openParagraph([]string{rest}, depth+1)
		}
		if m, ok := marker(last); ok && !isRule(last) {
			return openParagraph([]string{last[m.width:]}, depth+1)
		}
	}
	_, h := heading(last)
	return !h && !isRule(last) && !insideFence(lines) && (indent(last) < tabStop || len(lines) > 1 && !blank(lines[len(lines)-2]))
}

func insideFence(lines []string) bool {
	var f fence
	open := false
	for _, l := range lines {
		switch g, ok := openFence(l); {
		case open && f.closes(l):
			open = false
			if l == lines[len(lines)-1] {
				return true // the closing line is no paragraph either
			}
		case !open && ok:
			f, open = g, true
		}
	}
	return open
}

// mark is what a list item begins with.
type mark struct {
	char    byte // - + * . )
	ordered bool
	start   int
	width   int // up to the text
	empty   bool
}

func marker(l string) (mark, bool) {
	in := indent(l)
	rest := l[in:]
	digits := 0
	for digits < len(rest) && digits < 10 && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	if in >= tabStop || digits > 9 || digits == len(rest) {
		return mark{}, false
	}
	m := mark{char: rest[digits], ordered: digits > 0, width: in + digits + 1}
	if want := "-+*"; !m.ordered && strings.IndexByte(want, m.char) < 0 || m.ordered && m.char != '.' && m.char != ')' {
		return mark{}, false
	}
	m.start, _ = strconv.Atoi(rest[:digits])
	after := expand(rest[digits+1:])
	switch n := indent(after); {
	case blank(after):
		m.empty = true
	case n == 0:
		return mark{}, false
	case n > tabStop || strings.HasPrefix(rest[digits+1:], "\t"):
		m.width++
	default:
		m.width += n
	}
	m.width = min(m.width, len(l))
	return m, true
}

func list(lines []string, first mark, depth int) (Node, int) {
	node := Node{Kind: List, Ordered: first.ordered, Start: first.start, Tight: true}
	n := 0
	for n < len(lines) {
		m, ok := marker(lines[n])
		if !ok || m.char != first.char || m.ordered != first.ordered || isRule(lines[n]) {
			break
		}
		inner, took, loose := item(lines[n:], m, depth)
		it := Node{Kind: Item, Task: takeTask(inner), Children: blocks(inner, depth+1)}
		node.Children = append(node.Children, it)
		n += took
		gap := n
		for gap < len(lines) && blank(lines[gap]) {
			gap++
		}
		if next, ok := markerAt(lines, gap); ok && next.char == first.char && next.ordered == first.ordered {
			loose = loose || gap > n
			n = gap
		}
		node.Tight = node.Tight && !loose
	}
	return node, n
}

func markerAt(lines []string, i int) (mark, bool) {
	if i >= len(lines) || isRule(lines[i]) {
		return mark{}, false
	}
	return marker(lines[i])
}

// item collects the lines of a list item, without the space in front. Loose
// means that a blank line stands between its blocks.
func item(lines []string, m mark, depth int) (inner []string, n int, loose bool) {
	width := m.width
	if m.empty {
		width = indent(lines[0]) + 2
		if m.ordered {
			width = m.width + 1
		}
	}
	inner = []string{expand(lines[0][m.width:])}
	gap := 0
	for n = 1; n < len(lines); n++ {
		l := lines[n]
		switch {
		case blank(l):
			gap++
			if m.empty && n == 1 {
				return inner, 1, false // an empty item stays empty
			}
			continue
		case indent(l) >= width:
			loose = loose || gap > 0 && !insideFence(inner)
			for range gap {
				inner = append(inner, "")
			}
			gap = 0
			inner = append(inner, l[width:])
			continue
		}
		if _, next := marker(l); gap > 0 || next || begins(l) || !openParagraph(inner, depth) {
			break
		}
		inner = append(inner, lazy(l, false))
		continue
	}
	return inner, n - gap, loose
}

// takeTask takes the box of a task away from the first line of an item.
func takeTask(inner []string) Task {
	for box, task := range map[string]Task{"[ ] ": Open, "[x] ": Done, "[X] ": Done} {
		if rest, ok := strings.CutPrefix(inner[0], box); ok && !blank(rest) {
			inner[0] = rest
			return task
		}
	}
	return NoTask
}

func paragraph(lines []string) (Node, int) {
	var text []string
	n := 0
	for ; n < len(lines); n++ {
		l := lines[n]
		if n > 0 {
			if level := underline(l); level > 0 {
				return Node{Kind: Heading, Level: level, Children: inline(strings.Join(text, "\n"))}, n + 1
			}
			if _, t := tableAt(lines[n:]); blank(l) || begins(l) || t {
				break
			}
		}
		text = append(text, strings.TrimLeft(l, " \t"))
	}
	return Node{Kind: Paragraph, Children: inline(strings.TrimRight(strings.Join(text, "\n"), " \t"))}, n
}

// underline is the level of the heading a line makes of the paragraph before.
func underline(l string) int {
	bare := strings.TrimSpace(l)
	switch {
	case bare == "" || indent(l) >= tabStop:
		return 0
	case run(bare, '=') == len(bare):
		return 1
	case run(bare, '-') == len(bare):
		return 2
	}
	return 0
}
