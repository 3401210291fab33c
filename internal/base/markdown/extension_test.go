package markdown

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// libraryParser reads tables, boxes, strikes and bare links with goldmark's own
// extensions, under the rules of this package.
func libraryParser() parser.Parser {
	address := regexp.MustCompile("^https?://[\\pL\\pN](?:[^\\s<`\"]*[^\\s<`\"'\\]])?")
	return parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()[:6]...),
		parser.WithBlockParsers(
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(parser.NewBlockquoteParser(), 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(only{extension.NewTaskCheckBoxParser(), func(line []byte) bool {
				return len(line) >= 4 && line[3] == ' ' && !util.IsBlank(line[4:])
			}}, 0),
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(lineBreak{}, 250),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewEmphasisParser(), 500),
			util.Prioritized(only{extension.NewStrikethroughParser(), func(line []byte) bool { return len(line) >= 2 && line[1] == '~' }}, 500),
			util.Prioritized(only{extension.NewLinkifyParser(extension.WithLinkifyURLRegexp(address)), func(line []byte) bool {
				if strings.IndexByte(" *_~(", line[0]) >= 0 {
					line = line[1:]
				}
				return bytes.HasPrefix(line, []byte("http://")) || bytes.HasPrefix(line, []byte("https://"))
			}}, 999),
		),
		parser.WithParagraphTransformers(util.Prioritized(extension.NewTableParagraphTransformer(), 200)),
	)
}

// only calls a parser for some lines.
type only struct {
	parser.InlineParser
	accepts func(line []byte) bool
}

func (o only) Parse(parent ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	if line, _ := reader.PeekLine(); !o.accepts(line) {
		return nil
	}
	return o.InlineParser.Parse(parent, reader, pc)
}

// compareWithLibrary fails if our parsers read a text in another way than goldmark's.
func compareWithLibrary(t *testing.T, library parser.Parser, src string) {
	t.Helper()
	got := Parse(src)
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\uFFFD").Replace(src)
	c := converter{source: []byte(src)}
	want := Node{Kind: Document, Children: c.blocks(library.Parse(text.NewReader([]byte(src))))}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%q (-library +ours):\n%s", src, d)
	}
}

// Tables, boxes, strikes and bare links are what goldmark's extensions make of them.
func TestExtensionsLikeLibrary(t *testing.T) {
	t.Parallel()
	library := libraryParser()
	pieces := []string{
		"|", "|", "|", "-", "--", ":", ":-", "-:", "\n", "\n", "\n", "\\|", "`", "``", "a", "b ", " ", "  ", "    ", "\t", "\f", "\v", "é", "日",
		"~", "~~", "~~~", "*", "**", "_", "[ ] ", "[x] ", "[X]", "[\t] ", "[", "]", "(", ")", "](u)", "- ", "1. ", "> ", "# ", "<br>", "<", ">", "\\",
		"http://", "https://", "HTTP://", "a.b", ".", ",", ";", "&amp;", "&", ":", "?", "!", "'", "\"", "/x_(y)", "#", "\xff", "|-|\n", "|a|\n", "\n|-|-|\n",
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 3_000 {
		var b strings.Builder
		for range 1 + rng.IntN(18) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		compareWithLibrary(t, library, b.String())
	}
}

func FuzzExtensions(f *testing.F) {
	for _, seed := range []string{"|a|b|\n|:-|-:|\n|`x\\|y`|\n", "- [x] done ~~not~~", "(https://x.org/w_(y)); https://a.b&amp;", "a\n|b|\n|-|\n|c|d|"} {
		f.Add(seed)
	}
	library := libraryParser()
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 200 { // below the limits of this package, which the library lacks
			return
		}
		compareWithLibrary(t, library, src)
	})
}
