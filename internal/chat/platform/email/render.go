package email

import (
	"html"
	"net/url"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// toHTML renders Markdown for mail programs: plain elements, hardly any style,
// nothing that is loaded from elsewhere.
func toHTML(tree markdown.Node) string {
	var r renderer
	r.WriteString("<html><body>\n")
	r.blocks(tree.Children)
	r.WriteString("</body></html>")
	return r.String()
}

type renderer struct{ strings.Builder }

func (r *renderer) text(s string) { r.WriteString(html.EscapeString(s)) }

func (r *renderer) wrap(tag string, inside func()) {
	name, _, _ := strings.Cut(tag, " ")
	r.WriteString("<" + tag + ">")
	inside()
	r.WriteString("</" + name + ">")
}

func (r *renderer) blocks(list []markdown.Node) {
	for _, n := range list {
		r.block(n)
		r.WriteString("\n")
	}
}

func (r *renderer) block(n markdown.Node) {
	switch n.Kind {
	case markdown.Heading:
		r.wrap("h"+strconv.Itoa(min(max(n.Level, 1), 6)), func() { r.inline(n.Children) })
	case markdown.Quote:
		r.wrap(`blockquote style="border-left:3px solid #ccc;margin-left:0;padding-left:1em"`, func() { r.blocks(n.Children) })
	case markdown.List:
		r.list(n)
	case markdown.Code:
		r.wrap(`pre style="background:#f4f4f4;padding:8px"`, func() { r.text(n.Text) })
	case markdown.Rule:
		r.WriteString("<hr>")
	case markdown.Table:
		r.table(n)
	case markdown.Document, markdown.Item:
		r.blocks(n.Children)
	default:
		r.wrap("p", func() { r.inline(n.Children) })
	}
}

func (r *renderer) list(n markdown.Node) {
	tag := "ul"
	if n.Ordered {
		if tag = "ol"; n.Start != 1 {
			tag = `ol start="` + strconv.Itoa(n.Start) + `"`
		}
	}
	r.wrap(tag, func() {
		for _, item := range n.Children {
			r.wrap("li", func() {
				switch item.Task {
				case markdown.Open:
					r.WriteString("☐ ")
				case markdown.Done:
					r.WriteString("☑ ")
				}
				for i, b := range item.Children {
					if n.Tight && b.Kind == markdown.Paragraph {
						if i > 0 {
							r.WriteString("<br>")
						}
						r.inline(b.Children)
						continue
					}
					r.block(b)
				}
			})
		}
	})
}

func (r *renderer) table(n markdown.Node) {
	r.wrap(`table border="1" cellpadding="4" style="border-collapse:collapse"`, func() {
		for i, row := range n.Children {
			r.wrap("tr", func() {
				for _, cell := range row.Children {
					tag := "td"
					if i == 0 {
						tag = "th"
					}
					r.wrap(tag, func() { r.inline(cell.Children) })
				}
			})
		}
	})
}

func (r *renderer) inline(list []markdown.Node) {
	for _, n := range list {
		inside := func() { r.inline(n.Children) }
		switch n.Kind {
		case markdown.SoftBreak, markdown.HardBreak:
			r.WriteString("<br>\n")
		case markdown.Strong:
			r.wrap("b", inside)
		case markdown.Emphasis:
			r.wrap("i", inside)
		case markdown.Strike:
			r.wrap("s", inside)
		case markdown.CodeSpan:
			r.wrap("code", func() { r.text(n.Text) })
		case markdown.Link, markdown.Image:
			if !linkable(n.URL) || markdown.Words(n.Children) == "" {
				r.text(markdown.Words([]markdown.Node{n}))
				continue
			}
			r.wrap(`a href="`+html.EscapeString(n.URL)+`"`, inside)
		default:
			r.text(n.Text)
			inside()
		}
	}
}

func linkable(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "mailto":
		return true
	}
	return false
}
