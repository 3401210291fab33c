package undo

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Diff shows what a turn changed as a unified diff. Control characters are made
// visible, so the text is safe to show and not meant to be applied.
func (s *Store) Diff(ctx context.Context, turn string) (string, error) {
	leave, err := s.enter(ctx, false)
	if err != nil {
		return "", fmt.Errorf("enter the undo store: %w", err)
	}
	defer leave()
	t, err := s.find(turn)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, p := range t.changed() {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		f := t.files[p]
		after, data := s.afterOf(p, f)
		var old []byte
		if f.before.Kind == kindFile {
			if old, err = s.content(f.before.Hash); err != nil {
				fmt.Fprintf(&out, "%s: %v\n", shown(p), err)
				continue
			}
		}
		writeChange(&out, shown(p), side{f.before, old}, side{after, data})
	}
	return out.String(), nil
}

// afterOf is what a turn left at a path, or what is there now if its end was
// missed.
func (s *Store) afterOf(p string, f *fileState) (state, []byte) {
	if f.after != nil {
		if f.after.Kind != kindFile {
			return *f.after, nil
		}
		if data, err := s.content(f.after.Hash); err == nil {
			return *f.after, data
		}
	}
	sp, err := s.spot(p)
	if err != nil || s.allowed(p) != nil {
		return state{Kind: kindGone}, nil
	}
	defer sp.close()
	st, data, _, err := s.look(sp)
	if err != nil {
		return state{Kind: kindShut}, nil
	}
	return st, data
}

// side is one of the two states a diff compares.
type side struct {
	state
	data []byte
}

// text reports whether a side can be shown line by line.
func (s side) text() bool {
	return s.Kind == kindGone || s.Kind == kindFile && len(s.data) <= maxDiffBytes && utf8.Valid(s.data) && bytes.IndexByte(s.data, 0) < 0
}

func (s side) label() string {
	switch s.Kind {
	case kindGone:
		return "nothing"
	case kindDir:
		return "a folder"
	case kindLink:
		return "a link to " + shown(s.Link)
	}
	return fmt.Sprintf("%d bytes", s.Size)
}

const (
	maxDiffBytes = 1 << 20
	diffContext  = 3
)

func writeChange(out *strings.Builder, path string, a, b side) {
	if a.Kind == kindFile && b.Kind == kindFile && a.Mode != b.Mode {
		fmt.Fprintf(out, "%s: mode %o -> %o\n", path, a.Mode, b.Mode)
	}
	if a.state == b.state || a.Kind == kindFile && b.Kind == kindFile && a.Hash == b.Hash {
		return
	}
	if !a.text() || !b.text() {
		if a.Kind == b.Kind && a.Kind == kindDir {
			fmt.Fprintf(out, "%s: mode %o -> %o\n", path, a.Mode, b.Mode)
			return
		}
		fmt.Fprintf(out, "%s: %s -> %s\n", path, a.label(), b.label())
		return
	}
	from, to := "a/"+strings.TrimPrefix(path, "/"), "b/"+strings.TrimPrefix(path, "/")
	if a.Kind == kindGone {
		from = "/dev/null"
	}
	if b.Kind == kindGone {
		to = "/dev/null"
	}
	fmt.Fprintf(out, "--- %s\n+++ %s\n", from, to)
	writeHunks(out, lines(a.data), lines(b.data))
}

// lines splits a text; each line keeps its newline so that a missing one shows.
func lines(data []byte) []string {
	return slices.Collect(strings.Lines(string(data)))
}

// edit is a line of a diff: kept (' '), removed ('-') or added ('+').
type edit struct {
	op   byte
	line string
	a, b int // the line's numbers in both texts, from 0
}

func writeHunks(out *strings.Builder, a, b []string) {
	edits := compare(a, b)
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' {
			i++
			continue
		}
		start := max(i-diffContext, 0)
		end, quiet := i, 0
		for end < len(edits) && quiet <= 2*diffContext {
			if edits[end].op == ' ' {
				quiet++
			} else {
				quiet = 0
			}
			end++
		}
		end -= max(quiet-diffContext, 0)
		writeHunk(out, edits[start:end])
		i = end
	}
}

