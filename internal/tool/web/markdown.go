package web

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/atom"

	"github.com/nanobot-go/nanobot/internal/text"
)

// renderer writes a part of a tree as Markdown or plain text.
type renderer struct {
	t       *tree
	plain   bool // no Markdown
	all     bool // also what is around the content
	single  bool // everything on one line: a heading, a cell of a table
	cells   bool // a cell of a table
	resolve func(string) *url.URL
	at      *url.URL

	out     strings.Builder
	levels  []level
	gap     int // line breaks wanted before the next line
	line    []byte
	space   bool   // a space is wanted before the next word
	href    string // link for the next line, of a link that has blocks in it
	verb    int    // depth of <code>, where nothing is escaped
	links   []string
	written int  // text of the page, as measure counts
	headed  bool // the text starts with a heading of the first level
	full    bool // maxRendered is reached
}

// level is what each line of a quote or a list item starts with.
type level struct {
	first string // for the next line only; "" when it is written
	rest  string
}

// maxLinks bounds the links of a page that are remembered.
const maxLinks = 2000

func (r *renderer) run(from int32) {
	r.out.Grow(min(int(r.t.nodes[from].chars)*5/4, maxRendered))
	if n := r.t.nodes[from]; from != 0 && block(n.tag) {
		r.node(from)
	} else {
		r.children(from)
	}
	r.flush()
}

func (r *renderer) String() string { return strings.TrimSpace(r.out.String()) }

func (r *renderer) children(of int32) {
	for i := r.t.nodes[of].first; i != 0 && !r.full; i = r.t.nodes[i].next {
		r.node(i)
	}
}

func (r *renderer) node(i int32) {
	n := &r.t.nodes[i]
	switch {
	case n.flags&isText != 0:
		r.written += int(n.chars)
		r.text(n.text)
		return
	case !r.all && n.flags&(isAside|isNoScript) != 0:
		return
	}
	switch n.tag {
	case atom.Br:
		if r.single {
			r.space = true
		} else {
			r.line, r.space = append(r.line, '\n'), false
		}
	case atom.Hr:
		r.flush()
		r.want(2)
	case atom.Img:
		r.image(n.text)
	case atom.A:
		r.link(i)
	case atom.Code, atom.Tt, atom.Kbd, atom.Samp:
		r.code(i)
	case atom.Sup:
		r.power(i)
	case atom.Q:
		r.glue(`"`)
		r.children(i)
		r.glue(`"`)
	default:
		if block(n.tag) {
			r.block(i)
		} else {
			r.children(i)
		}
	}
}

// block writes an element that has lines of its own.
func (r *renderer) block(i int32) {
	n := &r.t.nodes[i]
	if n.chars == 0 {
		return
	}
	if r.single {
		r.space = true
		r.children(i)
		r.space = true
		return
	}
	r.flush()
	switch n.tag {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		r.heading(i)
	case atom.Ul, atom.Ol, atom.Menu:
		r.list(i)
	case atom.Li:
		r.item(i, "- ", false)
	case atom.Dt:
		r.want(2)
		r.children(i)
		r.flush()
		r.gap = min(r.gap, 1)
	case atom.Dd:
		r.gap = min(r.gap, 1)
		r.inside(level{": ", "  "}, i)
	case atom.Blockquote:
		r.want(2)
		if r.plain {
			r.inside(level{"", ""}, i)
		} else {
			r.inside(level{"> ", "> "}, i)
		}
		r.want(2)
	case atom.Pre:
		r.pre(i)
	case atom.Table:
		r.table(i)
	case atom.Tr:
		r.row(i)
	default:
		apart := 2
		if n.flags&hasBlock == 0 && (n.tag == atom.Div || n.tag == atom.Td || n.tag == atom.Th) {
			apart = 1 // a line rather than a paragraph
		}
		r.want(apart)
		r.children(i)
		r.flush()
		r.want(apart)
	}
}

