package tui

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file under testdata; escape bytes are shown as ␛.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	got = strings.ReplaceAll(got, "\x1b", "␛")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// render shows a text that arrives in pieces, with escape sequences.
func render(o renderOptions, pieces ...string) string {
	return encodeLines(renderLines(o, pieces), true)
}

// renderNoColor shows a text that arrives in pieces, without escape sequences.
func renderNoColor(o renderOptions, pieces ...string) string {
	return encodeLines(renderLines(o, pieces), false)
}

func renderLines(o renderOptions, pieces []string) []line {
	r := newRenderer(o)
	var lines []line
	for _, p := range pieces {
		lines = append(lines, r.feed(p)...)
	}
	return append(lines, r.flush()...)
}

// encodeLines joins lines with line feeds, one after each.
func encodeLines(lines []line, colour bool) string {
	var b strings.Builder
	var shown attr
	if colour {
		shown = ^shown
	}
	for _, l := range lines {
		l.encode(&b, shown)
		b.WriteByte('\n')
	}
	return b.String()
}

func TestRendererGolden(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/answer.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"answer.wide.golden":    render(renderOptions{Width: 72}, string(src)),
		"answer.narrow.golden":  render(renderOptions{Width: 24}, string(src)),
		"answer.nocolor.golden": renderNoColor(renderOptions{Width: 72}, string(src)),
		"answer.literal.golden": render(renderOptions{Width: 40, Literal: true}, string(src)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, text)
		})
	}
}

func TestRendererInline(t *testing.T) {
	t.Parallel()
	// B bold, I italic, C code, U underline, S strike, D dim; / ends a style.
	mark := strings.NewReplacer("\x1b[0;1m", "{B}", "\x1b[0;3m", "{I}", "\x1b[0;1;3m", "{BI}", "\x1b[0;36m", "{C}",
		"\x1b[0;4m", "{U}", "\x1b[0;9m", "{S}", "\x1b[0;2m", "{D}", "\x1b[0m", "{/}")
	for _, c := range []struct{ name, in, want string }{
		{"bold", "a **b** c", "a {B}b{/} c"},
		{"italic and bold", "*i* **b** ***x***", "{I}i{/} {B}b{/} {BI}x{/}"},
		{"underscores", "_i_ __b__ snake_case_name", "{I}i{/} {B}b{/} snake_case_name"},
		{"nested", "**a *b* c**", "{B}a {BI}b{B} c{/}"},
		{"bold inside italic", "*a **b** c*", "{I}a {BI}b{I} c{/}"},
		{"bar over a rule", "a | b\n---", "a | b\n{D}" + strings.Repeat("─", 40) + "{/}"},
		{"nested at the end", "*a **b***", "{I}a {BI}b{/}"},
		{"arithmetic", "2 * 3 * 4", "2 * 3 * 4"},
		{"unclosed", "**a b", "**a b"},
		{"next to wide text", "这是**重点**。", "这是{B}重点{/}。"},
		{"code keeps marks", "`a*b*c` d", "{C}a*b*c{/} d"},
		{"double ticks", "``a`b``", "{C}a`b{/}"},
		{"code hides a closing mark", "*a `*` b*", "{I}a \x1b[0;3;36m*{I} b{/}"},
		{"strike", "~~x~~ ~y~", "{S}x{/} ~y~"},
		{"link", "[t](http://u_v_w)", "{U}t{/} {D}(http://u_v_w){/}"},
		{"image", "![alt](p.png)", "{U}alt{/} {D}(p.png){/}"},
		{"link with parentheses", "[t](u(1))", "{U}t{/} {D}(u(1)){/}"},
		{"brackets", "a[1] [x] (y)", "a[1] [x] (y)"},
		{"autolink", "<https://a.b>", "{U}https://a.b{/}"},
		{"html stays", "<b>x</b>", "<b>x</b>"},
		{"escapes", `\*a\* \_`, `*a* _`},
		{"windows path", `C:\dir\new`, `C:\dir\new`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := mark.Replace(render(renderOptions{}, c.in))
			if want := c.want + "\n"; got != mark.Replace(want) {
				t.Errorf("render(%q) = %q, want %q", c.in, got, want)
			}
		})
	}
}

func TestRendererNeutralisesControls(t *testing.T) {
	t.Parallel()
	evil := "a\x1b[2Jb\x1b]0;t\x07c\x9b31md\u0085e\u202ef\rg\x7fh\u2028"
	want := `a\x1b[2Jb\x1b]0;t\x07c` + "\uFFFD" + `31md\x85e\u202ef\rg\x7fh\u2028` + "\n"
	for _, o := range []renderOptions{{}, {Literal: true}} {
		if got := renderNoColor(o, evil); got != want {
			t.Errorf("%+v: got %q, want %q", o, got, want)
		}
	}
	if got := renderNoColor(renderOptions{}, "```sh\x1b[1m\n", evil, "\n```\n`", evil, "`\n| ", evil); strings.ContainsAny(got, "\x1b\x07\x7f\r") {
		t.Errorf("control characters left in code, spans or tables: %q", got)
	}
}

