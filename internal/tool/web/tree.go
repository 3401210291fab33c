package web

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits of a parsed page. They bound memory and depth whatever is served;
// real pages have some 1,000 to 50,000 nodes and are less than 60 deep.
const (
	maxNodes = 400_000
	maxDepth = 200
)

// flags say what is known about an element from its own tag.
type flags uint8

const (
	isText     flags = 1 << iota
	isAside          // by its name or role it is around the content: navigation, advertising
	isContent        // by its name or role it holds the content
	isNoScript       // shown only by browsers that run no scripts
	hasBlock         // has a block below it
	hasTable         // has a table below it
	hasHeading       // has a heading of the first level below it
	isInside         // lies within <main> or <article>
)

// node is an element or a text. Nodes are numbered in the order of their start,
// so a child has a higher number than its parent.
type node struct {
	tag    atom.Atom
	flags  flags
	text   string // of a text; the href of a link, the alt of an image, the language of code, the start of a list
	parent int32
	first  int32 // child; 0 is none, as the root is nobody's child
	last   int32
	next   int32 // sibling

	chars  int32 // of text below, white space collapsed
	linked int32 // of those, in links
	worth  int32 // of those, outside of what is around the content
	commas int32
	score  float32
}

// tree is a page.
type tree struct {
	nodes       []node
	title       string
	description string
	forward     string // where the page sends browsers by itself
	base        string // <base href>
	cut         bool   // the page has more nodes than are kept
	scripted    bool
}

// open is an element whose end has not come. node is -1 where nothing is kept.
type open struct {
	tag  atom.Atom
	node int32
}

// builder makes a tree from a stream of tags. It follows the rules of browsers
// for what is left out by authors (ends of paragraphs, items and cells) and is
// simpler where they repair nesting. Each tag costs at most maxDepth steps.
type builder struct {
	tree
	z     scanner
	stack []open
	count tally
	over  int // open elements beyond maxDepth
	// overDrop is the value of over at which nothing is kept; 0 is nowhere.
	overDrop int
	drop     int // length of the stack at which nothing is kept; 0 is nowhere
}

// parse reads a page in UTF-8. It never fails: every input is some page.
func parse(page []byte) *tree {
	b := &builder{z: scanner{page: string(page)}}
	likely := bytes.Count(page, []byte{'<'}) // half of them end tags, and text beside each
	b.nodes = append(make([]node, 0, min(likely+likely/8+16, maxNodes)), node{tag: atom.Body})
	b.stack = append(b.stack, open{atom.Body, 0})
	for !b.cut {
		switch kind := b.z.next(); kind {
		case tokenEnd:
			return &b.tree
		case tokenText:
			b.addText(b.z.text)
		case tokenStart, tokenClosed:
			b.start(kind == tokenClosed)
		case tokenStop:
			b.end(b.z.tag)
		}
	}
	return &b.tree
}

// tally counts open elements by tag. Tags may share a place: a place that is
// zero has none, others cost a search.
type tally [256]int32

func (t *tally) of(a atom.Atom) *int32 { return &t[(a^a>>8)&0xff] }

// tagOf maps a name to one that is known: elements invented by a page are
// blocks when they follow the rule for such names, else of no meaning.
func tagOf(name string) atom.Atom {
	var lower [32]byte // longer than every name that is known
	if len(name) <= len(lower) {
		for i := range len(name) {
			c := name[i]
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			lower[i] = c
		}
		if a := atom.Lookup(lower[:len(name)]); a != 0 {
			return a
		}
	}
	if strings.IndexByte(name, '-') > 0 {
		return atom.Div
	}
	return atom.Span
}

func (b *builder) top() open { return b.stack[len(b.stack)-1] }

// add appends a node below the innermost element.
func (b *builder) add(n node) int32 {
	if len(b.nodes) >= maxNodes {
		b.cut = true
		return -1
	}
	at := int32(len(b.nodes)) //nolint:gosec // below maxNodes
	n.parent = b.top().node
	b.nodes = append(b.nodes, n)
	p := &b.nodes[n.parent]
	if p.first == 0 {
		p.first = at
	} else {
		b.nodes[p.last].next = at
	}
	p.last = at
	return at
}

