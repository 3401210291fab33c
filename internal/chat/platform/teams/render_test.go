package teams

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/markdown/markdowntest"
)

func TestRender(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"plain text":                           "plain text",
		"**b** *i* ~~s~~ `c`":                  "**b** *i* ~~s~~ `c`",
		"# One\n\n#### Four":                   "# One\n\n**Four**",
		"- a\n- b\n  - c":                      "- a\n- b\n  - c",
		"1. a\n2. b":                           "1. a\n2. b",
		"> quoted\n> more":                     "> quoted\n> more",
		"```go\nx := 1\n```":                   "```go\nx := 1\n```",
		"a | b\n--|--\n1 | 2":                  "```\na | b\n--+--\n1 | 2\n```",
		"[words](https://example.com/a)":       "[words](https://example.com/a)",
		"<https://example.com>":                "https://example.com",
		"![secret](https://evil.example/?q=1)": "[secret](https://evil.example/?q=1)",
		`<img src="https://evil.example/">`:    `&lt;img src="https://evil.example/">`,
		"[x](javascript:alert(1))":             "x (javascript:alert(1))",
		`\[a\](https://example.com)`:           `\[a](https://example.com)`,
		`!\[a\](https://example.com)`:          `!\[a](https://example.com)`,
		`\# no heading`:                        `\# no heading`,
		`1\. no list`:                          `1\. no list`,
		`\- no list`:                           `\- no list`,
		"snake_case_name 2*3":                  `snake_case_name 2\*3`,
		"look![x](https://example.com)":        "look[x](https://example.com)",
		`look\![x](https://example.com)`:       `look\![x](https://example.com)`,
		"`a!`[x](https://example.com)":         "`a!`[x](https://example.com)",
		"<https://a.b/!>[x](https://c.d)":      "https://a.b/%21[x](https://c.d)",
		"---":                                  "---",
		"line\nnext":                           "line\nnext",
		"line  \nnext":                         "line  \nnext",
	} {
		if got := render(source); got != want {
			t.Errorf("%q becomes %q, want %q", source, got, want)
		}
	}
}

// What Teams reads is what was meant: reading it again gives the same words.
func FuzzRender(f *testing.F) {
	for _, s := range []string{"# a", "*a* _b_", "- a\n\n  b", "![a](https://b.c)", "a\n=", "<b>", "1) x", "`` ` ``"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		tree := markdown.Parse(render(source))
		if tree.Has(markdown.Image) {
			t.Errorf("%q has a picture that would be fetched: %q", source, render(source))
		}
	})
}

// What was shown of a text that grows stays as it is, and fetches nothing.
func TestPreviewGrows(t *testing.T) {
	t.Parallel()
	const source = "# Title\n\nA **bold** ![pic](https://evil.example/?x) <img src=x> `co` | a | b |\n```go\nx\n"
	last := ""
	for i := range source {
		got := preview(source[:i])
		if !strings.HasPrefix(got, last) {
			t.Fatalf("%q does not begin with %q", got, last)
		}
		if markdown.Parse(got).Has(markdown.Image) {
			t.Fatalf("%q shows a picture", got)
		}
		last = got
	}
}

// What becomes of every kind of block and word.
func TestRenderSamples(t *testing.T) {
	t.Parallel()
	markdowntest.Golden(t, "render", render)
}
