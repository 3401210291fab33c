package text

import (
	"bytes"
	"strings"
)

// tagName is an index into tagNames.
type tagName uint8

const tagNameCount = 3

// tagNames has the longer name first where one begins with the other.
func tagNames() [tagNameCount]string { return [tagNameCount]string{"thinking", "thought", "think"} }

type tagKind uint8

const (
	tagNone    tagKind = iota
	tagPartial         // the text ends before the tag does
	tagOpen
	tagClose
	tagEmpty   // <think/>
	tagBroken  // an opening tag without ">"; size covers the name
	tagChannel // a channel marker
)

type thinkTag struct {
	kind tagKind
	name tagName
	size int // bytes
}

// maxTagBlanks bounds the blanks between a name and ">", and with it what a
// stream holds back.
const maxTagBlanks = 8

// matchTag looks at the tag that begins with the "<" at the start of b.
func matchTag(b []byte) thinkTag {
	partial := false
	for _, marker := range [...]string{"<|channel|>", "<channel|>"} {
		n := min(len(b), len(marker))
		if string(b[:n]) != marker[:n] {
			continue
		}
		if n == len(marker) {
			return thinkTag{kind: tagChannel, size: n}
		}
		partial = true
	}

	at := 1
	closing := len(b) > 1 && b[1] == '/'
	if closing {
		at = 2
	}

	for i, name := range tagNames() {
		n := min(len(b)-at, len(name))
		if n < 0 || !bytes.EqualFold(b[at:at+n], []byte(name[:n])) {
			continue
		}
		if n < len(name) {
			partial = true
			continue
		}
		if tag := matchTagEnd(b, at+n, closing); tag.kind != tagNone {
			tag.name = tagName(i)
			return tag
		}
	}

	if partial {
		return thinkTag{kind: tagPartial}
	}
	return thinkTag{}
}

// matchTagEnd looks at what follows a name that ends before b[at].
func matchTagEnd(b []byte, at int, closing bool) thinkTag {
	end := at
	for end < len(b) && end-at < maxTagBlanks && strings.IndexByte(blanks, b[end]) >= 0 {
		end++
	}

	rest := b[end:]
	switch {
	case len(rest) == 0, !closing && string(rest) == "/":
		return thinkTag{kind: tagPartial}
	case rest[0] == '>' && closing:
		return thinkTag{kind: tagClose, size: end + 1}
	case rest[0] == '>':
		return thinkTag{kind: tagOpen, size: end + 1}
	case closing:
		return thinkTag{}
	case len(rest) > 1 && rest[0] == '/' && rest[1] == '>':
		return thinkTag{kind: tagEmpty, size: end + 2}
	case continuesName(b[at]):
		return thinkTag{}
	}

	return thinkTag{kind: tagBroken, size: at}
}

// continuesName reports characters after which "<think" is some other tag.
func continuesName(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '_' || c == ':' || c == '-' || c == '/'
}

// droppable reports whether the unfinished tag that b consists of is long
// enough not to be an accident: "<" and "<th" are ordinary ends of a text.
func (t thinkTag) droppable(b []byte) bool {
	if t.kind != tagPartial || len(b) == 0 {
		return false
	}
	b = bytes.TrimPrefix(b[1:], []byte("/"))
	return len(b) >= 3 && b[0] != '|' && b[0] != 'c'
}

// codeSpans follows Markdown code through a text that arrives in pieces: fenced
// blocks, and backtick spans, which are taken to end with their line at the
// latest so that a lone backtick cannot hide the rest of a text. Fences may be
// indented and stand behind list and quote marks. The zero value is the start
// of a text.
type codeSpans struct {
	fence    byte // the character of the open fence, or 0
	fenceLen int
	info     bool // still on the opening fence's line
	closing  bool // this line closes the fence unless more follows
	ticks    int  // length of the open backtick span, or 0
	inLine   bool // the line has more than blanks and list marks
	run      byte // the character of the current run of fence characters
	runLen   int
	runStart bool // the run began the line
}

func (c *codeSpans) feed(p []byte) {
	for _, b := range p {
		c.step(b)
	}
}

// inside reports whether the next byte, which must not be a fence character,
// is code.
func (c *codeSpans) inside() bool {
	c.closeRun()
	return c.fence != 0 || c.ticks > 0
}

func (c *codeSpans) step(b byte) {
	if c.runLen > 0 && b == c.run {
		c.runLen++
		return
	}

	c.closeRun()
	switch b {
	case '\n':
		if c.closing {
			c.fence = 0
		}
		c.info = false
		c.closing = false
		c.inLine = false
		c.ticks = 0

	case ' ', '\t', '\r':
	case '`', '~':
		c.run = b
		c.runLen = 1
		c.runStart = !c.inLine
		c.inLine = true
		c.closing = false

	case '-', '*', '+', '>', '.', ')', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		c.closing = false
	default:
		c.inLine = true
		c.closing = false
	}
}

// closeRun decides what a finished run of backticks or tildes means.
func (c *codeSpans) closeRun() {
	if c.runLen == 0 {
		return
	}

	n := c.runLen
	c.runLen = 0
	switch {
	case c.fence != 0 && c.info && c.run == '`' && c.fence == '`':
		// A backtick fence has no backticks behind it: it was a span.
		c.fence = 0
		if c.info = false; n != c.fenceLen {
			c.ticks = c.fenceLen
		}

	case c.fence != 0:
		c.closing = c.runStart && c.run == c.fence && n >= c.fenceLen
	case c.runStart && n >= 3 && c.ticks == 0:
		c.fence = c.run
		c.fenceLen = n
		c.info = true
	case c.run != '`':
	case c.ticks == 0:
		c.ticks = n
	case c.ticks == n:
		c.ticks = 0
	}
}