func (b *builder) addText(raw string) {
	if b.top().tag == atom.Title && b.title == "" {
		b.title = oneLine(raw, 300)
	}
	if b.drop > 0 || b.overDrop > 0 || len(raw) == 0 {
		return
	}
	if strings.IndexByte(raw, '&') >= 0 {
		raw = html.UnescapeString(raw)
	}
	chars, commas := measure(raw)
	if chars == 0 && b.top().tag != atom.Pre && *b.count.of(atom.Pre) == 0 {
		p := &b.nodes[b.top().node]
		if p.first == 0 || b.nodes[p.last].flags&isText != 0 || block(b.nodes[p.last].tag) {
			return
		}
		raw = " "
	}
	b.add(node{flags: isText, text: raw, chars: chars, commas: commas})
}

// measure counts characters, white space as one, and marks that separate parts
// of sentences.
func measure(s string) (chars, commas int32) {
	space := true
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			if c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' {
				if !space {
					chars++
				}
				space = true
				continue
			}
			if c == ',' {
				commas++
			}
			chars++
			space = false
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		switch r {
		case '，', '、', '。', '،':
			commas++
		}
		if r >= 0x2E80 && r <= 0xFFEF {
			chars++ // a character of these scripts says about as much as two letters
		}
		chars++
		space = false
	}
	if space && chars > 0 {
		chars--
	}
	return chars, commas
}

// start handles a start tag.
func (b *builder) start(selfClosing bool) {
	tag := b.z.tag
	switch tag {
	case atom.Html, atom.Head, atom.Body:
		return
	case atom.Meta:
		b.meta()
		return
	case atom.Base:
		if b.base == "" {
			b.base = b.z.attr.href
		}
		return
	case atom.Link, atom.Source, atom.Track, atom.Param, atom.Col, atom.Input, atom.Embed, atom.Area, atom.Wbr:
		return
	case atom.Script:
		b.scripted = true
	}
	void := tag == atom.Br || tag == atom.Hr || tag == atom.Img
	gone := dropped(tag) || b.z.attr.invisible(tag)
	if b.over == 0 {
		b.implied(tag)
	}
	switch {
	case b.drop > 0 || b.overDrop > 0:
		if void || selfClosing {
			return
		}
	case gone && (void || selfClosing && tag == atom.Svg):
		return
	}
	if len(b.stack) >= maxDepth {
		b.deeper(tag, void, gone)
		return
	}
	at := int32(-1)
	switch {
	case b.drop > 0:
	case gone:
		b.drop = len(b.stack) + 1
	default:
		if at = b.add(b.element(tag)); at < 0 || void {
			return
		}
	}
	b.stack = append(b.stack, open{tag, at})
	*b.count.of(tag)++
}

// deeper handles a start tag beyond maxDepth: text below it belongs to the
// deepest element that is kept.
func (b *builder) deeper(tag atom.Atom, void, gone bool) {
	switch {
	case void && b.drop == 0:
		b.add(b.element(tag))
	case !void:
		b.over++
		if gone && b.overDrop == 0 {
			b.overDrop = b.over
		}
	}
}

// element makes the node of a tag.
func (b *builder) element(tag atom.Atom) node {
	n := node{tag: tag, flags: b.z.attr.place(tag)}
	switch tag {
	case atom.A:
		n.text = strings.TrimSpace(b.z.attr.href)
	case atom.Img:
		n.text = b.z.attr.alt
		n.chars = int32(min(len(n.text), 100)) //nolint:gosec // small
	case atom.Pre, atom.Code:
		n.text = language(b.z.attr.class)
	case atom.Ol:
		n.text = b.z.attr.start
	case atom.Noscript:
		n.flags |= isNoScript
	case atom.H1:
		n.flags |= hasHeading
	}
	return n
}

func (b *builder) meta() {
	switch strings.ToLower(b.z.attr.name) {
	case "description", "og:description":
		if b.description == "" {
			b.description = oneLine(b.z.attr.content, 500)
		}
	case "refresh":
		wait, target, found := strings.Cut(b.z.attr.content, ";")
		seconds, err := strconv.ParseFloat(strings.TrimSpace(wait), 64)
		target = strings.TrimSpace(target)
		if len(target) > 4 && strings.EqualFold(target[:4], "url=") && found && err == nil && seconds <= 10 {
			b.forward = strings.Trim(strings.TrimSpace(target[4:]), `'"`)
		}
	}
}

