package tui

import (
	"strconv"
	"strings"
)

// attr is a set of text attributes. Only the sixteen basic colours are used,
// so that the user's own terminal theme decides how they look.
type attr uint16

const (
	bold attr = 1 << iota
	dim
	italic
	underline
	strike
	reverse
	red
	green
	yellow
	cyan

	colours = red | green | yellow | cyan
)

// sgr returns the escape sequence that switches from any state to a.
func (a attr) sgr() string {
	if a == 0 {
		return "\x1b[0m"
	}

	var b strings.Builder
	b.WriteString("\x1b[0")
	for i, code := range [...]int{1, 2, 3, 4, 9, 7, 31, 32, 33, 36} {
		if a&(1<<i) != 0 {
			b.WriteByte(';')
			b.WriteString(strconv.Itoa(code))
		}
	}

	b.WriteByte('m')
	return b.String()
}

// cell is one rune with its attributes. Text is laid out as cells and turned
// into escape sequences last, so no wrap can ever cut a sequence in two.
type cell struct {
	r rune
	a attr
}

type line []cell

// styled makes a line of s, which must be free of unsafe runes; tabs become
// spaces up to the next multiple of four columns.
func styled(s string, a attr) line {
	l := make(line, 0, len(s))
	return l.add(s, a)
}

func (l line) add(s string, a attr) line {
	for _, r := range s {
		l = l.appendRune(r, a)
	}
	return l
}

const tabStop = 4

func (l line) appendRune(r rune, a attr) line {
	if r != '\t' {
		return append(l, cell{r, a})
	}
	for n := tabStop - l.width()%tabStop; n > 0; n-- {
		l = append(l, cell{' ', a})
	}
	return l
}

func (l line) width() int {
	n := 0
	for _, c := range l {
		n += runeWidth(c.r)
	}
	return n
}

// encode writes the line with the escape sequences of the attributes in shown.
// A line always ends in the default attributes.
func (l line) encode(b *strings.Builder, shown attr) {
	var now attr
	for _, c := range l {
		if a := c.a & shown; a != now {
			b.WriteString(a.sgr())
			now = a
		}
		b.WriteRune(c.r)
	}

	if now != 0 {
		b.WriteString(attr(0).sgr())
	}
}

func blanks(n int) line { return styled(strings.Repeat(" ", max(n, 0)), 0) }

// wrap breaks text into lines of at most width columns, the first beginning
// with first and the others with rest. A width of 0 or less means no limit.
// Words longer than a line are cut; spaces at a break are dropped.
func wrap(text line, width int, first, rest line) []line {
	rows, left := flow(text, width, first, rest)
	if len(rows) > 0 {
		first = rest
	}
	end, _ := breakAt(left, room(left, width, first))
	return append(rows, join(first, left[:end]))
}

// flow returns the lines of a text that goes on which nothing that follows can
// change, and what is left of it.
func flow(text line, width int, first, rest line) (rows []line, left line) {
	for {
		end, next := breakAt(text, room(text, width, first))
		if next >= len(text) {
			return rows, text
		}
		rows = append(rows, join(first, text[:end]))
		text, first = text[next:], rest
	}
}

// room returns the number of columns for text after a prefix.
func room(text line, width int, prefix line) int {
	if width <= 0 {
		return len(text) * 2
	}
	return max(width-prefix.width(), min(width, 4))
}

func join(a, b line) line { return append(append(make(line, 0, len(a)+len(b)), a...), b...) }

// breakAt finds where a line of avail columns ends and where the next starts.
func breakAt(text line, avail int) (end, next int) {
	w, i, brk := 0, 0, -1
	for ; i < len(text); i++ {
		cw := runeWidth(text[i].r)
		if w+cw > avail && i > 0 {
			break
		}
		if i > 0 && breakable(text[i-1].r, text[i].r) {
			brk = i
		}
		w += cw
	}

	if i == len(text) {
		return i, i
	}

	if text[i].r != ' ' && !breakable(text[i-1].r, text[i].r) && brk > 0 && !allSpace(text[:brk]) {
		i = brk
	}

	end, next = i, i
	for next < len(text) && text[next].r == ' ' {
		next++
	}

	for end > 0 && text[end-1].r == ' ' && !allSpace(text[:end]) {
		end--
	}
	return end, next
}

func allSpace(l line) bool {
	for _, c := range l {
		if c.r != ' ' {
			return false
		}
	}
	return true
}

// breakable reports whether a line may end between a and b.
func breakable(a, b rune) bool {
	if b < 0x300 && a < 0x300 {
		return a == ' ' && b != ' '
	}

	switch wa, wb := runeWidth(a), runeWidth(b); {
	case wb == 0 || b == ' ':
		return false
	case a == ' ':
		return true
	case wa < 2 && wb < 2:
		return false
	}

	return !strings.ContainsRune("、。，．：；？！）」』】》〉〕…”’%‰℃,.:;?!)]}", b) &&
		!strings.ContainsRune("（「『【《〈〔“‘([{", a)
}

// hardWrap cuts lines at exactly width columns, for the part of the screen
// whose rows must be counted.
func hardWrap(lines []line, width int) []line {
	out := make([]line, 0, len(lines))
	for _, l := range lines {
		for w, i := 0, 0; i < len(l); i++ {
			cw := runeWidth(l[i].r)
			if w+cw > width && i > 0 {
				out = append(out, l[:i])
				l = l[i:]
				i = 0
				w = 0
			}
			w += cw
		}
		out = append(out, l)
	}

	return out
}
