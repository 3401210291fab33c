package markdown

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Tag returns the marks of an element of HTML, which may have attributes.
func Tag(element string) [2]string {
	name, _, _ := strings.Cut(element, " ")
	return [2]string{"<" + element + ">", "</" + name + ">"}
}

// HTML writes a tree with elements of HTML. It is a Writer whose Marks say which
// element a kind is, and that has usual ones for the blocks that Marks and Own leave
// out.
type HTML struct {
	Writer

	// After stands after each block that is not in an item of a list.
	After string
}

// Blocks writes the blocks in a node. In a tight list, paragraphs have no element.
func (h *HTML) Blocks(parent Node) {
	for i, n := range parent.Children {
		switch {
		case parent.Kind != Item:
			h.block(n)
			h.WriteString(h.After)
		case parent.Tight && n.Kind == Paragraph:
			if i > 0 {
				h.WriteString("<br>")
			}
			h.Inline(n.Children, "")

		default:
			h.block(n)
		}
	}
}

// block writes one block.
func (h *HTML) block(n Node) {
	if own := h.Own[n.Kind]; own != nil {
		own(n, "")
		return
	}
	switch n.Kind {
	case Heading:
		h.Element(n, "h"+strconv.Itoa(min(max(n.Level, 1), 6)), func() { h.Inline(n.Children, "") })
	case Quote:
		h.Element(n, "blockquote", func() { h.Blocks(n) })
	case List:
		h.list(n)
	case Code:
		h.Element(n, "pre", func() { h.Text(n.Text, "") })
	case Table:
		h.table(n)
	case Rule:
		h.WriteString("<hr>")
	case Document, Item:
		h.Blocks(n)
	default:
		h.Element(n, "p", func() { h.Inline(n.Children, "") })
	}
}

// Element writes what is inside with the element of a node around it: that of Marks,
// else the usual one.
func (h *HTML) Element(n Node, usual string, inside func()) {
	marks, ok := h.Marks[n.Kind]
	if !ok {
		marks = Tag(usual)
	}
	h.WriteString(marks[0])
	inside()
	h.WriteString(marks[1])
}

func (h *HTML) list(n Node) {
	tag := "ul"
	if n.Ordered {
		tag = "ol"
		if n.Start != 1 {
			tag = `ol start="` + strconv.Itoa(n.Start) + `"`
		}
	}

	h.Element(n, tag, func() {
		for _, item := range n.Children {
			item.Tight = n.Tight
			h.Element(item, "li", func() {
				h.WriteString(box(item.Task))
				h.Blocks(item)
			})
		}
	})
}

// table writes the header as a part of its own.
func (h *HTML) table(n Node) {
	h.Element(n, "table", func() {
		if len(n.Children) == 0 {
			return
		}

		h.WriteString("<thead>")
		h.Row(n.Children[0], "th")
		h.WriteString("</thead><tbody>")
		for _, row := range n.Children[1:] {
			h.Row(row, "td")
		}
		h.WriteString("</tbody>")
	})
}

// Row writes the cells of a row, each as an element.
func (h *HTML) Row(row Node, cell string) {
	h.Element(row, "tr", func() {
		for _, c := range row.Children {
			h.Element(c, cell, func() { h.Inline(c.Children, "") })
		}
	})
}

// Linkable reports whether an address can be followed from a message: it is that of a
// page, or has one of the schemes that the platform follows beside those.
func Linkable(address string, schemes ...string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "http", "https":
		return u.Host != ""
	}
	return slices.Contains(schemes, u.Scheme)
}

// Language returns the language of a block of code as the class of an element may
// have it.
func Language(info string) string {
	language, _, _ := strings.Cut(strings.TrimSpace(info), " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("+-#._", r) {
			return r
		}
		return -1
	}, language)
}
