package tui

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits that keep the cost of one hostile line small.
const (
	maxInlineBytes = 8 << 10 // longer lines are shown as plain text
	maxInlineDepth = 6
	maxLinkBytes   = 2 << 10
)

// inliner turns the inline markup of one line into cells. With open set, a
// span whose end has not arrived yet counts as closed by the end of the line,
// so that a line looks the same while it streams as when it is finished.
type inliner struct{ open bool }

func (p inliner) line(s string, a attr) line {
	if len(s) > maxInlineBytes {
		return styled(s, a)
	}
	return p.parse(nil, s, a, 0)
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

// step consumes the markup or rune at i and returns its length in bytes.
func (sc *scan) step(i int) int {
	rest := sc.s[i:]
	n := 0
	switch rest[0] {
	case '\\':
		if len(rest) > 1 && isPunct(rest[1]) {
			sc.out = sc.out.add(rest[1:2], sc.a)
			n = 2
		}
	case '`':
		n = sc.code(rest)
	case '*', '_', '~':
		n = sc.emphasis(i)
	case '!':
		if len(rest) > 1 && rest[1] == '[' {
			if n = sc.link(rest[1:]); n > 0 {
				n++
			}
		}
	case '[':
		n = sc.link(rest)
	case '<':
		n = sc.autolink(rest)
	}
	if n > 0 {
		return n
	}
	r, n := utf8.DecodeRuneInString(rest)
	sc.out = sc.out.put(r, sc.a)
	return n
}

func isPunct(c byte) bool { return c > ' ' && c < 0x7f && !isAlnum(rune(c)) }

func isAlnum(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// fails remembers that no closing mark of this kind follows.
func (sc *scan) fails(mark string) {
	if sc.lost == nil {
		sc.lost = map[string]bool{}
	}
	sc.lost[mark] = true
}

func (sc *scan) code(rest string) int {
	n := runLen(rest)
	mark := rest[:n]
	body, end := rest[n:], -1
	if !sc.lost[mark] {
		end = closingTicks(body, n)
	}
	size := n + end + n
	switch {
	case end < 0 && sc.p.open && body != "":
		end, size = len(body), len(rest)
	case end < 0:
		sc.fails(mark)
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

// closingTicks is the offset of the run of exactly n backticks in s, or -1.
func closingTicks(s string, n int) int {
	for i := 0; i < len(s); {
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
	literal := func() int {
		sc.out = sc.out.add(sc.s[i:i+n], sc.a)
		return n
	}
	before, _ := utf8.DecodeLastRuneInString(sc.s[:i])
	after, _ := utf8.DecodeRuneInString(sc.s[i+n:])
	if i+n == len(sc.s) || unicode.IsSpace(after) || n > 3 || c == '~' && n != 2 ||
		c == '_' && i > 0 && isAlnum(before) {
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
		stop, size := closingRun(sc.s, start, c, k)
		if stop < 0 && sc.p.open && k == n {
			stop, size = len(sc.s), len(sc.s)-i
		} else if stop >= 0 {
			size += stop - i
		}
		if stop < 0 {
			sc.fails(mark)
			continue
		}
		sc.out = sc.out.add(sc.s[i:i+n-k], sc.a)
		sc.out = sc.p.parse(sc.out, sc.s[start:stop], sc.a|emphasisAttr(c, k), sc.depth+1)
		return size
	}
	return literal()
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
func closingRun(s string, from int, c byte, k int) (stop, size int) {
	for i := from; i < len(s); {
		switch s[i] {
		case '\\':
			i += 2
			continue
		case '`':
			n := runLen(s[i:])
			i += n
			if end := closingTicks(s[i:], n); end >= 0 {
				i += end + n
			}
			continue
		case c:
		default:
			i++
			continue
		}
		m := runLen(s[i:])
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
func (sc *scan) link(rest string) int {
	text, ok := balanced(rest, '[', ']')
	if !ok || len(rest) <= len(text)+2 || rest[len(text)+2] != '(' {
		return 0
	}
	target, ok := balanced(rest[len(text)+2:], '(', ')')
	if !ok || strings.TrimSpace(target) == "" {
		return 0
	}
	if text != "" {
		sc.out = sc.p.parse(sc.out, text, sc.a|underline, sc.depth+1)
		sc.out = sc.out.add(" ", sc.a)
	}
	sc.out = sc.out.add("("+strings.TrimSpace(target)+")", sc.a|dim)
	return len(text) + 2 + len(target) + 2
}

// balanced returns what stands between the bracket s starts with and its partner.
func balanced(s string, opening, closing byte) (string, bool) {
	depth := 0
	for i := 0; i < len(s) && i < maxLinkBytes; i++ {
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

func (sc *scan) autolink(rest string) int {
	if !strings.HasPrefix(rest, "<http://") && !strings.HasPrefix(rest, "<https://") {
		return 0
	}
	end := strings.IndexAny(rest[1:min(len(rest), maxLinkBytes)], "<> ")
	if end < 0 || rest[end+1] != '>' {
		return 0
	}
	sc.out = sc.out.add(rest[1:end+1], sc.a|underline)
	return end + 2
}
