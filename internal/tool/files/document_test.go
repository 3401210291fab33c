package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
)

func (b *bench) putDocument(names ...string) {
	b.t.Helper()
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join("..", "..", "base", "document", "testdata", n))
		if err != nil {
			b.t.Fatal(err)
		}
		b.put(n, string(data))
	}
}

func TestReadDocument(t *testing.T) { //nolint:tparallel // the cases share a workspace and its test
	t.Parallel()
	b := newBench(t)
	b.putDocument("plain.pdf", "scan.pdf", "enc.pdf", "report.docx", "book.xlsx", "deck.pptx")
	b.put("noname", b.get("plain.pdf"))
	b.put("long.pdf", manyPages(45))
	for _, c := range []struct {
		name string
		in   args
		want []string
	}{
		{"pdf", args{"path": "plain.pdf"}, []string{"--- Page 1 ---\nInvoice No. 4711\n", "\n\n--- Page 4 ---\nfourth page\n\n(Pages 1-4 of 4)\n(Pages without text: 1."}},
		{"pdf by content", args{"path": "noname", "pages": "2"}, []string{"--- Page 2 ---\nsecond page", "(Pages 2-2 of 4; next: pages=3-4)"}},
		{"page as a number", args{"path": "plain.pdf", "pages": 2}, []string{"(Pages 2-2 of 4"}},
		{"first pages", args{"path": "long.pdf"}, []string{"--- Page 20 ---\n", "(Pages 1-20 of 45; next: pages=21-40)"}},
		{"last pages", args{"path": "long.pdf", "pages": "41-45"}, []string{"--- Page 41 ---\n", "(Pages 41-45 of 45)"}},
		{"past the end", args{"path": "long.pdf", "pages": "44-50"}, []string{"(Pages 44-45 of 45)"}},
		{"scan", args{"path": "scan.pdf"}, []string{"No text on pages 1-2 of scan.pdf", "(Pages 1-2 of 2)"}},
		{"word", args{"path": "report.docx"}, []string{"Quarterly report\n\nFirst", "r0c0\tr0c1\tr0c2\n", "(End of document: 10 lines)"}},
		{"word by lines", args{"path": "report.docx", "offset": 5, "limit": 1}, []string{"Second.\n\n(Lines 5-5 of 10; next: offset=6)"}},
		{"excel", args{"path": "book.xlsx"}, []string{"--- Sheet: Sales 2026 ---\nItem\tQty"}},
		{"powerpoint", args{"path": "deck.pptx"}, []string{"--- Slide 2 ---\nTable\n0/0\t0/1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			contains(t, b.text("read_file", c.in), c.want...)
			if res := b.call("read_file", c.in); !res.Untrusted || !res.Whole {
				t.Errorf("Untrusted %v, Whole %v; want both", res.Untrusted, res.Whole)
			}
		})
	}
	b.fails("read_file", args{"path": "plain.pdf", "pages": "5"}, tool.InvalidArgs, "no page 5: it has 4")
	b.fails("read_file", args{"path": "plain.pdf", "pages": "0-2"}, tool.InvalidArgs, "N or N-M")
	b.fails("read_file", args{"path": "plain.pdf", "pages": "3-2"}, tool.InvalidArgs, "N or N-M")
	b.fails("read_file", args{"path": "plain.pdf", "pages": "x"}, tool.InvalidArgs, "N or N-M")
	b.fails("read_file", args{"path": "long.pdf", "pages": "1-21"}, tool.InvalidArgs, "at most 20")
	b.fails("read_file", args{"path": "enc.pdf"}, tool.Unsupported, "protected with a password")
	b.fails("read_file", args{"path": "report.docx", "offset": 99}, tool.InvalidArgs, "has 10 lines")
	b.put("old.doc", "x")
	b.fails("read_file", args{"path": "old.doc"}, tool.Unsupported, ".docx")
	b.put("fake.xlsx", "a,b\n")
	b.fails("read_file", args{"path": "fake.xlsx"}, tool.Unsupported, "zip")
}

// manyPages is a PDF of n short pages and one long one in between.
func manyPages(n int) string {
	var b, kids strings.Builder
	b.WriteString("%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n")
	for i := range n {
		fmt.Fprintf(&kids, "%d 0 R ", 10+2*i)
		text := fmt.Sprintf("BT /F 9 Tf (page %d) Tj ET", i+1)
		fmt.Fprintf(&b, "%d 0 obj <</Type/Page/Contents %d 0 R>> endobj\n%d 0 obj <</Length %d>>\nstream\n%s\nendstream endobj\n", 10+2*i, 11+2*i, 11+2*i, len(text), text)
	}
	fmt.Fprintf(&b, "2 0 obj <</Kids[%s]/Resources<</Font<</F<</Subtype/Type1/BaseFont/Helvetica>>>>>>>> endobj\ntrailer <</Root 1 0 R>>\n", kids.String())
	return b.String()
}

func TestReadDocumentTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.state = &tool.State{}
	b.putDocument("plain.pdf", "report.docx")
	for _, in := range []args{{"path": "plain.pdf"}, {"path": "report.docx"}} {
		b.text("read_file", in)
		contains(t, b.text("read_file", in), "unchanged")
		in["pages"] = "1"
		lacks(t, b.text("read_file", in), "unchanged")
	}
}

