package feishu

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

const (
	maxTables = 3    // of one card; others are drawn with characters
	longText  = 2000 // characters; more is a card
	shortText = 200  // characters; up to so many without markup are a text
)

// shape is one of the forms that a message can have.
type shape struct {
	kind    string // text, post or interactive
	content []byte
}

// shapeOf chooses the form of a message: a card for what has markup or is long,
// a post for what has links or several lines, else a text.
func shapeOf(out bus.Outbound, tables int) (shape, error) {
	said := strings.TrimSpace(text.Valid(out.Text))
	if out.Plain {
		return textShape(said)
	}

	tree := markdown.Parse(said)
	marked, linked := features(tree)
	n := utf8.RuneCountInString(said)
	switch {
	case marked || n > longText:
		content, err := encode(cardOf(toCard(tree, tables), false))
		return shape{"interactive", content}, err
	case linked || n > shortText:
		return postShape(tree)
	}

	return textShape(markdown.Plain(tree))
}

func textShape(said string) (shape, error) {
	content, err := encode(map[string]string{"text": harmless(said)})
	return shape{"text", content}, err
}

// features reports whether a text has markup that only cards show, and links.
func features(n markdown.Node) (marked, linked bool) {
	switch n.Kind {
	case markdown.Code, markdown.CodeSpan, markdown.Table, markdown.Heading, markdown.Strong, markdown.Emphasis, markdown.Strike, markdown.List, markdown.Quote, markdown.Rule:
		return true, false
	case markdown.Link:
		linked = n.URL != markdown.Words(n.Children)
	}

	for _, c := range n.Children {
		m, l := features(c)
		marked, linked = marked || m, linked || l
	}
	return marked, linked
}

// harmless keeps words of ours from calling people: a text of Feishu names
// all members with <at user_id="all">.
func harmless(s string) string { return strings.ReplaceAll(s, "<at", "<\u200bat") }

// postShape is rich text: a line of elements for each line.
func postShape(tree markdown.Node) (shape, error) {
	type element = map[string]string
	var rows [][]element
	line := func(nodes []markdown.Node) {
		row := []element{}
		var add func(list []markdown.Node)
		add = func(list []markdown.Node) {
			for _, n := range list {
				switch {
				case n.Kind == markdown.SoftBreak || n.Kind == markdown.HardBreak:
					rows, row = append(rows, row), []element{}
				case (n.Kind == markdown.Link || n.Kind == markdown.Image) && webAddress(n.URL):
					words := markdown.Words(n.Children)
					if words == "" {
						words = n.URL
					}
					row = append(row, element{"tag": "a", "text": words, "href": n.URL})

				case n.Text != "":
					row = append(row, element{"tag": "text", "text": n.Text})
				default:
					add(n.Children)
				}
			}
		}

		add(nodes)
		rows = append(rows, row)
	}
	for i, block := range tree.Children {
		if i > 0 {
			rows = append(rows, []element{{"tag": "text", "text": ""}})
		}
		line(block.Children)
	}

	content, err := encode(map[string]any{"zh_cn": map[string]any{"content": rows}})
	return shape{"post", content}, err
}

// elementID names the text of a card, which grows.
const elementID = "streaming_md"

// cardOf returns a card of schema 2.0 with a text.
func cardOf(said string, streaming bool) map[string]any {
	config := map[string]any{"wide_screen_mode": true, "update_multi": true}
	if streaming {
		config["streaming_mode"] = true
	}
	return map[string]any{
		"schema": "2.0",
		"config": config,
		"body":   map[string]any{"elements": []any{map[string]any{"tag": "markdown", "content": said, "element_id": elementID}}},
	}
}

// cardMarkdown returns the text of a card for a message.
func cardMarkdown(out bus.Outbound, tables int) string {
	said := strings.TrimSpace(text.Valid(out.Text))
	if out.Plain {
		return escape(said)
	}
	return toCard(markdown.Parse(said), tables)
}

// renderer writes a tree in the Markdown of cards. Feishu reads tags in angle
// brackets there, such as <at id=all>; words of ours never become one.
type renderer struct {
	markdown.Writer
	tables int // that may still be tables
}

func toCard(tree markdown.Node, tables int) string {
	r := renderer{tables: tables}
	r.Escape = escape
	r.Bullet = bullet
	r.Gap = gap
	r.Marks = map[markdown.Kind][2]string{markdown.Rule: {"---", ""}}
	r.Own = map[markdown.Kind]func(markdown.Node, string){
		markdown.Heading:  r.heading,
		markdown.Code:     func(n markdown.Node, in string) { r.Lines(fenced(n.Info, n.Text), in) },
		markdown.Table:    r.table,
		markdown.Strong:   func(n markdown.Node, in string) { r.Around("**", n, in) },
		markdown.Emphasis: func(n markdown.Node, in string) { r.Around("*", n, in) },
		markdown.Strike:   func(n markdown.Node, in string) { r.Around("~~", n, in) },
		markdown.CodeSpan: func(n markdown.Node, in string) { r.Lines(markdown.Span(harmless(n.Text)), in) },
		markdown.Link:     r.link,
		markdown.Image:    r.link, // Feishu shows only pictures that were uploaded
	}

	r.Node(tree, "")
	return strings.TrimRight(r.String(), "\n ")
}

// gap leaves no blank lines between the items of a list.
func gap(parent markdown.Node, i int, in string) string {
	if parent.Kind == markdown.List {
		return "\n" + in
	}
	return markdown.Gap(parent, i, in)
}

// bullet returns what begins an item of a list.
func bullet(list markdown.Node, i int) string {
	mark := strings.Replace(markdown.Bullet(list, i), "• ", "- ", 1)
	if list.Children[i].Task != markdown.NoTask {
		mark = "- " + strings.TrimPrefix(mark, "- ")
	}
	return mark
}

func (r *renderer) heading(n markdown.Node, _ string) {
	r.WriteString(strings.Repeat("#", n.Level) + " " + strings.ReplaceAll(r.Rendered(n.Children), "\n", " "))
}

// fenced returns a code block. A tag in it would still be read.
func fenced(info, code string) string { return markdown.Fence(info, harmless(code)) }

// table writes a table, or draws it if the card has too many.
func (r *renderer) table(n markdown.Node, in string) {
	if len(n.Children) == 0 {
		return
	}
	if r.tables--; r.tables < 0 || in != "" {
		r.Lines(fenced("", markdown.Columns(n)), in)
		return
	}
	r.WriteString(markdown.Pipes(n, r.Rendered, func(markdown.Align) string { return " --- " }))
}

// webAddress reports whether an address is one of a page.
func webAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// link writes a link. Addresses of other kinds than those of pages stay text.
func (r *renderer) link(n markdown.Node, in string) {
	if !webAddress(n.URL) {
		r.Text(markdown.Words([]markdown.Node{n}), in)
		return
	}

	address := markdown.Address(n.URL)
	label := r.Rendered(n.Children)
	switch words := markdown.Words(n.Children); {
	case words == n.URL && n.Kind == markdown.Link:
		r.WriteString(address)
		return
	case label == "":
		label = address
	}

	r.Lines("["+label+"]("+address+")", in)
}

// escape hides what cards would read as markup.
func escape(s string) string {
	if !strings.ContainsAny(s, "<>*_~`[") {
		return s
	}
	return strings.NewReplacer("<", "&lt;", ">", "&gt;", "*", "&#42;", "_", "&#95;", "~", "&#126;", "`", "&#96;", "[", "&#91;").Replace(s)
}