// A long answer must come out line by line, not at the end.
func TestRendererStreams(t *testing.T) {
	t.Parallel()
	r := newRenderer(renderOptions{})
	for _, c := range []struct{ in, want, preview string }{
		{"one", "", "one\n"},
		{" **tw", "", "one tw\n"},
		{"o**\nthr", "one two\n", "thr\n"},
		{"\n", "thr\n", ""},
		{"#", "", ""},
		{"# x\n```go\n", "x\n── go ──────────────────\n", ""},
		{"a := `", "", "  a := `\n"},
		{"`\n```\n", "  a := ``\n────────────────────────\n", ""},
		{"|a|b|\n", "", "|a|b|\n"},
		{"|-|-|\n|1|2|\n", "", "a │ b\n──┼──\n1 │ 2\n"},
		{"end\n", "a │ b\n──┼──\n1 │ 2\nend\n", ""},
	} {
		if got := encodeLines(r.feed(c.in), false); got != c.want {
			t.Errorf("Write(%q) = %q, want %q", c.in, got, c.want)
		}
		if got := encodeLines(r.preview(), false); got != c.preview {
			t.Errorf("preview after %q = %q, want %q", c.in, got, c.preview)
		}
	}
}

var sgr = regexp.MustCompile(`\x1b\[0(;\d+)*m`)

// letters is what must survive rendering: every letter and digit, in order.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// feedsOnly has the line ends the renderer sees.
func feedsOnly(s string) string { return strings.TrimSuffix(strings.ReplaceAll(s, "\r\n", "\n"), "\r") }

