package teams

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// preview returns a text that is not complete, as Markdown in which only what was
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
	w.Escape = func(s string) string { return escape(w.Line(), s) }
	w.Bullet = bullet
	w.Gap = gap
	w.Marks = map[markdown.Kind][2]string{
		markdown.Strong:   {"**", "**"},
		markdown.Emphasis: {"*", "*"},
		markdown.Strike:   {"~~", "~~"},
		markdown.Rule:     {"---", ""},
	}

	w.Own = map[markdown.Kind]func(markdown.Node, string){
		markdown.Heading:   w.heading,
		markdown.Code:      func(n markdown.Node, in string) { w.Lines(markdown.Fence(n.Info, n.Text), in) },
		markdown.Table:     func(n markdown.Node, in string) { w.Lines(markdown.Fence("", markdown.Columns(n)), in) },
		markdown.HardBreak: func(_ markdown.Node, in string) { w.Lines("  \n", in) },
		markdown.CodeSpan:  func(n markdown.Node, _ string) { w.WriteString(markdown.Span(n.Text)) },
		markdown.Link:      w.link,
		markdown.Image:     w.link,
	}

	w.Blocks(markdown.Parse(text.Valid(source)), "")
	return strings.TrimSpace(w.String())
}

type writer struct{ markdown.Writer }

// gap leaves no blanks at the end of a blank line.
func gap(parent markdown.Node, _ int, in string) string {
	if parent.Tight {
		return "\n" + in
	}
	return "\n" + strings.TrimRight(in, " ") + "\n" + in
}

func bullet(list markdown.Node, i int) string {
	return strings.Replace(markdown.Bullet(list, i), "•", "-", 1)
}

func (w *writer) heading(n markdown.Node, in string) {
	if n.Level <= 3 {
		w.WriteString(strings.Repeat("#", n.Level) + " ")
		w.Inline(n.Children, in)
		return
	}
	w.Between([2]string{"**", "**"}, n, in)
}

// link writes a link that a person can follow; of any other the address is
// shown.
func (w *writer) link(n markdown.Node, in string) {
	if w.TrimSuffix("!") {
		w.WriteString(`\!`) // it would make a picture of the link
	}

	words := markdown.Words(n.Children)
	u, err := url.Parse(n.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "mailto" || words == "" {
		w.Text(markdown.Words([]markdown.Node{n}), in)
		return
	}

	if words == n.URL {
		if before, ok := strings.CutSuffix(n.URL, "!"); ok {
			w.WriteString(before + "%21") // a link that follows would become a picture
			return
		}
		w.WriteString(n.URL)
		return
	}

	w.Between([2]string{"[", "](" + markdown.Address(n.URL) + ")"}, n, in)
}

// escape returns words, which follow what stands on a line, in a form in which none
// of them is taken for markup.
func escape(line, s string) string {
	var out strings.Builder
	before := '\n'
	if line != "" {
		before, _ = utf8.DecodeLastRuneInString(line)
	}

	start := strings.Trim(line, " >-") == "" && (line == "" || before == ' ') // nothing but marks of blocks
	began, link := start, strings.LastIndex(s, "](")
	for i, r := range s {
		after, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
		switch {
		case r == '<':
			out.WriteString("&lt;")
		case r == '`' || r == '*' || r == '\\',
			r == '_' && (!word(before) || !word(after)),
			r == '~' && (before == '~' || after == '~'),
			r == '[' && (before == '!' || i < link),
			start && (r == '#' || r == '>' || (r == '-' || r == '+') && (after == ' ' || after == r)),
			start && r == '=' && after == '=':
			out.WriteByte('\\')
			out.WriteRune(r)

		case (r == '.' || r == ')') && after == ' ' && began && numbered(s[:i]):
			out.WriteByte('\\')
			out.WriteRune(r)
		default:
			out.WriteRune(r)
		}

		start = false
		before = r
	}

	return out.String()
}

// numbered reports whether a text looks like the number of a list.
func numbered(s string) bool {
	return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
}

func word(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
