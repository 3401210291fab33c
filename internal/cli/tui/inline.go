package tui

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits that keep the cost of one hostile line small. maxSpanBytes is also how
// much of a long line may wait for the end of a span.
const (
	maxSpanBytes   = 1 << 10
	maxInlineDepth = 6
)

// inliner turns the inline markup of one line into cells. With open set, a
// span whose end has not arrived yet counts as closed by the end of the line,
// so that a line looks the same while it streams as when it is finished.
type inliner struct {
	open   bool
	before rune // what stands before the text on the same line; 0 is nothing
}

func (p inliner) line(s string, a attr) line { return p.parse(nil, s, a, 0) }

// stable renders the beginning of a text that goes on, as far as nothing that
// follows can change it, after out, and returns its length.
func (p inliner) stable(out line, s string, a attr) (line, int) {
	sc := scan{p: p, s: s, a: a, out: out, more: true}
	for i := 0; i < len(s); {
		n := sc.step(i)
		if sc.stuck {
			return sc.out, i
		}
		i += n
	}
	return sc.out, len(s)
}

// scan is the state of one walk over a string: which searches for a closing
// mark have failed already and need not be repeated.
type scan struct {
	p     inliner
	s     string
	a     attr
	depth int
	out   line
	lost  map[string]bool
	more  bool // the string goes on
	stuck bool // what the walk is at depends on how it does
}

func (p inliner) parse(out line, s string, a attr, depth int) line {
	if depth > maxInlineDepth {
		return out.add(s, a)
	}
	sc := scan{p: p, s: s, a: a, depth: depth, out: out}
	for i := 0; i < len(s); {
		i += sc.step(i)
	}
	return sc.out
}

// waits reports, and notes, whether something that reaches to end depends on
// what follows the string.
func (sc *scan) waits(end int) bool {
	sc.stuck = sc.stuck || sc.more && end >= len(sc.s)
	return sc.stuck
}

// step consumes the markup or rune at i and returns its length in bytes.
func (sc *scan) step(i int) int {
	rest := sc.s[i:]
	n := 0
	switch rest[0] {
	case '\\':
		if !sc.waits(i+1) && len(rest) > 1 && isPunct(rest[1]) {
			sc.out = sc.out.add(rest[1:2], sc.a)
			n = 2
		}

	case '`':
		n = sc.code(i)
	case '*', '_', '~':
		n = sc.emphasis(i)
	case '!':
		if !sc.waits(i+1) && len(rest) > 1 && rest[1] == '[' {
			if n = sc.link(i + 1); n > 0 {
				n++
			}
		}

	case '[':
		n = sc.link(i)
	case '<':
		n = sc.autolink(i)
	}

	if n > 0 || sc.stuck {
		return n
	}

	r, n := utf8.DecodeRuneInString(rest)
	sc.out = sc.out.appendRune(r, sc.a)
	return n
}

func isPunct(c byte) bool { return c > ' ' && c < 0x7f && !isAlnum(rune(c)) }

