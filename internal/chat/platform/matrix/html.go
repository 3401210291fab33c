package matrix

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// toHTML renders Markdown with the tags that Matrix clients know. It is "" if
// the text has no markup, or nothing to see.
func toHTML(source string) string {
	h := html{}
	h.blocks(markdown.Parse(source).Children, false)
	if !h.markup || strings.TrimFunc(source, invisible) == "" {
		return ""
	}
	return strings.TrimSpace(h.out.String())
}

func invisible(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// html writes a tree.
type html struct {
	out    strings.Builder
	markup bool // there is more than paragraphs
}

func (h *html) text(s string) { h.out.WriteString(escape(s)) }

func escape(s string) string {
	s = strings.ReplaceAll(s, "&", "&amp;")
	s = strings.ReplaceAll(s, "<", "&lt;")
	s = strings.ReplaceAll(s, `"`, "&quot;")
	return strings.ReplaceAll(s, ">", "&gt;")
}

// wrap writes what is between a tag and its end.
func (h *html) wrap(tag string, inside func()) {
	h.markup = h.markup || tag != "p"
	name, _, _ := strings.Cut(tag, " ")
	h.out.WriteString("<" + tag + ">")
	inside()
	h.out.WriteString("</" + name + ">")
}

// blocks writes blocks; those of a tight list have no paragraphs.
func (h *html) blocks(list []markdown.Node, tight bool) {
	for i, n := range list {
		if i > 0 && n.Kind == markdown.Paragraph && tight {
			h.out.WriteString("<br>")
		}
		h.block(n, tight)
	}
}

func (h *html) block(n markdown.Node, tight bool) {
	switch n.Kind {
	case markdown.Heading:
		h.wrap("h"+strconv.Itoa(min(max(n.Level, 1), 6)), func() { h.inline(n.Children) })
	case markdown.Quote:
		h.wrap("blockquote", func() { h.blocks(n.Children, false) })
	case markdown.List:
		h.list(n)
	case markdown.Code:
		h.code(n)
	case markdown.Table:
		h.table(n)
	case markdown.Rule:
		h.markup = true
		h.out.WriteString("<hr>")
	case markdown.Document, markdown.Item, markdown.Row:
		h.blocks(n.Children, tight)
	default:
		if tight {
			h.inline(n.Children)
			return
		}
		h.wrap("p", func() { h.inline(n.Children) })
	}
}

func (h *html) list(n markdown.Node) {
	tag := "ul"
	if n.Ordered {
		tag = "ol"
		if n.Start != 1 {
			tag = `ol start="` + strconv.Itoa(n.Start) + `"`
		}
	}
	h.wrap(tag, func() {
		for _, item := range n.Children {
			h.wrap("li", func() {
				switch item.Task {
				case markdown.Open:
					h.text("☐ ")
				case markdown.Done:
					h.text("☑ ")
				}
				h.blocks(item.Children, n.Tight)
			})
		}
	})
}

func (h *html) code(n markdown.Node) {
	lang, _, _ := strings.Cut(strings.TrimSpace(n.Info), " ")
	lang = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("+-#._", r) {
			return r
		}
		return -1
	}, lang)
	tag := "code"
	if lang != "" {
		tag = `code class="language-` + lang + `"`
	}
	h.wrap("pre", func() { h.wrap(tag, func() { h.text(n.Text) }) })
}

func (h *html) table(n markdown.Node) {
	row := func(r markdown.Node, cell string) {
		h.wrap("tr", func() {
			for _, c := range r.Children {
				h.wrap(cell, func() { h.inline(c.Children) })
			}
		})
	}
	h.wrap("table", func() {
		if len(n.Children) == 0 {
			return
		}
		h.wrap("thead", func() { row(n.Children[0], "th") })
		h.wrap("tbody", func() {
			for _, r := range n.Children[1:] {
				row(r, "td")
			}
		})
	})
}

func (h *html) inline(list []markdown.Node) {
	for _, n := range list {
		switch n.Kind {
		case markdown.SoftBreak, markdown.HardBreak:
			h.out.WriteString("<br>")
		case markdown.Strong:
			h.wrap("strong", func() { h.inline(n.Children) })
		case markdown.Emphasis:
			h.wrap("em", func() { h.inline(n.Children) })
		case markdown.Strike:
			h.wrap("del", func() { h.inline(n.Children) })
		case markdown.CodeSpan:
			h.wrap("code", func() { h.text(n.Text) })
		case markdown.Link, markdown.Image: // an image elsewhere would be fetched by whoever reads
			h.link(n)
		default:
			h.text(n.Text)
			h.inline(n.Children)
		}
	}
}

// link writes a link that clients follow; of any other the address is shown.
func (h *html) link(n markdown.Node) {
	if !linkable(n.URL) || markdown.Words(n.Children) == "" {
		h.text(markdown.Words([]markdown.Node{n}))
		return
	}
	if len(n.Children) == 1 && n.Children[0].Text == n.URL { // clients find it themselves
		h.text(n.URL)
		return
	}
	h.wrap(`a href="`+escape(n.URL)+`"`, func() { h.inline(n.Children) })
}

func linkable(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "matrix", "mailto":
		return true
	}
	return false
}