func writeHunk(out *strings.Builder, edits []edit) {
	na, nb := 0, 0
	for _, e := range edits {
		if e.op != '+' {
			na++
		}
		if e.op != '-' {
			nb++
		}
	}
	first := func(line, n int) int {
		if n == 0 {
			return line
		}
		return line + 1
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", first(edits[0].a, na), na, first(edits[0].b, nb), nb)
	for _, e := range edits {
		out.WriteByte(e.op)
		body, whole := strings.CutSuffix(e.line, "\n")
		out.WriteString(strings.Map(visible, body))
		out.WriteByte('\n')
		if !whole {
			out.WriteString("\\ no newline at the end\n")
		}
	}
}

// visible replaces what moves a cursor or reorders text.
func visible(r rune) rune {
	switch {
	case r == '\t':
		return r
	case r < 0x20:
		return 0x2400 + r
	case r == 0x7f:
		return 0x2421
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Bidi_Control, r), r == 0x2028, r == 0x2029:
		return unicode.ReplacementChar
	}
	return r
}

// maxEdits bounds the work of compare: texts that differ more are shown as
// replaced, which nobody would read line by line anyway.
const maxEdits = 1000

// compare finds a shortest list of edits that turns a into b (Myers 1986).
func compare(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []edit
	for i := range head {
		out = append(out, edit{' ', a[i], i, i})
	}
	for _, e := range middle(a[head:len(a)-tail], b[head:len(b)-tail]) {
		e.a, e.b = e.a+head, e.b+head
		out = append(out, e)
	}
	for i := range tail {
		x, y := len(a)-tail+i, len(b)-tail+i
		out = append(out, edit{' ', a[x], x, y})
	}
	return out
}

func middle(a, b []string) []edit {
	trace := shortest(a, b)
	if trace == nil {
		return replaced(a, b)
	}
	x, y := len(a), len(b)
	var out []edit
	for d, v := range slices.Backward(trace) {
		at := func(k int) int { return v[k+d+1] }
		k := x - y
		prev := k - 1
		if k == -d || k != d && at(k-1) < at(k+1) {
			prev = k + 1
		}
		px := 0
		if d > 0 {
			px = at(prev)
		}
		py := px - prev
		if d == 0 {
			px, py = 0, 0
		}
		for x > px && y > py && x > 0 && y > 0 && a[x-1] == b[y-1] {
			x, y = x-1, y-1
			out = append(out, edit{' ', a[x], x, y})
		}
		if d == 0 {
			break
		}
		if x == px {
			y--
			out = append(out, edit{'+', b[y], x, y})
		} else {
			x--
			out = append(out, edit{'-', a[x], x, y})
		}
	}
	slices.Reverse(out)
	return out
}

// shortest returns, for each number of edits d, how far each diagonal -d-1..d+1
// was reached before that step; nil if there are more than maxEdits.
func shortest(a, b []string) (trace [][]int) {
	most := min(len(a)+len(b), maxEdits)
	v := make([]int, 2*most+3)
	mid := most + 1
	for d := range most + 1 {
		trace = append(trace, slices.Clone(v[mid-d-1:mid+d+2]))
		for k := -d; k <= d; k += 2 {
			x := v[mid+k-1] + 1
			if k == -d || k != d && v[mid+k-1] < v[mid+k+1] {
				x = v[mid+k+1]
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			v[mid+k] = x
			if x >= len(a) && y >= len(b) {
				return trace
			}
		}
	}
	return nil
}

func replaced(a, b []string) (out []edit) {
	for i, l := range a {
		out = append(out, edit{'-', l, i, 0})
	}
	for i, l := range b {
		out = append(out, edit{'+', l, len(a), i})
	}
	return out
}
