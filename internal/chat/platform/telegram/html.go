package telegram

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// maxText is Telegram's limit of a message, in UTF-16 units without the markup.
const maxText = 4096

// maxEntities is how many pieces of markup Telegram keeps of one message; it
// drops the others without a word. Some are left for those it finds itself.
const maxEntities = 90

// units is the length of a text as Telegram counts it.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// cutUnits shortens a text to at most n UTF-16 units.
func cutUnits(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i, r := range s {
		if n -= utf16.RuneLen(r); n < 0 {
			return s[:i]
		}
	}
	return s
}

// toHTML renders Markdown with the tags that Telegram knows. Ok is false when
// nothing would be seen or the text would be too long; it is sent as it is then.
func toHTML(source string) (out string, ok bool) {
	tree := markdown.Parse(source)
	for _, tables := range []bool{true, false} { // padding is the only thing that can grow without bound
		h := html{tables: tables}
		out = h.document(tree)
		if strings.TrimFunc(h.seen.String(), invisible) == "" {
			return "", false
		}
		if units(h.seen.String()) <= maxText {
			return out, true
		}
	}
	return "", false
}

func invisible(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

// html writes a tree, and beside it what people will see of it.
type html struct {
	out, seen strings.Builder
	tables    bool // draw tables with padding
	quoted    bool // inside a quote: Telegram does not nest them
	entities  int
}

func (h *html) tag(s string) {
	if !strings.HasPrefix(s, "</") {
		h.entities++
	}
	h.out.WriteString(s)
}

func (h *html) text(s string) {
	h.seen.WriteString(s)
	h.out.WriteString(escape(s))
}

func escape(s string) string {
	s = strings.ReplaceAll(s, "&", "&amp;")
	s = strings.ReplaceAll(s, "<", "&lt;")
	return strings.ReplaceAll(s, ">", "&gt;")
}

func (h *html) document(n markdown.Node) string {
	h.blocks(n.Children, "", "\n\n")
	return h.out.String()
}

// blocks writes blocks with gap between them; in stands at the beginning of
// every further line.
func (h *html) blocks(list []markdown.Node, in, gap string) {
	for i, n := range list {
		if i > 0 {
			h.text(gap)
			if n.Kind != markdown.Code && n.Kind != markdown.Table {
				h.text(in)
			}
		}
		h.block(n, in)
	}
}

func (h *html) block(n markdown.Node, in string) {
	switch n.Kind {
	case markdown.Heading:
		h.tag("<b>")
		h.inline(n.Children, in)
		h.tag("</b>")
	case markdown.Quote:
		h.quote(n, in)
	case markdown.List:
		h.list(n, in)
	case markdown.Code:
		h.code(n)
	case markdown.Table:
		h.table(n)
	case markdown.Rule:
		h.text("———")
	case markdown.Document, markdown.Item, markdown.Row:
		h.blocks(n.Children, in, "\n")
	default:
		h.inline(n.Children, in)
	}
}

func (h *html) quote(n markdown.Node, in string) {
	if h.quoted {
		h.blocks(n.Children, in, "\n\n")
		return
	}
	h.quoted = true
	h.tag("<blockquote>")
	h.blocks(n.Children, in, "\n\n")
	h.tag("</blockquote>")
	h.quoted = false
}

func (h *html) list(n markdown.Node, in string) {
	gap := "\n"
	if !n.Tight {
		gap = "\n\n"
	}
	for i, item := range n.Children {
		if i > 0 {
			h.text(gap + in)
		}
		mark := markdown.Bullet(n, i)
		h.text(mark)
		h.blocks(item.Children, in+strings.Repeat(" ", markdown.Width(mark)), gap)
	}
}

func (h *html) code(n markdown.Node) {
	lang, _, _ := strings.Cut(strings.TrimSpace(n.Info), " ")
	lang = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("+-#._", r) {
			return r
		}
		return -1
	}, lang)
	if lang == "" {
		h.tag("<pre>")
		h.text(n.Text)
		h.tag("</pre>")
		return
	}
	h.tag(`<pre><code class="language-` + lang + `">`)
	h.text(n.Text)
	h.tag("</code></pre>")
}

func (h *html) table(n markdown.Node) {
	h.tag("<pre>")
	if h.tables {
		h.text(markdown.Columns(n))
	} else {
		for i, row := range n.Children {
			if i > 0 {
				h.text("\n")
			}
			for k, cell := range row.Children {
				if k > 0 {
					h.text(" | ")
				}
				h.text(markdown.Plain(cell))
			}
		}
	}
	h.tag("</pre>")
}

func (h *html) inline(list []markdown.Node, in string) {
	for _, n := range list {
		switch n.Kind {
		case markdown.SoftBreak, markdown.HardBreak:
			h.text("\n" + in)
		case markdown.Strong:
			h.wrap("b", n, in)
		case markdown.Emphasis:
			h.wrap("i", n, in)
		case markdown.Strike:
			h.wrap("s", n, in)
		case markdown.CodeSpan:
			h.tag("<code>")
			h.text(n.Text)
			h.tag("</code>")
		case markdown.Link, markdown.Image:
			h.link(n, in)
		default:
			h.text(n.Text)
			h.inline(n.Children, in)
		}
	}
}

func (h *html) wrap(tag string, n markdown.Node, in string) {
	h.tag("<" + tag + ">")
	h.inline(n.Children, in)
	h.tag("</" + tag + ">")
}

// link writes a link that Telegram can follow; of any other, and of one that
// Telegram would forget, the address is shown.
func (h *html) link(n markdown.Node, in string) {
	if h.entities >= maxEntities || !linkable(n.URL) || markdown.Words(n.Children) == "" {
		h.text(markdown.Words([]markdown.Node{n}))
		return
	}
	h.tag(`<a href="` + strings.ReplaceAll(escape(n.URL), `"`, "&quot;") + `">`)
	h.inline(n.Children, in)
	h.tag("</a>")
}

func linkable(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "tg", "mailto":
		return true
	}
	return false
}
