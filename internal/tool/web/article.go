package web

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// minProse is how long a paragraph is that counts, in the measure of chars.
const minProse = 25

// prose is how much running text there is, in the measure of chars.
type prose struct {
	size   int
	linked int // of it, in links
	commas int
}

func (p prose) plus(o prose) prose {
	return prose{size: p.size + o.size, linked: p.linked + o.linked, commas: p.commas + o.commas}
}

// unlinked returns the share of the text that is outside links.
func (p prose) unlinked() float64 {
	if p.size == 0 {
		return 1
	}
	return 1 - float64(p.linked)/float64(p.size)
}

// articleFinder looks for the element that holds the article of a page. Each
// paragraph speaks for the elements around it, the nearer the more: long
// sentences with commas outside links are what an article is made of, and menus
// and lists of links are not.
type articleFinder struct {
	skip  func(*html.Node) bool
	text  map[*html.Node]prose   // of an element and what is in it
	score map[*html.Node]float64 // what paragraphs say for an element
}

// findArticle returns the innermost element that holds the article; nil if no
// element of the page has paragraphs.
func findArticle(doc *html.Node, skip func(*html.Node) bool) *html.Node {
	f := &articleFinder{skip: skip, text: map[*html.Node]prose{}, score: map[*html.Node]float64{}}
	f.read(doc, false)

	var best *html.Node
	most := 0.0
	for n := range doc.Descendants() {
		if score := f.rate(n); score > most {
			best, most = n, score
		}
	}

	if best == nil {
		return nil
	}
	return f.climb(best, most)
}

// read measures what is below an element. Loose is the text that belongs to no
// paragraph below it.
func (f *articleFinder) read(n *html.Node, inLink bool) (all, loose prose) {
	for c := range n.ChildNodes() {
		if c.Type == html.TextNode {
			p := prose{size: textSize(c.Data), commas: commas(c.Data)}
			if inLink {
				p.linked = p.size
			}
			all, loose = all.plus(p), loose.plus(p)
			continue
		}

		if c.Type != html.ElementNode || f.skip(c) || unlikely(c) {
			continue
		}

		below, rest := f.read(c, inLink || c.DataAtom == atom.A)
		all = all.plus(below)
		if isBlock(c.DataAtom) {
			f.count(around(c), rest)
		} else {
			loose = loose.plus(rest)
		}
	}

	f.text[n] = all
	return all, loose
}

// around returns the first element that the loose text of a block speaks for. A
// block with line breaks or other blocks in it is not a paragraph: it holds
// paragraphs that nothing marks.
func around(block *html.Node) *html.Node {
	if block.DataAtom != atom.P {
		for c := range block.ChildNodes() {
			if c.DataAtom == atom.Br || isBlock(c.DataAtom) {
				return block
			}
		}
	}
	return block.Parent
}

// count lets text speak for the elements around it: fully for the first, half for
// the second, and less for those further out.
func (f *articleFinder) count(n *html.Node, p prose) {
	if p.size < minProse {
		return
	}

	score := (1 + float64(p.commas) + min(float64(p.size)/100, 3)) * p.unlinked()
	shares := [...]float64{1, 2, 6, 9, 12}
	for _, share := range shares {
		if n == nil || n.Type != html.ElementNode {
			return
		}
		f.score[n] += score / share
		n = n.Parent
	}
}

// rate returns what speaks for an element in the end.
func (f *articleFinder) rate(n *html.Node) float64 {
	score, ok := f.score[n]
	if !ok {
		return 0
	}
	return (score + kindScore(n.DataAtom) + nameScore(n)) * f.text[n].unlinked()
}

// climb returns an element further out if more speaks for it, or if it holds
// nothing else.
func (f *articleFinder) climb(n *html.Node, score float64) *html.Node {
	last := score
	for p := n.Parent; p != nil && p.DataAtom != atom.Body && p.Type == html.ElementNode; p = p.Parent {
		rate := f.rate(p)
		if rate < score/3 {
			break
		}
		if rate > last {
			n = p
			break
		}
		last = rate
	}

	return n
}

// isBlock reports whether an element stands on lines of its own.
func isBlock(t atom.Atom) bool {
	switch t {
	case atom.P, atom.Div, atom.Section, atom.Article, atom.Main, atom.Header, atom.Footer, atom.Aside, atom.Nav, atom.Pre, atom.Blockquote,
		atom.Table, atom.Tbody, atom.Thead, atom.Tfoot, atom.Tr, atom.Td, atom.Th, atom.Ul, atom.Ol, atom.Li, atom.Dl, atom.Dt, atom.Dd,
		atom.Form, atom.Fieldset, atom.Figure, atom.Figcaption, atom.Address, atom.Details, atom.Summary, atom.Center, atom.Body,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

// kindScore returns what the kind of an element says about its being an article.
func kindScore(t atom.Atom) float64 {
	switch t {
	case atom.Div, atom.Article, atom.Section, atom.Main:
		return 5
	case atom.Pre, atom.Td, atom.Blockquote:
		return 3
	case atom.Address, atom.Ol, atom.Ul, atom.Dl, atom.Dd, atom.Dt, atom.Li, atom.Form:
		return -3
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Th:
		return -5
	}
	return 0
}

// nameScore returns what the class and the id of an element say.
func nameScore(n *html.Node) (score float64) {
	for _, name := range names(n) {
		if hasWord(name, contentWord) {
			score += 25
		}
		if hasWord(name, remarkWord) || hasWord(name, besideWord) {
			score -= 25
		}
	}
	return score
}

// unlikely reports whether the names of an element say that it holds what others
// remarked about the article.
func unlikely(n *html.Node) bool {
	if n.DataAtom == atom.Body || n.DataAtom == atom.A {
		return false
	}
	for _, name := range names(n) {
		if hasWord(name, remarkWord) && !hasWord(name, contentWord) {
			return true
		}
	}
	return false
}

// names returns what the author calls an element.
func names(n *html.Node) [2]string { return [2]string{attr(n.Attr, "class"), attr(n.Attr, "id")} }

// contentWord reports whether a word in a name is used for the content.
func contentWord(word string) bool {
	switch word {
	case "article", "blog", "body", "column", "content", "entry", "hentry", "main", "page", "post", "story", "text":
		return true
	}
	return false
}

// remarkWord reports whether a word in a name is used for remarks of readers.
func remarkWord(word string) bool {
	switch word {
	case "combx", "comment", "comments", "community", "discussion", "disqus", "extra", "feedback", "gdpr", "legends", "remark", "remarks",
		"replies", "respond", "rss", "shoutbox", "skyscraper", "supplemental":
		return true
	}
	return false
}

// besideWord reports whether a word in a name is used for what accompanies the
// content.
func besideWord(word string) bool {
	switch word {
	case "contact", "foot", "media", "meta", "outbrain", "scroll", "shopping", "tags", "tool", "widget":
		return true
	}
	return false
}

// commas counts commas of all scripts.
func commas(s string) int {
	n := strings.Count(s, ",")
	for _, c := range []string{"،", "、", "，", "﹐", "︐", "︑", "⸲", "⹁"} {
		n += strings.Count(s, c)
	}
	return n
}
