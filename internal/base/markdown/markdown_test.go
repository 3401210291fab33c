package markdown_test

import (
	"bytes"
	"fmt"
	"html"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// toHTML writes a tree the way a Markdown library would.
func toHTML(b *strings.Builder, n markdown.Node, tight bool) {
	tags := map[markdown.Kind]string{
		markdown.Quote: "blockquote", markdown.Emphasis: "em",
		markdown.Strong: "strong", markdown.Strike: "del", markdown.Row: "tr", markdown.Cell: "td", markdown.Table: "table",
	}
	inner := func() {
		for _, c := range n.Children {
			toHTML(b, c, false)
		}
	}
	switch n.Kind {
	case markdown.Document:
		inner()
	case markdown.Paragraph:
		if !tight {
			b.WriteString("<p>")
		}
		inner()
		if !tight {
			b.WriteString("</p>")
		}
	case markdown.Heading:
		fmt.Fprintf(b, "<h%d>", n.Level)
		inner()
		fmt.Fprintf(b, "</h%d>", n.Level)
	case markdown.List:
		tag := "ul"
		if n.Ordered {
			tag = "ol"
		}
		fmt.Fprintf(b, "<%s>", tag)
		for _, it := range n.Children {
			b.WriteString("<li>")
			switch it.Task {
			case markdown.Open:
				b.WriteString("[ ]")
			case markdown.Done:
				b.WriteString("[x]")
			case markdown.NoTask:
			}
			for _, c := range it.Children {
				toHTML(b, c, n.Tight)
			}
			b.WriteString("</li>")
		}
		fmt.Fprintf(b, "</%s>", tag)
	case markdown.Code:
		b.WriteString("<pre>" + n.Info + "|" + html.EscapeString(n.Text) + "</pre>")
	case markdown.Rule:
		b.WriteString("<hr>")
	case markdown.Text:
		b.WriteString(html.EscapeString(n.Text))
	case markdown.CodeSpan:
		b.WriteString("<code>" + html.EscapeString(n.Text) + "</code>")
	case markdown.Link:
		b.WriteString("<a " + html.EscapeString(n.URL) + ">")
		inner()
		b.WriteString("</a>")
	case markdown.Image:
		b.WriteString("<img " + html.EscapeString(n.URL) + ">")
	case markdown.SoftBreak:
		b.WriteString("\n")
	case markdown.HardBreak:
		b.WriteString("<br>")
	default:
		b.WriteString("<" + tags[n.Kind] + ">")
		inner()
		b.WriteString("</" + tags[n.Kind] + ">")
	}
}

// reference is what goldmark's own renderer makes of a text, in the same form: our
// tree must say the same as its.
func reference(t *testing.T, src string) string {
	t.Helper()
	var b bytes.Buffer
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList))
	if err := md.Convert([]byte(src), &b); err != nil {
		t.Fatal(err)
	}
	s := b.String()
	for _, r := range [][2]string{
		{`<input[^>]*checked=""[^>]*> `, "[x]"},
		{`<input[^>]*> `, "[ ]"},
		{`(?s)<pre><code class="language-([^"]*)">(.*?)\n?</code></pre>`, "<pre>$1|$2</pre>"},
		{`(?s)<pre><code>(.*?)\n?</code></pre>`, "<pre>|$1</pre>"},
		{`<img src="([^"]*)"[^>]*>`, "<img $1>"},
		{`<a href="([^"]*)"[^>]*>`, "<a $1>"},
		{`<ol start="\d+">`, "<ol>"},
		{`</?thead>\n?|</?tbody>\n?`, ""},
		{`<(/?)th( [^>]*)?>`, "<${1}td>"},
		{`<td [^>]*>`, "<td>"},
		{`<br>\n`, "<br>"},
	} {
		s = regexp.MustCompile(r[0]).ReplaceAllString(s, r[1])
	}
	return s
}

// squeeze takes away line ends that mean nothing in HTML.
func squeeze(s string) string {
	s = html.UnescapeString(s)
	s = regexp.MustCompile(`\s*(</?(?:p|li|ul|ol|blockquote|h\d|table|tr|td|hr|pre)>)\s*`).ReplaceAllString(s, "$1")
	return strings.TrimSpace(s)
}

func render(src string) string {
	var b strings.Builder
	toHTML(&b, markdown.Parse(src), false)
	return b.String()
}

