package files

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequiredLiterals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pat  string
		want []string
	}{
		{"needle", []string{"needle"}},
		{"foo.*longer", []string{"longer"}},
		{"(foo|barbar)x", []string{"foo", "barbar"}},
		{"(foo|b)x", nil},
		{"foo?", []string{"fo"}},
		{"(foo)*", nil},
		{"(foo)+", []string{"foo"}},
		{"a{3}", nil},
		{"(ab){2,5}", []string{"ab"}},
		{"(?i)Foo", []string{"foo"}},
		{"(?i)é", nil},
		{"(?i)éabc", []string{"abc"}},
		{`\bword\b`, []string{"word"}},
		{"^func", []string{"func"}},
		{"[a-z]+", nil},
		{"foo|", nil},
	} {
		tree, err := syntax.Parse(c.pat, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range requiredLiterals(tree.Simplify()).words {
			got = append(got, string(w))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("requiredLiterals(%q) (-want +got):\n%s", c.pat, d)
		}
	}
}

// matchingLines is the plain way to do what scan does.
func matchingLines(re *regexp.Regexp, text string) (out []string) {
	lines := strings.Split(text, "\n")
	if n := len(lines); n > 0 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	for i, l := range lines {
		if re.MatchString(l) {
			out = append(out, fmt.Sprintf("%d:%s", i+1, l))
		}
	}
	return out
}

func scanned(m *matcher, text string) (out []string) {
	m.scan([]byte(text), true, func(l lineMatch) bool {
		out = append(out, fmt.Sprintf("%d:%s", l.num, text[l.start:l.end]))
		return true
	})
	return out
}

func FuzzMatcher(f *testing.F) {
	for _, pat := range []string{"abc", "^$", "^", "$", `\s+x`, "a|b", "(?i)k", "(?i)straSSe", `\bfoo\b`, `[^a]b`, "(?s)a.b", `\Aab`, `ab\z`, "x*", "(foo|bar)baz", `\d{2,}`, `é+`} {
		f.Add(pat, "abc\n\nfoo bar\nX k \u212a ſ straße STRASSE\nab 12 é\n\nlast", false)
	}
	f.Fuzz(func(t *testing.T, pat, text string, fold bool) {
		if len(pat) > 60 || len(text) > 2000 || strings.Contains(text, "\r") {
			return
		}
		m, err := compileMatcher(pat, false, fold)
		if err != nil {
			return
		}
		want, got := matchingLines(m.line, text), scanned(m, text)
		if !slices.Equal(want, got) {
			t.Fatalf("pattern %q fold %v in %q:\ngot  %q\nwant %q", pat, fold, text, got, want)
		}
	})
}

// Letters that only Unicode folds to k and s are found too.
func TestMatcherFoldsUnicode(t *testing.T) {
	t.Parallel()
	m, err := compileMatcher("task", false, true)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1:TASK", "2:ta\u017fk", "3:tas\u212a"}
	if d := cmp.Diff(want, scanned(m, "TASK\nta\u017fk\ntas\u212a\nmask\n")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func FuzzIndexFold(f *testing.F) {
	f.Add("xxNeEdLe", "needle")
	f.Add("aAaAb", "aab")
	f.Fuzz(func(t *testing.T, text, word string) {
		word = strings.Map(lowerASCII, word)
		if word == "" {
			return
		}
		want := -1
		for i := range len(text) - len(word) + 1 {
			if equalFold([]byte(text[i:i+len(word)]), []byte(word)) {
				want = i
				break
			}
		}
		if got := indexFold([]byte(text), []byte(word)); got != want {
			t.Fatalf("indexFold(%q, %q) = %d, want %d", text, word, got, want)
		}
	})
}

func TestMatchElems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pat, path string
		want      bool
	}{
		{"a/b", "a/b", true},
		{"a/b", "a/b/c", false},
		{"**/b", "b", true},
		{"**/b", "x/y/b", true},
		{"a/**", "a/x/y", true},
		{"a/**", "a", false},
		{"a/**/z", "a/z", true},
		{"a/**/z", "a/b/c/z", true},
		{"a/**/z", "b/a/z", false},
		{"**/a/**/b/*.go", "q/a/a/x/b/b/f.go", true},
		{"**/a/**/b/*.go", "q/a/x/f.go", false},
		{"*/x", "a/x", true},
		{"*/x", "a/b/x", false},
	} {
		if got := matchElems(strings.Split(c.pat, "/"), strings.Split(c.path, "/")); got != c.want {
			t.Errorf("matchElems(%q, %q) = %v, want %v", c.pat, c.path, got, c.want)
		}
	}
	// Many "**" must not take exponential time.
	want := strings.Split(strings.Repeat("**/a/", 30)+"b", "/")
	if matchElems(want, strings.Split(strings.Repeat("a/", 200)+"c", "/")) {
		t.Error("matched without a b")
	}
}

// An expression that needs too many states is still searched correctly.
func TestMatcherTooComplex(t *testing.T) {
	t.Parallel()
	m, err := compileMatcher("[ab][cd]*a[ab]{12}$", false, false)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	seed := uint32(1)
	for i := range 60_000 {
		seed = seed*1664525 + 1013904223
		text.WriteByte("abab\nbaabab"[seed>>28%11])
		if i%97 == 0 {
			text.WriteString("é")
		}
	}
	want, got := matchingLines(m.line, text.String()), scanned(m, text.String())
	if len(want) == 0 || !slices.Equal(want, got) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
	a := newAutomaton(m.prog)
	for line := range strings.Lines(text.String()) {
		_, _ = a.find([]byte(line))
	}
	if !a.full {
		t.Errorf("%d states were enough, so the test shows nothing", len(a.states))
	}
}
