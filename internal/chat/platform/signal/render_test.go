package signal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/markdown/markdowntest"
)

func TestRender(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in, want string
		styles   []string
	}{
		"plain":   {in: "hi", want: "hi"},
		"bold":    {in: "a **b** c", want: "a b c", styles: []string{"2:1:BOLD"}},
		"nested":  {in: "**a *b* c**", want: "a b c", styles: []string{"0:5:BOLD", "2:1:ITALIC"}},
		"emoji":   {in: "😀 ~~no~~", want: "😀 no", styles: []string{"3:2:STRIKETHROUGH"}},
		"code":    {in: "`a*b*`\n\n```go\nx := 1\n```", want: "a*b*\n\nx := 1", styles: []string{"0:4:MONOSPACE", "6:6:MONOSPACE"}},
		"heading": {in: "# Title\n\ntext", want: "Title\n\ntext", styles: []string{"0:5:BOLD"}},
		"list":    {in: "- one\n- two\n  - three", want: "• one\n• two\n  • three"},
		"numbers": {in: "3. one\n4. two", want: "3. one\n4. two"},
		"quote":   {in: "> said\n> more", want: "> said\n> more"},
		"link":    {in: "[the site](https://example.org/a_b)", want: "the site (https://example.org/a_b)"},
		"bare":    {in: "<https://example.org>", want: "https://example.org"},
		"rule":    {in: "a\n\n---\n\nb", want: "a\n\n———\n\nb"},
		"html":    {in: "<b>x</b>", want: "<b>x</b>"},
	} {
		text, styles := render(c.in)
		if text != c.want || !cmp.Equal(styles, c.styles, cmp.Transformer("", func(s []string) string { return strings.Join(s, " ") })) {
			t.Errorf("%s: %q %v, want %q %v", name, text, styles, c.want, c.styles)
		}
	}

	text, styles := render("| a | b |\n|---|---|\n| 1 | 22 |")
	if len(styles) != 1 || !strings.HasSuffix(styles[0], ":MONOSPACE") || !strings.Contains(text, "22") {
		t.Errorf("table: %q %v", text, styles)
	}
	if _, styles := render(strings.Repeat("**a** ", 1000)); len(styles) != stylesMost {
		t.Errorf("%d styles", len(styles))
	}
}

// What becomes of every kind of block and word.
func TestRenderSamples(t *testing.T) {
	t.Parallel()
	markdowntest.Golden(t, "render", func(s string) string {
		text, styles := render(s)
		return text + "\n" + strings.Join(styles, " ")
	})
}