// Texts as models write them come out as the library's own renderer shows them.
func TestParseLikeReference(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"plain", "", "\n\n", "a\nb", "a  \nb", "a\\\nb", "a\n\nb",
		"# One\n## Two ##\n### Three #x\n#no", "Title\n=====\nSub\n---\ntext",
		"*em* **strong** ***both*** _em_ __strong__ snake_case_name 2*3*4", "**bold*italic*bold**", "*a **b** c*", "**a *b***", "***a** b*",
		"~~gone~~ and ~~**x**~~", "`code` ``a`b`` `a", "`` ` `` ` a `", `\*no\* \a \\`,
		"[text](http://a.b/c_(d)) [t](<ab> \"title\") [x](y 'z') [no] [no](", "[a [b] c](u)", "![alt *x*](pic.png)", "[**bold** `code`](u)", "[a](b)[c](d)",
		"*[x](y*)*", "a * b * c", "**Note:** text", "**日本**です", "5 * 6 * 7", "f(*args, **kw)",
		"- a\n- b\n- c", "* a\n\n* b", "1. a\n2. b\n10) c", "- a\n  - b\n    - c\n- d", "1. a\n   - b\n   - c\n2. d", "- a\n\n  para\n\n- b", "- a\n  ```go\n  x := 1\n\n  y\n  ```\n- b",
		"- a\nlazy\n- b", "para\n- list", "para\n2. no list", "para\n1. list", "- [ ] open\n- [x] done", "-\n- b", "- a\n\n\n- b\n\ntext", "+ a\n- b",
		"> quote\n> more\nlazy\n\nafter", "> - a\n> - b", "> ```\n> code\n> ```\nx", "> a\n>\n> b", "> > deep\n> back", "- > q\n  > r",
		"```go\nfunc main() {}\n```", "~~~\n```\n~~~", "```\nopen\n\nto the end", "````\n```\n````", "  ```\n  a\n   b\n  ```", "    indented\n\n    code\ntext",
		"| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |\n", "a | b\n--|--\nx \\| y | z\n\nafter", "text\n| a |\n|---|\n| `x` |",
		"---\n***\n_ _ _\n--", "a\n***\nb", "- - -", "&amp; &lt; &copy; &nope; & &#65;", "a &amp b", "<https://x.org/a?b=c> <me@x.org>",
		"- a\n\n      code\n", "1) x\n\n   y", "# *a* `b`", "* * *\n* a", "a\n    b", "- a\n - b\n  - c", "**a\nb**", "* a *", "**", "****", "_a_b_", "__a__b", "a__b__",
	} {
		if d := cmp.Diff(squeeze(reference(t, src)), squeeze(render(src))); d != "" {
			t.Errorf("%q (-reference +ours):\n%s", src, d)
		}
	}
}

