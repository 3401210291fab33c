// Package markdown turns the Markdown that models write into one small tree,
// and writes such a tree in other markups: Writer in those of lines, HTML in
// those of elements. A chat platform says in a table what its own markup writes
// another way. The parser knows CommonMark's blocks and emphasis with tables,
// strike-through, task lists and bare links; raw HTML stays text, since no
// platform shows it. Parsing never fails, takes time linear in the text for all
// practical purposes, and bounds how deep the tree gets.
package markdown

import "slices"

// Kind says what a Node is.
type Kind uint8

// The kinds of blocks, and after Text those of the words in them.
const (
	Document  Kind = iota // Children are blocks
	Paragraph             // Children are inline
	Heading               // Level 1 to 6, inline children
	Quote                 // blocks
	List                  // Items; Ordered and Start, Tight
	Item                  // blocks; Task
	Code                  // Text without the last line end; Info is the language
	Rule                  // a line across
	Table                 // Rows, the first is the header; Align per column
	Row                   // Cells
	Cell                  // inline
	Text                  // Text as it is, without markup
	Emphasis              // inline
	Strong                // inline
	Strike                // inline
	CodeSpan              // Text
	Link                  // URL, inline children
	Image                 // URL, inline children are the description
	SoftBreak             // a line end of the source
	HardBreak             // a line end that was asked for
)

// Align is where the text of a table column stands.
type Align uint8

// The alignments.
const (
	AlignNone Align = iota
	AlignLeft
	AlignCenter
	AlignRight
)

// Task says whether a list item has a box.
type Task uint8

// The boxes.
const (
	NoTask Task = iota
	Open
	Done
)

// Node is a piece of a text. Which fields count depends on the Kind.
type Node struct {
	Kind     Kind
	Text     string
	Info     string
	URL      string
	Level    int
	Start    int
	Ordered  bool
	Tight    bool // a list without blank lines between its items
	Task     Task
	Align    []Align
	Children []Node
}

// Has reports whether a node of a kind is in this one, or is this one.
func (n Node) Has(kind Kind) bool {
	return n.Kind == kind || slices.ContainsFunc(n.Children, func(c Node) bool { return c.Has(kind) })
}
