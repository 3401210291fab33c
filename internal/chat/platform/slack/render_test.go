package slack

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/markdown/markdowntest"
)

func TestRender(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, rich, plain string }{
		{"**b** *i* ~~s~~ `c & d`", "**b** *i* ~~s~~ `c & d`", "*b* _i_ ~s~ `c &amp; d`"},
		{"# A **b**\n\ntext", "# A **b**\n\ntext", "*A b*\n\ntext"},
		{"[a|b](https://x.test/?a=1&b=(2))", "[a|b](https://x.test/?a=1&b=%282%29)", "<https://x.test/?a=1&amp;b=(2)|a¦b>"},
		{"https://x.test/?a=1&b=2", "https://x.test/?a=1&b=2", "<https://x.test/?a=1&amp;b=2>"},
		{"[x](javascript:alert)", "x (javascript:alert)", "x (javascript:alert)"},
		{"![pic](https://x.test/p.png)", "[pic](https://x.test/p.png)", "<https://x.test/p.png|pic>"},
		{"- a\n  - b\n- [x] c", "- a\n  - b\n- [x] c", "• a\n  • b\n• ☑ c"},
		{"1. a\n2. b", "1. a\n2. b", "1. a\n2. b"},
		{"> q\n> r", "> q\n> r", "&gt; q\n&gt; r"},
		{"```go\nif a < b {}\n```", "```go\nif a < b {}\n```", "```\nif a &lt; b {}\n```"},
		{"````\n```\n````", "````\n```\n````", "```\n`\u200b``\n```"},
		{"---", "---", "———"},
		{
			"| A | B |\n|---|--:|\n| 1 | x\\|y |\n| | 2 |",
			"| A | B |\n|---|--:|\n| 1 | x\\|y |\n|  | 2 |",
			"*A*: 1 · *B*: x|y\n*B*: 2",
		},
		{"<!channel> <@U1> <#C1> a<b", "&lt;!channel> &lt;@U1> &lt;#C1> a<b", "&lt;!channel&gt; &lt;@U1&gt; &lt;#C1&gt; a&lt;b"},
		{"`<!channel>`", "`<!channel>`", "`&lt;!channel&gt;`"},
	} {
		tree := markdown.Parse(c.in)
		if got := toMarkdown(tree); got != c.rich {
			t.Errorf("%q as Markdown is %q, want %q", c.in, got, c.rich)
		}
		if got := toMrkdwn(tree); got != c.plain {
			t.Errorf("%q as mrkdwn is %q, want %q", c.in, got, c.plain)
		}
	}
}

// No text outside of code becomes a command of Slack's, however it is put
// together.
func FuzzRender(f *testing.F) {
	f.Add(`\<!channel> **<**@U1> [<!here>](https://x.test)`)
	f.Add("<!<!channel>> |<!a>|\n|-|\n|<@b>|")
	f.Fuzz(func(t *testing.T, s string) {
		tree := markdown.Parse(s)
		if got := toMrkdwn(tree); strings.Contains(got, "<!") || strings.Contains(got, "<@") || strings.Contains(got, "<#") {
			t.Errorf("%q becomes %q", s, got)
		}
		// What a parser takes for text must not hold a command either.
		var walk func(n markdown.Node)
		walk = func(n markdown.Node) {
			if n.Kind != markdown.Code && n.Kind != markdown.CodeSpan {
				for _, bad := range []string{"<!", "<@", "<#"} {
					if strings.Contains(n.Text, bad) && strings.Contains(toMarkdown(tree), n.Text) {
						t.Errorf("%q holds %q as %q", s, bad, toMarkdown(tree))
					}
				}
			}
			for _, c := range n.Children {
				walk(c)
			}
		}
		walk(tree)
	})
}

// What becomes of every kind of block and word.
func TestRenderSamples(t *testing.T) {
	t.Parallel()
	markdowntest.Golden(t, "markdown", func(s string) string { return toMarkdown(markdown.Parse(s)) })
	markdowntest.Golden(t, "mrkdwn", func(s string) string { return toMrkdwn(markdown.Parse(s)) })
}
