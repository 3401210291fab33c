package tui

import (
	"bytes"
	"slices"
	"strings"
)

// renderOptions says how a renderer shows text. The zero value renders
// Markdown without wrapping.
type renderOptions struct {
	Width   int  // columns to wrap at; 0 means no wrapping
	Literal bool // keep Markdown source as it is; wrap and neutralise only
}

// renderer turns Markdown that arrives in pieces into terminal lines. It gives
// out a line as soon as nothing that follows can change it: paragraphs row by
// row, tables as a whole. Control characters in the text are spelled out, so
// a model cannot move the cursor or set the title of the user's terminal. The
// result depends only on the text, never on how it was cut into pieces. A
// renderer is for one goroutine.
type renderer struct {
	o     renderOptions
	tint  attr   // added to every cell
	buf   []byte // the source line still arriving
	fence string // the mark that opened the code block we are in, else empty
	table []string
	begun *paragraph // the source line still arriving, if rows of it may have been given out
	open  bool       // rendering a preview: see inliner
}

// newRenderer returns a renderer at the start of a text.
func newRenderer(o renderOptions) *renderer { return &renderer{o: o} }

func (r *renderer) feed(delta string) []line {
	var out []line
	for {
		head, tail, ok := strings.Cut(delta, "\n")
		r.buf = append(r.buf, head...)
		if !ok {
			return append(out, r.advance()...)
		}
		out = append(out, r.source(string(r.buf))...)
		r.buf, delta = r.buf[:0], tail
	}
}

func (r *renderer) flush() []line {
	var out []line
	if len(r.buf) > 0 || r.begun != nil {
		out = r.source(string(r.buf))
	}
	out = append(out, r.flushTable()...)
	r.buf, r.fence = nil, ""
	return out
}

// idle reports whether nothing is held back, nor a block open.
func (r *renderer) idle() bool {
	return len(r.buf) == 0 && r.begun == nil && r.fence == "" && len(r.table) == 0
}

// maxPreviewBytes bounds the work of showing an unfinished line again and again.
const maxPreviewBytes = 4 << 10

// preview shows what is held back as it would look if the text ended here.
func (r *renderer) preview() []line {
	c := *r
	c.open = true
	c.table = slices.Clone(r.table)
	c.begun = r.begun.clone()
	src := r.buf
	if len(src) > maxPreviewBytes {
		src = src[len(src)-maxPreviewBytes:]
	}

	var out []line
	if len(bytes.Trim(src, " \t#>*+-`~_|=.:0123456789")) > 0 || r.begun != nil || r.fence != "" && len(src) > 0 {
		out = c.source(string(src))
	}
	return append(out, c.flushTable()...)
}

// source renders one complete line of the source.
func (r *renderer) source(src string) []line {
	src = neutral(strings.TrimSuffix(src, "\r"))
	if p := r.begun; p != nil {
		r.begun = nil
		p.add(src, inliner{open: r.open})
		return wrap(p.text, r.o.Width, p.first, p.rest)
	}

	if r.o.Literal {
		return r.paragraph(src)
	}
	if r.fence != "" {
		return r.code(src)
	}

	if len(r.table) > 0 {
		if r.joinsTable(src) {
			r.table = append(r.table, src)
			return nil
		}
		return append(r.flushTable(), r.source(src)...)
	}

	if mark, info := fenceStart(src); mark != "" {
		r.fence = mark
		return []line{r.frame(info)}
	}
	if mayHead(src) {
		r.table = append(r.table, src)
		return nil
	}
	return r.block(src)
}

// code renders a line inside a fenced block: verbatim, indented, never wrapped,
// so that what a user copies is what the model wrote.
func (r *renderer) code(src string) []line {
	if mark, info := fenceStart(src); info == "" && mark != "" && mark[0] == r.fence[0] && len(mark) >= len(r.fence) {
		r.fence = ""
		return []line{r.frame("")}
	}
	return []line{append(blanks(2), styled(src, r.tint|cyan)...)}
}

func (r *renderer) frame(info string) line {
	const columns = 24
	var l line
	if info != "" {
		l = styled("── "+info+" ", r.tint|dim)
	}
	for w := l.width(); w < columns; w++ {
		l = l.add("─", r.tint|dim)
	}
	return l
}