// Random mixtures of markup differ from the reference rarely, and never crash.
func TestParseRandom(t *testing.T) {
	t.Parallel()
	alphabet := []string{"a", "b ", "*", "**", "_", "`", "[x]", "(y)", "\n", "\n\n", "- ", "1. ", "> ", "  ", "# ", "| ", "~~", "word ", "```\n", "\n---\n", "é"}
	rng := rand.New(rand.NewPCG(1, 2))
	differ, total := 0, 1000
	for range total {
		var b strings.Builder
		for range rng.IntN(14) + 1 {
			b.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		src := b.String()
		if a, o := squeeze(reference(t, src)), squeeze(render(src)); a != o {
			if differ++; differ <= 12 {
				t.Logf("%q\nref  %q\nours %q", src, a, o)
			}
		}
	}
	t.Logf("%d of %d differ", differ, total)
	if differ > total/100 {
		t.Errorf("%d of %d random texts differ from the reference", differ, total)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"see https://x.org/a_b_c.":       `<p>see <a https://x.org/a_b_c>https://x.org/a_b_c</a>.</p>`,
		"(https://x.org/w_(y))":          `<p>(<a https://x.org/w_(y)>https://x.org/w_(y)</a>)</p>`,
		"**https://x.org**":              `<p><strong><a https://x.org>https://x.org</a></strong></p>`,
		"xhttps://x.org":                 `<p>xhttps://x.org</p>`,
		"https://":                       `<p>https://</p>`,
		"[https://a.org](https://b.org)": `<p><a https://b.org>https://a.org</a></p>`,
		"at http://localhost:8080/a":     `<p>at <a http://localhost:8080/a>http://localhost:8080/a</a></p>`,
		`"http://10.0.0.1/x"`:            `<p>&#34;http://10.0.0.1/x&#34;</p>`,
		"http://10.0.0.1/x, yes":         `<p><a http://10.0.0.1/x>http://10.0.0.1/x</a>, yes</p>`,
		"a<br>\nb<BR />c":                `<p>a<br>b<br>c</p>`,
		"~a~ ~~b~~":                      `<p>~a~ <del>b</del></p>`,
		"- [x](y)\n- [x] z":              `<ul><li><a y>x</a></li><li>[x]z</li></ul>`,
		"<div>a</div>":                   `<p>&lt;div&gt;a&lt;/div&gt;</p>`,
		"[a]: b\n\n[a]":                  `<p>[a]: b</p><p>[a]</p>`,
		"a<br>b <i>c</i>":                `<p>a<br>b &lt;i&gt;c&lt;/i&gt;</p>`,
	} {
		if got := render(src); got != want {
			t.Errorf("%q\n got %s\nwant %s", src, got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	src := "# Title\n\nSome **bold** [link](http://x.y) and <http://z.w>.\n\n1. one\n   - in *it*\n2. two\n\n- [ ] open\n- [x] done\n\n> said\n> he\n\n```go\na\n  b\n```\n\n| n | 値 |\n|--:|---|\n| 1 | a |\n| 22 | 日本 |\n"
	want := "Title\n\nSome bold link (http://x.y) and http://z.w.\n\n1. one\n   • in it\n2. two\n\n• ☐ open\n• ☑ done\n\n> said\n> he\n\na\n  b\n\n n | 値\n---+-----\n 1 | a\n22 | 日本"
	if d := cmp.Diff(want, markdown.Plain(markdown.Parse(src))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The language of a block of code is on one line, whatever it was written with: the
// rest would be read as code, or as what stands outside of a quote.
func TestLanguageOnOneLine(t *testing.T) {
	t.Parallel()
	n := markdown.Parse("```go&#10;rest\nx\n```").Children[0]
	if n.Info != "go" || n.Text != "x" {
		t.Errorf("the language is %q of the code %q, want go of x", n.Info, n.Text)
	}
}

// Hostile texts cost no more than long ones.
func TestParseIsBounded(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"*a ", "*a **b ", "[", "![", "> ", "- ", "`a", "``a`", "a](", "<a", "&", "_a*", "|", "[a](", "**a*", "https://a[", "    - "} {
		src := strings.Repeat(unit, 60_000/len(unit))
		start := time.Now()
		n := markdown.Parse(src)
		_ = markdown.Plain(n)
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%q repeated takes %v", unit, took)
		}
		if d := depth(n); d > 60 {
			t.Errorf("%q repeated makes a tree of depth %d", unit, d)
		}
	}
}

// Limits that the library does not have: work that grows with the square of a
// text, and tables that are mostly made of cells which nobody wrote.
func TestHostileTexts(t *testing.T) {
	table := func(columns, rows int) string {
		return strings.Repeat("|a", columns) + "|\n" + strings.Repeat("|-", columns) + "|\n" + strings.Repeat("a\n", rows)
	}
	nested := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.Repeat(" ", 2*i) + "- a\n")
		}
		return b.String()
	}
	for name, src := range map[string]string{
		"brackets":         strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"emphasis":         strings.Repeat("*a_ ", 100_000),
		"small paragraphs": strings.Repeat(strings.Repeat("*a_ ", 400)+"\n\n", 100),
		"open titles":      strings.Repeat("[a](b (c ", 50_000),
		"quotes and lines": strings.Repeat("> ", 50_000) + "\n" + strings.Repeat("a\n", 50_000),
		"nested list":      nested(1000),
		"mail addresses":   strings.Repeat("*a", 200_000),
		"wide table":       table(10_000, 10_000),
		"long table":       table(90, 50_000),
		"many tables":      strings.Repeat(table(90, 40)+"\n", 500),
		"bars in code":     "|a|\n|-|\n" + strings.Repeat("| `\\|` |\n", 50_000),
		"heading":          "# " + strings.Repeat("*a ", 100_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		n := markdown.Parse(src)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / uint64(len(src)); got > 2000 {
			t.Errorf("%s: %d bytes of memory per byte of text", name, got)
		}
		if took > 2*time.Minute { // tells work that grows with the square from the rest, also on a slow machine
			t.Errorf("%s: %v for %d bytes", name, took, len(src))
		}
		if d := depth(n); d > 60 {
			t.Errorf("%s: a tree of depth %d", name, d)
		}
	}
}

// What lies beyond a limit is still shown.
func TestBeyondLimits(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"marks":   strings.Repeat("*a* ", 1000) + "**end**",
		"long":    strings.Repeat("word ", 20_000) + "**end**",
		"depth":   strings.Repeat("> ", 40) + "end",
		"columns": strings.Repeat("|a", 200) + "|\n" + strings.Repeat("|-", 200) + "|\n| end |",
	} {
		if got := markdown.Plain(markdown.Parse(src)); !strings.HasSuffix(strings.Trim(got, "* |"), "end") {
			t.Errorf("%s: the text ends in %q", name, got[max(0, len(got)-40):])
		}
	}
}

func depth(n markdown.Node) (d int) {
	for _, c := range n.Children {
		d = max(d, depth(c))
	}
	return d + 1
}

func FuzzParse(f *testing.F) {
	f.Add("- a\n  > *b* `c` [d](e)\n\n| x |\n|---|\n")
	f.Fuzz(func(_ *testing.T, src string) { _ = markdown.Plain(markdown.Parse(src)) })
}
