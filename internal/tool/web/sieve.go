package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Limits of what Markdown nests: every level adds to every line below it.
const (
	maxQuotes = 4
	maxLists  = 8
)

// sieve removes from a page what people do not see and prepares the rest for
// the writers of Markdown and plain text.
type sieve struct {
	at    *url.URL // of the page
	base  *url.URL // of its links
	plain bool

	title, description string
	forward            string // where the page sends browsers by itself
}

// place is where a node stands.
type place struct {
	pre, code bool
	table     bool // of data
	link      bool
	quotes    int
	lists     int
}

func (s *sieve) children(n *html.Node, in place) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		switch {
		case c.Type == html.TextNode:
			c.Data = s.words(c.Data, in)
		case c.Type != html.ElementNode || s.head(c) || dropped(c.DataAtom) || invisible(c.DataAtom, c.Attr):
			n.RemoveChild(c)
		default:
			s.element(c, in)
		}

		c = next
	}
}

// Angle brackets that are text while a page is converted: the library would
func linked(n *html.Node) bool {
	for e := range n.Descendants() {
		if e.DataAtom == atom.A {
			return true
		}
	}
	return false
}

// spell them as entities.
const lessThan, greaterThan = "\uFDD0", "\uFDD1"

// words returns a text of the page.
func (s *sieve) words(words string, in place) string {
	words = text.Clean(words)
	if strings.ContainsFunc(words, special) {
		words = strings.Map(func(r rune) rune {
			switch {
			case private(r):
				return -1
			case unicode.IsSpace(r) && !in.pre:
				return ' '
			}
			return r
		}, words)
	}

	if !in.pre && !in.code {
		words = strings.ReplaceAll(words, "![", `!\[`) // must not become a picture that is loaded
	}

	if s.plain || in.pre {
		return words
	}

	if !in.code {
		words = strings.ReplaceAll(strings.ReplaceAll(words, "<", lessThan), ">", greaterThan)
	}
	if in.table {
		words = strings.ReplaceAll(words, "|", `\|`)
	}
	return words
}

// private are the characters of icon fonts, and those that mark something
// while a page is converted.
func private(r rune) bool { return r >= 0xE000 && r <= 0xF8FF || r >= 0xFDD0 && r <= 0xFDEF }

func special(r rune) bool { return private(r) || r > unicode.MaxASCII && unicode.IsSpace(r) }

// head takes what stands in the head of a page and is not shown.
func (s *sieve) head(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Title:
		if s.title == "" && n.FirstChild != nil && n.Namespace == "" {
			s.title = oneLine(html.EscapeString(n.FirstChild.Data), 300)
		}
	case atom.Base:
		if u, err := url.Parse(attr(n.Attr, "href")); err == nil && s.at != nil && s.base == s.at {
			s.base = s.at.ResolveReference(u)
		}
	case atom.Meta:
		s.meta(n)
	default:
		return false
	}
	return true
}

func (s *sieve) meta(n *html.Node) {
	content := attr(n.Attr, "content")
	switch strings.ToLower(attr(n.Attr, "name") + attr(n.Attr, "property") + attr(n.Attr, "http-equiv")) {
	case "description", "og:description":
		if s.description == "" {
			s.description = oneLine(content, 500)
		}
	case "refresh":
		wait, target, _ := strings.Cut(content, ";")
		seconds, err := strconv.ParseFloat(strings.TrimSpace(wait), 64)
		target = strings.TrimSpace(target)
		if len(target) > 4 && strings.EqualFold(target[:4], "url=") && err == nil && seconds <= 10 {
			s.forward = strings.Trim(strings.TrimSpace(target[4:]), `'"`)
		}
	}
}

