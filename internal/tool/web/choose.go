package web

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// chooser finds the part of a page that is worth reading.
type chooser struct {
	total  int                 // characters of the page
	around map[*html.Node]bool // elements that are not content but stand around it
}

// choose picks what the author marked as the content, else what reads like an
// article, else the whole page, and removes what stands around the content. When in doubt it takes more.
func choose(doc *html.Node) *html.Node {
	c := chooser{total: chars(doc, noscript), around: map[*html.Node]bool{}}
	c.mark(doc, false)
	worth := c.worth(doc)
	if worth < 200 && worth*2 < c.total { // too little: take all of it
		for n := range doc.Descendants() {
			if noscript(n) {
				become(n, atom.Div)
			}
		}
		return doc
	}

	root := c.marked(doc, worth)
	if root == nil {
		root = c.article(doc, worth)
	}

	c.prune(root)
	return root
}

func noscript(n *html.Node) bool { return n.DataAtom == atom.Noscript }

// chars counts the text below a node, without what is skipped. White space
// counts as one character, and one of a script such as Chinese as two.
func chars(n *html.Node, skip func(*html.Node) bool) int {
	total := 0
	for c := range n.ChildNodes() {
		switch {
		case c.Type == html.TextNode:
			total += textSize(c.Data)
		case !skip(c):
			total += chars(c, skip)
		}
	}

	return total
}

// textSize returns the length of a text in the measure of chars.
func textSize(s string) (total int) {
	for word := range strings.FieldsSeq(s) {
		size := utf8.RuneCountInString(word)
		total += size + (len(word)-size)/2 + 1
	}
	return total
}

func (c *chooser) worth(n *html.Node) int {
	return chars(n, func(n *html.Node) bool { return c.around[n] || noscript(n) })
}

// mark finds what stands around the content. Inside is within <main> or
// <article>.
func (c *chooser) mark(n *html.Node, inside bool) {
	inside = inside || n.DataAtom == atom.Main || n.DataAtom == atom.Article
	for e := range n.ChildNodes() {
		if e.Type != html.ElementNode {
			continue
		}

		if aside(e) || e.DataAtom == atom.Header && !inside {
			c.around[e] = c.isAround(e, inside)
		}
		if !c.around[e] {
			c.mark(e, inside)
		}
	}
}

// isAround decides about an element that looks as if it stood around the
// content.
func (c *chooser) isAround(n *html.Node, inside bool) bool {
	size := chars(n, noscript)
	linked, headed := 0, false
	for e := range n.Descendants() {
		if e.DataAtom == atom.A {
			linked += chars(e, noscript)
		}
		headed = headed || e.DataAtom == atom.H1
	}

	switch {
	case size*2 > c.total:
		return false // it holds the content after all, whatever its name
	case n.DataAtom == atom.Header:
		return aside(n) || !headed || linked*2 > size
	case n.DataAtom == atom.Aside && inside:
		return linked*5 > size*2
	case n.DataAtom == atom.Footer && inside:
		return linked*5 >= size*2 || size <= 80 // else notes below an article
	case n.DataAtom == atom.P:
		return size <= 300
	}

	return true
}

// aside says by name and role that an element stands around the content.
func aside(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Footer, atom.Search, atom.Aside:
		return true
	case atom.Main, atom.Article, atom.Body, atom.Html:
		return false
	}

	switch strings.ToLower(attr(n.Attr, "role")) {
	case "navigation", "banner", "contentinfo", "complementary", "search", "menu", "menubar", "toolbar", "dialog", "alertdialog", "tooltip":
		return true
	case "main", "article":
		return false
	}

	switch n.DataAtom {
	case atom.Div, atom.Section, atom.Ul, atom.Ol, atom.Li, atom.Form, atom.Table, atom.Td, atom.P, atom.Header, atom.Dl, atom.Span, atom.Center:
		return aroundName(attr(n.Attr, "class")) || aroundName(attr(n.Attr, "id"))
	}
	return false
}

