package teams

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// preview is a text that is not complete, as Markdown in which only what was
// shown before stays the same whatever follows. Pictures are not fetched, and
// what looks like HTML is text.
func preview(source string) string {
	var out strings.Builder
	last := ' '
	for _, r := range strings.TrimRightFunc(text.Valid(source), unicode.IsSpace) {
		switch {
		case r == '<':
			out.WriteString("&lt;")
		case r == '[' && last == '!':
			out.WriteString(`\[`)
		default:
			out.WriteRune(r)
		}
		last = r
	}
	return out.String()
}

// render writes Markdown as Teams understands it: headings of three levels,
// tables as code, pictures as links, since Teams would fetch them and what is
// in their address would leave with that.
func render(source string) string {
	w := writer{}
	w.blocks(markdown.Parse(text.Valid(source)).Children, "", false)
	return strings.TrimSpace(w.out.String())
}

type writer struct{ out strings.Builder }

// blocks writes blocks; in stands at the beginning of every further line.
func (w *writer) blocks(list []markdown.Node, in string, tight bool) {
	for i, n := range list {
		if i > 0 {
			w.out.WriteString("\n")
			if !tight {
				w.out.WriteString(strings.TrimRight(in, " ") + "\n")
			}
			w.out.WriteString(in)
		}
		w.block(n, in)
	}
}

func (w *writer) block(n markdown.Node, in string) {
	switch n.Kind {
	case markdown.Heading:
		if n.Level <= 3 {
			w.out.WriteString(strings.Repeat("#", n.Level) + " ")
			w.inline(n.Children, in)
			return
		}
		w.wrap("**", n, in)
	case markdown.Quote:
		w.out.WriteString("> ")
		w.blocks(n.Children, in+"> ", false)
	case markdown.List:
		w.list(n, in)
	case markdown.Code:
		w.code(n.Text, n.Info, in)
	case markdown.Table:
		w.code(markdown.Columns(n), "", in)
	case markdown.Rule:
		w.out.WriteString("---")
	case markdown.Document, markdown.Item, markdown.Row:
		w.blocks(n.Children, in, false)
	default:
		w.inline(n.Children, in)
	}
}

func (w *writer) list(n markdown.Node, in string) {
	for i, item := range n.Children {
		if i > 0 {
			w.out.WriteString("\n")
			if !n.Tight {
				w.out.WriteString(strings.TrimRight(in, " ") + "\n")
			}
			w.out.WriteString(in)
		}
		mark := markdown.Bullet(n, i)
		if !n.Ordered {
			mark = strings.Replace(mark, "•", "-", 1)
		}
		w.out.WriteString(mark)
		w.blocks(item.Children, in+strings.Repeat(" ", utf8.RuneCountInString(mark)), n.Tight)
	}
}

func (w *writer) code(body, info, in string) {
	fence := "```"
	for strings.Contains(body, fence) {
		fence += "`"
	}
	lang, _, _ := strings.Cut(strings.TrimSpace(info), " ")
	w.out.WriteString(fence + strings.ReplaceAll(lang, "`", "") + "\n" + in)
	w.out.WriteString(strings.ReplaceAll(body, "\n", "\n"+in))
	w.out.WriteString("\n" + in + fence)
}

func (w *writer) inline(list []markdown.Node, in string) {
	for i, n := range list {
		if n.Kind == markdown.Text && i+1 < len(list) && (list[i+1].Kind == markdown.Link || list[i+1].Kind == markdown.Image) && strings.HasSuffix(n.Text, "!") {
			w.text(strings.TrimSuffix(n.Text, "!"))
			w.out.WriteString(`\!`) // it would make a picture of the link
			continue
		}
		switch n.Kind {
		case markdown.SoftBreak:
			w.out.WriteString("\n" + in)
		case markdown.HardBreak:
			w.out.WriteString("  \n" + in)
		case markdown.Strong:
			w.wrap("**", n, in)
		case markdown.Emphasis:
			w.wrap("*", n, in)
		case markdown.Strike:
			w.wrap("~~", n, in)
		case markdown.CodeSpan:
			w.codeSpan(n.Text)
		case markdown.Link, markdown.Image:
			w.link(n, in)
		default:
			w.text(n.Text)
			w.inline(n.Children, in)
		}
	}
}

func (w *writer) wrap(mark string, n markdown.Node, in string) {
	w.out.WriteString(mark)
	w.inline(n.Children, in)
	w.out.WriteString(mark)
}

func (w *writer) codeSpan(s string) {
	mark := "`"
	for strings.Contains(s, mark) {
		mark += "`"
	}
	if len(mark) > 1 {
		s = " " + s + " "
	}
	w.out.WriteString(mark + s + mark)
}

// link writes a link that a person can follow; of any other the address is
// shown.
func (w *writer) link(n markdown.Node, in string) {
	words := markdown.Words(n.Children)
	u, err := url.Parse(n.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "mailto" || words == "" {
		w.text(markdown.Words([]markdown.Node{n}))
		return
	}
	if words == n.URL {
		if before, ok := strings.CutSuffix(n.URL, "!"); ok {
			w.out.WriteString(before + "%21") // a link that follows would become a picture
			return
		}
		w.out.WriteString(n.URL)
		return
	}
	w.out.WriteString("[")
	w.inline(n.Children, in)
	w.out.WriteString("](" + strings.NewReplacer("(", "%28", ")", "%29", " ", "%20", "<", "%3C", ">", "%3E", "\n", "").Replace(n.URL) + ")")
}

// text writes words so that none of them is taken for markup.
func (w *writer) text(s string) {
	before := w.last()
	start := before == '\n' || before == 0 || before == ' ' && w.lineStart()
	began, link := start, strings.LastIndex(s, "](")
	for i, r := range s {
		after, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
		switch {
		case r == '<':
			w.out.WriteString("&lt;")
		case r == '`' || r == '*' || r == '\\',
			r == '_' && (!word(before) || !word(after)),
			r == '~' && (before == '~' || after == '~'),
			r == '[' && (before == '!' || i < link),
			start && (r == '#' || r == '>' || (r == '-' || r == '+') && (after == ' ' || after == r)),
			start && r == '=' && after == '=':
			w.out.WriteByte('\\')
			w.out.WriteRune(r)
		case (r == '.' || r == ')') && after == ' ' && began && numbered(s[:i]):
			w.out.WriteByte('\\')
			w.out.WriteRune(r)
		default:
			w.out.WriteRune(r)
		}
		start = false
		before = r
	}
}

// numbered reports whether a text looks like the number of a list.
func numbered(s string) bool {
	return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
}

func word(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

func (w *writer) last() rune {
	s := w.out.String()
	if s == "" {
		return 0
	}
	r, _ := utf8.DecodeLastRuneInString(s)
	return r
}

// lineStart reports whether nothing but marks of blocks stands on the line.
func (w *writer) lineStart() bool {
	s := w.out.String()
	return strings.Trim(s[strings.LastIndexByte(s, '\n')+1:], " >-") == ""
}
