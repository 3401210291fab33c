package whatsapp

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// page writes a tree in WhatsApp's own markup.
type page struct {
	markdown.Writer
	marks string // that are open; WhatsApp shows one of a kind
}

func render(source string) string {
	p := &page{}
	p.Own = map[markdown.Kind]func(markdown.Node, string){
		markdown.Heading:  p.wrap("*"),
		markdown.Strong:   p.wrap("*"),
		markdown.Emphasis: p.wrap("_"),
		markdown.Strike:   p.wrap("~"),
		markdown.CodeSpan: p.codeSpan,
		markdown.Code:     func(n markdown.Node, _ string) { p.fixed(n.Text) },
		markdown.Table:    func(n markdown.Node, _ string) { p.fixed(markdown.Columns(n)) },
	}

	p.Blocks(markdown.Parse(source), "")
	return p.String()
}

// fixed writes a text of one width; its own fences would end it.
func (p *page) fixed(s string) {
	p.WriteString("```\n" + strings.ReplaceAll(s, "```", "'''") + "\n```")
}

func (p *page) codeSpan(n markdown.Node, _ string) {
	if strings.Contains(n.Text, "`") || strings.TrimSpace(n.Text) == "" {
		p.WriteString(n.Text)
		return
	}
	p.WriteString("`" + n.Text + "`")
}

// wrap puts marks around a text. WhatsApp takes them only at its very ends and
// on one line.
func (p *page) wrap(mark string) func(n markdown.Node, in string) {
	return func(n markdown.Node, in string) {
		words := markdown.Words(n.Children)
		if strings.Contains(p.marks, mark) || strings.TrimSpace(words) != words || words == "" || strings.ContainsAny(words, "\n"+mark) {
			p.Inline(n.Children, in)
			return
		}

		before := p.marks
		p.marks += mark
		p.Between([2]string{mark, mark}, n, in)
		p.marks = before
	}
}