// want asks for line breaks before the next line. The first line of an item
// follows its mark.
func (r *renderer) want(n int) {
	if len(r.levels) == 0 || r.levels[len(r.levels)-1].first == "" {
		r.gap = max(r.gap, n)
	}
}

// inside writes the children of an element with something before each line.
func (r *renderer) inside(l level, i int32) {
	r.levels = append(r.levels, l)
	r.children(i)
	r.flush()
	r.levels = r.levels[:len(r.levels)-1]
}

func (r *renderer) heading(i int32) {
	n := &r.t.nodes[i]
	if n.chars == 0 {
		return
	}
	r.want(2)
	if n.tag == atom.H1 && r.written < 40 {
		r.headed = true
	}
	if !r.plain {
		depth := int(r.t.nodes[i].tag.String()[1] - '0')
		r.line = append(append(r.line, strings.Repeat("#", depth)...), ' ')
	}
	start := len(r.line)
	was := r.single
	r.single = true // a heading is one line
	r.children(i)
	r.single = was
	if len(bytes.TrimSpace(r.line[start:])) == 0 {
		r.line = r.line[:0]
	}
	r.flush()
	r.want(2)
}

func (r *renderer) list(i int32) {
	n := &r.t.nodes[i]
	inItem := len(r.levels) > 0 && r.t.nodes[n.parent].tag == atom.Li
	if inItem {
		r.gap = min(max(r.gap, 1), 1)
	} else {
		r.want(2)
	}
	leads := true
	number, err := strconv.Atoi(n.text)
	if err != nil {
		number = 1
	}
	for c := n.first; c != 0 && !r.full; c = r.t.nodes[c].next {
		if r.t.nodes[c].tag != atom.Li {
			r.node(c)
			continue
		}
		mark := "- "
		if n.tag == atom.Ol {
			mark = strconv.Itoa(number) + ". "
			number++
		}
		if !r.all && r.t.nodes[c].flags&isAside != 0 {
			continue
		}
		r.item(c, mark, leads)
		leads = leads && r.t.nodes[c].chars == 0
	}
	r.flush()
	if !inItem {
		r.want(2)
	}
}

func (r *renderer) item(i int32, mark string, leads bool) {
	r.flush()
	if r.t.nodes[i].chars == 0 {
		return
	}
	if !leads {
		r.gap = min(r.gap, 1)
	}
	r.inside(level{mark, strings.Repeat(" ", len(mark))}, i)
}

func (r *renderer) pre(i int32) {
	var b strings.Builder
	r.verbatim(i, &b)
	code := strings.Trim(cleanText(strings.ReplaceAll(b.String(), "\r\n", "\n")), "\n")
	if strings.TrimSpace(code) == "" {
		return
	}
	r.want(2)
	chars, _ := measure(code)
	r.written += int(chars)
	fence := strings.Repeat("`", min(max(longestTicks(code)+1, 3), 20))
	if !r.plain {
		r.emit(fence + r.codeLanguage(i))
	}
	for l := range strings.SplitSeq(code, "\n") {
		r.emit(strings.TrimRightFunc(l, unicode.IsSpace))
		if r.full {
			break
		}
	}
	if !r.plain {
		r.emit(fence)
	}
	r.want(2)
}

// longestTicks is the length of the longest row of backticks.
func longestTicks(s string) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// codeLanguage looks for the language on a block of code, on the code in it and
// on what is around it.
func (r *renderer) codeLanguage(i int32) string {
	n := r.t.nodes[i]
	if n.text != "" {
		return n.text
	}
	if c := r.t.nodes[n.first]; n.first != 0 && c.tag == atom.Code {
		return c.text
	}
	return ""
}

