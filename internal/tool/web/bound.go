package web

import (
	"bytes"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits of a page that is parsed. They bound time, memory and depth whatever
// is served; real pages have some 1,000 to 50,000 elements and are less than 60
// deep. No more than maxChars of the text are ever shown.
const (
	maxTokens = 250_000               // tags and texts
	maxWords  = maxChars + maxChars/2 // bytes of text between tags
	maxDepth  = 150                   // the parser refuses 512
	maxTag    = 8 << 10               // bytes of a tag whose attributes are kept
)

// bounded is a page within the limits, for the parser.
type bounded struct {
	page     bytes.Buffer
	cut      bool // there was more
	scripted bool

	tokens, words int
	depth         int
	open          map[atom.Atom]int // elements that count for the depth
	over          int               // open elements beyond maxDepth
	drop          int               // value of over below which nothing is kept; 0 is nowhere
	foreign       int               // open <svg> and <math>, whose elements can close themselves
	raw           bool              // the next text is not for readers
}

// bound reads the tags of a page and leaves out what would make it large or
// deep: scripts, comments, elements beyond maxDepth (their text stays), and all
// that follows once a limit is reached. Elements of style alone, such as <b>,
// become <span>: browsers repeat unclosed ones in every later paragraph, which
// could make a thousand elements of one.
func bound(data []byte) *bounded {
	b := &bounded{open: map[atom.Atom]int{}}
	z := html.NewTokenizer(bytes.NewReader(data))
	for ; !b.cut; b.tokens++ {
		b.cut = b.tokens > maxTokens || b.words > maxWords
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return b
		case html.TextToken:
			b.text(z.Raw())
		case html.DoctypeToken:
			b.page.Write(z.Raw())
		case html.StartTagToken, html.SelfClosingTagToken:
			b.start(z, kind == html.SelfClosingTagToken)
		case html.EndTagToken:
			b.endTag(z)
		}
	}

	return b
}

func (b *bounded) text(raw []byte) {
	if b.raw || b.drop > 0 {
		b.raw = false
		return
	}
	raw = raw[:min(len(raw), 2*maxWords)]
	b.words += len(bytes.TrimSpace(raw))
	b.page.Write(raw)
}

func (b *bounded) start(z *html.Tokenizer, closed bool) {
	raw := z.Raw()
	name, more := z.TagName()
	size := len(name)
	tag := atom.Lookup(name)
	b.raw = false

	switch tag {
	case atom.Noscript:
		z.NextIsNotRawText()
	case atom.Script, atom.Style, atom.Textarea, atom.Iframe, atom.Noembed, atom.Noframes, atom.Xmp:
		b.scripted = b.scripted || tag == atom.Script
		b.raw = true
		return
	case atom.Link, atom.Source, atom.Track, atom.Param, atom.Col, atom.Input, atom.Embed, atom.Area, atom.Frame, atom.Frameset, atom.Plaintext:
		return
	}

	if weight := weigh(tag); weight > 0 && (!closed || b.foreign == 0) {
		if tag == atom.Svg || tag == atom.Math {
			b.foreign++
		}

		if b.depth+weight > maxDepth {
			b.deeper(z, tag, more)
			return
		}

		b.depth += weight
		b.open[tag]++
	}

	if b.drop > 0 {
		return
	}

	if tag == atom.P {
		b.open[atom.P] = 1
	}

	b.page.WriteByte('<')
	b.page.WriteString(neutral(tag, string(name[:min(size, 100)])))
	switch {
	case len(raw) <= maxTag:
		b.page.Write(raw[1+size:])
	case hides(z, tag, more):
		b.page.WriteString(" hidden>")
	default:
		b.page.WriteByte('>')
	}
}

// hides reads the attributes of a tag and says whether people see the element.
func hides(z *html.Tokenizer, tag atom.Atom, more bool) bool {
	var list []html.Attribute
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		list = append(list, html.Attribute{Key: string(key), Val: string(value)})
	}
	return invisible(tag, list)
}

// deeper leaves an element out, and with one that people do not see its text.
func (b *bounded) deeper(z *html.Tokenizer, tag atom.Atom, more bool) {
	b.over++
	if b.drop == 0 && (dropped(tag) || hides(z, tag, more)) {
		b.drop = b.over
	}
}

func (b *bounded) endTag(z *html.Tokenizer) {
	name, _ := z.TagName()
	size := len(name)
	tag := atom.Lookup(name)
	b.raw = false

	if weight := weigh(tag); weight > 0 {
		if tag == atom.Svg || tag == atom.Math {
			b.foreign = max(0, b.foreign-1)
		}

		switch {
		case b.over > 0:
			if b.over--; b.over < b.drop {
				b.drop = 0
			}
			return
		case b.open[tag] == 0:
			return // closes nothing
		}

		b.open[tag]--
		b.depth -= weight
	}

	stray := tag == atom.Br || tag == atom.P && b.open[atom.P] == 0 // the parser would make an element of it
	if tag == atom.P {
		b.open[atom.P] = 0
	}

	if b.drop == 0 && !stray {
		b.page.WriteString("</")
		b.page.WriteString(neutral(tag, string(name[:min(size, 100)])))
		b.page.WriteByte('>')
	}
}

// weigh returns how much an element adds to the depth of the tree. Those that
// end where the next begins add nothing of their own.
func weigh(tag atom.Atom) int {
	switch tag {
	case atom.Html, atom.Head, atom.Body, atom.P, atom.A, atom.Li, atom.Dt, atom.Dd, atom.Tr, atom.Td, atom.Th, atom.Tbody, atom.Thead, atom.Tfoot,
		atom.Caption, atom.Colgroup, atom.Option, atom.Optgroup, atom.Rt, atom.Rp, atom.Title, atom.Meta, atom.Base, atom.Br, atom.Hr, atom.Img, atom.Wbr:
		return 0
	case atom.Table:
		return 5
	case atom.Ul, atom.Ol, atom.Dl, atom.Menu, atom.Ruby:
		return 3
	}
	return 1
}

// neutral returns the name of an element that means the same to readers but is not
// repeated by the parser.
func neutral(tag atom.Atom, name string) string {
	switch tag {
	case atom.B, atom.Big, atom.Em, atom.Font, atom.I, atom.Nobr, atom.S, atom.Small, atom.Strike, atom.Strong, atom.U:
		return "span"
	case atom.Code, atom.Tt:
		return "samp"
	}
	return name
}
