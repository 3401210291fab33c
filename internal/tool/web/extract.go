package web

import (
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// page is what a reader gets of an HTML document.
type page struct {
	title string
	text  string
	cut   bool // there was more than the limits allow
	thin  bool // there is next to no text: the page is made by scripts
	links []string
	// forward is where the page sends browsers by itself, "" if nowhere.
	forward string
}

// maxRendered bounds the text made of a page, in bytes.
const maxRendered = 1 << 20

// extract finds the part of a page that is worth reading and writes it as
// Markdown, or as plain text. It takes time and memory in proportion to the
// size of the page.
func extract(data []byte, at *url.URL, plain bool) page {
	t := parse(data)
	t.measure()
	resolve := t.resolver(at)
	render := func(from int32, all bool) *renderer {
		r := &renderer{t: t, plain: plain, all: all, resolve: resolve, at: at}
		r.run(from)
		return r
	}
	r := render(t.choose(), false)
	// What was chosen may turn out to be too little; then take more of the page.
	enough := func() bool { return r.written >= 200 || int32(r.written)*2 >= t.nodes[0].chars } //nolint:gosec // bounded
	if !enough() {
		r = render(0, false)
	}
	if !enough() {
		r = render(0, true)
	}
	p := page{title: cleanText(t.title), text: r.String(), cut: t.cut || r.full, links: r.links}
	if u := resolve(t.forward); t.forward != "" && u != nil {
		p.forward = webLink(u.String())
	}
	if r.written < 50 {
		p.thin = t.scripted || p.forward != ""
		if t.description != "" && !strings.Contains(p.text, t.description) {
			p.text = strings.TrimSpace(t.description + "\n\n" + p.text)
		}
	}
	if p.title != "" && !r.headed {
		head := "# " + p.title + "\n\n"
		if plain {
			head = p.title + "\n\n"
		}
		p.text = strings.TrimSpace(head + p.text)
	}
	return p
}

// stripTags is the text of a fragment.
func stripTags(s string) string {
	z := scanner{page: s}
	var b strings.Builder
	for {
		switch z.next() {
		case tokenEnd:
			return b.String()
		case tokenText:
			b.WriteString(html.UnescapeString(z.text))
		case tokenStart, tokenClosed, tokenStop:
			if block(z.tag) || z.tag == atom.Br {
				b.WriteByte(' ')
			}
			z.raw = 0
		}
	}
}

// place says by name and role where an element stands.
func (a *attributes) place(tag atom.Atom) flags {
	switch tag {
	case atom.Nav, atom.Footer, atom.Search:
		return isAside
	case atom.Main, atom.Article:
		return isContent
	}
	switch strings.ToLower(a.role) {
	case "navigation", "banner", "contentinfo", "complementary", "search", "menu", "menubar", "toolbar", "dialog", "alertdialog", "tooltip":
		return isAside
	case "main", "article":
		return isContent
	}
	switch tag {
	case atom.Div, atom.Section, atom.Aside, atom.Ul, atom.Ol, atom.Form, atom.Table, atom.Td, atom.P, atom.Header, atom.Dl, atom.Span, atom.Center:
		return nameFlags(a.class) | nameFlags(a.id)
	}
	return 0
}

// nameFlags looks at the words of a class or id, as authors name things.
func nameFlags(s string) flags {
	var f flags
	var word [16]byte
	n := 0
	for i := 0; i <= len(s); i++ {
		c := byte(' ')
		if i < len(s) {
			c = s[i]
		}
		upper := c >= 'A' && c <= 'Z'
		if upper && n > 0 && i > 0 && s[i-1] >= 'a' && s[i-1] <= 'z' { // camelCase
			f |= wordFlag(word[:min(n, len(word))], n)
			n = 0
		}
		if upper {
			c += 'a' - 'A'
		}
		if c >= 'a' && c <= 'z' {
			if n < len(word) {
				word[n] = c
			}
			n++
			continue
		}
		f |= wordFlag(word[:min(n, len(word))], n)
		n = 0
	}
	return f
}

func wordFlag(word []byte, n int) flags {
	if n < 2 || n > len(word) {
		return 0
	}
	switch string(word) {
	case "nav", "navbar", "navigation", "navbox", "menu", "submenu", "breadcrumb", "breadcrumbs", "sidebar", "sidenav", "footer", "masthead",
		"cookie", "cookies", "consent", "gdpr", "ad", "ads", "advert", "adverts", "advertisement", "advertising", "adsense",
		"sponsor", "sponsored", "promo", "promos", "promotion", "share", "sharing", "sharebar", "social", "related", "recommended",
		"recommendations", "newsletter", "subscribe", "signup", "popup", "modal", "overlay", "toolbar", "pager", "pagination",
		"skiplink", "outbrain", "taboola", "dropdown", "tooltip", "toc", "banner", "login", "editsection", "reactions":
		return isAside
	case "content", "article", "story", "post", "entry", "main", "body", "prose", "markdown", "readme", "documentation":
		return isContent
	}
	return 0
}

// measure sums up what lies below each node, innermost first.
func (t *tree) measure() {
	for i := len(t.nodes) - 1; i > 0; i-- {
		n := &t.nodes[i]
		if n.tag == atom.A {
			n.linked = n.chars
		}
		p := &t.nodes[n.parent]
		if n.flags&isNoScript != 0 {
			continue
		}
		p.chars += n.chars
		p.linked += n.linked
		p.commas += n.commas
		p.flags |= n.flags & (hasBlock | hasTable | hasHeading)
		if block(n.tag) && n.chars > 0 {
			p.flags |= hasBlock
		}
		if n.tag == atom.Table {
			p.flags |= hasTable
		}
	}
	total := t.nodes[0].chars
	for i := 1; i < len(t.nodes); i++ {
		n := &t.nodes[i]
		p := &t.nodes[n.parent]
		n.flags |= p.flags & isInside
		if n.flags&isText != 0 {
			continue
		}
		inside := n.flags&isInside != 0
		switch {
		case n.flags&isAside != 0 && n.chars*2 > total:
			n.flags &^= isAside // it holds the content after all, whatever its name
		case n.tag == atom.Header && !inside:
			if n.flags&hasHeading == 0 || n.linked*2 > n.chars {
				n.flags |= isAside
			}
		case n.tag == atom.Aside:
			if !inside || n.linked*5 > n.chars*2 {
				n.flags |= isAside
			}
		case n.tag == atom.Footer && inside && n.linked*5 < n.chars*2 && n.chars > 80:
			n.flags &^= isAside // notes below an article
		case n.tag == atom.P && n.chars > 300:
			n.flags &^= isAside
		}
		if n.tag == atom.Main || n.tag == atom.Article {
			n.flags |= isInside
		}
	}
	for i := len(t.nodes) - 1; i > 0; i-- {
		n := &t.nodes[i]
		if n.flags&isText != 0 || n.tag == atom.Img {
			n.worth = n.chars
		}
		if n.flags&(isAside|isNoScript) == 0 {
			t.nodes[n.parent].worth += n.worth
		}
	}
}

// choose picks the element that holds the content: what the author marked as
// such, else what has the most text in sentences. When in doubt it takes more.
func (t *tree) choose() int32 {
	total := t.nodes[0].worth
	var main, article int32
	articles := 0
	for i := range t.nodes {
		n := &t.nodes[i]
		switch {
		case n.flags&isAside != 0 || n.flags&isText != 0:
		case n.tag == atom.Main && (main == 0 || n.worth > t.nodes[main].worth):
			main = int32(i)
		case n.tag == atom.Article && n.worth >= 150:
			if outer := t.enclosing(n.parent, atom.Article); outer == 0 {
				articles++
				if article == 0 || n.worth > t.nodes[article].worth {
					article = int32(i)
				}
			}
		}
	}
	root := int32(0)
	if main > 0 && t.nodes[main].worth >= max(140, total/4) {
		root = main
	}
	if article > 0 && (articles == 1 || t.nodes[article].worth*10 > t.nodes[root].worth*8) && t.nodes[article].worth*2 >= t.nodes[root].worth &&
		(root == 0 || t.enclosing(article, atom.Main) == root) {
		return article
	}
	if root > 0 {
		return root
	}
	return t.densest(total)
}

// enclosing is the innermost element of a tag around a node, 0 if there is none.
func (t *tree) enclosing(i int32, tag atom.Atom) int32 {
	for ; i > 0; i = t.nodes[i].parent {
		if t.nodes[i].tag == tag {
			return i
		}
	}
	return 0
}

// densest scores elements by the sentences directly below them and returns the
// best, widened while what is around it reads like content too.
func (t *tree) densest(total int32) int32 {
	best := int32(0)
	var top float32
	for i := 1; i < len(t.nodes); i++ {
		n := &t.nodes[i]
		if n.flags&isAside != 0 || !t.paragraph(n) {
			continue
		}
		s := 1 + float32(n.commas) + min(float32(n.chars)/100, 3)
		up := n.parent
		for _, share := range []float32{1, 2, 4} {
			if up == 0 {
				break
			}
			t.nodes[up].score += s / share
			up = t.nodes[up].parent
		}
	}
	for i := 1; i < len(t.nodes); i++ {
		n := &t.nodes[i]
		if n.score == 0 {
			continue
		}
		s := n.score * (1 - float32(n.linked)/float32(max(n.chars, 1)))
		if n.flags&isContent != 0 {
			s *= 1.25
		}
		if s > top && n.flags&isAside == 0 {
			best, top = int32(i), s
		}
	}
	for i := best; i > 0; {
		i = t.nodes[i].parent
		n, p := &t.nodes[best], &t.nodes[i]
		more, links := p.worth-n.worth, p.linked-n.linked
		if more*5 <= n.worth {
			continue // nothing new at this level
		}
		if links*3 > more {
			break // mostly links
		}
		best = i
	}
	for i := best; i > 0; i = t.nodes[i].parent {
		if t.nodes[i].flags&isAside != 0 {
			return 0
		}
	}
	if t.nodes[best].worth*10 < total*3 {
		return 0
	}
	return best
}

// paragraph says that a node is a piece of running text.
func (t *tree) paragraph(n *node) bool {
	switch {
	case n.flags&isText != 0:
		p := t.nodes[n.parent].tag
		return n.chars >= 80 && (p == atom.Div || p == atom.Section || p == atom.Article || p == atom.Td)
	case n.tag == atom.P, n.tag == atom.Pre, n.tag == atom.Blockquote:
		return n.chars >= 25
	case n.tag == atom.Li, n.tag == atom.Td, n.tag == atom.Dd:
		return n.chars >= 80 && n.flags&hasBlock == 0 && n.linked*2 < n.chars
	}
	return false
}
