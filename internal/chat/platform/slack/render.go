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
	strings.Builder
	rich bool // Markdown
	bold bool // within something bold already
}

func toMarkdown(tree markdown.Node) string { return render(tree, true) }
func toMrkdwn(tree markdown.Node) string   { return render(tree, false) }

func render(tree markdown.Node, rich bool) string {
	r := renderer{rich: rich}
	r.block(tree, "")
	return strings.TrimRight(r.String(), "\n ")
}

// either is the first for Markdown and the second for mrkdwn.
func (r *renderer) either(rich, plain string) string {
	if r.rich {
		return rich
	}
	return plain
}

// lines writes text whose further lines begin with the indent in.
func (r *renderer) lines(s, in string) { r.WriteString(strings.ReplaceAll(s, "\n", "\n"+in)) }

func (r *renderer) block(n markdown.Node, in string) {
	switch n.Kind {
	case markdown.Paragraph, markdown.Cell:
		r.lines(r.words(n.Children), in)
	case markdown.Heading:
		if r.rich {
			r.WriteString(strings.Repeat("#", n.Level) + " " + strings.ReplaceAll(r.words(n.Children), "\n", " "))
			return
		}
		r.bold = true
		r.lines("*"+r.words(n.Children)+"*", in)
		r.bold = false
	case markdown.Code:
		r.lines(r.code(n), in)
	case markdown.Rule:
		r.WriteString(r.either("---", "———"))
	case markdown.Table:
		r.lines(r.table(n), in)
	case markdown.Quote:
		mark := r.either("> ", "&gt; ")
		r.WriteString(mark)
		r.blocks(n.Children, in+mark, true)
	case markdown.List:
		r.list(n, in)
	case markdown.Document, markdown.Item, markdown.Row:
		r.blocks(n.Children, in, n.Kind != markdown.Item)
	default:
		r.lines(r.words([]markdown.Node{n}), in)
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
			if !n.Tight {
				r.WriteString("\n" + in)
			}
		}
		mark := markdown.Bullet(n, i)
		if r.rich {
			mark = strings.NewReplacer("• ", "- ", "☐ ", "[ ] ", "☑ ", "[x] ").Replace(mark)
		}
		r.WriteString(mark)
		r.blocks(it.Children, in+strings.Repeat(" ", markdown.Width(mark)), !n.Tight)
	}
}

func (r *renderer) code(n markdown.Node) string {
	if !r.rich {
		return "```\n" + escaper().Replace(strings.ReplaceAll(n.Text, "```", "`\u200b``")) + "\n```"
	}
	fence := "```"
	for strings.Contains(n.Text, fence) {
		fence += "`"
	}
	info, _, _ := strings.Cut(strings.TrimSpace(n.Info), " ")
	return fence + strings.ReplaceAll(info, "`", "") + "\n" + n.Text + "\n" + fence
}

// table is a table of Markdown. In mrkdwn, which has none, each row becomes a
// line with the names of its columns.
func (r *renderer) table(n markdown.Node) string {
	if len(n.Children) == 0 {
		return ""
	}
	head := r.cells(n.Children[0])
	var out []string
	if r.rich {
		out = append(out, "| "+strings.Join(head, " | ")+" |", "|"+strings.Join(rulers(n.Align, len(head)), "|")+"|")
	}
	for _, row := range n.Children[1:] {
		cells := r.cells(row)
		if r.rich {
			out = append(out, "| "+strings.Join(cells, " | ")+" |")
			continue
		}
		var parts []string
		for i, c := range cells {
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

func (r *renderer) cells(row markdown.Node) []string {
	var out []string
	for _, c := range row.Children {
		s := strings.ReplaceAll(r.words(c.Children), "\n", " ")
		if r.rich {
			s = strings.ReplaceAll(s, "|", `\|`)
		}
		out = append(out, s)
	}
	return out
}

func rulers(align []markdown.Align, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "---"
		if i >= len(align) {
			continue
		}
		switch align[i] {
		case markdown.AlignLeft:
			out[i] = ":--"
		case markdown.AlignCenter:
			out[i] = ":-:"
		case markdown.AlignRight:
			out[i] = "--:"
		case markdown.AlignNone:
		}
	}
	return out
}

// words is the text of inline nodes.
func (r *renderer) words(list []markdown.Node) string {
	var b strings.Builder
	for _, n := range list {
		b.WriteString(r.word(n))
	}
	return b.String()
}

func (r *renderer) word(n markdown.Node) string {
	switch n.Kind {
	case markdown.SoftBreak:
		return "\n"
	case markdown.HardBreak:
		return r.either("  \n", "\n")
	case markdown.Strong:
		if r.bold {
			return r.words(n.Children)
		}
		r.bold = true
		defer func() { r.bold = false }()
		return around(r.either("**", "*"), r.words(n.Children))
	case markdown.Emphasis:
		return around(r.either("*", "_"), r.words(n.Children))
	case markdown.Strike:
		return around(r.either("~~", "~"), r.words(n.Children))
	case markdown.CodeSpan:
		return r.span(n.Text)
	case markdown.Link, markdown.Image:
		return r.link(n)
	}
	return r.escape(n.Text) + r.words(n.Children)
}

func around(mark, s string) string {
	if strings.TrimSpace(s) == "" {
		return s
	}
	return mark + s + mark
}

func (r *renderer) span(s string) string {
	if !r.rich {
		return "`" + escaper().Replace(strings.ReplaceAll(s, "`", "'")) + "`"
	}
	tick := "`"
	for strings.Contains(s, tick) {
		tick += "`"
	}
	if len(tick) > 1 {
		s = " " + s + " "
	}
	return tick + s + tick
}

// link writes a link. Addresses of other kinds than those of pages and mail
// stay text.
func (r *renderer) link(n markdown.Node) string {
	label := r.words(n.Children)
	u, err := url.Parse(n.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto":
		return r.escape(markdown.Words([]markdown.Node{n}))
	case r.rich && label == n.URL:
		return n.URL
	case r.rich:
		address := strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E").Replace(n.URL)
		if label == "" {
			label = address
		}
		return "[" + label + "](" + address + ")"
	}
	address := escaper().Replace(strings.NewReplacer("|", "%7C", "<", "%3C", ">", "%3E").Replace(n.URL))
	if label = strings.ReplaceAll(label, "|", "¦"); label == "" || label == address {
		return "<" + address + ">"
	}
	return "<" + address + "|" + label + ">"
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
