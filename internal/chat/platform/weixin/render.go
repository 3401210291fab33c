package weixin

import (
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// page writes a tree in the part of Markdown that WeChat shows well. It takes
// angle brackets for markup and hides what follows, so they are written wide;
// images, crossed out text and deep headings are not shown, nor is emphasis of
// Chinese text.
type page struct{ out strings.Builder }

func render(source string) string {
	p := &page{}
	p.blocks(markdown.Parse(source).Children, "", "\n\n")
	return strings.TrimSpace(p.out.String())
}

func (p *page) raw(s string) { p.out.WriteString(s) }

func (p *page) text(s string) {
	p.raw(strings.Map(func(r rune) rune {
		switch r {
		case '<':
			return '＜'
		case '>':
			return '＞'
		}
		return r
	}, s))
}

// blocks writes blocks with gap between them; in stands at the beginning of
// every further line.
func (p *page) blocks(list []markdown.Node, in, gap string) {
	for i, n := range list {
		if i > 0 {
			p.raw(strings.ReplaceAll(gap, "\n", "\n"+in))
		}
		p.block(n, in)
	}
}

func (p *page) block(n markdown.Node, in string) {
	switch n.Kind {
	case markdown.Heading:
		if n.Level < 5 {
			p.raw(strings.Repeat("#", n.Level) + " ")
		}
		p.inline(n.Children, in)
	case markdown.Quote:
		p.raw("＞ ")
		p.blocks(n.Children, in+"＞ ", "\n\n")
	case markdown.List:
		gap := "\n"
		if !n.Tight {
			gap = "\n\n"
		}
		for i, item := range n.Children {
			if i > 0 {
				p.raw(gap + in)
			}
			mark := markdown.Bullet(n, i)
			p.raw(mark)
			p.blocks(item.Children, in+strings.Repeat(" ", markdown.Width(mark)), gap)
		}
	case markdown.Code:
		p.raw(strings.ReplaceAll("```"+n.Info+"\n"+strings.ReplaceAll(n.Text, "```", "'''")+"\n```", "\n", "\n"+in))
	case markdown.Table:
		p.table(n, in)
	case markdown.Rule:
		p.raw("---")
	case markdown.Document, markdown.Item, markdown.Row:
		p.blocks(n.Children, in, "\n")
	default:
		p.inline(n.Children, in)
	}
}

func (p *page) table(n markdown.Node, in string) {
	for i, row := range n.Children {
		if i > 0 {
			p.raw("\n" + in)
		}
		p.raw("|")
		for _, cell := range row.Children {
			p.raw(" ")
			p.inline(cell.Children, in)
			p.raw(" |")
		}
		if i == 0 {
			p.raw("\n" + in + "|" + strings.Repeat(" --- |", len(row.Children)))
		}
	}
}

func (p *page) inline(list []markdown.Node, in string) {
	for _, n := range list {
		switch n.Kind {
		case markdown.SoftBreak, markdown.HardBreak:
			p.raw("\n" + in)
		case markdown.Strong:
			p.wrap("**", n.Children, in)
		case markdown.Emphasis:
			if strings.ContainsFunc(markdown.Words(n.Children), func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
				p.inline(n.Children, in)
			} else {
				p.wrap("*", n.Children, in)
			}
		case markdown.CodeSpan:
			if strings.Contains(n.Text, "`") {
				p.text(n.Text)
			} else {
				p.raw("`" + n.Text + "`")
			}
		case markdown.Link:
			if words := markdown.Words(n.Children); words == n.URL || words == "" {
				p.text(n.URL)
			} else {
				p.raw("[")
				p.inline(n.Children, in)
				p.raw("](" + n.URL + ")")
			}
		case markdown.Image:
		default:
			p.text(n.Text)
			p.inline(n.Children, in)
		}
	}
}

func (p *page) wrap(mark string, list []markdown.Node, in string) {
	p.raw(mark)
	p.inline(list, in)
	p.raw(mark)
}