func checkRender(t *testing.T, src string, seed uint64) {
	t.Helper()
	src = strings.ReplaceAll(src, "\uFFFD", "?") // several bad bytes may become one or more
	whole := render(renderOptions{}, src)
	bare := sgr.ReplaceAllString(whole, "")
	if i := strings.IndexFunc(bare, unsafeRune); i >= 0 {
		t.Fatalf("unsafe rune in output of %q: %q", src, bare[i:])
	}
	if got, want := letters(bare), letters(neutral(feedsOnly(src))); got != want {
		t.Fatalf("text lost in %q:\n got %q\nwant %q", src, got, want)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	width := 8 + rng.IntN(60)
	var pieces []string
	for rest := src; rest != ""; {
		n := 1 + rng.IntN(min(len(rest), 7))
		pieces = append(pieces, rest[:n])
		rest = rest[n:]
	}
	if got := render(renderOptions{}, pieces...); got != whole {
		t.Fatalf("pieces of %q differ:\n got %q\nwant %q", src, got, whole)
	}
	r := newRenderer(renderOptions{Width: width})
	var wrapped []line
	for _, p := range pieces {
		wrapped = append(wrapped, r.feed(p)...)
		r.preview() // must change nothing
	}
	wrapped = append(wrapped, r.flush()...)
	direct := render(renderOptions{Width: width}, src)
	if got := encodeLines(wrapped, true); got != direct {
		t.Fatalf("previews changed the result of %q:\n got %q\nwant %q", src, got, direct)
	}
	literal := renderOptions{Width: width, Literal: true}
	if got, want := render(literal, pieces...), render(literal, src); got != want {
		t.Fatalf("literal pieces of %q differ:\n got %q\nwant %q", src, got, want)
	}
}

func TestRendererProperties(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/answer.md")
	if err != nil {
		t.Fatal(err)
	}
	tokens := []string{
		"*", "**", "_", "`", "```", "~~", "[", "](", ")", "|", "|-|-|", "\n", "\n", " ", "# ", "- ", "1. ", "> ", "a", "b7",
		"中文", "。", "\\", "\x1b[1m", "\t", "<https://x>", "é", "e\u0301", "🐈", "---", "~~~", "\r\n", ":-:", "\xff", "!",
	}
	checkRender(t, string(src), 1)
	for i := range uint64(1000) {
		rng := rand.New(rand.NewPCG(i, 2))
		var b strings.Builder
		for range 1 + rng.IntN(40) {
			b.WriteString(tokens[rng.IntN(len(tokens))])
		}
		checkRender(t, b.String(), i)
		if i%10 == 0 { // lines so long that rows are given out before their end
			checkRender(t, strings.Repeat(b.String()+strings.Repeat("word ", rng.IntN(50)), 1+rng.IntN(20)), i)
		}
	}
}

// A list of names and explanations stays in two columns when it is wrapped.
func TestRendererKeepsColumns(t *testing.T) {
	t.Parallel()
	src := "List:\n  /name       what it is good for\n  x  y\nplain text.  with a gap in it"
	want := "List:\n  /name       what it is\n              good for\n  x  y\nplain text.  with a gap\nin it\n"
	if got := renderNoColor(renderOptions{Width: 25, Literal: true}, src); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The beginning of a long paragraph comes out while it arrives, and little is
// held back whatever its markup is.
func TestRendererGivesOutLongParagraphs(t *testing.T) {
	t.Parallel()
	for _, piece := range []string{"word ", "**bold** ", "- item ", "> quote ", "2*3 ", "a | b ", "[note ", "`tick ", "中文", "_x", "x", "<http://"} {
		for _, literal := range []bool{false, true} {
			r := newRenderer(renderOptions{Width: 40, Literal: literal})
			var out []line
			for range 8 << 10 / len(piece) {
				out = append(out, r.feed(piece)...)
				if held := len(r.preview()); held > 2*maxSpanBytes/40+2 {
					t.Fatalf("%q, literal %v: %d rows held back after %d", piece, literal, held, len(out))
				}
			}
			if len(out) == 0 {
				t.Errorf("%q, literal %v: nothing was given out", piece, literal)
			}
		}
	}
}

func FuzzRenderer(f *testing.F) {
	f.Add("# a\n**b** `c`\n|x|y|\n|-|-|\n|1|2|\n", uint64(1))
	f.Add("```go\nx\n", uint64(2))
	f.Fuzz(func(t *testing.T, src string, seed uint64) {
		if len(src) <= 500 { // a preview after every piece is quadratic
			checkRender(t, src, seed)
		}
	})
}

// The end of a span is looked for only so far, because hostile lines could take
// quadratic time; nothing of a longer one is lost.
func TestRendererIsFast(t *testing.T) {
	t.Parallel()
	for length, marked := range map[int]bool{1000: true, 5000: false} {
		src := "**" + strings.Repeat("x", length) + "**"
		got := render(renderOptions{Width: 80}, src)
		if strings.Contains(got, "**") == marked || strings.Count(got, "x") != length {
			t.Errorf("a span of %d bytes: marks are shown %v, %d of its letters", length, strings.Contains(got, "**"), strings.Count(got, "x"))
		}
	}
	for _, piece := range []string{"*a", "[", "[a](", "`", "**a_b", "![", "<http://", "\\", "|", "*a `", "~~x"} {
		for _, n := range []int{50_000, 8 << 10} {
			src := strings.Repeat(piece, n/len(piece))
			if letters := strings.Count(src, "a"); strings.Count(render(renderOptions{Width: 80}, src), "a") < letters {
				t.Errorf("%q: letters are missing", piece)
			}
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		width    int
		want     []string
	}{
		{"fits", "ab cd", 5, []string{"ab cd"}},
		{"words", "ab cd ef", 5, []string{"ab cd", "ef"}},
		{"space at the break", "abcde fg", 5, []string{"abcde", "fg"}},
		{"many spaces", "ab    cd", 4, []string{"ab", "cd"}},
		{"long word", "abcdefgh ij", 5, []string{"abcde", "fgh", "ij"}},
		{"wide", "中文字符换行", 5, []string{"中文", "字符", "换行"}},
		{"mixed", "use中文words", 6, []string{"use中", "文", "words"}},
		{"no stop at the start", "中文字。好", 6, []string{"中文", "字。好"}},
		{"combining marks stay", "e\u0301e\u0301e\u0301", 2, []string{"e\u0301e\u0301", "e\u0301"}},
		{"no limit", "a b c", 0, []string{"a b c"}},
		{"empty", "", 5, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, l := range wrap(styled(c.in, 0), c.width, nil, nil) {
				got = append(got, strings.TrimSuffix(encodeLines([]line{l}, false), "\n"))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("wrap(%q, %d) (-want +got):\n%s", c.in, c.width, diff)
			}
		})
	}
}

func TestRuneWidth(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int{
		"a": 1, "é": 1, "中": 2, "あ": 2, "한": 2, "ｱ": 1, "Ａ": 2, "。": 2, "🐈": 2, "✅": 2, "✓": 1, "─": 1, "…": 1,
		"\u0301": 0, "\u200d": 0, "\ufe0f": 0, "𠀀": 2, "☀": 1, "⠋": 1, "€": 1, "🇩": 1, "🚀": 2, "🤖": 2,
	} {
		if got := stringWidth(s); got != want {
			t.Errorf("width of %q = %d, want %d", s, got, want)
		}
	}
}
