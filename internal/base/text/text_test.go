package text_test

import (
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		fn   func(string, int) string
		in   string
		n    int
		want string
	}{
		{"cut short", text.Cut, "abc", 5, "abc"},
		{"cut exact", text.Cut, "你好吗", 3, "你好吗"},
		{"cut runes", text.Cut, "你好吗", 2, "你好"},
		{"cut none", text.Cut, "abc", 0, ""},
		{"cut negative", text.Cut, "abc", -1, ""},
		{"cut empty", text.Cut, "", -1, ""},
		{"cut invalid", text.Cut, "\xff\xfe\xfd", 2, "\xff\xfe"},
		{"end short", text.CutEnd, "abc", 5, "abc"},
		{"end runes", text.CutEnd, "你好吗", 2, "好吗"},
		{"end none", text.CutEnd, "abc", 0, ""},
		{"end negative", text.CutEnd, "abc", -3, ""},
		{"ellipsis exact", text.Ellipsis, "你好吗", 3, "你好吗"},
		{"ellipsis cut", text.Ellipsis, "你好吗", 2, "你…"},
		{"ellipsis one", text.Ellipsis, "abc", 1, "…"},
		{"ellipsis none", text.Ellipsis, "abc", 0, ""},
		{"middle exact", text.CutMiddle, "你好吗", 3, "你好吗"},
		{"middle cut", text.CutMiddle, "abcdefghij", 6, "abcd\n\n[... 4 characters cut ...]\n\nij"},
		{"middle none", text.CutMiddle, "你好", 0, "\n\n[... 2 characters cut ...]\n\n"},
	} {
		if got := c.fn(c.in, c.n); got != c.want {
			t.Errorf("%s: (%q, %d) = %q, want %q", c.name, c.in, c.n, got, c.want)
		}
	}
	if got, want := text.Valid("a\xff\xfeb好"), "a\uFFFDb好"; got != want {
		t.Errorf("Valid = %q, want %q", got, want)
	}
}

func FuzzCut(f *testing.F) {
	f.Add("你好, world", 4)
	f.Add("\xff\xfe", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		head, tail := text.Cut(s, n), text.CutEnd(s, n)
		if !strings.HasPrefix(s, head) || !strings.HasSuffix(s, tail) {
			t.Errorf("%q is not a prefix or %q not a suffix of %q", head, tail, s)
		}
		want := min(max(n, 0), utf8.RuneCountInString(s))
		for _, got := range []string{head, tail, text.Ellipsis(s, n)} {
			if utf8.RuneCountInString(got) != want || utf8.ValidString(s) && !utf8.ValidString(got) {
				t.Errorf("cut of %q to %d = %q", s, n, got)
			}
		}
		if got := text.CutMiddle(s, n); utf8.RuneCountInString(got) > want+60 || utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("CutMiddle(%q, %d) = %q", s, n, got)
		}
	})
}

func TestTokens(t *testing.T) { // not parallel: it counts allocations
	for _, c := range []struct {
		in   string
		want int
	}{
		{"", 0},
		{"a", 1},
		{"abcd", 1},
		{"abcde", 2},
		{"你好世界", 4},
		{"안녕", 2},
		{"カナ", 2},
		{"你好abcd", 3},
		{"éé", 2},
		{"🙂", 2},
		{"\xff\xff\xff\xff", 2},
	} {
		if got := text.Tokens(c.in); got != c.want {
			t.Errorf("Tokens(%q) = %d, want %d", c.in, got, c.want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { text.Tokens("abc 你好 é") }); n != 0 {
		t.Errorf("Tokens allocates %v times", n)
	}
}

func TestCalibration(t *testing.T) {
	t.Parallel()
	var c text.Calibration
	if c.Factor() != 1 || c.Apply(100) != 100 {
		t.Errorf("zero value: factor %v, Apply(100) = %d", c.Factor(), c.Apply(100))
	}
	c.Observe(0, 10)
	c.Observe(10, 0)
	c.Observe(-1, -1)
	if c.Factor() != 1 {
		t.Errorf("useless observations moved the factor to %v", c.Factor())
	}
	c.Observe(1000, 1400)
	if got, want := c.Factor(), 1.1; math.Abs(got-want) > 1e-9 {
		t.Errorf("factor after one observation = %v, want %v", got, want)
	}
	for range 100 {
		c.Observe(1000, 1400)
	}
	if got := c.Apply(1000); got < 1399 || got > 1400 {
		t.Errorf("Apply(1000) = %d after many observations of 1.4", got)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				c.Observe(1, 1_000_000)
			}
		})
	}
	wg.Wait()
	if f := c.Factor(); f > 2 || f < 1.99 {
		t.Errorf("factor = %v, want it clamped at 2", f)
	}
	for range 100 {
		c.Observe(1_000_000, 1)
	}
	if f := c.Factor(); f < 0.5 || f > 0.51 {
		t.Errorf("factor = %v, want it clamped at 0.5", f)
	}
}

func TestShortPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, home string
		n          int
		want       string
	}{
		{"a.go", "/home/u", 40, "a.go"},
		{"/home/u/a.go", "/home/u", 40, "~/a.go"},
		{"/home/u/a.go", "/home/u/", 40, "~/a.go"},
		{"/home/u", "/home/u", 40, "~"},
		{"/home/uwe/a.go", "/home/u", 40, "/home/uwe/a.go"},
		{"/home/u/a.go", "", 40, "/home/u/a.go"},
		{`C:\Users\u\a.go`, `C:\Users\u`, 40, "~/a.go"},
		{"/srv/one/two/three/a.go", "", 14, "…/three/a.go"},
		{"/srv/one/two/three/a.go", "", 18, "…/two/three/a.go"},
		{"/srv/one/two/three/", "", 10, "…/three"},
		{"/srv/目录/文件.go", "", 8, "…/文件.go"},
		{"/srv/a-very-long-name.txt", "", 10, "…-name.txt"},
		{"/srv/abc", "", 0, ""},
		{"abcdef", "", 3, "…ef"},
		{"////////", "", 4, "…"},
	} {
		if got := text.ShortPath(c.path, c.home, c.n); got != c.want {
			t.Errorf("ShortPath(%q, %q, %d) = %q, want %q", c.path, c.home, c.n, got, c.want)
		}
	}
}

func TestSafeName(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, in := range []string{
		"", ".", "..", "../../etc/passwd", "call_1", "CALL_1", "telegram:123", "telegram_123", "a b", "a\x00b", "con",
		`<>:"/\|?*`, "你好", strings.Repeat("好", 300), strings.Repeat("好", 301), "\xff\xfe", "x\u202Ey", "trailing. ",
	} {
		got := text.SafeName(in)
		if len(got) > 100 || !utf8.ValidString(got) || !filepath.IsLocal(got) || filepath.Base(got) != got ||
			strings.ContainsAny(got, "<>:\"/\\|?* \x00\u202E") || strings.HasPrefix(got, ".") {
			t.Errorf("SafeName(%q) = %q is not safe", in, got)
		}
		if before, ok := seen[strings.ToLower(got)]; ok {
			t.Errorf("SafeName(%q) = SafeName(%q) = %q", in, before, got)
		}
		seen[strings.ToLower(got)] = in
	}
	if got := text.SafeName("call_1"); !strings.HasPrefix(got, "call_1-") || got != text.SafeName("call_1") {
		t.Errorf("SafeName(call_1) = %q, want a stable name that begins with the id", got)
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"abc", "abc", 0},
		{"abc", "abd", 1},
		{"abc", "acb", 1},
		{"kitten", "sitting", 3},
		{"好的", "好", 1},
		{"ca", "abc", 3},
	} {
		if got := text.Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"edit_file", "exec", "grep", "read_file", "write_file"}
	for _, c := range []struct{ word, want string }{
		{"readfile", "read_file"},
		{"ReadFile", "read_file"},
		{"file_read", "read_file"},
		{"raed_file", "read_file"},
		{"greps", "grep"},
		{"exce", "exec"},
		{"weather", ""},
		{"", ""},
		{"gr", ""},
		{"___", ""},
		{strings.Repeat("x", 5000), ""},
	} {
		if got := text.Nearest(c.word, names); got != c.want {
			t.Errorf("Nearest(%q) = %q, want %q", c.word, got, c.want)
		}
	}
	if got := text.Nearest("abd", []string{"abc", "abe", strings.Repeat("y", 5000)}); got != "abc" {
		t.Errorf("Nearest of two equally near = %q, want the first", got)
	}
	if got := text.NearestRatio("bogus", []string{"logs", "config"}, 0.6); got != "" {
		t.Errorf("NearestRatio of an unlike word = %q", got)
	}
	if got := text.NearestRatio("ogs", []string{"logs", "config"}, 0.6); got != "logs" {
		t.Errorf("NearestRatio without the first letter = %q", got)
	}
	commands := []string{"/help", "/history", "/model", "/new", "/status", "/stop"}
	for _, c := range []struct{ word, want string }{
		{"/hist", "/history"}, {"/stat", "/status"}, {"/mdoel", "/model"}, {"/HELP", "/help"}, {"/zzz", ""}, {"", ""},
	} {
		if got := text.NearestRatio(c.word, commands, 0.6); got != c.want {
			t.Errorf("NearestRatio(%q) = %q, want %q", c.word, got, c.want)
		}
	}
}

func TestBlank(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{"": true, " \n\t": true, "\u200b\u00a0": true, "a": false, " . ": false, "\u200b中": false} {
		if got := text.Blank(s); got != want {
			t.Errorf("Blank(%q) = %v, want %v", s, got, want)
		}
	}
}

// A cut at bytes never leaves a part of a character, whatever the limit.
func TestCutBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "abc"},
		{"aé", 3, "aé"},
		{"aéb", 3, "aé"},
		{"aé", 2, "a"},
		{"日本", 5, "日"},
		{"日本", 2, ""},
		{"x", 0, ""},
		{"x", -1, ""},
		{"", -1, ""},
		{"\x80\x80\x80", 1, ""}, // no character begins there
	} {
		if got := text.CutBytes(c.s, c.n); got != c.want {
			t.Errorf("CutBytes(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func TestFirstLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"one\ntwo", 0, "one"},
		{"\n\n  one \r\ntwo", 0, "one"},
		{"one", 2, "o…"},
		{" \n ", 5, ""},
	} {
		if got := text.FirstLine(c.s, c.n); got != c.want {
			t.Errorf("FirstLine(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}
