package discord

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// render returns the text of a message in Discord's Markdown, with lines that follow
// it. A text that escapes or tables make too long is sent as the model wrote it.
func render(out bus.Outbound, list string) string {
	source := out.Text + list
	var s string
	switch {
	case out.Kind == bus.ToolHint:
		s = "-# " + strings.ReplaceAll(escape(strings.TrimSpace(source)), "\n", "\n-# ")
	case out.Plain:
		s = escape(source)
	default:
		s = toDiscord(source)
	}

	if markdown.UTF16.Length(s) > maxText {
		s = source
	}
	return markdown.UTF16.Cut(s, maxText)
}

// toDiscord renders Markdown: Discord's is close to it, but has no tables, only
// three levels of headings, and signs of its own in plain text.
func toDiscord(source string) string {
	w := writer{}
	w.Escape = escape
	w.Gap = gap
	w.Marks = map[markdown.Kind][2]string{
		markdown.Emphasis: {"*", "*"},
		markdown.Strong:   {"**", "**"},
		markdown.Strike:   {"~~", "~~"},
		markdown.Rule:     {"──────────", ""},
	}

	w.Own = map[markdown.Kind]func(markdown.Node, string){
		markdown.Heading:  w.heading,
		markdown.List:     w.list,
		markdown.Code:     func(n markdown.Node, in string) { w.code(n.Info, n.Text, in) },
		markdown.Table:    func(n markdown.Node, in string) { w.code("", markdown.Columns(n), in) },
		markdown.CodeSpan: func(n markdown.Node, in string) { w.Lines(span(n.Text), in) },
		markdown.Link:     w.link,
		markdown.Image:    w.link,
	}

	w.Blocks(markdown.Parse(source), "")
	return strings.TrimRight(w.String(), "\n")
}

type writer struct{ markdown.Writer }

// gap leaves a blank line between blocks, but not below a heading, where Discord
// leaves room itself, and not in lists.
func gap(parent markdown.Node, i int, in string) string {
	before := parent.Children[i-1]
	if parent.Kind == markdown.Item || before.Kind == markdown.Heading && before.Level <= 3 {
		return "\n" + in
	}
	return "\n" + strings.TrimRight(in, " ") + "\n" + in
}

func (w *writer) heading(n markdown.Node, _ string) {
	words := w.Rendered(n.Children)
	if n.Level <= 3 {
		w.WriteString(strings.Repeat("#", n.Level) + " " + words)
		return
	}
	w.WriteString("**" + words + "**")
}

// list writes a list. Discord wants two spaces before what is in an item, whatever
// its number.
func (w *writer) list(n markdown.Node, in string) {
	for i, item := range n.Children {
		if i > 0 {
			w.WriteString("\n" + in)
		}
		w.WriteString(strings.Replace(markdown.Bullet(n, i), "• ", "- ", 1))
		w.Blocks(item, in+"  ")
	}
}

// code writes a block as it is. A fence inside would end it, so it is broken up.
func (w *writer) code(info, text, in string) {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "```", "`\u200b``")
	if strings.ContainsAny(info, " `\n") {
		info = ""
	}
	if !strings.Contains(in, ">") {
		in = "" // in a list alone, it would move the lines of the code
	}
	w.Lines("```"+info+"\n"+text+"\n```", in)
}

func span(s string) string {
	if strings.Contains(s, "`") {
		return "`` " + strings.ReplaceAll(s, "``", "`\u200b`") + " ``"
	}
	return "`" + s + "`"
}

// link writes a link. Its address is always the one that is shown or named:
// Discord refuses words that look like another address.
func (w *writer) link(n markdown.Node, in string) {
	words := strings.TrimSpace(markdown.Words(n.Children))
	address := strings.Map(func(r rune) rune {
		if r <= ' ' || r == '<' || r == '>' {
			return -1
		}
		return r
	}, n.URL)

	web := strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://")
	switch {
	case web && (words == "" || words == address || words == n.URL):
		w.WriteString(address)
	case !web && (words == "" || words == address || "mailto:"+words == address):
		w.Text(strings.TrimPrefix(address, "mailto:"), in)
	case !web:
		w.Text(words, in)
		w.WriteString(" (" + escape(address) + ")")
	case strings.Contains(words, "://") || strings.Contains(words, "www."):
		w.Text(words, in)
		w.WriteString(" (<" + address + ">)")
	default:
		w.Between([2]string{"[", "](<" + address + ">)"}, n, in)
	}
}

// escape keeps Discord from reading markup into a text.
func escape(s string) string {
	var b strings.Builder
	start := true // of a line
	for i, r := range s {
		switch {
		case strings.ContainsRune("\\*_~|`<[]", r):
			b.WriteByte('\\')
		case start && strings.ContainsRune("#>-", r):
			b.WriteByte('\\')
		case r == '.' && numbered(s[:i]):
			b.WriteByte('\\')
		}

		b.WriteRune(r)
		start = r == '\n' || start && r == ' '
	}

	return b.String()
}

// numbered reports whether a text ends with a number at the beginning of a line.
func numbered(s string) bool {
	line := strings.TrimLeft(s[strings.LastIndexByte(s, '\n')+1:], " ")
	return line != "" && strings.Trim(line, "0123456789") == ""
}

// unescape is the opposite of escape.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\\*_~|`<[]#>-.", s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