func aroundName(s string) bool { return hasWord(s, aroundWord) }

// hasWord looks at the words of a class or id, as authors name things.
func hasWord(s string, is func(word string) bool) bool {
	start := 0
	for i := 0; i <= len(s); i++ {
		letter := i < len(s) && (s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z')
		camel := letter && i > start && s[i] < 'a' && s[i-1] >= 'a'
		if letter && !camel {
			continue
		}
		if i-start <= 16 && is(strings.ToLower(s[start:i])) {
			return true
		}

		if start = i + 1; camel {
			start = i
		}
	}

	return false
}

func aroundWord(word string) bool {
	switch word {
	case "nav", "navbar", "navigation", "navbox", "menu", "submenu", "breadcrumb", "breadcrumbs", "sidebar", "sidenav", "footer", "masthead",
		"cookie", "cookies", "consent", "gdpr", "ad", "ads", "advert", "adverts", "advertisement", "advertising", "adsense",
		"sponsor", "sponsored", "promo", "promos", "promotion", "share", "sharing", "sharebar", "social", "related", "recommended",
		"recommendations", "newsletter", "subscribe", "signup", "popup", "modal", "overlay", "toolbar", "pager", "pagination",
		"skiplink", "outbrain", "taboola", "dropdown", "tooltip", "toc", "banner", "login", "editsection", "reactions":
		return true
	}
	return false
}

// marked returns the element that the author marked as the content: <main>, or the
// one <article> of the page or of it.
func (c *chooser) marked(doc *html.Node, worth int) *html.Node {
	var best [2]*html.Node
	var size [2]int
	articles := 0
	var find func(n *html.Node)
	find = func(n *html.Node) {
		for e := range n.ChildNodes() {
			if e.Type != html.ElementNode || c.around[e] {
				continue
			}

			i := 0
			switch e.DataAtom {
			case atom.Article:
				i = 1
				fallthrough
			case atom.Main:
				w := c.worth(e)
				if w > size[i] {
					best[i], size[i] = e, w
				}

				if i == 1 {
					if w >= 150 {
						articles++
					}
					continue // not the articles in it, such as comments
				}
			}

			find(e)
		}
	}

	find(doc)
	root, within := best[0], size[0]
	if within < max(140, worth/4) {
		root, within = nil, worth
	}

	if size[1] >= 150 && size[1]*2 >= within && (articles == 1 || size[1]*10 > within*8) {
		return best[1]
	}
	return root
}

// article returns the element that holds the article, or the whole page if what was
// found is too little of it.
func (c *chooser) article(doc *html.Node, worth int) *html.Node {
	root := findArticle(doc, func(n *html.Node) bool { return c.around[n] || noscript(n) })
	if root == nil {
		return doc
	}
	root = c.widen(root)
	if size := c.worth(root); size*10 < worth*3 && (size < 2000 || size*7 < worth) {
		return doc
	}
	return root
}

// widen takes more of the page while what it adds is not mostly links.
func (c *chooser) widen(best *html.Node) *html.Node {
	linked := func(n *html.Node) (sum int) {
		for e := range n.Descendants() {
			if e.DataAtom == atom.A {
				sum += c.worth(e)
			}
		}
		return sum
	}

	size, links := c.worth(best), linked(best)
	for n := best.Parent; n != nil; n = n.Parent {
		more := c.worth(n) - size
		if more*20 <= size {
			continue // nothing new at this level
		}

		all := linked(n)
		if (all-links)*3 > more {
			break
		}

		best = n
		size = size + more
		links = all
	}

	return best
}

func (c *chooser) prune(n *html.Node) {
	for e := n.FirstChild; e != nil; {
		next := e.NextSibling
		if c.around[e] || noscript(e) {
			n.RemoveChild(e)
		} else {
			c.prune(e)
		}
		e = next
	}
}
