package discord

import (
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// render is the text of a message in Discord's Markdown, with lines that follow
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
	if units(s) > maxText {
		s = source
	}
	return cutUnits(s, maxText)
}

// cutUnits shortens a text to a number of UTF-16 units.
func cutUnits(s string, most int) string {
	n := 0
	for i, r := range s {
		if n += units(string(r)); n > most {
			return s[:i]
		}
	}
	return s
}

// toDiscord renders Markdown: Discord's is close to it, but has no tables, only
// three levels of headings, and signs of its own in plain text.
func toDiscord(source string) string {
	var b strings.Builder
	w := writer{&b}
	w.blocks(markdown.Parse(source).Children, "", true)
	return strings.TrimRight(b.String(), "\n")
}

type writer struct{ b *strings.Builder }

// blocks writes blocks, the lines of which begin with a prefix.
func (w writer) blocks(list []markdown.Node, prefix string, apart bool) {
	for i, n := range list {
		if i > 0 {
			w.b.WriteString("\n")
			if apart && (list[i-1].Kind != markdown.Heading || list[i-1].Level > 3) { // Discord leaves room below a heading
				w.b.WriteString(strings.TrimRight(prefix, " ") + "\n")
			}
			w.b.WriteString(prefix)
		}
		w.block(n, prefix)
	}
}

func (w writer) block(n markdown.Node, prefix string) {
	switch n.Kind {
	case markdown.Heading:
		if n.Level <= 3 {
			w.b.WriteString(strings.Repeat("#", n.Level) + " " + inline(n.Children))
			return
		}
		w.b.WriteString("**" + inline(n.Children) + "**")
	case markdown.Quote:
		w.b.WriteString("> ")
		w.blocks(n.Children, prefix+"> ", true)
	case markdown.List:
		w.list(n, prefix)
	case markdown.Code:
		w.code(n.Info, n.Text, prefix)
	case markdown.Table:
		w.code("", markdown.Columns(n), prefix)
	case markdown.Rule:
		w.b.WriteString("──────────")
	default:
		w.b.WriteString(strings.ReplaceAll(inline(n.Children), "\n", "\n"+prefix))
	}
}

func (w writer) list(n markdown.Node, prefix string) {
	for i, item := range n.Children {
		if i > 0 {
			w.b.WriteString("\n" + prefix)
		}
		mark := "- "
		if n.Ordered {
			mark = strconv.Itoa(n.Start+i) + ". "
		}
		switch item.Task {
		case markdown.Open:
			mark += "☐ "
		case markdown.Done:
			mark += "☑ "
		case markdown.NoTask:
		}
		w.b.WriteString(mark)
		w.blocks(item.Children, prefix+"  ", false)
	}
}

// code writes a block as it is. A fence inside would end it, so it is broken up.
func (w writer) code(info, text, prefix string) {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "```", "`\u200b``")
	if strings.ContainsAny(info, " `\n") {
		info = ""
	}
	block := "```" + info + "\n" + text + "\n```"
	if strings.Contains(prefix, ">") { // else the lines of the code would be moved
		block = strings.ReplaceAll(block, "\n", "\n"+prefix)
	}
	w.b.WriteString(block)
}

// inline writes words with their emphasis.
func inline(list []markdown.Node) string {
	var b strings.Builder
	for _, n := range list {
		switch n.Kind {
		case markdown.Text:
			b.WriteString(escape(n.Text))
		case markdown.Emphasis:
			b.WriteString("*" + inline(n.Children) + "*")
		case markdown.Strong:
			b.WriteString("**" + inline(n.Children) + "**")
		case markdown.Strike:
			b.WriteString("~~" + inline(n.Children) + "~~")
		case markdown.CodeSpan:
			b.WriteString(span(n.Text))
		case markdown.Link, markdown.Image:
			b.WriteString(link(n))
		case markdown.SoftBreak, markdown.HardBreak:
			b.WriteString("\n")
		default:
			b.WriteString(escape(n.Text) + inline(n.Children))
		}
	}
	return b.String()
}

func span(s string) string {
	if strings.Contains(s, "`") {
		return "`` " + strings.ReplaceAll(s, "``", "`\u200b`") + " ``"
	}
	return "`" + s + "`"
}

// link writes a link. Its address is always the one that is shown or named:
// Discord refuses words that look like another address.
func link(n markdown.Node) string {
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
		return address
	case !web && (words == "" || words == address || "mailto:"+words == address):
		return escape(strings.TrimPrefix(address, "mailto:"))
	case !web || strings.Contains(words, "://") || strings.Contains(words, "www."):
		if web {
			return escape(words) + " (<" + address + ">)"
		}
		return escape(words) + " (" + escape(address) + ")"
	}
	return "[" + inline(n.Children) + "](<" + address + ">)"
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
