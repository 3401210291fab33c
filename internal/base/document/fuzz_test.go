package document_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/document"
)

// check holds for every input: no panic reaches us (Extract would call it
// damage, so the message is looked at), the text is valid and within its
// limit, and errors are typed.
func check(t *testing.T, name string, data []byte) {
	t.Helper()
	const most = 5000
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	got, err := document.Extract(ctx, name, bytes.NewReader(data), int64(len(data)), document.Options{MaxChars: most})
	if ctx.Err() != nil {
		t.Fatal("takes too long")
	}
	if err != nil && bytes.Contains([]byte(err.Error()), []byte("did not expect")) {
		t.Fatal(err)
	}
	if n := utf8.RuneCountInString(got.Content); n > most || !utf8.ValidString(got.Content) {
		t.Fatalf("%d characters, valid %v", n, utf8.ValidString(got.Content))
	}
}

func FuzzPDF(f *testing.F) {
	files, err := filepath.Glob("testdata/*.pdf")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(onePage(streamOf("", "BT /F1 10 Tf [(a)-300(b)] TJ /X Do BI ID EI ET"), "<</Subtype/Type0/ToUnicode 6 0 R>>",
		streamOf("/Subtype/Form", "1 beginbfrange <0002><0003><0041> endbfrange /Span<</ActualText(x)>> BDC EMC")))
	f.Add(onePage(streamOf("/Filter[/LZW/A85/AHx/RL]", string(packLZW([]byte("<~87cURD]i,\"Ebo80~>"), 1))), ""))
	f.Fuzz(func(t *testing.T, data []byte) { check(t, "a.pdf", append([]byte("%PDF-1.7\n"), data...)) })
}

// FuzzOOXML takes the XML of a part, and whole files.
func FuzzOOXML(f *testing.F) {
	for i, name := range []string{"report.docx", "book.xlsx", "deck.pptx"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), data)
	}
	f.Add(byte(3), []byte(`<w:p><w:t>a</w:t><w:tbl><w:tr><w:tc><w:p><w:t>b</w:t></w:p></w:tc></w:tr></w:tbl></w:p>`))
	f.Add(byte(4), []byte(`<row><c r="B1" s="2"><v>1.5</v></c><c t="s"><v>1</v></c><c t="inlineStr"><is><t>x</t></is></c></row>`))
	f.Add(byte(5), []byte(`<p:sp><a:p><a:r><a:t>x</a:t></a:r></a:p><a:tbl><a:tr><a:tc/></a:tr></a:tbl></p:sp>`))
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		switch kind % 6 {
		case 0:
			check(t, "a.docx", data)
		case 1:
			check(t, "a.xlsx", data)
		case 2:
			check(t, "a.pptx", data)
		case 3:
			check(t, "a.docx", office(t, map[string]string{"word/document.xml": string(data)}))
		case 4:
			check(t, "a.xlsx", book(t, string(data)))
		case 5:
			check(t, "a.pptx", office(t, map[string]string{
				"ppt/presentation.xml":            `<p><sldId id="1" r:id="r1"/></p>`,
				"ppt/_rels/presentation.xml.rels": `<r><Relationship Id="r1" Target="slides/s.xml"/></r>`,
				"ppt/slides/s.xml":                string(data),
			}))
		}
	})
}
