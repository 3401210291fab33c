package whatsapp

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// page writes a tree in WhatsApp's own markup.
type page struct {
	out   strings.Builder
	marks string // that are open; WhatsApp shows one of a kind
}

func render(source string) string {
	p := &page{}
	p.blocks(markdown.Parse(source).Children, "", "\n\n")
	return p.out.String()
}

func (p *page) text(s string) { p.out.WriteString(s) }

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
		p.wrap("*", n.Children, in)
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
		p.fixed(n.Text)
	case markdown.Table:
		p.fixed(markdown.Columns(n))
	case markdown.Rule:
		p.text("———")
	case markdown.Document, markdown.Item, markdown.Row:
		p.blocks(n.Children, in, "\n")
	default:
		p.inline(n.Children, in)
	}
}

// fixed writes a text of one width; its own fences would end it.
func (p *page) fixed(s string) {
	p.text("```\n" + strings.ReplaceAll(s, "```", "'''") + "\n```")
}

func (p *page) inline(list []markdown.Node, in string) {
	for _, n := range list {
		switch n.Kind {
		case markdown.SoftBreak, markdown.HardBreak:
			p.text("\n" + in)
		case markdown.Strong:
			p.wrap("*", n.Children, in)
		case markdown.Emphasis:
			p.wrap("_", n.Children, in)
		case markdown.Strike:
			p.wrap("~", n.Children, in)
		case markdown.CodeSpan:
			if strings.Contains(n.Text, "`") || strings.TrimSpace(n.Text) == "" {
				p.text(n.Text)
			} else {
				p.text("`" + n.Text + "`")
			}
		case markdown.Link, markdown.Image:
			p.text(markdown.Words([]markdown.Node{n}))
		default:
			p.text(n.Text)
			p.inline(n.Children, in)
		}
	}
}

// wrap puts marks around a text. WhatsApp takes them only at its very ends and
// on one line.
func (p *page) wrap(mark string, list []markdown.Node, in string) {
	words := markdown.Words(list)
	if strings.Contains(p.marks, mark) || strings.TrimSpace(words) != words || words == "" || strings.ContainsAny(words, "\n"+mark) {
		p.inline(list, in)
		return
	}
	before := p.marks
	p.marks += mark
	p.text(mark)
	p.inline(list, in)
	p.text(mark)
	p.marks = before
}
