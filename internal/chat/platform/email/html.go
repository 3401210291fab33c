package email

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"
)

// maxQuotes is how many levels of quotes are shown. Every line repeats its
// marks, so deep nesting would make gigabytes of a small mail.
const maxQuotes = 5

// htmlText returns what a person reads of an HTML mail: words, line ends, lists,
// quotes with ">" and the addresses of links. What is hidden is left out.
func htmlText(source string) string {
	w := htmlWriter{}
	z := html.NewTokenizer(strings.NewReader(source))
	z.SetMaxBuf(maxTextPart)

	for w.out.Len() < maxTextPart {
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(w.out.String())
		case html.TextToken:
			w.text(string(z.Text()))
		case html.StartTagToken, html.SelfClosingTagToken:
			w.open(z.Token())
		case html.EndTagToken:
			name, _ := z.TagName()
			w.close(string(name))
		}
	}

	return strings.TrimSpace(w.out.String())
}

type htmlWriter struct {
	out    strings.Builder
	breaks int  // line ends to write before the next word
	space  bool // a blank to write before the next word
	quotes int
	skip   string // the element that is left out, with all in it
	nested int    // how often it is open
	pre    int
	links  []string
	begun  bool
}

func (w *htmlWriter) open(t html.Token) {
	if w.skip != "" {
		if t.Data == w.skip && t.Type == html.StartTagToken {
			w.nested++
		}
		return
	}

	if t.Type == html.StartTagToken && !void(t.Data) && (unseen(t.Data) || hidden(t)) {
		w.skip, w.nested = t.Data, 1
		return
	}

	switch t.Data {
	case "br":
		w.breaks++
	case "blockquote":
		w.line(2)
		w.quotes++
	case "pre":
		w.line(2)
		w.pre++
	case "li":
		w.line(1)
		w.text("- ")
		w.space = true
	case "td", "th":
		w.space = true
	case "a":
		if t.Type == html.StartTagToken {
			w.links = append(w.links, attr(t, "href"))
		}
	case "img":
		if alt := strings.TrimSpace(attr(t, "alt")); alt != "" {
			w.text(alt)
		}
	case "hr":
		w.line(1)
		w.text("---")
		w.line(1)
	default:
		w.line(gap(t.Data))
	}
}

func (w *htmlWriter) close(name string) {
	if w.skip != "" {
		if name == w.skip {
			if w.nested--; w.nested == 0 {
				w.skip = ""
			}
		}
		return
	}
	switch name {
	case "blockquote":
		w.line(2)
		w.quotes = max(w.quotes-1, 0)
	case "pre":
		w.line(2)
		w.pre = max(w.pre-1, 0)
	case "a":
		w.unlink()
	default:
		w.line(gap(name))
	}
}

// unlink shows where a link leads, unless its words say so.
func (w *htmlWriter) unlink() {
	if len(w.links) == 0 {
		return
	}
	href := strings.TrimSpace(w.links[len(w.links)-1])
	w.links = w.links[:len(w.links)-1]
	if (strings.HasPrefix(href, "http://") || strings.HasPrefix(href, "https://")) && len(href) < 300 && !strings.HasSuffix(w.out.String(), strings.TrimSuffix(href, "/")) {
		w.text(" (" + href + ")")
	}
}

// gap returns how many line ends stand around an element.
func gap(name string) int {
	switch name {
	case "p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol", "dl":
		return 2
	case "div", "tr", "section", "article", "header", "footer", "dt", "dd", "address", "center", "li":
		return 1
	}
	return 0
}

// unseen elements have nothing to read in them.
func unseen(name string) bool {
	switch name {
	case "script", "style", "head", "title", "noscript", "template", "svg", "object", "select", "iframe":
		return true
	}
	return false
}

func void(name string) bool {
	switch name {
	case "br", "hr", "img", "input", "meta", "link", "base", "col", "area", "wbr", "embed", "source", "track":
		return true
	}
	return false
}

// hidden reports whether a person would not see an element. Text for machines
// only is how instructions are smuggled in.
func hidden(t html.Token) bool {
	for _, a := range t.Attr {
		if a.Key == "hidden" {
			return true
		}
		if a.Key != "style" {
			continue
		}

		style := strings.ReplaceAll(strings.ToLower(a.Val), " ", "") + ";"
		for _, s := range []string{"display:none", "visibility:hidden", "font-size:0;", "font-size:0px", "font-size:0!", "opacity:0;", "mso-hide:all", "max-height:0;", "max-height:0px"} {
			if strings.Contains(style, s) {
				return true
			}
		}
	}
	return false
}

func attr(t html.Token, key string) string {
	for _, a := range t.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// line asks for line ends before what comes next.
func (w *htmlWriter) line(n int) {
	if n > 0 {
		w.breaks, w.space = max(w.breaks, n), false
	}
}

func (w *htmlWriter) text(s string) {
	if w.skip != "" {
		return
	}

	if w.pre > 0 {
		for i, l := range strings.Split(s, "\n") {
			if i > 0 {
				w.breaks++
			}
			if l != "" {
				w.word(l)
			}
		}
		return
	}

	for i, f := range strings.Fields(s) {
		if i > 0 || strings.ContainsRune(" \t\r\n\u00a0", rune(s[0])) {
			w.space = true
		}
		w.word(f)
	}

	if s != "" && strings.ContainsRune(" \t\r\n", rune(s[len(s)-1])) {
		w.space = true
	}
}

func (w *htmlWriter) word(s string) {
	quotes := min(w.quotes, maxQuotes)
	switch {
	case !w.begun:
		w.out.WriteString(strings.Repeat("> ", quotes))
	case w.breaks > 0:
		for range min(w.breaks, 2) - 1 {
			w.out.WriteString("\n" + strings.Repeat(">", quotes))
		}
		w.out.WriteString("\n" + strings.Repeat("> ", quotes))

	case w.space:
		w.out.WriteByte(' ')
	}

	w.out.WriteString(s)
	w.begun, w.breaks, w.space = true, 0, false
}

// htmlCharset returns the encoding an HTML part names in itself.
func htmlCharset(data []byte) string {
	head := bytes.ToLower(data[:min(len(data), 2048)])
	_, after, ok := bytes.Cut(head, []byte("charset="))
	if !ok {
		return ""
	}

	name := strings.TrimLeft(string(after), "\"'")
	if end := strings.IndexAny(name, "\"'; />"); end >= 0 {
		name = name[:end]
	}
	return name
}
