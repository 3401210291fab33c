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
// everybody with <at user_id="all">.
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

// cardOf is a card of schema 2.0 with a text.
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

// cardMarkdown is the text of a card for a message.
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
	strings.Builder
	tables int // that may still be tables
}

func toCard(tree markdown.Node, tables int) string {
	r := renderer{tables: tables}
	r.block(tree, "")
	return strings.TrimRight(r.String(), "\n ")
}

func (r *renderer) lines(s, in string) { r.WriteString(strings.ReplaceAll(s, "\n", "\n"+in)) }

func (r *renderer) block(n markdown.Node, in string) {
	switch n.Kind {
	case markdown.Paragraph, markdown.Cell:
		r.lines(inline(n.Children), in)
	case markdown.Heading:
		r.WriteString(strings.Repeat("#", n.Level) + " " + strings.ReplaceAll(inline(n.Children), "\n", " "))
	case markdown.Code:
		r.lines(fenced(n.Info, n.Text), in)
	case markdown.Rule:
		r.WriteString("---")
	case markdown.Table:
		r.table(n, in)
	case markdown.Quote:
		r.WriteString("> ")
		r.blocks(n.Children, in+"> ", true)
	case markdown.List:
		r.list(n, in)
	case markdown.Document, markdown.Item, markdown.Row:
		r.blocks(n.Children, in, n.Kind != markdown.Item)
	default:
		r.lines(inline([]markdown.Node{n}), in)
	}
}

func (r *renderer) blocks(list []markdown.Node, in string, apart bool) {
	for i, c := range list {
		if i > 0 {
			r.WriteString("\n" + in)
			if apart {
				r.WriteString("\n" + in)
			}
		}
		r.block(c, in)
	}
}

func (r *renderer) list(n markdown.Node, in string) {
	for i, it := range n.Children {
		if i > 0 {
			r.WriteString("\n" + in)
		}
		mark := strings.Replace(markdown.Bullet(n, i), "• ", "- ", 1)
		if it.Task != markdown.NoTask {
			mark = "- " + strings.TrimPrefix(mark, "- ")
		}
		r.WriteString(mark)
		r.blocks(it.Children, in+strings.Repeat(" ", markdown.Width(mark)), !n.Tight)
	}
}

// fenced is a code block. A tag in it would still be read.
func fenced(info, code string) string {
	fence := "```"
	for strings.Contains(code, fence) {
		fence += "`"
	}
	info, _, _ = strings.Cut(strings.TrimSpace(info), " ")
	return fence + strings.ReplaceAll(info, "`", "") + "\n" + harmless(code) + "\n" + fence
}

// table writes a table, or draws it if the card has too many.
func (r *renderer) table(n markdown.Node, in string) {
	if len(n.Children) == 0 {
		return
	}
	if r.tables--; r.tables < 0 || in != "" {
		r.lines(fenced("", markdown.Columns(n)), in)
		return
	}
	for i, row := range n.Children {
		if i > 0 {
			r.WriteString("\n")
		}
		r.WriteString("|")
		for _, c := range row.Children {
			r.WriteString(" " + strings.ReplaceAll(strings.ReplaceAll(inline(c.Children), "\n", " "), "|", `\|`) + " |")
		}
		if i == 0 {
			r.WriteString("\n|" + strings.Repeat(" --- |", len(row.Children)))
		}
	}
}

// inline is the text of words.
func inline(list []markdown.Node) string {
	var b strings.Builder
	for _, n := range list {
		switch n.Kind {
		case markdown.SoftBreak, markdown.HardBreak:
			b.WriteString("\n")
		case markdown.Strong:
			b.WriteString(around("**", inline(n.Children)))
		case markdown.Emphasis:
			b.WriteString(around("*", inline(n.Children)))
		case markdown.Strike:
			b.WriteString(around("~~", inline(n.Children)))
		case markdown.CodeSpan:
			b.WriteString(span(n.Text))
		case markdown.Link, markdown.Image: // Feishu shows only pictures that were uploaded
			b.WriteString(link(n))
		default:
			b.WriteString(escape(n.Text) + inline(n.Children))
		}
	}
	return b.String()
}

func around(mark, s string) string {
	if strings.TrimSpace(s) == "" {
		return s
	}
	return mark + s + mark
}

func span(s string) string {
	tick := "`"
	for strings.Contains(s, tick) {
		tick += "`"
	}
	if len(tick) > 1 {
		s = " " + s + " "
	}
	return tick + harmless(s) + tick
}

// webAddress reports whether an address is one of a page.
func webAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// link writes a link. Addresses of other kinds than those of pages stay text.
func link(n markdown.Node) string {
	label := inline(n.Children)
	if !webAddress(n.URL) {
		return escape(markdown.Words([]markdown.Node{n}))
	}
	address := strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E").Replace(n.URL)
	switch words := markdown.Words(n.Children); {
	case words == n.URL && n.Kind == markdown.Link:
		return address
	case label == "":
		label = address
	}
	return "[" + label + "](" + address + ")"
}

// escape hides what cards would read as markup.
func escape(s string) string {
	if !strings.ContainsAny(s, "<>*_~`[") {
		return s
	}
	return strings.NewReplacer("<", "&lt;", ">", "&gt;", "*", "&#42;", "_", "&#95;", "~", "&#126;", "`", "&#96;", "[", "&#91;").Replace(s)
}
