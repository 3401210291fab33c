package markdown

import (
	"bytes"
	"strings"
)

// Writer writes a tree in a markup of lines, as most chat platforms have one: blocks
// below each other, and at the beginning of each further line of a block what the
// blocks around it put there, such as "> " for a quote. That beginning is called in.
//
// A Writer without more writes plain text. What a markup writes another way is in the
// fields, which are set before the first node is written.
type Writer struct {
	// Marks stand before and after what a kind holds.
	Marks map[Kind][2]string

	// Own writes kinds for which marks are not enough. It comes before Marks.
	Own map[Kind]func(n Node, in string)

	// Escape keeps words from being read as markup. Nil leaves them as they are.
	Escape func(words string) string

	// Bullet returns what stands before the item i of a list. Nil is Bullet.
	Bullet func(list Node, i int) string

	// Quote stands before each line of a quote. "" is "> ".
	Quote string

	// Gap returns what stands between the child i-1 and the child i of a node. Nil
	// is Gap.
	Gap func(parent Node, i int, in string) string

	// Seen is called with what a reader sees: words before they are escaped, bullets, line
	// ends and what stands before lines, but no marks.
	Seen func(s string)

	out []byte
}

// String returns what was written.
func (w *Writer) String() string { return string(w.out) }

// WriteString writes a mark as it is.
func (w *Writer) WriteString(s string) { w.out = append(w.out, s...) }

// TrimSuffix takes s away if it was written last, and reports whether it was.
func (w *Writer) TrimSuffix(s string) bool {
	trimmed := bytes.HasSuffix(w.out, []byte(s))
	if trimmed {
		w.out = w.out[:len(w.out)-len(s)]
	}
	return trimmed
}

// Line returns what was written of the last line.
func (w *Writer) Line() string {
	return string(w.out[bytes.LastIndexByte(w.out, '\n')+1:])
}

// Text writes words. Each further line of them begins with in.
func (w *Writer) Text(s, in string) {
	escaped := s
	if w.Escape != nil {
		escaped = w.Escape(s)
	}
	if w.Seen != nil {
		w.Seen(indent(s, in))
	}
	w.WriteString(indent(escaped, in))
}

func indent(s, in string) string {
	if in == "" {
		return s
	}
	return strings.ReplaceAll(s, "\n", "\n"+in)
}

// Lines writes markup as it is. Each further line of it begins with in.
func (w *Writer) Lines(s, in string) { w.WriteString(indent(s, in)) }

// layout writes a bullet, a line end or what stands before a line.
func (w *Writer) layout(s string) {
	if w.Seen != nil {
		w.Seen(s)
	}
	w.WriteString(s)
}

// Rendered returns what Inline makes of words, instead of writing it.
func (w *Writer) Rendered(list []Node) string {
	begin := len(w.out)
	w.Inline(list, "")
	s := string(w.out[begin:])
	w.out = w.out[:begin]
	return s
}

// Blocks writes the blocks in a node.
func (w *Writer) Blocks(parent Node, in string) {
	gap := w.Gap
	if gap == nil {
		gap = Gap
	}

	for i, n := range parent.Children {
		if i > 0 {
			w.layout(gap(parent, i, in))
		}
		w.Node(n, in)
	}
}

// Gap returns what stands between two blocks of a plain text: a line end, and a blank
// line unless they are in a tight list.
func Gap(parent Node, _ int, in string) string {
	if parent.Tight {
		return "\n" + in
	}
	return "\n" + in + "\n" + in
}

// Inline writes words.
func (w *Writer) Inline(list []Node, in string) {
	for _, n := range list {
		w.Node(n, in)
	}
}

// Node writes a block, or one of the words in it.
func (w *Writer) Node(n Node, in string) {
	if own := w.Own[n.Kind]; own != nil {
		own(n, in)
		return
	}
	if marks, ok := w.Marks[n.Kind]; ok {
		w.Between(marks, n, in)
		return
	}

	switch n.Kind {
	case Document, Item, Row:
		w.Blocks(n, in)
	case Quote:
		w.quote(n, in)
	case List:
		w.list(n, in)
	case Code:
		w.Text(n.Text, in)
	case Table:
		w.Text(Columns(n), in)
	case Rule:
		w.layout("———")
	case SoftBreak, HardBreak:
		w.layout("\n" + in)
	case Link, Image:
		w.Text(Words([]Node{n}), in)
	default:
		w.Text(n.Text, in)
		w.Inline(n.Children, in)
	}
}

// Between writes what a node holds with marks around it.
func (w *Writer) Between(marks [2]string, n Node, in string) {
	w.WriteString(marks[0])
	w.Text(n.Text, in)
	w.Inline(n.Children, in)
	w.WriteString(marks[1])
}

// Around writes words with a mark on both sides, unless they are blank: most readers
// would show the marks then.
func (w *Writer) Around(mark string, n Node, in string) {
	s := w.Rendered(n.Children)
	if strings.TrimSpace(s) != "" {
		s = mark + s + mark
	}
	w.Lines(s, in)
}

func (w *Writer) quote(n Node, in string) {
	mark := w.Quote
	if mark == "" {
		mark = "> "
	}
	w.layout(mark)
	w.Blocks(n, in+mark)
}

func (w *Writer) list(n Node, in string) {
	gap, bullet := w.Gap, w.Bullet
	if gap == nil {
		gap = Gap
	}
	if bullet == nil {
		bullet = Bullet
	}

	for i, item := range n.Children {
		if i > 0 {
			w.layout(gap(n, i, in))
		}
		mark := bullet(n, i)
		w.layout(mark)
		item.Tight = n.Tight
		w.Blocks(item, in+strings.Repeat(" ", Width(mark)))
	}
}
