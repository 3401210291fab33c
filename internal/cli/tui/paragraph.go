package tui

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxHeadBytes is how much of a line decides what it is.
const maxHeadBytes = 256

// paragraph is a long line of the source that is given out while it arrives.
type paragraph struct {
	literal     bool
	first, rest line // before the next row, and before the ones after it
	tint        attr
	text        line // rendered but not given out
	columns     int  // all that was rendered, for the next tab
	before      rune // the last rune that was rendered
}

func (p *paragraph) clone() *paragraph {
	if p == nil {
		return nil
	}
	c := *p
	c.text = slices.Clip(p.text)
	return &c
}

// add renders the end of the paragraph.
func (p *paragraph) add(src string, in inliner) {
	in.before = p.before
	if p.literal {
		p.append(func(out line) line { return out.add(src, p.tint) })
		return
	}
	p.append(func(out line) line { return in.parse(out, src, p.tint, 0) })
}

// consume renders what nothing that follows can change and returns its length.
func (p *paragraph) consume(src string) (n int) {
	if n = len(src); p.literal {
		p.add(src, inliner{})
	} else {
		p.append(func(out line) (cells line) {
			cells, n = inliner{before: p.before}.stable(out, src, p.tint)
			return cells
		})
	}

	if n > 0 {
		p.before, _ = utf8.DecodeLastRuneInString(src[:n])
	}
	return n
}

// append adds cells after a tab stop that is where it was in the whole line.
func (p *paragraph) append(render func(out line) line) {
	shift := p.columns % tabStop
	cells := render(blanks(shift))[shift:]
	p.text = append(p.text, cells...)
	p.columns += cells.width()
}

// advance gives out the rows of a long paragraph that nothing that follows can
// change, so that its beginning does not wait for its end.
func (r *renderer) advance() []line {
	if r.o.Width <= 0 || r.fence != "" || r.begun == nil && len(r.buf) < maxHeadBytes {
		return nil
	}

	end := incompleteRune(string(r.buf))
	if end > 0 && r.buf[end-1] == '\r' {
		end--
	}

	src, tail := neutral(string(r.buf[:end])), string(r.buf[end:])
	var out []line
	if r.begun == nil {
		if len(src) < maxHeadBytes || !r.flows(src) {
			return nil
		}
		out = r.flushTable()
		src = r.begin(src)
	}

	p := r.begun
	n := p.consume(src)
	r.buf = []byte(src[n:] + tail)
	rows, left := flow(p.text, r.o.Width, p.first, p.rest)
	if len(rows) > 0 {
		p.text, p.first = left, p.rest
	}
	return append(out, rows...)
}

// flows reports whether the beginning of a line shows that it is a paragraph or
// a list item.
func (r *renderer) flows(src string) bool {
	if r.o.Literal {
		return strings.TrimLeft(src, " \t") != ""
	}

	mark, _ := fenceStart(src)
	body, _, _ := r.unquote(src)
	_, level := heading(body)
	switch {
	case mark != "" || body == "" || isRule(body) || level > 0 || mayHead(src):
		return false
	case len(r.table) == 1:
		return strings.Trim(src, "|-: \t") != ""
	}
	return len(r.table) == 0 || !r.joinsTable(src)
}

// begin starts a paragraph and returns the rest of the line.
func (r *renderer) begin(src string) (text string) {
	p := &paragraph{literal: r.o.Literal, tint: r.tint}
	r.begun = p
	if p.literal {
		text, p.first, p.rest = r.verbatim(src)
		return text
	}
	body, indent, prefix := r.unquote(src)
	text, p.first, p.rest = r.item(body, append(prefix, indent...))
	return text
}
