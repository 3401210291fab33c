package files

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever is asked for, an edit changes only what it found: everything before
// the first and after the last replacement stays, and an exact match is
// replaced exactly.
func FuzzEdit(f *testing.F) {
	f.Add("a\r\nb\nc\r\n", "b\n", "x\ny\n")
	f.Add("say “hi” and don’t\n", "say \"hi\"", "say \"bye\"")
	f.Add("\tif x {\n\t\ty()\n\t}\n", "if x {\n\ty()\n}", "if z {\n\tw()\n}")
	f.Add("\ufeffa\u200bb", "a<U+200B>b", "c")
	f.Add("x\n\n\nx", "x", "")
	f.Fuzz(func(t *testing.T, content, old, repl string) {
		if !utf8.ValidString(old) || !utf8.ValidString(repl) {
			return // JSON arguments are always UTF-8
		}
		in := editInput{Path: "f", OldText: old, NewText: repl, ReplaceAll: true}
		got, err := in.apply("f", []byte(content))
		if err != nil {
			return
		}
		out := string(got.content)
		if !utf8.ValidString(out) {
			t.Fatalf("result is not UTF-8: %q", out)
		}
		if old == "" || got.rung != exactMatch || repl == "" || strings.Contains(content+old+repl, "\r") || strings.Contains(old, "<U+") {
			return
		}
		body, bom := strings.CutPrefix(content, "\ufeff")
		want := strings.ReplaceAll(body, old, repl)
		if bom {
			want = "\ufeff" + want
		}
		if out != want {
			t.Fatalf("exact edit of %q: %q -> %q = %q, want %q", content, old, repl, out, want)
		}
	})
}

// Line ends outside the replaced passage survive.
func FuzzLineEnds(f *testing.F) {
	f.Add("a\r\nb\nc\r\n", 2, 4)
	f.Fuzz(func(t *testing.T, s string, i, j int) {
		lf, back := unifyLines(s)
		if strings.ReplaceAll(s, "\r\n", "\n") != lf {
			t.Fatalf("unifyLines(%q) = %q", s, lf)
		}
		if i < 0 || j < i || j > len(lf) {
			return
		}
		piece := s[back.original(i):back.original(j)]
		if strings.ReplaceAll(piece, "\r\n", "\n") != lf[i:j] {
			t.Fatalf("%q: [%d:%d] = %q maps to %q", s, i, j, lf[i:j], piece)
		}
	})
}

// A loosely found passage lies inside the content and starts and ends at characters.
func FuzzPassages(f *testing.F) {
	f.Add("  a\n “b” \nc", "a\n\"b\"")
	f.Fuzz(func(t *testing.T, content, old string) {
		if !utf8.ValidString(content) || !utf8.ValidString(old) {
			return
		}
		found, _ := findPassages(content, old)
		end := 0
		for _, m := range found {
			if m.start < end || m.end < m.start || m.end > len(content) {
				t.Fatalf("findPassages(%q, %q) = %v", content, old, found)
			}
			if !utf8.ValidString(content[m.start:m.end]) {
				t.Fatalf("findPassages(%q, %q) splits a character: %v", content, old, found)
			}
			end = m.end
		}
	})
}

func TestVisibleRoundTrip(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"plain", "a\u200bb", "\u202e", "\U000e0041", "x\x1b[2J", "a<U+200B", "<U+>", "<U+0041>", "\ufeff"} {
		shown, _ := visible(s)
		for _, r := range shown {
			if invisible(r) {
				t.Errorf("visible(%q) = %q still hides %U", s, shown, r)
			}
		}
		if got := unescape(shown); got != s {
			t.Errorf("unescape(visible(%q)) = %q", s, got)
		}
	}
}