// fenceStart recognises a line that opens or closes a code block, at any
// indentation because models indent blocks inside lists as they like.
func fenceStart(src string) (mark, info string) {
	s := strings.TrimSpace(src)
	if !strings.HasPrefix(s, "```") && !strings.HasPrefix(s, "~~~") {
		return "", ""
	}

	n := runLen(s)
	info = strings.TrimSpace(s[n:])
	if s[0] == '`' && strings.Contains(info, "`") {
		return "", ""
	}
	return s[:n], info
}

// block renders one line that is neither code nor a table.
func (r *renderer) block(src string) []line {
	body, indent, prefix := r.unquote(src)
	switch text, level := heading(body); {
	case body == "":
		return []line{prefix}
	case isRule(body):
		return []line{append(prefix, styled(strings.Repeat("─", r.ruleWidth(prefix)), r.tint|dim)...)}
	case level > 0:
		a := bold
		if level <= 2 {
			a |= cyan
		}
		return wrap(r.inline(text, a), r.o.Width, prefix, prefix)
	}

	text, first, rest := r.item(body, append(prefix, indent...))
	return wrap(r.inline(text, 0), r.o.Width, first, rest)
}

// unquote takes the marks of quotes and the indentation from a line.
func (r *renderer) unquote(src string) (body string, indent, prefix line) {
	for {
		body = strings.TrimLeft(src, " \t")
		indent = styled(src[:len(src)-len(body)], r.tint)
		if body == "" || body[0] != '>' || len(prefix) >= 16 {
			return body, indent, slices.Clip(prefix)
		}
		prefix = append(append(prefix, indent...), styled("│ ", r.tint|dim)...)
		src = strings.TrimPrefix(body[1:], " ")
	}
}

// item splits a paragraph or list item into its text, what stands before its
// first row, and what stands before the others.
func (r *renderer) item(body string, prefix line) (text string, first, rest line) {
	marker, text, ok := listItem(body)
	if !ok {
		return body, prefix, prefix
	}
	first = append(slices.Clip(prefix), styled(marker+" ", r.tint|cyan)...)
	return text, first, append(slices.Clip(prefix), blanks(stringWidth(marker)+1)...)
}

// paragraph shows a line as it is, wrapped under its own indentation.
func (r *renderer) paragraph(src string) []line {
	body, first, rest := r.verbatim(src)
	return wrap(styled(body, r.tint), r.o.Width, first, rest)
}

// verbatim splits a line that is shown as it is into its text and what stands
// before its rows. The second column of an indented list stays a column.
func (r *renderer) verbatim(src string) (body string, first, rest line) {
	const widest = 32
	body = strings.TrimLeft(src, " \t")
	first = styled(src[:len(src)-len(body)], r.tint)
	if name, help, ok := strings.Cut(body[:min(len(body), widest)], "  "); ok && len(first) > 0 {
		gap := len(help) - len(strings.TrimLeft(help, " "))
		return body, first, blanks(first.width() + stringWidth(name) + 2 + gap)
	}
	return body, first, first
}

func (r *renderer) inline(s string, a attr) line { return inliner{open: r.open}.line(s, r.tint|a) }

func (r *renderer) ruleWidth(prefix line) int {
	if r.o.Width <= 0 {
		return 40
	}
	return max(3, min(40, r.o.Width-prefix.width()))
}

func isRule(s string) bool {
	s = strings.NewReplacer(" ", "", "\t", "").Replace(s)
	return len(s) >= 3 && strings.IndexByte("-*_", s[0]) >= 0 && runLen(s) == len(s)
}

func heading(s string) (text string, level int) {
	for level < len(s) && s[level] == '#' {
		level++
	}

	if level == 0 || level > 6 || level < len(s) && s[level] != ' ' && s[level] != '\t' {
		return "", 0
	}

	text = strings.TrimSpace(s[level:])
	if cut := strings.TrimRight(text, "#"); cut == "" || strings.HasSuffix(cut, " ") {
		text = strings.TrimSpace(cut)
	}
	return text, level
}

// listItem splits a list item into the marker to show and its text.
func listItem(s string) (marker, text string, ok bool) {
	n := 0
	if strings.IndexByte("-*+", s[0]) >= 0 {
		n, marker = 1, "•"
	} else {
		for n < len(s) && n < 9 && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		if n == 0 || n == len(s) || s[n] != '.' && s[n] != ')' {
			return "", "", false
		}
		n++
		marker = s[:n]
	}

	if n < len(s) && s[n] != ' ' && s[n] != '\t' {
		return "", "", false
	}
	return marker, strings.TrimLeft(s[n:], " \t"), true
}