// Words for the model that a person would not see are shown as what they are.
func TestReadDocumentInvisible(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hidden := strings.Replace(manyPages(1), "(page 1) Tj", "/S<</ActualText<FEFF0061202E0062DB40DC41>>> BDC (x) Tj EMC", 1)
	b.put("a.pdf", hidden)
	got := b.text("read_file", args{"path": "a.pdf"})
	contains(t, got, "a<U+202E>b<U+E0041>", "Invisible characters")
	lacks(t, got, "\u202e", "\U000E0041")
}

// T2: what others wrote taints the turn, wherever it lies.
func TestT2Untrusted(t *testing.T) {
	t.Parallel()
	var media string
	b := newBench(t, func(o *files.Options, jo *diskio.JailOptions) {
		media = filepath.Join(jo.Home, "media")
		jo.ReadOnly = []string{media}
		results := filepath.Join(jo.Workspace, ".nanobot", "tool-results")
		o.Foreign = func(abs string) bool { return strings.HasPrefix(abs, results+string(filepath.Separator)) }
	})
	if err := os.MkdirAll(media, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(media, "in.txt"), []byte("run this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.put("mine.txt", "run my own\n")
	b.put(".nanobot/tool-results/a.txt", "run theirs\n")
	b.put("pic.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x05\x00\x00\x00\x05\x08")
	if err := os.Symlink(".nanobot/tool-results/a.txt", filepath.Join(b.dir, "alias.txt")); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		tool string
		in   args
		want bool
	}{
		{"read_file", args{"path": "mine.txt"}, false},
		{"read_file", args{"path": "pic.png"}, true},
		{"read_file", args{"path": filepath.Join(media, "in.txt")}, true},
		{"read_file", args{"path": ".nanobot/tool-results/a.txt"}, true},
		{"read_file", args{"path": "alias.txt"}, true},
		{"read_file", args{"path": ".nanobot/tool-results/none.txt"}, false},
		{"grep", args{"pattern": "run", "output_mode": "content"}, true},
		{"grep", args{"pattern": "run", "output_mode": "content", "glob": "mine*"}, false},
		{"grep", args{"pattern": "run", "output_mode": "content", "path": ".nanobot/tool-results/a.txt"}, true},
		{"grep", args{"pattern": "run", "output_mode": "content", "path": media}, true},
		{"grep", args{"pattern": "run", "output_mode": "content", "head_limit": 1, "offset": 1}, false}, // only mine.txt is shown
		{"grep", args{"pattern": "run"}, true},                                                          // names are words, too
		{"grep", args{"pattern": "run", "glob": "mine*"}, false},
		{"glob", args{"pattern": "**/*.txt"}, true},
		{"glob", args{"pattern": "mine*"}, false},
		{"list_dir", args{"path": media}, true},
		{"list_dir", args{"path": "."}, false},
		{"edit_file", args{"path": ".nanobot/tool-results/a.txt", "old_text": "nothing like it", "new_text": "x"}, true},
		{"edit_file", args{"path": "mine.txt", "old_text": "nothing like it", "new_text": "x"}, false},
	} {
		if got := b.call(c.tool, c.in).Untrusted; got != c.want {
			t.Errorf("%s %v: Untrusted = %v, want %v", c.tool, c.in, got, c.want)
		}
	}
}

func TestGlobWords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tree("docs/Readme.md", "docs/setup guide.md", "src/readme_parser.go", "readme")
	for _, c := range []struct {
		in   args
		want []string
	}{
		{args{"pattern": "readme"}, []string{"readme"}},
		{args{"pattern": "README parser"}, []string{"src/readme_parser.go"}},
		{args{"query": "setup docs"}, []string{"docs/setup guide.md"}},
		{args{"pattern": "docs/*.txt"}, []string{"No match for docs/*.txt under .."}},
	} {
		if got := rows(b.text("glob", c.in)); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("glob %v = %q, want %q", c.in, got, c.want)
		}
	}
}

// A call of find_files, which older versions have, becomes one of glob.
func TestFindFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tree("docs/Readme.md", "src/readme_parser.go", "src/main.go", "src/sub/x.py")
	for _, c := range []struct {
		in   args
		want []string
	}{
		{args{"query": "readme src"}, []string{"src/readme_parser.go"}},
		{args{"glob": "*.go", "sort": "path", "path": "src"}, []string{"src/readme_parser.go", "src/main.go"}},
		{args{"type": "python"}, []string{"src/sub/x.py"}},
		{args{"query": "readme", "glob": "*.md", "head_limit": 1}, []string{"docs/Readme.md", "", "(entries 1-1 of 2; next: offset=1)"}},
		{args{"glob": "**/sub", "include_dirs": true}, []string{"src/sub/"}},
	} {
		if got := rows(b.text("find_files", c.in)); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("find_files %v = %q, want %q", c.in, got, c.want)
		}
	}
	if slices.Contains(b.set.Names(), "find_files") {
		t.Error("find_files is offered")
	}
}
