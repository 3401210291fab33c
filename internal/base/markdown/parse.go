package markdown

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Limits on hostile texts. What lies beyond them stays text.
const (
	maxDepth   = 24       // of blocks in blocks, and again of markup in markup
	maxInline  = 64 << 10 // bytes of a paragraph that is searched for markup
	maxMarks   = 600      // marks of one paragraph: goldmark compares each with those before it
	maxColumns = 100      // of a table
	maxCells   = 5000     // of all tables of a text: a short row is filled up to the columns
)

// Parse reads a text.
func Parse(source string) Node {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	source = strings.ReplaceAll(source, "\x00", "\uFFFD")
	src := []byte(source)
	c := converter{source: src}
	return Node{Kind: Document, Children: c.blocks(commonMark().Parse(text.NewReader(src)))}
}

// commonMark is goldmark with the parts of GitHub's dialect that models use.
// Raw HTML and reference definitions are left out: they stay text.
var commonMark = sync.OnceValue(func() parser.Parser {
	budget := &budget{marks: parser.NewContextKey(), cells: parser.NewContextKey()}
	return parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(container{parser.NewListParser()}, 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(container{parser.NewBlockquoteParser()}, 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(task{}, 0),
			util.Prioritized(budget.bound(parser.NewCodeSpanParser()), 100),
			util.Prioritized(budget.bound(parser.NewLinkParser()), 200),
			util.Prioritized(lineBreak{}, 250),
			util.Prioritized(budget.bound(parser.NewAutoLinkParser()), 300),
			util.Prioritized(budget.bound(parser.NewEmphasisParser()), 500),
			util.Prioritized(budget.bound(strike{}), 500),
			util.Prioritized(bareLink{}, 999),
		),
		parser.WithParagraphTransformers(
			util.Prioritized(tables{budget}, 200),
		),
	)
})

// container parses quotes and lists down to maxDepth.
type container struct{ parser.BlockParser }

func (c container) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, at := reader.Position()
	node, state := c.BlockParser.Open(parent, reader, pc)
	if node == nil {
		return nil, state
	}

	depth := 0
	for n := parent; n != nil; n = n.Parent() {
		if k := n.Kind(); k == ast.KindBlockquote || k == ast.KindList {
			depth++
		}
	}

	if depth >= maxDepth {
		reader.SetPosition(line, at)
		return nil, parser.NoChildren
	}
	return node, state
}

// budget bounds the work that goldmark does for one text. Its state is in the
// context of the parse, under these keys.
type budget struct{ marks, cells parser.ContextKey }

// block is the block whose words are parsed now.
type block struct {
	node  ast.Node
	marks int // that may follow
}

// bounded calls a parser as long as the block has marks left.
type bounded struct {
	parser.InlineParser
	*budget
}

func (b *budget) bound(p parser.InlineParser) parser.InlineParser { return bounded{p, b} }

func (b bounded) Parse(parent ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	state, _ := pc.ComputeIfAbsent(b.marks, func() any { return &block{} }).(*block)
	if state.node != parent {
		*state = block{node: parent, marks: maxMarks}
		if lines := parent.Lines(); lines.Len() > 0 && lines.At(lines.Len()-1).Stop-lines.At(0).Start > maxInline {
			state.marks = 0
		}
	}

	if state.marks == 0 {
		return nil
	}

	state.marks--
	return b.InlineParser.Parse(parent, reader, pc)
}

func (b bounded) CloseBlock(parent ast.Node, reader text.Reader, pc parser.Context) {
	if c, ok := b.InlineParser.(parser.CloseBlocker); ok {
		c.CloseBlock(parent, reader, pc)
	}
}

// task reads the box that a list item begins with. Without a space behind it, it
// is the text of a link.
type task struct{}

func (task) Trigger() []byte { return []byte{'['} }

func (task) Parse(parent ast.Node, reader text.Reader, _ parser.Context) ast.Node {
	item, ok := parent.Parent().(*ast.ListItem)
	if !ok || item.FirstChild() != parent || parent.HasChildren() {
		return nil
	}

	line, _ := reader.PeekLine()
	if len(line) < 4 || line[2] != ']' || line[3] != ' ' || util.IsBlank(line[4:]) {
		return nil
	}

	switch line[1] {
	case 'x', 'X', ' ', '\t', '\f':
	default:
		return nil
	}

	blanks := len(line[3:]) - len(bytes.TrimLeft(line[3:], " \t\n\f\r"))
	reader.Advance(3 + blanks)
	return extast.NewTaskCheckBox(line[1] == 'x' || line[1] == 'X')
}