// element prepares an element and what is below it.
func (s *sieve) element(n *html.Node, in place) {
	was := n.Attr
	n.Attr = slices.DeleteFunc(slices.Clone(was), func(a html.Attribute) bool { return !kept(a.Key) })
	switch n.DataAtom {
	case atom.Img:
		s.picture(n, attr(was, "alt"))
		return
	case atom.Hr:
		become(n, atom.Div)
	case atom.Q:
		n.InsertBefore(&html.Node{Type: html.TextNode, Data: `"`}, n.FirstChild)
		n.AppendChild(&html.Node{Type: html.TextNode, Data: `"`})
	case atom.A:
		s.link(n)
		in.link = true
	case atom.Pre:
		language(n, was)
		in.pre = true
	case atom.Samp, atom.Code, atom.Kbd, atom.Var:
		in.code = true
	case atom.Table:
		if in.table = data(n); !in.table {
			n.Attr = append(n.Attr, html.Attribute{Key: "role", Val: "presentation"})
		}
	case atom.Td, atom.Th:
		if !s.plain {
			n.AppendChild(&html.Node{Type: html.TextNode, Data: " "}) // apart from the next
		}
	case atom.Br:
		if in.table || in.link {
			become(n, atom.Span)
			n.AppendChild(&html.Node{Type: html.TextNode, Data: " "})
			return
		}

	case atom.Blockquote:
		if in.quotes++; in.quotes > maxQuotes {
			become(n, atom.Div)
		}
	case atom.Ul, atom.Ol, atom.Menu:
		if in.lists++; in.lists > maxLists {
			become(n, atom.Div)
		}
	case 0:
		if strings.Contains(n.Data, "-") { // elements that a page invents
			become(n, atom.Div)
		}
	}

	if in.link && n.DataAtom != atom.A && block(n.DataAtom) { // a link is one line
		become(n, atom.Span)
		n.AppendChild(&html.Node{Type: html.TextNode, Data: " "})
	}

	s.children(n, in)
	size := 0
	if n.DataAtom == atom.Dd || n.DataAtom == atom.Sup {
		size = chars(n, noscript)
	}

	switch {
	case n.DataAtom == atom.Dd && size > 0:
		n.InsertBefore(&html.Node{Type: html.TextNode, Data: ": "}, n.FirstChild)
	case n.DataAtom == atom.Sup && size > 0 && size <= 5 && !linked(n):
		n.InsertBefore(&html.Node{Type: html.TextNode, Data: "^"}, n.FirstChild)
	}
}

// spell prepares a tree for the writer of plain text: it adds the marks of lists
// and ends blocks, as the writer only begins them.
func spell(n *html.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		spell(c)
		switch c.DataAtom {
		case atom.Ul, atom.Ol:
			number(c)
			fallthrough
		case atom.P, atom.Blockquote, atom.Pre, atom.Table, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Dl:
			n.InsertBefore(&html.Node{Type: html.ElementNode, Data: "p", DataAtom: atom.P}, next)
		}

		c = next
	}
}

// number writes the marks of a list, which plain text does not have.
func number(list *html.Node) {
	i, err := strconv.Atoi(attr(list.Attr, "start"))
	if err != nil {
		i = 1
	}

	for item := range list.ChildNodes() {
		if item.DataAtom != atom.Li {
			continue
		}

		mark := "- "
		if list.DataAtom == atom.Ol {
			mark = strconv.Itoa(i) + ". "
			i++
		}

		for n := range item.Descendants() {
			if n.Type == html.TextNode && strings.TrimSpace(n.Data) != "" {
				n.Data = mark + strings.TrimLeft(n.Data, " \t\n")
				break
			}
		}
	}
}

// block says that an element starts on a new line.
func block(t atom.Atom) bool {
	switch t {
	case atom.P, atom.Div, atom.Ul, atom.Ol, atom.Menu, atom.Dl, atom.Li, atom.Dt, atom.Dd, atom.Table, atom.Tr, atom.Td, atom.Th,
		atom.Tbody, atom.Thead, atom.Tfoot, atom.Caption, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Pre,
		atom.Blockquote, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Figure, atom.Figcaption, atom.Details, atom.Summary:
		return true
	}
	return false
}

// kept are the attributes that say something about the text. Others could
// carry a message of their own, such as the title of a link.
func kept(key string) bool {
	switch key {
	case "class", "id", "role", "href", "start", "itemprop", "rel":
		return true
	}
	return false
}

