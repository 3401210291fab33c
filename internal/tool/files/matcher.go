package files

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// matcher finds the lines of a text that an expression matches.
type matcher struct {
	words   literals
	literal bool           // the words alone decide
	line    *regexp.Regexp // tested on single lines
	whole   *regexp.Regexp // finds the next candidate line in a whole text
}

// compileMatcher compiles a search. Expressions are RE2 and see one line at a time.
func compileMatcher(pat string, fixed, fold bool) (*matcher, error) {
	if strings.Contains(pat, "\n") {
		return nil, errors.New("the search works line by line, so the pattern cannot contain a line break")
	}
	if fixed {
		pat = regexp.QuoteMeta(pat)
	}
	if fold {
		pat = "(?i)" + pat
	}
	line, err := regexp.Compile(pat)
	if err != nil {
		return nil, explainRegexp(pat, err)
	}
	tree, err := syntax.Parse(pat, syntax.Perl)
	if err != nil {
		return nil, explainRegexp(pat, err)
	}
	m := &matcher{line: line, words: requiredLiterals(tree.Simplify())}
	simple := tree.Simplify()
	m.literal = simple.Op == syntax.OpLiteral && !m.words.fold && len(m.words.words) == 1
	perLine(tree)
	if m.whole, err = regexp.Compile(tree.String()); err != nil {
		return nil, explainRegexp(pat, err)
	}
	return m, nil
}

// perLine makes the anchors of an expression mean line borders, so that
// wherever a line matches alone the expression also matches in the whole text.
func perLine(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op = syntax.OpEndLine
		re.Flags &^= syntax.WasDollar
	}
	for _, sub := range re.Sub {
		perLine(sub)
	}
}

// explainRegexp says what RE2 lacks when that is the trouble.
func explainRegexp(pat string, err error) error {
	for _, perl := range []string{"(?=", "(?!", "(?<=", "(?<!", "(?>", `\1`, `\2`, `\3`, "*+", "++", "?+"} {
		if strings.Contains(pat, perl) {
			return fmt.Errorf("%w; expressions are RE2, which has no lookaround, backreferences or possessive repeats: search for something simpler and filter the result", err)
		}
	}
	return fmt.Errorf("%w; set fixed_strings to search for the text as it is", err)
}

// scan calls each for every matching line, with its number, borders and where
// in the line the match starts and ends, until each returns false. data has LF
// line ends only.
func (m *matcher) scan(data []byte, each func(num, start, end, from, to int) bool) {
	var buf [maxLiterals]int
	var words *finder
	if m.words.usable(data) {
		words = m.words.find(data, buf[:])
	}
	num, counted := 1, 0
	for pos := 0; pos < len(data); {
		at := -1
		if words != nil {
			at = words.from(pos)
		} else if loc := m.whole.FindIndex(data[pos:]); loc != nil {
			at = pos + loc[0]
		}
		if at < 0 {
			return
		}
		start := bytes.LastIndexByte(data[pos:at], '\n') + 1 + pos
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i
		}
		from, to := at-start, at-start
		if m.literal {
			to += len(m.words.words[0])
		} else if loc := m.line.FindIndex(data[start:end]); loc == nil {
			pos = end + 1
			continue
		} else {
			from, to = loc[0], loc[1]
		}
		num += bytes.Count(data[counted:start], []byte("\n"))
		counted = start
		if start == len(data) && start > 0 { // behind the last line end there is no line
			return
		}
		if !each(num, start, end, from, to) {
			return
		}
		pos = end + 1
	}
}

// dropCR turns CRLF into LF in place.
func dropCR(data []byte) []byte {
	first := bytes.Index(data, []byte("\r\n"))
	if first < 0 {
		return data
	}
	out := data[:first]
	for i := first; i < len(data); {
		next := bytes.Index(data[i:], []byte("\r\n"))
		if next < 0 {
			return append(out, data[i:]...)
		}
		out = append(out, data[i:i+next]...)
		out = append(out, '\n')
		i += next + 2
	}
	return out
}

// looksBinary judges a text that matched: NUL anywhere, many control characters
// near the start, or not UTF-8.
func looksBinary(data []byte) bool {
	if bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) {
		return true
	}
	head := data[:min(len(data), 4096)]
	control := 0
	for _, b := range head {
		if b < 9 || b >= 14 && b <= 31 {
			control++
		}
	}
	return control*5 > len(head)
}
