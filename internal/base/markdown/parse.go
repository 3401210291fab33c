package markdown

import (
	"bytes"
	"regexp"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
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
	address := regexp.MustCompile("^https?://[\\pL\\pN](?:[^\\s<`\"]*[^\\s<`\"'\\]])?")
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
			util.Prioritized(task{extension.NewTaskCheckBoxParser()}, 0),
			util.Prioritized(budget.bound(parser.NewCodeSpanParser()), 100),
			util.Prioritized(budget.bound(parser.NewLinkParser()), 200),
			util.Prioritized(lineBreak{}, 250),
			util.Prioritized(budget.bound(parser.NewAutoLinkParser()), 300),
			util.Prioritized(budget.bound(parser.NewEmphasisParser()), 500),
			util.Prioritized(budget.bound(strike{extension.NewStrikethroughParser()}), 500),
			util.Prioritized(bareLink{extension.NewLinkifyParser(extension.WithLinkifyURLRegexp(address))}, 999),
		),
		parser.WithParagraphTransformers(
			util.Prioritized(tables{extension.NewTableParagraphTransformer(), budget}, 200),
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

// task reads the box of a list item. Without a space behind it, it is the text
// of a link.
type task struct{ parser.InlineParser }

func (t task) Parse(parent ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	if line, _ := reader.PeekLine(); len(line) < 4 || line[3] != ' ' || util.IsBlank(line[4:]) {
		return nil
	}
	return t.InlineParser.Parse(parent, reader, pc)
}

// strike reads ~~. A single ~ stands for "about" far too often.
type strike struct{ parser.InlineParser }

func (s strike) Parse(parent ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	if line, _ := reader.PeekLine(); len(line) < 2 || line[1] != '~' {
		return nil
	}
	return s.InlineParser.Parse(parent, reader, pc)
}

// bareLink reads a web address without marks around it. Other words never reach
// the library's parser, which would look for mail addresses.
type bareLink struct{ parser.InlineParser }

func (b bareLink) Parse(parent ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	line, _ := reader.PeekLine()
	if strings.IndexByte(" *_~(", line[0]) >= 0 {
		line = line[1:]
	}
	if !bytes.HasPrefix(line, []byte("http://")) && !bytes.HasPrefix(line, []byte("https://")) {
		return nil
	}
	return b.InlineParser.Parse(parent, reader, pc)
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

// tables makes tables of paragraphs, as long as the text has cells left.
type tables struct {
	parser.ParagraphTransformer
	*budget
}

func (t tables) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	columns := 0
	for i := 1; i < p.Lines().Len(); i++ {
		line := p.Lines().At(i)
		if l := line.Value(reader.Source()); len(bytes.Trim(l, "|-: \t\n")) == 0 {
			columns = max(columns, bytes.Count(l, []byte{'|'})+1)
		}
	}
	used, _ := pc.Get(t.cells).(int)
	used += columns * p.Lines().Len()
	if columns == 0 || columns > maxColumns || used > maxCells {
		return
	}
	pc.Set(t.cells, used)
	t.ParagraphTransformer.Transform(p, reader, pc)
}
