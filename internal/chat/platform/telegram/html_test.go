package telegram

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/markdown/markdowntest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

func TestHTML(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"words":             {"hello", "hello"},
		"escaped":           {"a < b & c > d <think>", "a &lt; b &amp; c &gt; d &lt;think&gt;"},
		"mail in brackets":  {"write to <a@b.c>", `write to <a href="mailto:a@b.c">a@b.c</a>`},
		"emphasis":          {"**bold** and *it* and ~~no~~", "<b>bold</b> and <i>it</i> and <s>no</s>"},
		"nested":            {"**a *b* c**", "<b>a <i>b</i> c</b>"},
		"snake_case":        {"a snake_case_name", "a snake_case_name"},
		"heading":           {"# Title\n\ntext", "<b>Title</b>\n\ntext"},
		"code span":         {"`a<b>` *x*", "<code>a&lt;b&gt;</code> <i>x</i>"},
		"fence":             {"```go\nif a < b {}\n```", `<pre><code class="language-go">if a &lt; b {}</code></pre>`},
		"fence without":     {"```\nx\n```", "<pre>x</pre>"},
		"odd language":      {"```a\"b<c\nx\n```", `<pre><code class="language-abc">x</code></pre>`},
		"link":              {"[a](https://x.y/?a=1&b=2)", `<a href="https://x.y/?a=1&amp;b=2">a</a>`},
		"link parentheses":  {"[a](https://x.y/z_(w))", `<a href="https://x.y/z_(w)">a</a>`},
		"script link":       {"[a](javascript:alert(1))", "a (javascript:alert(1))"},
		"relative link":     {"[a](b.md)", "a (b.md)"},
		"image":             {"![cat](https://x.y/c.png)", `<a href="https://x.y/c.png">cat</a>`},
		"quote":             {"> a\n> b", "<blockquote>a\nb</blockquote>"},
		"quote in quote":    {"> a\n>\n> > b", "<blockquote>a\n\nb</blockquote>"},
		"list":              {"- a\n- b\n  - c", "• a\n• b\n  • c"},
		"ordered":           {"3. a\n4. b", "3. a\n4. b"},
		"tasks":             {"- [ ] a\n- [x] b", "• ☐ a\n• ☑ b"},
		"code in list":      {"- a\n\n  ```\n  x\n   y\n  ```\n- b", "• a\n\n<pre>x\n y</pre>\n\n• b"},
		"table":             {"| a | b |\n|---|--:|\n| 中文 | 1 |", "<pre>a    | b\n-----+--\n中文 | 1</pre>"},
		"rule":              {"a\n\n---\n\nb", "a\n\n———\n\nb"},
		"raw html":          {"<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"},
		"unclosed emphasis": {"**a", "**a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := toHTML(c.in)
			if !ok || got != c.want {
				t.Errorf("toHTML(%q) = %q, %v\nwant %q", c.in, got, ok, c.want)
			}
			if _, err := telegramtest.PlainOfHTML(got); err != nil {
				t.Errorf("Telegram refuses it: %v", err)
			}
		})
	}
}

func TestHTMLThatCannotBe(t *testing.T) {
	t.Parallel()
	wide := "| a | b |\n|---|---|\n| " + strings.Repeat("x", 300) + " | y |\n" + strings.Repeat("| a | b |\n", 300)
	if out, ok := toHTML(wide); !ok || strings.Contains(out, "  ") {
		t.Errorf("a table that padding makes too long: ok = %v, padded = %v; want it without padding", ok, strings.Contains(out, "  "))
	}
	for name, in := range map[string]string{"blank": " \n", "too long": strings.Repeat("😀", 2049), "invisible": "\u200b"} {
		if out, ok := toHTML(in); ok {
			t.Errorf("%s: got %.20q, want none", name, out)
		}
	}
}

// Telegram forgets markup beyond a number of pieces: the addresses of links must
// not be among it.
func TestManyLinks(t *testing.T) {
	t.Parallel()
	source := strings.Repeat("[a](https://x.y/z) ", 95)
	out, ok := toHTML(source)
	if n := strings.Count(out, "<a "); !ok || n != maxEntities || strings.Count(out, "a (https://x.y/z)") != 95-n {
		t.Errorf("%d links and %d addresses, want %d and %d", n, strings.Count(out, "a (https://x.y/z)"), maxEntities, 95-maxEntities)
	}
}

func FuzzHTML(f *testing.F) {
	for _, s := range []string{"**a *b** c*", "> > - ```\n<", "[a](http://x\"y)", "| a |\n|-|\n| `|` |", "a ~~**b~~**", "- 1. > #x\n```c\"", "&lt;&amp;", "<https://a.b>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out, ok := toHTML(strings.ToValidUTF8(s, "?"))
		if !ok {
			return
		}
		seen, err := telegramtest.PlainOfHTML(out)
		if err != nil {
			t.Fatalf("%q became %q: %v", s, out, err)
		}
		if n := telegramtest.Units(seen); n > maxText {
			t.Fatalf("%d units", n)
		}
	})
}

// What becomes of every kind of block and word.
func TestRenderSamples(t *testing.T) {
	t.Parallel()
	markdowntest.Golden(t, "html", func(s string) string {
		out, ok := toHTML(s)
		if !ok {
			return "(sent as it is)"
		}
		return out
	})
}