// strike reads ~~. A single ~ stands for "about" far too often.
type strike struct{}

func (strike) Trigger() []byte { return []byte{'~'} }

func (s strike) Parse(_ ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	before := reader.PrecendingCharacter()
	line, at := reader.PeekLine()
	if before == '~' || len(line) < 2 || line[1] != '~' {
		return nil
	}

	node := parser.ScanDelimiter(line, before, 2, s)
	if node == nil || node.OriginalLength > 2 {
		return nil
	}

	node.Segment = at.WithStop(at.Start + node.OriginalLength)
	reader.Advance(node.OriginalLength)
	pc.PushDelimiter(node)
	return node
}

// IsDelimiter, CanOpenCloser and OnMatch tell goldmark how marks of this kind form
// pairs.
func (strike) IsDelimiter(b byte) bool { return b == '~' }

func (strike) CanOpenCloser(opener, closer *parser.Delimiter) bool { return opener.Char == closer.Char }

func (strike) OnMatch(int) ast.Node { return extast.NewStrikethrough() }

// bareLink reads a web address without marks around it, at the beginning of a line
// or behind one of a few characters.
type bareLink struct{}

func (bareLink) Trigger() []byte { return []byte{' ', '*', '_', '~', '('} } // a blank stands for the beginning too

func (bareLink) Parse(parent ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	if pc.IsInLinkLabel() {
		return nil
	}

	line, at := reader.PeekLine()
	before := 0
	if strings.IndexByte(" *_~(", line[0]) >= 0 {
		before = 1
	}

	n := addressLen(line[before:])
	if n == 0 {
		return nil
	}

	if before > 0 {
		ast.MergeOrAppendTextSegment(parent, at.WithStop(at.Start+1))
	}

	reader.Advance(before + n)
	start := at.Start + before
	return ast.NewAutoLink(ast.AutoLinkURL, ast.NewTextSegment(text.NewSegment(start, start+n)))
}

// addressLen returns how long the web address is that a text begins with, 0 if it
// begins with something else. What ends a sentence rather than an address, such as
// a full stop or a parenthesis that was opened before it, does not belong to it.
func addressLen(s []byte) int {
	scheme := 0
	for _, known := range []string{"http://", "https://"} {
		if bytes.HasPrefix(s, []byte(known)) {
			scheme = len(known)
		}
	}

	first, size := utf8.DecodeRune(s[scheme:])
	if scheme == 0 || !unicode.IsLetter(first) && !unicode.IsNumber(first) {
		return 0
	}

	least := scheme + size
	end := bytes.IndexAny(s, " \t\n\f\r<`\"")
	if end < 0 {
		end = len(s)
	}

	end = least + len(bytes.TrimRight(s[least:end], "']"))
	return trimmedLen(s[:end])
}

func trimmedLen(s []byte) int {
	unopened := bytes.Count(s, []byte{')'}) - bytes.Count(s, []byte{'('})
	for len(s) > 1 {
		last := s[len(s)-1]
		switch {
		case strings.IndexByte("?!.,:*_~", last) >= 0:
			s = s[:len(s)-1]
		case last == ')' && unopened > 0:
			unopened--
			s = s[:len(s)-1]
		case last == ';' && entityLen(s) > 0:
			s = s[:len(s)-entityLen(s)]
		default:
			return len(s)
		}
	}

	return len(s)
}

// entityLen returns how long the entity is that a text ends in, such as &amp;, and 0
// if it ends in something else.
func entityLen(s []byte) int {
	name := bytes.TrimRightFunc(s[:len(s)-1], func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	})
	if len(name) == len(s)-1 || len(name) < 2 || name[len(name)-1] != '&' {
		return 0
	}
	return len(s) - len(name) + 1
}

// lineBreak reads <br>, the one tag that models use in tables.
type lineBreak struct{}

func (lineBreak) Trigger() []byte { return []byte{'<'} }

func (lineBreak) Parse(_ ast.Node, reader text.Reader, _ parser.Context) ast.Node {
	line, at := reader.PeekLine()
	end := bytes.IndexByte(line[:min(len(line), 16)], '>')
	if end < 0 || !bytes.EqualFold(bytes.TrimRight(line[1:end], " /"), []byte("br")) {
		return nil
	}
	reader.Advance(end + 1)
	br := ast.NewTextSegment(at.WithStop(at.Start))
	br.SetHardLineBreak(true)
	return br
}
