package markdown

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	words := strings.TrimSpace(strings.Repeat("word ", 30)) // 149 characters
	for name, c := range map[string]struct {
		text  string
		limit int
		want  []string
	}{
		"nothing":   {" \n ", 64, nil},
		"no limit":  {"a\n\nb\n", 0, []string{"a\n\nb"}},
		"fits":      {"abc", 64, []string{"abc"}},
		"paragraph": {strings.Repeat("a", 50) + "\n\n" + strings.Repeat("b", 50), 64, []string{strings.Repeat("a", 50), strings.Repeat("b", 50)}},
		"line":      {strings.Repeat("a", 50) + "\n" + strings.Repeat("b", 50), 64, []string{strings.Repeat("a", 50), strings.Repeat("b", 50)}},
		"words":     {words, 64, []string{strings.TrimSpace(words[:64]), strings.TrimSpace(words[65:129]), words[130:]}},
		"hard":      {strings.Repeat("x", 130), 64, []string{strings.Repeat("x", 64), strings.Repeat("x", 64), "xx"}},
		"code": {
			"Look:\n```go\n" + strings.Repeat("a := 1\n", 12) + "```\nend", 64,
			[]string{
				"Look:\n```go\n" + strings.Repeat("a := 1\n", 7) + "```",
				"```go\n" + strings.Repeat("a := 1\n", 5) + "```\nend",
			},
		},
		"code moves on": {
			strings.Repeat("t", 55) + "\n```go\nx := 1\ny := 2\n```", 64,
			[]string{strings.Repeat("t", 55), "```go\nx := 1\ny := 2\n```"},
		},
		"code keeps space": {
			"```\n" + strings.Repeat("    deep\n", 10) + "```", 64,
			[]string{"```\n" + strings.Repeat("    deep\n", 6) + "```", "```\n" + strings.Repeat("    deep\n", 4) + "```"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, Split(c.text, c.limit, Runes)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// bare takes away everything that Split may add or leave out.
func bare(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if _, ok := fenceLine(strings.TrimRight(line, "\n")); ok {
			continue
		}
		b.WriteString(strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) {
				return -1
			}
			return r
		}, line))
	}
	return b.String()
}

func randomText(rng *rand.Rand) string {
	words := []string{"a", "word ", "longer word. ", "\n", "\n\n", "日本語", "👩‍👩‍👧", "e\u0301", "\n```go\ncode()\n", "\n```\n", "\n~~~\n", "   x", strings.Repeat("z", 90), "\n- item\n"}
	var b strings.Builder
	for range rng.IntN(60) {
		b.WriteString(words[rng.IntN(len(words))])
	}
	return b.String()
}

// Nothing is lost, no part is too long, no code block is left open that was
// not, and what was said stays as it is when the text grows.
func TestSplitProperties(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	for range 4000 {
		text := randomText(rng)
		limit := 64 + rng.IntN(150)
		for _, unit := range []Unit{Runes, UTF16, Bytes} {
			parts := Split(text, limit, unit)
			if got, want := bare(strings.Join(parts, "\n")), bare(text); got != want {
				t.Fatalf("%q at %d %s: text changed\n got %q\nwant %q", text, limit, unit, got, want)
			}
			for i, p := range parts {
				n := map[Unit]int{Runes: len([]rune(p)), UTF16: len(utf16.Encode([]rune(p))), Bytes: len(p)}[unit]
				if n > limit {
					t.Fatalf("%q at %d %s: part %d has %d: %q", text, limit, unit, i, n, p)
				}
				if i < len(parts)-1 && fenceAfter(p, codeFence{}).mark != "" {
					t.Fatalf("%q at %d %s: part %d leaves a code block open: %q", text, limit, unit, i, p)
				}
				if strings.TrimSpace(p) == "" {
					t.Fatalf("%q at %d %s: part %d is empty", text, limit, unit, i)
				}
			}
			if k := rng.IntN(len(text) + 1); true {
				some := Split(strings.ToValidUTF8(text[:k], ""), limit, unit)
				for i := range len(some) - 1 {
					if some[i] != parts[i] {
						t.Fatalf("%q at %d %s: part %d changes when the text grows\nfirst %q\nlater %q", text, limit, unit, i, some[i], parts[i])
					}
				}
			}
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("```go\nx\n```\ntext", 64)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 64 + abs(limit)%200
		for _, p := range Split(text, limit, Bytes) {
			if len(p) > limit {
				t.Errorf("part of %d bytes, limit %d", len(p), limit)
			}
		}
	})
}

func abs(n int) int { return max(n, -(n + 1)) }

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"a😀b", 2, "a"}, {"a😀b", 3, "a😀"}, {"äöü", 3, "äöü"}, {"", 0, ""}} {
		if got := UTF16.Cut(c.in, c.n); got != c.want {
			t.Errorf("UTF16.Cut(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}