// verbatim collects text as it is written.
func (r *renderer) verbatim(i int32, b *strings.Builder) {
	for c := r.t.nodes[i].first; c != 0 && b.Len() < maxRendered; c = r.t.nodes[c].next {
		n := &r.t.nodes[c]
		switch {
		case n.flags&isText != 0:
			b.WriteString(text.Cut(n.text, maxRendered))
		case n.tag == atom.Br:
			b.WriteByte('\n')
		default:
			if block(n.tag) && b.Len() > 0 && !strings.HasSuffix(tail(b), "\n") {
				b.WriteByte('\n')
			}
			r.verbatim(c, b)
		}
	}
}

func tail(b *strings.Builder) string {
	s := b.String()
	return s[len(s)-1:]
}

// text adds running text to the line.
func (r *renderer) text(s string) {
	if room := maxRendered - len(r.line); len(s) > room {
		s, r.full = text.Cut(s, max(room, 0)/utf8.UTFMax), true
	}
	s = r.escape(cleanText(s))
	for s != "" {
		end := wordEnd(s)
		if end > 0 {
			r.glue(s[:end])
			s = s[end:]
			continue
		}
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		r.space = r.space || len(r.line) > 0 && r.line[len(r.line)-1] != '\n'
	}
}

// wordEnd is where the first white space is, in text without other controls.
func wordEnd(s string) int {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c <= ' ' {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if unicode.IsSpace(r) {
			return i
		}
		i += size
	}
	return len(s)
}

// escape takes the meaning from what would be read as Markdown of ours.
func (r *renderer) escape(s string) string {
	if r.verb == 0 && strings.Contains(s, "![") {
		s = strings.ReplaceAll(s, "![", `!\[`) // must not become a picture that is loaded
	}
	if r.cells && !r.plain && strings.Contains(s, "|") {
		s = strings.ReplaceAll(s, "|", `\|`)
	}
	return s
}

func (r *renderer) glue(w string) {
	if r.space && len(r.line) > 0 && r.line[len(r.line)-1] != '\n' {
		r.line = append(r.line, ' ')
	}
	r.space = false
	r.line = append(r.line, w...)
}

// flush ends the paragraph that is being collected.
func (r *renderer) flush() {
	if r.single {
		return
	}
	line := strings.TrimSpace(string(r.line))
	r.line, r.space = r.line[:0], false
	if line == "" {
		return
	}
	if r.href != "" {
		hash := ""
		if h := strings.TrimLeft(line, "#"); h != line && strings.HasPrefix(h, " ") {
			hash, line = line[:len(line)-len(h)+1], h[1:]
		}
		if !strings.Contains(line, "](") {
			line = "[" + strings.ReplaceAll(line, "\n", " ") + "](" + r.href + ")"
		}
		line, r.href = hash+line, ""
	}
	for l := range strings.SplitSeq(line, "\n") {
		r.emit(strings.TrimSpace(l))
	}
}

// emit writes one line.
func (r *renderer) emit(line string) {
	if r.out.Len() >= maxRendered {
		r.full = true
		return
	}
	if len(line) > maxRendered {
		line, r.full = text.Cut(line, maxRendered/utf8.UTFMax), true
	}
	if r.out.Len() > 0 {
		if r.gap > 1 {
			r.out.WriteString("\n" + strings.TrimRight(r.prefix(false), " "))
		}
		r.out.WriteByte('\n')
	}
	r.gap = 1
	if line == "" {
		r.out.WriteString(strings.TrimRight(r.prefix(true), " "))
		return
	}
	r.out.WriteString(r.prefix(true))
	r.out.WriteString(line)
}

// prefix is what a line starts with. Marks of items are used once.
func (r *renderer) prefix(use bool) string {
	if len(r.levels) == 0 {
		return ""
	}
	var b strings.Builder
	for i := range r.levels {
		l := &r.levels[i]
		switch {
		case use && l.first != "":
			b.WriteString(l.first)
			l.first = ""
		case !use && l.first != "":
			return b.String()
		default:
			b.WriteString(l.rest)
		}
	}
	return b.String()
}
