package files

import (
	"bytes"
	"math"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// maxLiterals bounds the set of strings searched for before the expression.
const maxLiterals = 16

// literals is a set of strings one of which every match must contain. Looking
// for them first is many times faster than running the expression.
type literals struct {
	words [][]byte // lower case if fold
	fold  bool     // letter case is ignored, ASCII only
	// wide marks fold words with k or s, which also match the Kelvin sign and
	// the long s; files that contain those are searched without words.
	wide bool
}

// requiredLiterals finds the most selective set in an expression; no words if
// there is none worth using.
func requiredLiterals(re *syntax.Regexp) literals {
	fold := false
	set := required(re, &fold)
	if len(set) == 0 || shortest(set) < 2 {
		return literals{}
	}

	l := literals{fold: fold}
	for _, w := range set {
		if fold {
			w = strings.Map(lowerASCII, w)
			l.wide = l.wide || strings.ContainsAny(w, "ks")
		}
		l.words = append(l.words, []byte(w))
	}

	return l
}

func required(re *syntax.Regexp, fold *bool) []string {
	switch re.Op {
	case syntax.OpLiteral:
		s := string(re.Rune)
		if re.Flags&syntax.FoldCase != 0 {
			*fold = true
			s = longestASCII(s)
		}
		return []string{s}

	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0], fold)
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0], fold)
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if set := required(sub, fold); set != nil && (best == nil || shortest(set) > shortest(best)) {
				best = set
			}
		}
		return best

	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			set := required(sub, fold)
			if set == nil || len(all)+len(set) > maxLiterals {
				return nil
			}
			all = append(all, set...)
		}

		return all
	}
	return nil
}

func shortest(set []string) int {
	n := math.MaxInt
	for _, s := range set {
		n = min(n, len(s))
	}
	return n
}

func longestASCII(s string) (best string) {
	for run := range strings.FieldsFuncSeq(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		if len(run) > len(best) {
			best = run
		}
	}
	return best
}

// finder runs through one text from word to word.
type finder struct {
	l    literals
	data []byte
	next []int // per word: the next occurrence, -1 not looked for
}

// usable reports whether the words can be relied on for this text.
func (l literals) usable(data []byte) bool {
	return len(l.words) > 0 && (!l.wide || !bytes.Contains(data, []byte("\u212a")) && !bytes.Contains(data, []byte("\u017f")))
}

func (l literals) find(data []byte, buf []int) *finder {
	f := &finder{l: l, data: data, next: buf[:0]}
	for range l.words {
		f.next = append(f.next, -1)
	}
	return f
}

// from returns the first occurrence of any word at or after pos, or -1.
func (f *finder) from(pos int) int {
	first := math.MaxInt
	for i, w := range f.l.words {
		if f.next[i] < pos {
			var at int
			if f.l.fold {
				at = indexFold(f.data[pos:], w)
			} else {
				at = bytes.Index(f.data[pos:], w)
			}

			if at < 0 {
				f.next[i] = math.MaxInt
			} else {
				f.next[i] = pos + at
			}
		}
		first = min(first, f.next[i])
	}

	if first == math.MaxInt {
		return -1
	}
	return first
}

// indexFold is bytes.Index ignoring ASCII letter case; word is lower case. It
// looks for the word's rarest byte, in both cases, with the fast byte search.
func indexFold(data, word []byte) int {
	pivot := rarest(word)
	lower, upper := word[pivot], upperByte(word[pivot])
	nextLower, nextUpper := -1, -1
	if upper == lower {
		nextUpper = math.MaxInt
	}

	for at := pivot; at < len(data); {
		nextLower = advance(data, lower, at, nextLower)
		nextUpper = advance(data, upper, at, nextUpper)
		hit := min(nextLower, nextUpper)
		if hit == math.MaxInt {
			return -1
		}

		start := hit - pivot
		if start+len(word) > len(data) {
			return -1
		}
		if equalFold(data[start:start+len(word)], word) {
			return start
		}
		at = hit + 1
	}

	return -1
}

func advance(data []byte, b byte, at, known int) int {
	if known >= at {
		return known
	}
	if i := bytes.IndexByte(data[at:], b); i >= 0 {
		return at + i
	}
	return math.MaxInt
}

func equalFold(data, lower []byte) bool {
	for i, c := range lower {
		d := data[i]
		if d >= 'A' && d <= 'Z' {
			d |= 0x20
		}
		if d != c {
			return false
		}
	}
	return true
}

func lowerASCII(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r | 0x20
	}
	return r
}

func upperByte(b byte) byte {
	if b >= 'a' && b <= 'z' {
		return b &^ 0x20
	}
	return b
}

// rarest picks the byte least frequent in ordinary text and code.
func rarest(word []byte) int {
	const common = " etaoinsrlcdupmhgfby_.,()-=\"/vwkx01"
	best, score := 0, -1
	for i, b := range word {
		s := strings.IndexByte(common, b)
		if s < 0 {
			s = len(common)
		}
		if s > score {
			best, score = i, s
		}
	}

	return best
}
