package text

import (
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/aymanbagabas/go-udiff/lcs"
)

// Span says that the lines A0 to A1 of one text became B0 to B1 of another.
type Span struct{ A0, A1, B0, B1 int }

// maxDiffDepth bounds the work on texts with very many differences. What
// remains counts as replaced.
const maxDiffDepth = 50

// DiffLines finds the changes that lead from a to b, in order. The list is
// short, but not always the shortest.
func DiffLines(a, b []string) []Span {
	return diffBlock(nil, a, b, Span{0, len(a), 0, len(b)}, maxDiffDepth)
}

// diffBlock compares one block of lines. The library gives up after 100 changes
// and reports what lies between the first and the last 50 as replaced, so
// replaced blocks are compared again until nothing more is found.
func diffBlock(out []Span, a, b []string, block Span, depth int) []Span {
	for _, d := range lcs.DiffLines(a[block.A0:block.A1], b[block.B0:block.B1]) {
		s := Span{block.A0 + d.Start, block.A0 + d.End, block.B0 + d.ReplStart, block.B0 + d.ReplEnd}
		if s == block || s.A0 == s.A1 || s.B0 == s.B1 || depth == 0 {
			out = append(out, s)
		} else {
			out = diffBlock(out, a, b, s, depth-1)
		}
	}

	return out
}

// UnifiedDiff renders the changes from a to b with three lines of context, in
// the form that patch and git apply read, and counts the lines. The patch is
// empty if the texts are equal. Control characters of the texts stay in it.
func UnifiedDiff(fromLabel, toLabel, a, b string) (patch string, added, removed int) {
	x, y := SplitLines(a), SplitLines(b)
	starts := make([]int, len(x)+1)
	for i, line := range x {
		starts[i+1] = starts[i] + len(line)
	}

	spans := DiffLines(x, y)
	edits := make([]udiff.Edit, len(spans))
	for i, s := range spans {
		edits[i] = udiff.Edit{
			Start: starts[s.A0],
			End:   starts[s.A1],
			New:   strings.Join(y[s.B0:s.B1], ""),
		}
		added += s.B1 - s.B0
		removed += s.A1 - s.A0
	}

	patch, err := udiff.ToUnified(fromLabel, toLabel, a, edits, udiff.DefaultContextLines)
	if err != nil {
		panic(err) // cannot happen: the edits are in order and within a
	}
	return patch, added, removed
}

// SplitLines cuts a text behind its newlines.
func SplitLines(s string) []string { return slices.Collect(strings.Lines(s)) }
