package main

import (
	"cmp"
	"slices"
	"strings"
)

// Two places are a duplicate from this many equal lines on. Some of them have to say
// something: the ends of two loops that return false are six equal lines, too.
const (
	minEqual = 6
	minWords = 4 // lines with a letter or a digit
)

// place is a line of a file.
type place struct {
	file string
	line int
}

// pair is two places with equal lines.
type pair struct {
	a, b  place
	lines int
}

// codeText is the lines of a file that duplicates are looked for in.
type codeText struct {
	file  string
	ids   []int  // equal lines have equal numbers
	words []bool // whether they have a letter or a digit
	lines []int  // their numbers in the file
}

// finder looks for duplicates in files of one language.
type finder struct {
	ids   map[string]int
	texts []codeText
}

func newFinder() *finder { return &finder{ids: map[string]int{}} }

func (f *finder) add(file string, lines []line) {
	text := codeText{file: file}
	for i, l := range lines {
		if strings.TrimSpace(l.code) == "" {
			continue
		}
		key := strings.Join(strings.Fields(l.code), " ")
		id, ok := f.ids[key]
		if !ok {
			id = len(f.ids)
			f.ids[key] = id
		}
		text.ids = append(text.ids, id)
		text.words = append(text.words, l.hasWords())
		text.lines = append(text.lines, i+1)
	}
	f.texts = append(f.texts, text)
}

// spot is where a window of minEqual lines begins.
type spot struct{ text, at int }

// pairs returns all pairs of places with at least minEqual equal lines, the longest
// first, and how many lines of the code are in one of them.
func (f *finder) pairs() ([]pair, int) {
	windows := map[[minEqual]int][]spot{}
	for t, text := range f.texts {
		for at := 0; at+minEqual <= len(text.ids); at++ {
			key := [minEqual]int(text.ids[at:])
			windows[key] = append(windows[key], spot{t, at})
		}
	}

	var found []pair
	inPairs := map[spot]bool{}
	for _, spots := range windows {
		for i, a := range spots {
			for _, b := range spots[i+1:] {
				n := f.equalFrom(a, b)
				if n < minEqual {
					continue
				}
				found = append(found, pair{f.place(a), f.place(b), n})
				for k := range n {
					inPairs[spot{a.text, a.at + k}] = true
					inPairs[spot{b.text, b.at + k}] = true
				}
			}
		}
	}
	slices.SortFunc(found, func(x, y pair) int {
		return cmp.Or(
			cmp.Compare(y.lines, x.lines),
			cmp.Compare(x.a.file, y.a.file), cmp.Compare(x.a.line, y.a.line),
			cmp.Compare(x.b.file, y.b.file), cmp.Compare(x.b.line, y.b.line),
		)
	})
	return found, len(inPairs)
}

// equalFrom returns how many lines are equal from two spots on, and 0 if they are not
// worth naming. It is 0, too, if the lines before them are equal: then they belong to
// a pair that begins there. Lines of one file do not count for both places.
func (f *finder) equalFrom(a, b spot) int {
	x, y := f.texts[a.text].ids, f.texts[b.text].ids
	if a.at > 0 && b.at > 0 && x[a.at-1] == y[b.at-1] {
		return 0
	}
	n := 0
	for a.at+n < len(x) && b.at+n < len(y) && x[a.at+n] == y[b.at+n] {
		n++
	}
	if a.text == b.text {
		n = min(n, b.at-a.at)
	}

	words := 0
	for _, has := range f.texts[a.text].words[a.at : a.at+n] {
		if has {
			words++
		}
	}
	if words < minWords {
		return 0
	}
	return n
}

func (f *finder) place(s spot) place {
	text := f.texts[s.text]
	return place{text.file, text.lines[s.at]}
}