// implied closes what a start tag ends without an end tag.
func (b *builder) implied(tag atom.Atom) {
	switch tag {
	case atom.Li:
		b.closeTo(atom.Li, atom.Ul, atom.Ol, atom.Menu)
	case atom.Dt, atom.Dd:
		b.closeTo(atom.Dt, atom.Dl)
		b.closeTo(atom.Dd, atom.Dl)
	case atom.Tr:
		b.closeTo(atom.Tr, atom.Table)
	case atom.Td, atom.Th:
		b.closeTo(atom.Td, atom.Tr)
		b.closeTo(atom.Th, atom.Tr)
	case atom.Tbody, atom.Thead, atom.Tfoot:
		for _, t := range []atom.Atom{atom.Tbody, atom.Thead, atom.Tfoot, atom.Caption} {
			b.closeTo(t, atom.Table)
		}
	case atom.A:
		b.closeTo(atom.A)
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		switch b.top().tag {
		case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
			b.end(b.top().tag)
		}
	}
	if block(tag) {
		b.closeTo(atom.P)
		for _, t := range []atom.Atom{atom.Svg, atom.Select, atom.Button} {
			b.closeTo(t) // never closed, as blocks cannot be inside
		}
	}
}

// closeTo closes the innermost open element of a tag unless one of the limits,
// a cell or a table is within it.
func (b *builder) closeTo(tag atom.Atom, limits ...atom.Atom) {
	if *b.count.of(tag) == 0 {
		return
	}
	for i := len(b.stack) - 1; i > 0; i-- {
		t := b.stack[i].tag
		if t == tag {
			b.truncate(i)
			return
		}
		if t == atom.Table || (t == atom.Td || t == atom.Th) && tag != atom.Tr && tag != atom.Tbody && tag != atom.Thead && tag != atom.Tfoot {
			return
		}
		if slices.Contains(limits, t) {
			return
		}
	}
}

// end handles an end tag. One without its start is ignored; one of an inline
// element does not close blocks.
func (b *builder) end(tag atom.Atom) {
	if b.over > 0 {
		if b.over--; b.over < b.overDrop {
			b.overDrop = 0
		}
		return
	}
	if *b.count.of(tag) == 0 {
		return
	}
	isBlock := block(tag)
	for i := len(b.stack) - 1; i > 0; i-- {
		t := b.stack[i].tag
		if t == tag {
			b.truncate(i)
			return
		}
		if !isBlock && block(t) && !dropped(tag) {
			return
		}
		if t == atom.Table || (t == atom.Td || t == atom.Th) && !tablePart(tag) {
			return
		}
	}
}

// truncate closes everything from place i of the stack on.
func (b *builder) truncate(i int) {
	for _, o := range b.stack[i:] {
		*b.count.of(o.tag)--
	}
	b.stack = b.stack[:i]
	if b.drop > i {
		b.drop = 0
	}
}

func tablePart(t atom.Atom) bool {
	switch t {
	case atom.Table, atom.Tr, atom.Td, atom.Th, atom.Tbody, atom.Thead, atom.Tfoot:
		return true
	}
	return false
}

// block says that an element starts on a new line.
func block(t atom.Atom) bool {
	switch t {
	case atom.P, atom.Div, atom.Ul, atom.Ol, atom.Menu, atom.Dl, atom.Li, atom.Dt, atom.Dd, atom.Table, atom.Tr, atom.Td, atom.Th,
		atom.Tbody, atom.Thead, atom.Tfoot, atom.Caption, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Pre,
		atom.Blockquote, atom.Section, atom.Article, atom.Aside, atom.Header, atom.Footer, atom.Nav, atom.Main, atom.Form,
		atom.Fieldset, atom.Address, atom.Figure, atom.Figcaption, atom.Details, atom.Summary, atom.Hr, atom.Center, atom.Hgroup,
		atom.Noscript, atom.Dialog, atom.Search, atom.Legend:
		return true
	}
	return false
}

// dropped says that nothing below an element is text of the page.
func dropped(t atom.Atom) bool {
	switch t {
	case atom.Script, atom.Style, atom.Template, atom.Iframe, atom.Noembed, atom.Noframes, atom.Object, atom.Applet, atom.Canvas,
		atom.Svg, atom.Audio, atom.Video, atom.Map, atom.Select, atom.Datalist, atom.Textarea, atom.Button, atom.Title, atom.Frameset,
		atom.Meter, atom.Progress, atom.Rp:
		return true
	}
	return false
}
