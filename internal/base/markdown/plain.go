package markdown

import (
	"strconv"
	"strings"
)

// Plain returns the text of a tree for places that show no markup: lists keep
// their marks, links their addresses, tables their columns.
func Plain(n Node) string {
	var w Writer
	w.Node(n, "")
	return strings.TrimRight(w.String(), "\n")
}

// Bullet returns what stands before the item i of a list, with the space after
// it.
func Bullet(list Node, i int) string {
	m := "• "
	if list.Ordered {
		m = strconv.Itoa(list.Start+i) + ". "
	}
	return m + box(list.Children[i].Task)
}

// box returns what shows the box of an item, with the space after it.
func box(t Task) string {
	switch t {
	case Open:
		return "☐ "
	case Done:
		return "☑ "
	case NoTask:
	}
	return ""
}

// Words returns the text of inline nodes without markup. A link whose text is not
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
