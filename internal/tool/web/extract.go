package web

import (
	"bytes"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"

	"codeberg.org/readeck/go-readability/v2/render"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// page holds what a reader gets of an HTML document.
type page struct {
	title string
	text  string
	cut   bool // there was more than the limits allow
	thin  bool // there is next to no text: the page is made by scripts
	links []string
	// forward is where the page sends browsers by itself, "" if nowhere.
	forward string
}

const (
	maxRendered = 1 << 20 // bytes of the text made of a page
	maxLinks    = 2000    // links of a page that are remembered
)

// extract finds the part of a page that is worth reading and writes it as
// Markdown, or as plain text. It takes time and memory in proportion to the
// size of the page.
func extract(raw []byte, at *url.URL, plain bool) page {
	b := bound(raw)
	s := &sieve{at: at, base: at, plain: plain}
	p := page{cut: b.cut}
	doc, err := html.ParseWithOptions(&b.page, html.ParseOptionEnableScripting(false))
	if err != nil { // nested too deep after all
		p.cut = true
		return p
	}

	s.children(doc, place{})
	p.title = s.title
	if u := s.resolve(s.forward); s.forward != "" && u != nil {
		p.forward = webLink(u.String())
	}

	content := choose(doc)
	written := chars(content, noscript)
	headed := startsWithHeading(content)
	p.links = links(content)
	p.text = s.write(content)
	if len(p.text) > maxRendered {
		p.text, p.cut = text.Cut(p.text, maxRendered/utf8.UTFMax), true
	}

	if written < 50 {
		p.thin = b.scripted || p.forward != ""
		if s.description != "" && !strings.Contains(p.text, s.description) {
			p.text = strings.TrimSpace(s.description + "\n\n" + p.text)
		}
	}

	switch {
	case p.title == "" || headed:
	case plain:
		p.text = strings.TrimSpace(p.title + "\n\n" + p.text)
	default:
		p.text = strings.TrimSpace("# " + p.title + "\n\n" + p.text)
	}

	return p
}

// startsWithHeading says that the text begins with a heading of the first level.
func startsWithHeading(n *html.Node) bool {
	before := 0
	for c := range n.Descendants() {
		if c.DataAtom == atom.H1 && chars(c, noscript) > 0 {
			return true
		}

		if c.Type == html.TextNode {
			before += len(strings.TrimSpace(c.Data))
		}

		if before > 40 {
			break
		}
	}

	return false
}

func links(n *html.Node) []string {
	var list []string
	for c := range n.Descendants() {
		if href := attr(c.Attr, "href"); c.DataAtom == atom.A && strings.HasPrefix(href, "http") && len(list) < maxLinks {
			list = append(list, href)
		}
	}
	return list
}

// markdown writes a tree as Markdown. It is the same for all pages.
var markdown = sync.OnceValue(func() *converter.Converter {
	return converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false), commonmark.WithLinkEmptyHrefBehavior(commonmark.LinkBehaviorSkip), commonmark.WithLinkEmptyContentBehavior(commonmark.LinkBehaviorSkip)),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal), table.WithHeaderPromotion(true), table.WithSkipEmptyRows(true), table.WithNewlineBehavior(table.NewlineBehaviorPreserve)),
	))
})

// write turns a part of a page into text. It changes the tree.
func (s *sieve) write(n *html.Node) string {
	if s.plain {
		spell(n)
		return strings.TrimSpace(render.InnerText(n))
	}

	out, err := markdown().ConvertNode(n)
	if err != nil {
		return strings.TrimSpace(render.InnerText(n))
	}

	words := strings.NewReplacer(lessThan, "<", greaterThan, ">").Replace(string(out))
	var b strings.Builder
	b.Grow(len(words))

	for line := range strings.Lines(words) {
		b.WriteString(strings.TrimRight(line, " \n"))
		b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String())
}

// stripTags returns the text of a fragment.
func stripTags(s string) string {
	z := html.NewTokenizer(bytes.NewReader([]byte(s)))
	var b strings.Builder
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			b.Write(z.Text())
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			name, _ := z.TagName()
			switch atom.Lookup(name) {
			case atom.Br, atom.P, atom.Div, atom.Li, atom.Tr, atom.Td, atom.Th, atom.H1, atom.H2, atom.H3, atom.H4:
				b.WriteByte(' ')
			}
			z.NextIsNotRawText()
		}
	}
}

// dropped says that nothing below an element is text of the page.
func dropped(t atom.Atom) bool {
	switch t {
	case atom.Script, atom.Style, atom.Template, atom.Iframe, atom.Noembed, atom.Noframes, atom.Object, atom.Applet, atom.Canvas,
		atom.Svg, atom.Audio, atom.Video, atom.Map, atom.Select, atom.Datalist, atom.Textarea, atom.Button, atom.Title, atom.Frameset,
		atom.Meter, atom.Progress, atom.Rp:
		return true
	}
	return false
}
