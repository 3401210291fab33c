package markdown_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

func TestWriter(t *testing.T) {
	t.Parallel()

	t.Run("what a reader sees", func(t *testing.T) {
		t.Parallel()
		var seen strings.Builder
		w := markdown.Writer{
			Marks:  map[markdown.Kind][2]string{markdown.Strong: {"<b>", "</b>"}},
			Escape: strings.ToUpper,
			Seen:   func(s string) { seen.WriteString(s) },
		}
		w.Node(markdown.Parse("> - a **b**\n>   c"), "")
		if got, want := w.String(), "> • A <b>B</b>\n>   C"; got != want {
			t.Errorf("it writes %q, want %q", got, want)
		}
		if got, want := seen.String(), "> • a b\n>   c"; got != want {
			t.Errorf("a reader sees %q, want %q", got, want)
		}
	})

	t.Run("own before marks", func(t *testing.T) {
		t.Parallel()
		w := markdown.Writer{Marks: map[markdown.Kind][2]string{markdown.Strong: {"<b>", "</b>"}}}
		w.Own = map[markdown.Kind]func(markdown.Node, string){
			markdown.Strong: func(n markdown.Node, in string) { w.Around("*", n, in) },
		}
		w.Node(markdown.Parse("a **b** **&#32;**"), "")
		if got, want := w.String(), "a *b*  "; got != want {
			t.Errorf("it writes %q, want %q", got, want)
		}
	})

	t.Run("suffix", func(t *testing.T) {
		t.Parallel()
		var w markdown.Writer
		w.WriteString("a\nb!")
		if w.TrimSuffix("?") || !w.TrimSuffix("!") || w.TrimSuffix("!") || w.Line() != "b" || w.String() != "a\nb" {
			t.Errorf("%q is left, and %q on its line", w.String(), w.Line())
		}
	})
}
