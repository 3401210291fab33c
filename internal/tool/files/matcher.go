package files

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"
)

// matcher finds the lines of a text that an expression matches.
type matcher struct {
	words   literals
	literal bool           // the words alone decide
	line    *regexp.Regexp // tested on single lines
	prog    *syntax.Prog   // for automata
	pool    sync.Pool      // of *automaton, which cannot be shared
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

	simple := tree.Simplify()
	m := &matcher{line: line, words: requiredLiterals(simple)}
	m.literal = simple.Op == syntax.OpLiteral && !m.words.fold && len(m.words.words) == 1
	if m.prog, err = syntax.Compile(simple); err != nil {
		return nil, explainRegexp(pat, err)
	}
	return m, nil
}

// automaton returns one for this goroutine; give it back with m.pool.Put.
func (m *matcher) automaton() *automaton {
	if a, ok := m.pool.Get().(*automaton); ok {
		return a
	}
	return newAutomaton(m.prog)
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

// lineMatch is a matching line of a text.
type lineMatch struct {
	num        int // from 1
	start, end int // of the line in the text
	from, to   int // of the match in the line, if asked for
}

// scan calls each for every matching line until it returns false. data has LF
// line ends only. Finding where in the line the match is costs extra.
func (m *matcher) scan(data []byte, where bool, each func(lineMatch) bool) {
	auto := m.automaton()
	defer m.pool.Put(auto)
	var buf [maxLiterals]int
	var words *finder
	if m.words.usable(data) {
		words = m.words.find(data, buf[:])
	}

	num, counted := 1, 0
	for pos := 0; pos < len(data); {
		start, end, ok := m.next(data, pos, words, auto)
		if !ok {
			return
		}

		num += bytes.Count(data[counted:start], []byte("\n"))
		counted = start
		l := lineMatch{num: num, start: start, end: end}
		if where {
			if loc := m.line.FindIndex(data[start:end]); loc != nil {
				l.from, l.to = loc[0], loc[1]
			}
		}

		if !each(l) {
			return
		}
		pos = end + 1
	}
}

// next finds the first matching line at or after pos, which starts a line.
func (m *matcher) next(data []byte, pos int, words *finder, auto *automaton) (start, end int, ok bool) {
	for pos < len(data) {
		at := -1
		if words != nil {
			at = words.from(pos)
		} else if found, ok := auto.find(data[pos:]); !ok {
			at = pos // too complex: try line by line
		} else if found >= 0 {
			at = pos + found
		}

		if at < 0 {
			return 0, 0, false
		}

		start = bytes.LastIndexByte(data[pos:at], '\n') + 1 + pos
		end = len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i
		}

		if m.literal || m.matches(data[start:end], words == nil, auto) {
			return start, end, true
		}
		pos = end + 1
	}
	return 0, 0, false
}

// matches tests one line. sure says that an automaton that is not full found it.
func (m *matcher) matches(line []byte, sure bool, auto *automaton) bool {
	if !auto.full {
		if sure {
			return true
		}
		if len(line) > 0 {
			if at, ok := auto.find(line); ok {
				return at >= 0
			}
		}
	}
	return m.line.Match(line)
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
