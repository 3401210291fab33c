package telegram

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// maxText is Telegram's limit of a message, in UTF-16 units without the markup.
const maxText = 4096

// maxEntities is how many pieces of markup Telegram keeps of one message; it
// drops the others without a word. Some are left for those it finds itself.
const maxEntities = 90

// toHTML renders Markdown with the tags that Telegram knows. Ok is false when
// nothing would be seen or the text would be too long; it is sent as it is then.
func toHTML(source string) (out string, ok bool) {
	tree := markdown.Parse(source)
	for _, tables := range []bool{true, false} { // padding is the only thing that can grow without bound
		h := newHTML(tables)
		h.Blocks(tree, "")
		if text.Blank(h.seen.String()) {
			return "", false
		}
		if markdown.UTF16.Length(h.seen.String()) <= maxText {
			return h.String(), true
		}
	}

	return "", false
}

// html writes a tree, and beside it what people will see of it.
type html struct {
	markdown.Writer
	seen     strings.Builder
	tables   bool // draw tables with padding
	quoted   bool // inside a quote: Telegram does not nest them
	entities int
}

func newHTML(tables bool) *html {
	h := &html{tables: tables}
	h.Seen = func(s string) { h.seen.WriteString(s) }
	h.Escape = escape
	h.Gap = gap
	h.Own = map[markdown.Kind]func(markdown.Node, string){
		markdown.Heading:  h.element("b"),
		markdown.Strong:   h.element("b"),
		markdown.Emphasis: h.element("i"),
		markdown.Strike:   h.element("s"),
		markdown.CodeSpan: h.element("code"),
		markdown.Quote:    h.quote,
		markdown.Code:     h.code,
		markdown.Table:    h.table,
		markdown.Link:     h.link,
		markdown.Image:    h.link,
	}
	return h
}

// element writes what a node holds with a tag before and after it.
func (h *html) element(tag string) func(n markdown.Node, in string) {
	return func(n markdown.Node, in string) {
		h.entities++
		h.Between(markdown.Tag(tag), n, in)
	}
}

func escape(s string) string {
	s = strings.ReplaceAll(s, "&", "&amp;")
	s = strings.ReplaceAll(s, "<", "&lt;")
	return strings.ReplaceAll(s, ">", "&gt;")
}

// gap leaves blank lines really blank. Code and tables begin at the left.
func gap(parent markdown.Node, i int, in string) string {
	if kind := parent.Children[i].Kind; kind == markdown.Code || kind == markdown.Table {
		in = ""
	}
	if parent.Tight {
		return "\n" + in
	}
	return "\n\n" + in
}

func (h *html) quote(n markdown.Node, in string) {
	if h.quoted {
		h.Blocks(n, in)
		return
	}

	h.quoted = true
	h.entities++
	h.WriteString("<blockquote>")
	h.Blocks(n, in)
	h.WriteString("</blockquote>")
	h.quoted = false
}

func (h *html) code(n markdown.Node, _ string) {
	h.entities++
	language := markdown.Language(n.Info)
	if language == "" {
		h.Between(markdown.Tag("pre"), n, "")
		return
	}
	h.Between([2]string{`<pre><code class="language-` + language + `">`, "</code></pre>"}, n, "")
}

func (h *html) table(n markdown.Node, _ string) {
	var drawn string
	if h.tables {
		drawn = markdown.Columns(n)
	} else {
		drawn = withoutPadding(n)
	}
	h.element("pre")(markdown.Node{Text: drawn}, "")
}

// withoutPadding draws a table whose columns do not stand below each other.
func withoutPadding(table markdown.Node) string {
	var rows []string
	for _, row := range table.Children {
		var cells []string
		for _, cell := range row.Children {
			cells = append(cells, markdown.Plain(cell))
		}
		rows = append(rows, strings.Join(cells, " | "))
	}
	return strings.Join(rows, "\n")
}

// link writes a link that Telegram can follow; of any other, and of one that
// Telegram would forget, the address is shown.
func (h *html) link(n markdown.Node, in string) {
	if h.entities >= maxEntities || !markdown.Linkable(n.URL, "tg", "mailto") || markdown.Words(n.Children) == "" {
		h.Text(markdown.Words([]markdown.Node{n}), in)
		return
	}
	h.element(`a href="`+strings.ReplaceAll(escape(n.URL), `"`, "&quot;")+`"`)(n, in)
}
