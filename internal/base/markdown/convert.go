package markdown

import (
	"html"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"
)

// converter makes Nodes of goldmark's tree.
type converter struct{ source []byte }

func (c converter) blocks(parent ast.Node) []Node {
	var out []Node
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		out = append(out, c.block(n))
	}
	return out
}

func (c converter) block(n ast.Node) Node {
	switch n := n.(type) {
	case *ast.Heading:
		return Node{Kind: Heading, Level: n.Level, Children: c.inline(n, 0)}
	case *ast.Blockquote:
		return Node{Kind: Quote, Children: c.blocks(n)}
	case *ast.List:
		return Node{Kind: List, Ordered: n.IsOrdered(), Start: n.Start, Tight: n.IsTight, Children: c.blocks(n)}
	case *ast.ListItem:
		return Node{Kind: Item, Task: boxOf(n), Children: c.blocks(n)}
	case *ast.FencedCodeBlock:
		language, _, _ := strings.Cut(unescape(string(n.Language(c.source))), "\n") // &#10; in it would begin a line of the code
		return Node{Kind: Code, Info: language, Text: c.code(n)}
	case *ast.CodeBlock:
		return Node{Kind: Code, Text: strings.TrimRight(c.code(n), "\n")}
	case *ast.ThematicBreak:
		return Node{Kind: Rule}
	case *extast.Table:
		t := Node{Kind: Table, Children: c.blocks(n)}
		for _, a := range n.Alignments {
			t.Align = append(t.Align, alignOf(a))
		}
		return t

	case *extast.TableHeader, *extast.TableRow:
		return Node{Kind: Row, Children: c.blocks(n)}
	case *extast.TableCell:
		return Node{Kind: Cell, Children: c.inline(n, 0)}
	}
	return Node{Kind: Paragraph, Children: c.inline(n, 0)}
}

func alignOf(a extast.Alignment) Align {
	switch a {
	case extast.AlignLeft:
		return AlignLeft
	case extast.AlignCenter:
		return AlignCenter
	case extast.AlignRight:
		return AlignRight
	}
	return AlignNone
}

// boxOf returns the box that a list item begins with.
func boxOf(item ast.Node) Task {
	if item.FirstChild() == nil {
		return NoTask
	}

	box, ok := item.FirstChild().FirstChild().(*extast.TaskCheckBox)
	switch {
	case !ok:
		return NoTask
	case box.IsChecked:
		return Done
	}
	return Open
}

func (c converter) code(n ast.Node) string {
	return strings.TrimSuffix(string(n.Lines().Value(c.source)), "\n")
}

// inline returns the words of a block.
func (c converter) inline(parent ast.Node, depth int) []Node {
	var w words
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			c.text(&w, n)
		case *ast.CodeSpan:
			w.add(Node{Kind: CodeSpan, Text: c.codeSpan(n)})
		case *ast.AutoLink:
			label := string(n.Label(c.source))
			url := string(n.URL(c.source))
			if n.AutoLinkType == ast.AutoLinkEmail {
				url = "mailto:" + label
			}
			w.add(Node{Kind: Link, URL: url, Children: []Node{{Kind: Text, Text: label}}})

		case *ast.Link, *ast.Image, *ast.Emphasis, *extast.Strikethrough:
			inside := c.inline(n, depth+1)
			if depth < maxDepth {
				inside = []Node{wrap(n, inside)}
			}
			for _, in := range inside {
				w.add(in)
			}
		}
	}

	w.flush()
	return w.list
}

// words collects inline nodes, with neighbouring texts as one.
type words struct {
	list []Node
	text strings.Builder
}

func (w *words) add(n Node) {
	if n.Kind == Text {
		w.text.WriteString(n.Text)
		return
	}
	w.flush()
	if last := len(w.list) - 1; n.Kind == SoftBreak && last >= 0 && w.list[last].Kind == HardBreak {
		return // the line ends in <br>
	}
	w.list = append(w.list, n)
}

func (w *words) flush() {
	if w.text.Len() > 0 {
		w.list = append(w.list, Node{Kind: Text, Text: w.text.String()})
		w.text.Reset()
	}
}

func (c converter) text(w *words, n *ast.Text) {
	s := string(n.Segment.Value(c.source))
	if !n.IsRaw() {
		s = unescape(s)
	}

	w.text.WriteString(s)
	switch {
	case n.HardLineBreak():
		w.add(Node{Kind: HardBreak})
	case n.SoftLineBreak():
		w.add(Node{Kind: SoftBreak})
	}
}

func (c converter) codeSpan(n *ast.CodeSpan) string {
	var b strings.Builder
	for t := n.FirstChild(); t != nil; t = t.NextSibling() {
		if t, ok := t.(*ast.Text); ok {
			b.Write(t.Segment.Value(c.source))
		}
	}

	s := strings.ReplaceAll(b.String(), "\n", " ")
	for p := ast.Node(n); p != nil; p = p.Parent() {
		if p.Kind() == extast.KindTableCell {
			return strings.ReplaceAll(s, `\|`, "|")
		}
	}
	return s
}

func wrap(n ast.Node, inside []Node) Node {
	switch n := n.(type) {
	case *ast.Link:
		return Node{Kind: Link, URL: unescape(string(n.Destination)), Children: inside}
	case *ast.Image:
		return Node{Kind: Image, URL: unescape(string(n.Destination)), Children: inside}
	case *extast.Strikethrough:
		return Node{Kind: Strike, Children: inside}
	case *ast.Emphasis:
		if n.Level == 2 {
			return Node{Kind: Strong, Children: inside}
		}
	}
	return Node{Kind: Emphasis, Children: inside}
}

// unescape takes backslashes before punctuation away and reads entities.
func unescape(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}

	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && util.IsPunct(s[i+1]) {
			i++
		} else if s[i] == '&' {
			if t, n := entity(s[i:]); n > 0 {
				b.WriteString(t)
				i += n - 1
				continue
			}
		}
		b.WriteByte(s[i])
	}

	return b.String()
}

// entity reads one such as &amp; and says how long it is, 0 for none.
func entity(s string) (string, int) {
	n := strings.IndexByte(s[:min(len(s), 34)], ';') + 1
	if n < 3 {
		return "", 0
	}
	t := html.UnescapeString(s[:n])
	if t == s[:n] || strings.HasSuffix(t, ";") && t != ";" {
		return "", 0
	}
	return t, n
}