func attr(list []html.Attribute, key string) string {
	for _, a := range list {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func become(n *html.Node, tag atom.Atom) { n.DataAtom, n.Data = tag, tag.String() }

// picture writes what a picture shows. Its address is left out: it should not
// be loaded because of us.
func (s *sieve) picture(n *html.Node, alt string) {
	if alt = oneLine(alt, 200); strings.ContainsAny(alt, "[]|") {
		alt = strings.NewReplacer("[", "(", "]", ")", "|", "/").Replace(alt)
	}

	become(n, atom.Span)
	n.Attr = nil
	words := " "
	if utf8.RuneCountInString(alt) >= 3 && !strings.HasPrefix(alt, "http") {
		words = s.words(" [image: "+alt+"] ", place{})
	}
	n.AppendChild(&html.Node{Type: html.TextNode, Data: words})
}

// link keeps the address of a link that a reader can follow.
func (s *sieve) link(n *html.Node) {
	href := attr(n.Attr, "href")
	n.Attr = nil
	if t := n.FirstChild; strings.HasPrefix(href, "#") && t != nil && t.Type == html.TextNode && t.NextSibling == nil {
		switch strings.TrimSpace(t.Data) {
		case "#", "¶", "§", "🔗", "link": // only the sign beside a heading
			n.RemoveChild(t)
			return
		}
	}

	if href = s.target(strings.TrimSpace(href)); href != "" {
		n.Attr = []html.Attribute{{Key: "href", Val: href}}
	}
}

// target returns the address of a link, "" for one that leads nowhere a reader can
// go: scripts, data, places on the same page.
func (s *sieve) target(href string) string {
	if href == "" || href[0] == '#' || len(href) > 2048 {
		return ""
	}

	u := s.resolve(href)
	if u == nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return ""
	}
	if s.at != nil && u.Fragment != "" && u.Host == s.at.Host && u.Path == s.at.Path && u.RawQuery == s.at.RawQuery {
		return ""
	}

	u.User = nil
	whole := u.String()
	if strings.ContainsAny(whole, "() <>") {
		whole = strings.NewReplacer("(", "%28", ")", "%29", " ", "%20", "<", "%3C", ">", "%3E").Replace(whole)
	}
	return whole
}

// resolve turns an address of the page into a whole one.
func (s *sieve) resolve(href string) *url.URL {
	if strings.ContainsAny(href, "\n\t\r") {
		href = strings.NewReplacer("\n", "", "\t", "", "\r", "").Replace(href)
	}

	u, err := url.Parse(href)
	if err != nil {
		return nil
	}

	if s.base != nil {
		u = s.base.ResolveReference(u)
	}
	return u
}

// language gives a block of code the name of its programming language, which
// stands in a class of it or of the code in it.
func language(pre *html.Node, was []html.Attribute) {
	class := attr(was, "class")
	if c := pre.FirstChild; c != nil && c.Type == html.ElementNode {
		class += " " + attr(c.Attr, "class")
	}

	for c := range strings.FieldsSeq(class) {
		for _, prefix := range []string{"language-", "lang-", "highlight-source-", "brush:"} {
			if l, ok := strings.CutPrefix(c, prefix); ok && len(l) < 20 && !strings.ContainsFunc(l, func(r rune) bool {
				return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '+' && r != '-' && r != '#'
			}) {
				pre.Attr = []html.Attribute{{Key: "class", Val: "language-" + l}}
				return
			}
		}
	}

	pre.Attr = nil
}

// data says that a table holds data rather than arranges the page: several rows
// of several short cells, as many in each or with headings.
func data(table *html.Node) bool {
	const maxColumns, maxCell = 40, 600
	var rows, wide, first int
	headed, ragged := false, false
	for n := range table.Descendants() {
		switch n.DataAtom {
		case atom.Table:
			return false
		case atom.Tr:
			cells := 0
			for c := range n.ChildNodes() {
				if c.DataAtom != atom.Td && c.DataAtom != atom.Th {
					continue
				}
				if cells++; cells > maxColumns || chars(c, noscript) > maxCell {
					return false
				}
				headed = headed || c.DataAtom == atom.Th
			}

			if cells == 0 {
				continue
			}

			if rows++; cells > 1 {
				wide++
			}
			if first == 0 {
				first = cells
			}
			ragged = ragged || cells != first
		}
	}

	return rows > 1 && wide > 1 && (headed || !ragged)
}
