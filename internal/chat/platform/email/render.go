package email

import (
	"html"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// toHTML renders Markdown for mail programs: plain elements, hardly any style,
// nothing that is loaded from elsewhere.
func toHTML(tree markdown.Node) string {
	var r renderer
	r.Escape = html.EscapeString
	r.After = "\n"
	r.Marks = map[markdown.Kind][2]string{
		markdown.Quote:     markdown.Tag(`blockquote style="border-left:3px solid #ccc;margin-left:0;padding-left:1em"`),
		markdown.Code:      markdown.Tag(`pre style="background:#f4f4f4;padding:8px"`),
		markdown.Strong:    markdown.Tag("b"),
		markdown.Emphasis:  markdown.Tag("i"),
		markdown.Strike:    markdown.Tag("s"),
		markdown.CodeSpan:  markdown.Tag("code"),
		markdown.SoftBreak: {"<br>\n", ""},
		markdown.HardBreak: {"<br>\n", ""},
	}

	r.Own = map[markdown.Kind]func(markdown.Node, string){
		markdown.Table: r.table,
		markdown.Link:  r.link,
		markdown.Image: r.link,
	}

	r.WriteString("<html><body>\n")
	r.Blocks(tree)
	r.WriteString("</body></html>")
	return r.String()
}

type renderer struct{ markdown.HTML }

// table writes a table with lines, which mail programs do not draw of themselves.
func (r *renderer) table(n markdown.Node, _ string) {
	r.Element(n, `table border="1" cellpadding="4" style="border-collapse:collapse"`, func() {
		for i, row := range n.Children {
			cell := "td"
			if i == 0 {
				cell = "th"
			}
			r.Row(row, cell)
		}
	})
}

// link writes a link that mail programs follow; of any other the address is shown.
func (r *renderer) link(n markdown.Node, _ string) {
	if !markdown.Linkable(n.URL, "mailto") || markdown.Words(n.Children) == "" {
		r.Text(markdown.Words([]markdown.Node{n}), "")
		return
	}
	r.Between(markdown.Tag(`a href="`+html.EscapeString(n.URL)+`"`), n, "")
}
