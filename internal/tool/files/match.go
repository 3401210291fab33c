package files

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// rung says how loosely a passage was found. Lower is stricter.
type rung int

const (
	exactMatch rung = iota
	trimmedLines
	trimmedQuotes
	mappedQuotes
)

// span is a found passage, as byte offsets.
type span struct{ start, end int }

// findPassages looks for old in content, both with LF line ends. The first rung
// that finds anything wins; all its matches are returned, none overlapping.
func findPassages(content, old string) ([]span, rung) {
	if found := substrings(content, old); found != nil {
		return found, exactMatch
	}

	lines := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	closed := strings.HasSuffix(old, "\n")
	if found := lineWindows(content, lines, closed); found != nil {
		return found, trimmedLines
	}
	if !strings.ContainsAny(content, curlyQuotes) && !strings.ContainsAny(old, curlyQuotes) {
		return nil, 0
	}

	plain, back := straighten(content)
	for i := range lines {
		lines[i], _ = straighten(lines[i])
	}

	straightOld, _ := straighten(old)
	found, r := lineWindows(plain, lines, closed), trimmedQuotes
	if found == nil {
		found, r = substrings(plain, straightOld), mappedQuotes
	}

	for i := range found {
		found[i] = span{back.original(found[i].start), back.original(found[i].end)}
	}
	return found, r
}

func substrings(content, old string) (found []span) {
	if old == "" {
		return nil
	}
	for at := 0; ; {
		i := strings.Index(content[at:], old)
		if i < 0 {
			return found
		}
		found = append(found, span{at + i, at + i + len(old)})
		at += i + len(old)
	}
}

// lineWindows finds runs of whole lines that equal the wanted ones when each is
// trimmed. closed includes the line end after the last line.
func lineWindows(content string, lines []string, closed bool) (found []span) {
	want := make([]string, len(lines))
	blank := true
	for i, l := range lines {
		want[i] = strings.TrimSpace(l)
		blank = blank && want[i] == ""
	}

	if blank {
		return nil
	}

	starts := lineStarts(content)
	line := func(i int) (start, end int) {
		start, end = starts[i], len(content)
		if i+1 < len(starts) {
			end = starts[i+1] - 1
		}
		return start, end
	}
	for i := 0; i+len(want) <= len(starts); {
		if !windowEquals(content, line, i, want) {
			i++
			continue
		}

		start, _ := line(i)
		_, end := line(i + len(want) - 1)
		if closed && end < len(content) {
			end++
		}

		found = append(found, span{start, end})
		i += len(want)
	}

	return found
}

func trimmed(content string, line func(int) (int, int), i int) string {
	s, e := line(i)
	return strings.TrimSpace(content[s:e])
}

func windowEquals(content string, line func(int) (int, int), at int, want []string) bool {
	for k, w := range want {
		if trimmed(content, line, at+k) != w {
			return false
		}
	}
	return true
}

func lineStarts(s string) []int {
	starts := []int{0}
	for i := 0; ; {
		j := strings.IndexByte(s[i:], '\n')
		if j < 0 {
			return starts
		}
		i += j + 1
		starts = append(starts, i)
	}
}

// lineOf returns the number, from 1, of the line a byte offset lies in.
func lineOf(starts []int, pos int) int {
	i, _ := slices.BinarySearch(starts, pos+1)
	return i
}

// shifts maps offsets of a shortened text back to the original: at each listed
// offset the original has by more bytes.
type shifts struct {
	at []int
	by int
}

func (s shifts) original(pos int) int {
	i, _ := slices.BinarySearch(s.at, pos)
	return pos + s.by*i
}

const curlyQuotes = "‘’“”"

// straighten maps curly quotes to straight ones.
func straighten(s string) (string, shifts) {
	back := shifts{by: len("‘") - 1}
	if !strings.ContainsAny(s, curlyQuotes) {
		return s, back
	}

	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch r {
		case '‘', '’':
			back.at = append(back.at, b.Len())
			b.WriteByte('\'')
		case '“', '”':
			back.at = append(back.at, b.Len())
			b.WriteByte('"')
		case utf8.RuneError:
			b.WriteRune(r) // content was checked to be valid, so this is a real U+FFFD
		default:
			b.WriteRune(r)
		}
	}

	return b.String(), back
}

// adapt fits the replacement to a passage that was found loosely: curly quotes
// and extra indentation of the passage are carried over.
func adapt(matched, old, repl string, r rung, keepSpaces bool) string {
	if r == exactMatch {
		return repl
	}

	if !keepSpaces {
		lines := strings.Split(repl, "\n")
		for i, l := range lines {
			lines[i] = strings.TrimRight(l, " \t")
		}
		repl = strings.Join(lines, "\n")
	}

	repl = curl(matched, repl)
	if r == mappedQuotes {
		return repl
	}
	return reindent(matched, old, repl)
}

// curl gives straight quotes in repl the style of the matched text.
func curl(matched, repl string) string {
	double := strings.ContainsAny(matched, "“”")
	single := strings.ContainsAny(matched, "‘’")
	if !double && !single {
		return repl
	}

	var b strings.Builder
	runes := []rune(repl)
	alnum := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
	}
	openDouble, openSingle := true, true
	for i, r := range runes {
		switch {
		case r == '"' && double:
			b.WriteRune(pick(openDouble, '“', '”'))
			openDouble = !openDouble
		case r == '\'' && single && alnum(i-1) && alnum(i+1):
			b.WriteRune('’')
		case r == '\'' && single:
			b.WriteRune(pick(openSingle, '‘', '’'))
			openSingle = !openSingle
		default:
			b.WriteRune(r)
		}
	}

	return b.String()
}

func pick(first bool, a, b rune) rune {
	if first {
		return a
	}
	return b
}

// reindent shifts repl by the indentation that separates the passage from what
// the model thought it was, if that is the same on every line.
func reindent(matched, old, repl string) string {
	have := strings.Split(strings.TrimSuffix(matched, "\n"), "\n")
	want := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	if len(have) != len(want) {
		return repl
	}

	extra := ""
	missing := ""
	known := false
	for i := range have {
		if strings.TrimSpace(have[i]) == "" || strings.TrimSpace(want[i]) == "" {
			continue
		}

		h, w := indent(have[i]), indent(want[i])
		add, more := strings.CutSuffix(h, w)
		drop, less := strings.CutSuffix(w, h)
		switch {
		case !more && !less:
			return repl
		case !more:
			add = ""
		}

		if more {
			drop = ""
		}

		if known && (add != extra || drop != missing) {
			return repl
		}

		extra = add
		missing = drop
		known = true
	}

	if extra == "" && missing == "" {
		return repl
	}

	lines := strings.Split(repl, "\n")
	for i, l := range lines {
		if strings.TrimSpace(l) != "" {
			lines[i] = extra + strings.TrimPrefix(l, missing)
		}
	}
	return strings.Join(lines, "\n")
}

func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }
