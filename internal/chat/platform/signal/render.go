package signal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

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
	out    strings.Builder
	at     int // UTF-16 units
	styles []string
}

// render writes Markdown as Signal shows it.
func render(source string) (text string, styles []string) {
	p := &page{}
	p.blocks(markdown.Parse(source).Children, "", "\n\n")
	return p.out.String(), p.styles[:min(len(p.styles), stylesMost)]
}

func invisible(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

func (p *page) text(s string) {
	p.out.WriteString(s)
	p.at += units(s)
}

func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// styled gives what write adds a style.
func (p *page) styled(style string, write func()) {
	begin := p.at
	i := len(p.styles)
	write()
	if p.at > begin { // outer ranges stand before inner ones
		p.styles = append(p.styles[:i], append([]string{fmt.Sprintf("%d:%d:%s", begin, p.at-begin, style)}, p.styles[i:]...)...)
	}
}

// blocks writes blocks with gap between them; in stands at the beginning of
// every further line.
func (p *page) blocks(list []markdown.Node, in, gap string) {
	for i, n := range list {
		if i > 0 {
			p.text(strings.ReplaceAll(gap, "\n", "\n"+in))
		}
		p.block(n, in)
	}
}

func (p *page) block(n markdown.Node, in string) {
	switch n.Kind {
	case markdown.Heading:
		p.styled(bold, func() { p.inline(n.Children, in) })
	case markdown.Quote:
		p.text("> ")
		p.blocks(n.Children, in+"> ", "\n\n")
	case markdown.List:
		gap := "\n"
		if !n.Tight {
			gap = "\n\n"
		}
		for i, item := range n.Children {
			if i > 0 {
				p.text(gap + in)
			}
			mark := markdown.Bullet(n, i)
			p.text(mark)
			p.blocks(item.Children, in+strings.Repeat(" ", markdown.Width(mark)), gap)
		}
	case markdown.Code:
		p.styled(mono, func() { p.text(n.Text) })
	case markdown.Table:
		p.styled(mono, func() { p.text(markdown.Columns(n)) })
	case markdown.Rule:
		p.text("———")
	case markdown.Document, markdown.Item, markdown.Row:
		p.blocks(n.Children, in, "\n")
	default:
		p.inline(n.Children, in)
	}
}

func (p *page) inline(list []markdown.Node, in string) {
	for _, n := range list {
		switch n.Kind {
		case markdown.SoftBreak, markdown.HardBreak:
			p.text("\n" + in)
		case markdown.Strong:
			p.styled(bold, func() { p.inline(n.Children, in) })
		case markdown.Emphasis:
			p.styled(italic, func() { p.inline(n.Children, in) })
		case markdown.Strike:
			p.styled(strike, func() { p.inline(n.Children, in) })
		case markdown.CodeSpan:
			p.styled(mono, func() { p.text(n.Text) })
		case markdown.Link, markdown.Image:
			p.text(markdown.Words([]markdown.Node{n}))
		default:
			p.text(n.Text)
			p.inline(n.Children, in)
		}
	}
}
