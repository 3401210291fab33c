package matrix

import (
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// toHTML renders Markdown with the tags that Matrix clients know. It is "" if
// the text has no markup, or nothing to see.
func toHTML(source string) string {
	h := html{}
	h.Escape = escape
	h.Marks = map[markdown.Kind][2]string{
		markdown.Strong:    markdown.Tag("strong"),
		markdown.Emphasis:  markdown.Tag("em"),
		markdown.Strike:    markdown.Tag("del"),
		markdown.CodeSpan:  markdown.Tag("code"),
		markdown.SoftBreak: {"<br>", ""},
		markdown.HardBreak: {"<br>", ""},
	}

	h.Own = map[markdown.Kind]func(markdown.Node, string){
		markdown.Code:  h.code,
		markdown.Link:  h.link,
		markdown.Image: h.link, // elsewhere it would be fetched by whoever reads
	}

	h.Blocks(markdown.Parse(source))

	out := h.String()
	if !hasMarkup(out) || strings.TrimFunc(source, invisible) == "" {
		return ""
	}
	return strings.TrimSpace(out)
}

func invisible(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// hasMarkup reports whether there is more than paragraphs and their lines.
func hasMarkup(page string) bool {
	return strings.Contains(strings.NewReplacer("<p>", "", "</p>", "", "<br>", "").Replace(page), "<")
}

// html writes a tree.
type html struct{ markdown.HTML }

func escape(s string) string {
	s = strings.ReplaceAll(s, "&", "&amp;")
	s = strings.ReplaceAll(s, "<", "&lt;")
	s = strings.ReplaceAll(s, `"`, "&quot;")
	return strings.ReplaceAll(s, ">", "&gt;")
}

func (h *html) code(n markdown.Node, _ string) {
	tag := "code"
	if language := markdown.Language(n.Info); language != "" {
		tag = `code class="language-` + language + `"`
	}
	h.Element(n, "pre", func() { h.Between(markdown.Tag(tag), n, "") })
}

// link writes a link that clients follow; of any other the address is shown.
func (h *html) link(n markdown.Node, _ string) {
	switch {
	case !markdown.Linkable(n.URL, "matrix", "mailto"), markdown.Words(n.Children) == "":
		h.Text(markdown.Words([]markdown.Node{n}), "")
	case len(n.Children) == 1 && n.Children[0].Text == n.URL: // clients find it themselves
		h.Text(n.URL, "")
	default:
		h.Between(markdown.Tag(`a href="`+escape(n.URL)+`"`), n, "")
	}
}