func isAlnum(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// fails notes that no closing mark of this kind follows in the string.
func (sc *scan) fails(mark string, from int) {
	if from+maxSpanBytes < len(sc.s) {
		return // it was not searched to its end
	}
	if sc.lost == nil {
		sc.lost = map[string]bool{}
	}
	sc.lost[mark] = true
}

func (sc *scan) code(i int) int {
	rest := sc.s[i:]
	n := runLen(rest)
	if sc.waits(i + n) {
		return 0
	}

	mark := rest[:n]
	body, end := rest[n:], -1
	if !sc.lost[mark] {
		end = closingTicks(body, n)
	}

	size := n + end + n
	switch {
	case end >= 0 && sc.waits(i+size), end < 0 && sc.waits(i+2*n+maxSpanBytes):
		return 0
	case end < 0 && sc.p.open && body != "" && len(body) <= maxSpanBytes:
		end, size = len(body), len(rest)
	case end < 0:
		sc.fails(mark, i+n)
		sc.out = sc.out.add(mark, sc.a)
		return n
	}

	text := body[:end]
	if len(text) > 2 && text[0] == ' ' && text[len(text)-1] == ' ' {
		text = text[1 : len(text)-1]
	}

	sc.out = sc.out.add(text, sc.a|cyan)
	return size
}

func runLen(s string) int {
	n := 1
	for n < len(s) && s[n] == s[0] {
		n++
	}
	return n
}

// closingTicks returns the offset of the run of exactly n backticks near the start
// of s, or -1.
func closingTicks(s string, n int) int {
	for i := 0; i < len(s) && i <= maxSpanBytes; {
		if s[i] != '`' {
			i++
			continue
		}

		m := runLen(s[i:])
		if m == n {
			return i
		}
		i += m
	}
	return -1
}

func (sc *scan) emphasis(i int) int {
	c, n := sc.s[i], runLen(sc.s[i:])
	if sc.waits(i + n) {
		return 0
	}

	literal := func() int {
		sc.out = sc.out.add(sc.s[i:i+n], sc.a)
		return n
	}
	before := sc.p.before
	if i > 0 {
		before, _ = utf8.DecodeLastRuneInString(sc.s[:i])
	}

	after, _ := utf8.DecodeRuneInString(sc.s[i+n:])
	if i+n == len(sc.s) || unicode.IsSpace(after) || n > 3 || c == '~' && n != 2 || c == '_' && isAlnum(before) {
		return literal()
	}

	for k := n; k > 0; k-- {
		if c == '~' && k != 2 {
			break
		}

		mark := sc.s[i : i+k]
		if sc.lost[mark] {
			continue
		}

		start := i + n
		stop, size := sc.closingRun(start, c, k)
		switch {
		case sc.stuck, stop < 0 && sc.waits(start+maxSpanBytes):
			return 0
		case stop >= 0:
			size += stop - i
		case sc.p.open && k == n && len(sc.s)-start <= maxSpanBytes:
			stop, size = len(sc.s), len(sc.s)-i
		default:
			sc.fails(mark, start)
			continue
		}

		sc.out = sc.out.add(sc.s[i:i+n-k], sc.a)
		sc.out = sc.inner(sc.s[start:stop], emphasisAttr(c, k))
		return size
	}

	return literal()
}

// inner renders what stands between the marks of a span, after what there is.
func (sc *scan) inner(s string, a attr) line {
	return inliner{open: sc.p.open}.parse(sc.out, s, sc.a|a, sc.depth+1)
}

func emphasisAttr(c byte, k int) attr {
	switch {
	case c == '~':
		return strike
	case k == 1:
		return italic
	case k == 2:
		return bold
	}
	return bold | italic
}

// closingRun finds where emphasis of k marks c that began before from ends:
// the end of its content and the length of the closing marks; -1 if nowhere.
func (sc *scan) closingRun(from int, c byte, k int) (stop, size int) {
	s := sc.s
	for i := from; i < len(s) && i <= from+maxSpanBytes; {
		switch s[i] {
		case '\\':
			i += 2
			continue
		case '`':
			n := runLen(s[i:])
			i += n
			end := closingTicks(s[i:], n)
			switch {
			case end < 0 && sc.waits(i+n+maxSpanBytes), end >= 0 && sc.waits(i+end+n):
				return -1, 0
			case end >= 0:
				i += end + n
			}
			continue

		case c:
		default:
			i++
			continue
		}

		m := runLen(s[i:])
		if sc.waits(i + m) {
			return -1, 0
		}

		before, _ := utf8.DecodeLastRuneInString(s[:i])
		after, _ := utf8.DecodeRuneInString(s[i+m:])
		closes := i > from && !unicode.IsSpace(before) && m >= k && m <= 3 && (k != 1 || m != 2) &&
			(c != '_' || i+m >= len(s) || !isAlnum(after))
		if closes {
			return i + m - k, k
		}
		i += m
	}

	return -1, 0
}

// link shows [text](target) as the text and the dimmed target.
func (sc *scan) link(i int) int {
	text, ok := balanced(sc.s[i:], '[', ']')
	if !ok {
		sc.waits(i + maxSpanBytes)
		return 0
	}

	at := i + len(text) + 2
	if sc.waits(at) || at >= len(sc.s) || sc.s[at] != '(' {
		return 0
	}

	target, ok := balanced(sc.s[at:], '(', ')')
	if !ok {
		sc.waits(at + maxSpanBytes)
		return 0
	}
	if strings.TrimSpace(target) == "" {
		return 0
	}

	if text != "" {
		sc.out = sc.inner(text, underline)
		sc.out = sc.out.add(" ", sc.a)
	}

	sc.out = sc.out.add("("+strings.TrimSpace(target)+")", sc.a|dim)
	return len(text) + 2 + len(target) + 2
}

// balanced returns what stands between the bracket s starts with and its partner.
func balanced(s string, opening, closing byte) (string, bool) {
	depth := 0
	for i := 0; i < len(s) && i < maxSpanBytes; i++ {
		switch s[i] {
		case '\\':
			i++
		case opening:
			depth++
		case closing:
			if depth--; depth == 0 {
				return s[1:i], true
			}
		}
	}

	return "", false
}

func (sc *scan) autolink(i int) int {
	rest := sc.s[i:]
	if !strings.HasPrefix(rest, "<http://") && !strings.HasPrefix(rest, "<https://") {
		if strings.HasPrefix("<http://", rest) || strings.HasPrefix("<https://", rest) {
			sc.waits(len(sc.s))
		}
		return 0
	}

	end := strings.IndexAny(rest[1:min(len(rest), maxSpanBytes)], "<> ")
	if end < 0 {
		sc.waits(i + maxSpanBytes)
		return 0
	}
	if rest[end+1] != '>' {
		return 0
	}

	sc.out = sc.out.add(rest[1:end+1], sc.a|underline)
	return end + 2
}
