package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	snippetBytes = 320
	snippetLead  = 60 // bytes before the first word that is shown
)

// snippet returns the part of a text where most of what was found stands together,
// on one line, with what was found between opens and closes.
func snippet(doc string, spans []span, opens, closes string) string {
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	from := bestPlace(spans)
	start := max(0, from-snippetLead)
	if len(doc)-start < snippetBytes {
		start = max(0, len(doc)-snippetBytes)
	}

	start = boundary(doc, start, from)
	end := min(len(doc), start+snippetBytes)
	for end < len(doc) && !utf8.RuneStart(doc[end]) {
		end--
	}

	var b strings.Builder
	if start > 0 {
		b.WriteString("…")
	}

	space := true // at the end of b
	put := func(s string) {
		for _, r := range text.Clean(s) {
			if unicode.IsSpace(r) {
				if !space {
					b.WriteByte(' ')
				}
				space = true
				continue
			}

			b.WriteRune(r)
			space = false
		}
	}

	at := start
	for _, sp := range spans {
		if sp.end <= at || sp.start >= end {
			continue
		}

		sp.start, sp.end = max(sp.start, at), min(sp.end, end)
		put(doc[at:sp.start])
		b.WriteString(opens)
		put(doc[sp.start:sp.end])
		b.WriteString(closes)
		at = sp.end
	}

	put(doc[at:end])
	out := strings.TrimSpace(b.String())
	if end < len(doc) {
		out += "…"
	}
	return joinMarks(out, opens, closes)
}

// joinMarks makes one mark of two that touch, as they do in scripts whose
// characters are found one by one.
func joinMarks(s, opens, closes string) string {
	if opens == "" || closes == "" {
		return s
	}
	return strings.ReplaceAll(s, closes+opens, "")
}

// bestPlace returns where the most different items stand within one snippet.
func bestPlace(spans []span) int {
	best, at := 0, 0
	for i := range spans {
		seen := map[int]bool{}
		for _, sp := range spans[i:] {
			if sp.start > spans[i].start+snippetBytes-snippetLead {
				break
			}
			seen[sp.item] = true
		}

		if len(seen) > best {
			best, at = len(seen), spans[i].start
		}

		if i > 200 {
			break // enough to choose from
		}
	}

	return at
}

// boundary returns the beginning of a word at or behind start, but not behind most.
func boundary(text string, start, most int) int {
	if start == 0 {
		return 0
	}

	for i := start; i < most; i++ {
		if text[i] == ' ' || text[i] == '\n' {
			return i + 1
		}
	}

	for !utf8.RuneStart(text[start]) {
		start++
	}
	return min(start, most)
}
