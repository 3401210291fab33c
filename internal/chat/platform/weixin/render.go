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
type page struct{ markdown.Writer }

func render(source string) string {
	p := &page{}
	p.Escape = wide
	p.Quote = "＞ "
	p.Marks = map[markdown.Kind][2]string{
		markdown.Strong: {"**", "**"},
		markdown.Rule:   {"---", ""},
	}
	p.Own = map[markdown.Kind]func(markdown.Node, string){
		markdown.Heading:  p.heading,
		markdown.Code:     p.code,
		markdown.Table:    p.table,
		markdown.Emphasis: p.emphasis,
		markdown.CodeSpan: p.codeSpan,
		markdown.Link:     p.link,
		markdown.Image:    func(markdown.Node, string) {},
	}

	p.Blocks(markdown.Parse(source), "")
	return strings.TrimSpace(p.String())
}

// wide writes angle brackets wide.
func wide(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '<':
			return '＜'
		case '>':
			return '＞'
		}
		return r
	}, s)
}

func (p *page) heading(n markdown.Node, in string) {
	if n.Level < 5 {
		p.WriteString(strings.Repeat("#", n.Level) + " ")
	}
	p.Inline(n.Children, in)
}

func (p *page) code(n markdown.Node, in string) {
	p.Lines("```"+n.Info+"\n"+strings.ReplaceAll(n.Text, "```", "'''")+"\n```", in)
}

func (p *page) table(n markdown.Node, in string) {
	for i, row := range n.Children {
		if i > 0 {
			p.WriteString("\n" + in)
		}

		p.WriteString("|")
		for _, cell := range row.Children {
			p.WriteString(" ")
			p.Inline(cell.Children, in)
			p.WriteString(" |")
		}

		if i == 0 {
			p.WriteString("\n" + in + "|" + strings.Repeat(" --- |", len(row.Children)))
		}
	}
}

func (p *page) emphasis(n markdown.Node, in string) {
	marks := [2]string{"*", "*"}
	if strings.ContainsFunc(markdown.Words(n.Children), func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
		marks = [2]string{}
	}
	p.Between(marks, n, in)
}

func (p *page) codeSpan(n markdown.Node, _ string) {
	if strings.Contains(n.Text, "`") {
		p.Text(n.Text, "")
		return
	}
	p.WriteString("`" + n.Text + "`")
}

func (p *page) link(n markdown.Node, in string) {
	if words := markdown.Words(n.Children); words == n.URL || words == "" {
		p.Text(n.URL, "")
		return
	}
	p.Between([2]string{"[", "](" + n.URL + ")"}, n, in)
}
