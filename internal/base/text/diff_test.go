package text

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// applySpans follows the changes from a to b; false if they are not in order.
func applySpans(a, b []string, spans []Span) ([]string, bool) {
	var out []string
	at := 0
	for _, s := range spans {
		if s.A0 < at || s.A1 < s.A0 || s.B1 < s.B0 || s.A0 == s.A1 && s.B0 == s.B1 {
			return nil, false
		}
		out = append(append(out, a[at:s.A0]...), b[s.B0:s.B1]...)
		at = s.A1
	}
	return append(out, a[at:]...), true
}

func TestDiffLinesProperty(t *testing.T) {
	t.Parallel()

	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 2))
	lines := func(most, kinds int) []string {
		out := make([]string, rnd.IntN(most))
		for i := range out {
			out[i] = fmt.Sprintln(rnd.IntN(kinds))
		}
		return out
	}

	for i := range 4000 {
		most, kinds := 14, 4
		if i%8 == 0 { // more changes than the library looks for at once
			most, kinds = 600, 1+rnd.IntN(400)
		}
		a, b := lines(most, kinds), lines(most, kinds)
		got, ok := applySpans(a, b, DiffLines(a, b))
		if !ok || !slices.Equal(got, b) {
			t.Fatalf("seed %d: %q -> %q by %v", seed, a, b, DiffLines(a, b))
		}
	}
}

// Every second line of a long text changes: no line that stays is reported.
func TestDiffLinesWithManyChanges(t *testing.T) {
	t.Parallel()

	var a, b []string
	for i := range 4000 {
		a, b = append(a, fmt.Sprintln("line", i)), append(b, fmt.Sprintln("line", i))
		if i%2 == 1 {
			b[i] = fmt.Sprintln("changed", i)
		}
	}
	if n := len(DiffLines(a, b)); n != 2000 {
		t.Errorf("%d changes, want 2000", n)
	}
}

func TestUnifiedDiff(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ name, a, b, want string }{
		{"equal", "a\n", "a\n", ""},
		{"both empty", "", "", ""},
		{"created", "", "a\n", "@@ -0,0 +1 @@\n+a\n"},
		{"deleted", "a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n"},
		{"changed", "a\nb\n", "a\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
		{"no newline", "a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		{"newline lost", "a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"},
		{"appended after no newline", "a", "a\nb", "@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n\\ No newline at end of file\n"},
		{"inserted far down", "1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nx\n5\n6\n", "@@ -2,5 +2,6 @@\n 2\n 3\n 4\n+x\n 5\n 6\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, _, _ := UnifiedDiff("from", "to", c.a, c.b)
			if got = strings.TrimPrefix(got, "--- from\n+++ to\n"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzDiffLines(f *testing.F) {
	f.Add("a\nb\n", "b\nc")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := SplitLines(a), SplitLines(b)
		got, ok := applySpans(x, y, DiffLines(x, y))
		if !ok || strings.Join(got, "") != b {
			t.Fatalf("%q -> %q by %v", a, b, DiffLines(x, y))
		}
		if patch, _, _ := UnifiedDiff("a", "b", a, b); (patch == "") != (a == b) {
			t.Fatalf("%q -> %q: %q", a, b, patch)
		}
	})
}
