package markdown

import (
	"strconv"
	"strings"
)

// Plain is the text of a tree for places that show no markup: lists keep
// their marks, links their addresses, tables their columns.
func Plain(n Node) string {
	var p plain
	p.block(n, "")
	return strings.TrimRight(p.String(), "\n")
}

type plain struct{ strings.Builder }

func (p *plain) block(n Node, in string) {
	switch n.Kind {
	case Paragraph, Heading, Cell:
		p.WriteString(strings.ReplaceAll(Words(n.Children), "\n", "\n"+in))
	case Code:
		p.WriteString(strings.ReplaceAll(n.Text, "\n", "\n"+in))
	case Rule:
		p.WriteString("———")
	case Table:
		p.WriteString(strings.ReplaceAll(Columns(n), "\n", "\n"+in))
	case Quote:
		p.WriteString("> ")
		p.blocks(n.Children, in+"> ", true)
	case List:
		p.list(n, in)
	case Document, Item, Row:
		p.blocks(n.Children, in, n.Kind != Item)
	default:
		p.WriteString(Words([]Node{n}))
	}
}

func (p *plain) blocks(list []Node, in string, apart bool) {
	for i, c := range list {
		if i > 0 {
			p.WriteString("\n" + in)
			if apart {
				p.WriteString("\n" + in)
			}
		}
		p.block(c, in)
	}
}

func (p *plain) list(n Node, in string) {
	for i, it := range n.Children {
		if i > 0 {
			p.WriteString("\n" + in)
			if !n.Tight {
				p.WriteString("\n" + in)
			}
		}
		m := Bullet(n, i)
		p.WriteString(m)
		p.blocks(it.Children, in+strings.Repeat(" ", Width(m)), !n.Tight)
	}
}

// Bullet returns what stands before the item i of a list, with the space after
// it.
func Bullet(list Node, i int) string {
	m := "• "
	if list.Ordered {
		m = strconv.Itoa(list.Start+i) + ". "
	}
	switch list.Children[i].Task {
	case Open:
		m += "☐ "
	case Done:
		m += "☑ "
	case NoTask:
	}
	return m
}

// Words is the text of inline nodes without markup. A link whose text is not
// its address is followed by it.
func Words(list []Node) string {
	var b strings.Builder
	writeWords(&b, list)
	return b.String()
}

func writeWords(b *strings.Builder, list []Node) {
	for _, n := range list {
		switch n.Kind {
		case SoftBreak, HardBreak:
			b.WriteByte('\n')
		case Link, Image:
			text := Words(n.Children)
			b.WriteString(text)
			if n.URL != "" && n.URL != text && n.URL != "mailto:"+text {
				if text != "" {
					b.WriteString(" (" + n.URL + ")")
				} else {
					b.WriteString(n.URL)
				}
			}
		default:
			b.WriteString(n.Text)
			writeWords(b, n.Children)
		}
	}
}
