package slack

import (
	"net/url"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
)

// renderer writes a tree in one of Slack's two languages: the Markdown of a
// block, or mrkdwn, which a message has as its text for notifications and for
// clients that show no blocks.
//
// Slack reads commands in angle brackets, which ring for a whole channel. Words
// of ours never become one: mrkdwn is escaped as a whole, and in Markdown the
// bracket that could begin one is, outside of code.
type renderer struct {
	markdown.Writer
	rich bool // Markdown
	bold bool // within something bold already
}

func toMarkdown(tree markdown.Node) string { return render(tree, true) }
func toMrkdwn(tree markdown.Node) string   { return render(tree, false) }

func render(tree markdown.Node, rich bool) string {
	r := renderer{rich: rich}
	r.Escape = r.escape
	r.Own = map[markdown.Kind]func(markdown.Node, string){
		markdown.Heading:  r.heading,
		markdown.Strong:   r.strong,
		markdown.Emphasis: r.around("*", "_"),
		markdown.Strike:   r.around("~~", "~"),
		markdown.Link:     r.link,
		markdown.Image:    r.link,
		markdown.Code:     func(n markdown.Node, in string) { r.Lines(r.code(n), in) },
		markdown.Table:    func(n markdown.Node, in string) { r.Lines(r.table(n), in) },
		markdown.CodeSpan: func(n markdown.Node, in string) { r.Lines(r.span(n.Text), in) },
	}

	if rich {
		r.Marks = map[markdown.Kind][2]string{markdown.Rule: {"---", ""}}
		r.Own[markdown.HardBreak] = func(_ markdown.Node, in string) { r.Lines("  \n", in) }
		r.Bullet = bullet
	} else {
		r.Quote = "&gt; "
	}

	r.Node(tree, "")
	return strings.TrimRight(r.String(), "\n ")
}

// bullet returns what begins an item of a list in Markdown.
func bullet(list markdown.Node, i int) string {
	return strings.NewReplacer("• ", "- ", "☐ ", "[ ] ", "☑ ", "[x] ").Replace(markdown.Bullet(list, i))
}

func (r *renderer) heading(n markdown.Node, in string) {
	if r.rich {
		r.WriteString(strings.Repeat("#", n.Level) + " " + strings.ReplaceAll(r.Rendered(n.Children), "\n", " "))
		return
	}
	r.bold = true
	r.Between([2]string{"*", "*"}, n, in)
	r.bold = false
}

func (r *renderer) strong(n markdown.Node, in string) {
	if r.bold {
		r.Inline(n.Children, in)
		return
	}
	r.bold = true
	r.around("**", "*")(n, in)
	r.bold = false
}

// around writes a mark on both sides of words, the first one in Markdown and the
// second one in mrkdwn.
func (r *renderer) around(rich, plain string) func(n markdown.Node, in string) {
	mark := plain
	if r.rich {
		mark = rich
	}
	return func(n markdown.Node, in string) { r.Around(mark, n, in) }
}

func (r *renderer) code(n markdown.Node) string {
	if r.rich {
		return markdown.Fence(n.Info, n.Text)
	}
	return "```\n" + escaper().Replace(strings.ReplaceAll(n.Text, "```", "`\u200b``")) + "\n```"
}

// table returns a table of Markdown. In mrkdwn, which has none, each row becomes a
// line with the names of its columns.
func (r *renderer) table(n markdown.Node) string {
	if r.rich {
		return markdown.Pipes(n, r.Rendered, ruler)
	}
	if len(n.Children) == 0 {
		return ""
	}

	head := r.cells(n.Children[0])
	var out []string
	for _, row := range n.Children[1:] {
		var parts []string
		for i, c := range r.cells(row) {
			switch {
			case c == "":
			case i < len(head) && head[i] != "":
				parts = append(parts, "*"+strings.Trim(head[i], "*")+"*: "+c)
			default:
				parts = append(parts, c)
			}
		}

		out = append(out, strings.Join(parts, " · "))
	}

	if len(out) == 0 {
		return strings.Join(head, " · ")
	}
	return strings.Join(out, "\n")
}

// cells returns the words of a row.
func (r *renderer) cells(row markdown.Node) []string {
	var out []string
	for _, c := range row.Children {
		out = append(out, strings.ReplaceAll(r.Rendered(c.Children), "\n", " "))
	}
	return out
}

// ruler returns what says below a header how a column is aligned.
func ruler(align markdown.Align) string {
	switch align {
	case markdown.AlignLeft:
		return ":--"
	case markdown.AlignCenter:
		return ":-:"
	case markdown.AlignRight:
		return "--:"
	case markdown.AlignNone:
	}
	return "---"
}

func (r *renderer) span(s string) string {
	if r.rich {
		return markdown.Span(s)
	}
	return "`" + escaper().Replace(strings.ReplaceAll(s, "`", "'")) + "`"
}

// link writes a link. Addresses of other kinds than those of pages and mail
// stay text.
func (r *renderer) link(n markdown.Node, in string) {
	u, err := url.Parse(n.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		r.Text(markdown.Words([]markdown.Node{n}), in)
		return
	}

	label := r.Rendered(n.Children)
	switch {
	case r.rich && label == n.URL:
		r.WriteString(n.URL)
	case r.rich:
		address := markdown.Address(n.URL)
		if label == "" {
			label = address
		}
		r.Lines("["+label+"]("+address+")", in)

	default:
		address := escaper().Replace(strings.NewReplacer("|", "%7C", "<", "%3C", ">", "%3E").Replace(n.URL))
		if label = strings.ReplaceAll(label, "|", "¦"); label == "" || label == address {
			r.WriteString("<" + address + ">")
			return
		}
		r.Lines("<"+address+"|"+label+">", in)
	}
}

// escape keeps words from being a command of Slack's.
func (r *renderer) escape(s string) string {
	if !r.rich {
		return escaper().Replace(s)
	}
	if before, ok := strings.CutSuffix(s, "<"); ok { // what follows may be another piece
		s = before + "&lt;"
	}
	return strings.NewReplacer("<@", "&lt;@", "<#", "&lt;#", "<!", "&lt;!").Replace(s)
}
