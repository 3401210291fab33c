package signal

import (
	"fmt"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// The styles of Signal.
const (
	bold   = "BOLD"
	italic = "ITALIC"
	strike = "STRIKETHROUGH"
	mono   = "MONOSPACE"
)

const stylesMost = 200 // of one message; clients drop all of more than 250

// page is a text with the styles of its parts beside it.
type page struct {
	markdown.Writer
	at     int // UTF-16 units
	styles []string
}

// render writes Markdown as Signal shows it.
func render(source string) (text string, styles []string) {
	p := &page{}
	p.Seen = func(s string) { p.at += markdown.UTF16.Length(s) }
	p.Own = map[markdown.Kind]func(markdown.Node, string){
		markdown.Heading:  p.styled(bold),
		markdown.Strong:   p.styled(bold),
		markdown.Emphasis: p.styled(italic),
		markdown.Strike:   p.styled(strike),
		markdown.CodeSpan: p.styled(mono),
		markdown.Code:     func(n markdown.Node, _ string) { p.fixed(n.Text) },
		markdown.Table:    func(n markdown.Node, _ string) { p.fixed(markdown.Columns(n)) },
	}

	p.Blocks(markdown.Parse(source), "")
	return p.String(), p.styles[:min(len(p.styles), stylesMost)]
}

// fixed writes a text of one width. Its lines stand at the left, also in a quote.
func (p *page) fixed(s string) { p.styled(mono)(markdown.Node{Text: s}, "") }

// styled gives a style to what a node holds.
func (p *page) styled(style string) func(n markdown.Node, in string) {
	return func(n markdown.Node, in string) {
		begin := p.at
		i := len(p.styles)
		p.Between([2]string{}, n, in)
		if p.at > begin { // outer ranges stand before inner ones
			p.styles = slices.Insert(p.styles, i, fmt.Sprintf("%d:%d:%s", begin, p.at-begin, style))
		}
	}
}
