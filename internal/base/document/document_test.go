package document_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/document"
)

var update = flag.Bool("update", false, "rewrite golden files")

func fixture(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func extract(tb testing.TB, name string, data []byte, o document.Options) (document.Text, error) {
	tb.Helper()
	return document.Extract(tb.Context(), name, bytes.NewReader(data), int64(len(data)), o)
}

// The files were made by different producers: ReportLab, fpdf2, Ghostscript,
// groff, qpdf (object streams, linearised), python-docx, openpyxl, python-pptx.
func TestExtract(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"plain.pdf", "objstm.pdf", "lin.pdf", "cid.pdf", "unicode.pdf", "gs.pdf", "groff.pdf", "scan.pdf",
		"report.docx", "book.xlsx", "deck.pptx",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := extract(t, name, fixture(t, name), document.Options{})
			if err != nil {
				t.Fatal(err)
			}
			shown := fmt.Sprintf("%s, pages %d-%d of %d, notes %q\n%s\n", got.Format, got.From, got.To, got.Pages, got.Notes, got.Content)
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(shown), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(string(fixture(t, name+".golden")), shown); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Files that are encrypted with an empty password open, in every way that the
// format knows, also if their list of objects is damaged. The files were made by
// qpdf.
func TestExtractWithoutPassword(t *testing.T) {
	t.Parallel()
	want, err := extract(t, "objstm.pdf", fixture(t, "objstm.pdf"), document.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"open_rc4_40.pdf", "open_rc4_128.pdf", "open_aes_128.pdf", "open_aes_128_meta.pdf", "open_aes_256.pdf", "open_aes_256_old.pdf",
	} {
		whole := fixture(t, name)
		for what, data := range map[string][]byte{"": whole, ", damaged": bytes.Replace(whole, []byte("startxref\n"), []byte("startxref\n9"), 1)} {
			t.Run(name+what, func(t *testing.T) {
				t.Parallel()
				got, err := extract(t, name, data, document.Options{})
				if err != nil || got.Content != want.Content {
					t.Errorf("%q, %v; want %q", got.Content, err, want.Content)
				}
			})
		}
		for _, n := range []int{len(whole) / 3, len(whole) / 2, len(whole) - 100} { // not the whole file
			_, _ = extract(t, name, whole[:n], document.Options{})
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	pdf, xlsx, pptx := fixture(t, "plain.pdf"), fixture(t, "book.xlsx"), fixture(t, "deck.pptx")
	for _, c := range []struct {
		name     string
		file     string
		data     []byte
		o        document.Options
		want     string
		from, to int
		cut      bool
	}{
		{"one page", "a.pdf", pdf, document.Options{From: 2, To: 2}, "--- Page 2 ---\nsecond page, fixed width", 2, 2, false},
		{"from a page on", "a.pdf", pdf, document.Options{From: 3}, "--- Page 4 ---\nfourth page", 3, 4, false},
		{"first pages", "a.pdf", pdf, document.Options{From: 2, MaxPages: 2}, "--- Page 2 ---\nsecond page, fixed width", 2, 3, false},
		{"characters", "a.pdf", pdf, document.Options{MaxChars: 24}, "--- Page 1 ---\nInvoice N", 1, 1, true},
		{"whole pages", "a.pdf", pdf, document.Options{MaxChars: 190, From: 1, WholePages: true}, "", 1, 1, false},
		{"first of whole pages", "a.pdf", pdf, document.Options{MaxChars: 24, WholePages: true}, "--- Page 1 ---\nInvoice N", 1, 1, true},
		{"sheet", "a.xlsx", xlsx, document.Options{From: 3}, "--- Sheet: Zweites ---\n\tline break and tab\n08:30:00", 3, 3, false},
		{"slide", "a.pptx", pptx, document.Options{To: 1}, "--- Slide 1 ---\nTitle slide\nBullet one\nBullet two", 1, 1, false},
		{"cut sheet", "a.xlsx", xlsx, document.Options{MaxChars: 30}, "--- Sheet: Sales 2026 ---\nItem", 1, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := extract(t, c.file, c.data, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if c.want != "" && got.Content != c.want {
				t.Errorf("content = %q, want %q", got.Content, c.want)
			}
			if got.From != c.from || got.To != c.to || got.Cut != c.cut {
				t.Errorf("pages %d-%d, cut %v; want %d-%d, %v", got.From, got.To, got.Cut, c.from, c.to, c.cut)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	pdf := fixture(t, "plain.pdf")
	word := func(xml string) []byte { return office(t, map[string]string{"word/document.xml": xml}) }
	encrypted := office(t, map[string]string{"word/document.xml": "<a/>"})
	for i := range encrypted { // set the flag in the local header and in the directory
		if bytes.HasPrefix(encrypted[i:], []byte("PK\x03\x04")) {
			encrypted[i+6] |= 1
		}
		if bytes.HasPrefix(encrypted[i:], []byte("PK\x01\x02")) {
			encrypted[i+8] |= 1
		}
	}
	many := map[string]string{}
	for i := range 10_001 {
		many[fmt.Sprint(i)] = ""
	}
	for _, c := range []struct {
		name, file string
		data       []byte
		o          document.Options
		want       error
		part       string
	}{
		{"empty", "a.pdf", nil, document.Options{}, document.ErrMalformed, "empty"},
		{"not a pdf", "a.pdf", []byte("hello"), document.Options{}, document.ErrMalformed, "not a PDF"},
		{"only a header", "a.pdf", []byte("%PDF-1.4"), document.Options{}, document.ErrMalformed, "no list of pages"},
		{"encrypted pdf", "a.pdf", fixture(t, "enc.pdf"), document.Options{}, document.ErrEncrypted, "qpdf --decrypt"},
		{"no such page", "a.pdf", pdf, document.Options{From: 9}, document.ErrNoSuchPage, "no page 9: it has 4"},
		{"another format", "a.rtf", []byte("{\\rtf1}"), document.Options{}, document.ErrUnsupported, "not a PDF"},
		{"old office", "a.docx", []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), document.Options{}, document.ErrEncrypted, "password"},
		{"not a zip", "a.docx", []byte("PK but no"), document.Options{}, document.ErrMalformed, "zip"},
		{"another zip", "a.docx", office(t, map[string]string{"x": "y"}), document.Options{}, document.ErrMalformed, "word/document.xml is missing"},
		{"encrypted zip", "a.docx", encrypted, document.Options{}, document.ErrEncrypted, "encrypted"},
		{"many members", "a.docx", office(t, many), document.Options{}, document.ErrTooLarge, "10000 parts"},
		{"bad xml", "a.docx", word("<a><b</a>"), document.Options{}, document.ErrMalformed, "XML"},
		{"cut xml", "a.docx", word("<a><b>"), document.Options{}, document.ErrMalformed, "too early"},
		{"entity", "a.docx", word("<w><p><t>&secret;</t></p></w>"), document.Options{}, document.ErrMalformed, "entity"},
		{"doctype", "a.docx", word(`<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>`), document.Options{}, document.ErrMalformed, "DOCTYPE"},
		{"deep xml", "a.docx", word(strings.Repeat("<a>", 10_000)), document.Options{}, document.ErrTooLarge, "deeper than 256"},
		{"closing only", "a.docx", word("</a>"), document.Options{}, document.ErrMalformed, "end tags"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := extract(t, c.file, c.data, c.o)
			if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.part) {
				t.Errorf("error = %v, want %v with %q", err, c.want, c.part)
			}
			if _, typed := errors.AsType[*document.FailureError](err); !typed {
				t.Errorf("error is %T", err)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"plain.pdf", "report.docx", "book.xlsx", "deck.pptx"} {
		data := fixture(t, name)
		if _, err := document.Extract(ctx, name, bytes.NewReader(data), int64(len(data)), document.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", name, err)
		}
	}
}

func TestAttachment(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 250_000)
	for _, c := range []struct {
		name, file, data, want string
		cut                    bool
		err                    error
	}{
		{"text", "a.txt", "plain\x1b[2J text\r\n", "plain[2J text", false, nil},
		{"bom", "a.csv", "\xef\xbb\xbfa;b", "a;b", false, nil},
		{"latin", "a.log", "caf\xe9", "café", false, nil},
		{"long", "a.md", long, long[:400_000], true, nil},
		{"binary", "a.json", "a\x00b", "", false, document.ErrUnsupported},
		{"other", "a.bin", "abc", "", false, document.ErrUnsupported},
		{"document", "deck.pptx", string(fixture(t, "deck.pptx")), "--- Slide 1 ---\nTitle slide\nBullet one\nBullet two\n\n--- Slide 2 ---\nTable\n0/0\t0/1\n1/0\t1/1\ninside a group", false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := document.Attachment(t.Context(), c.file, strings.NewReader(c.data), int64(len(c.data)))
			if !errors.Is(err, c.err) || got.Content != c.want || got.Cut != c.cut {
				t.Errorf("%.60q..., cut %v, %v; want %.60q..., %v, %v", got.Content, got.Cut, err, c.want, c.cut, c.err)
			}
		})
	}
}

// office makes an Office file of the given parts.
func office(tb testing.TB, parts map[string]string) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range parts {
		h := &zip.FileHeader{Name: name}
		if len(content) > 1000 {
			h.Method = zip.Deflate
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := f.Write([]byte(content)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, xml, want string }{
		{"deleted and moved", `<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:moveFrom><w:r><w:t>old place</w:t></w:r></w:moveFrom></w:p>`, "kept"},
		{"choice and fallback", `<w:p><mc:AlternateContent><mc:Choice><w:t>once</w:t></mc:Choice><mc:Fallback><w:t>once</w:t></mc:Fallback></mc:AlternateContent></w:p>`, "once"},
		{"text box", `<w:p><w:r><w:t>before </w:t></w:r><w:txbxContent><w:p><w:t>boxed</w:t></w:p></w:txbxContent><w:r><w:t>after</w:t></w:r></w:p>`, "before\n\nboxed\n\nafter"},
		{"breaks", `<w:p><w:t>a</w:t><w:br/><w:t>b</w:t><w:tab/><w:t>c</w:t><w:noBreakHyphen/><w:t>d</w:t></w:p>`, "a\nb\tc-d"},
		{"cells", `<w:tbl><w:tr><w:tc><w:p><w:t>a	b</w:t></w:p><w:p><w:t>c</w:t></w:p></w:tc><w:tc/><w:tc><w:p><w:t>d</w:t></w:p></w:tc></w:tr><w:tr><w:tc/></w:tr></w:tbl>`, "a b c\t\td"},
		{"entities", `<w:p><w:t>&lt;b&gt; &amp; &#x41;</w:t></w:p>`, "<b> & A"},
		{"control", `<w:p><w:t>a&#x202E;b` + "\u0085" + `c</w:t></w:p>`, "a\u202eb\nc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := extract(t, "a.docx", office(t, map[string]string{"word/document.xml": "<w:document><w:body>" + c.xml + "</w:body></w:document>"}), document.Options{})
			if err != nil || got.Content != c.want {
				t.Errorf("%q, %v; want %q", got.Content, err, c.want)
			}
		})
	}
}

// book makes a workbook of one sheet.
func book(tb testing.TB, sheet string) []byte {
	tb.Helper()
	return office(tb, map[string]string{
		"xl/workbook.xml":            `<workbook><workbookPr date1904="1"/><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": `<Relationships><Relationship Id="r1" Type="x/worksheet" Target="/xl/worksheets/s.xml"/><Relationship Id="r2" Type="x/sharedStrings" Target="strings.xml"/><Relationship Id="r3" Type="x/styles" Target="styles.xml"/></Relationships>`,
		"xl/strings.xml":             `<sst><si><t>one</t></si><si><r><t>ri</t></r><r><t>ch</t></r><rPh><t>say</t></rPh></si></sst>`,
		"xl/styles.xml":              `<styleSheet><numFmts><numFmt numFmtId="170" formatCode="&quot;day&quot; 0.00"/><numFmt numFmtId="171" formatCode="[$-409]dd.mm.yy"/></numFmts><cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="170"/><xf numFmtId="171"/><xf numFmtId="21"/></cellXfs></styleSheet>`,
		"xl/worksheets/s.xml":        "<worksheet><sheetData>" + sheet + "</sheetData></worksheet>",
	})
}

func TestExcel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, xml, want string }{
		{"shared", `<row><c t="s"><v>1</v></c><c t="s"><v>0</v></c><c t="s"><v>7</v></c><c t="s"><v>x</v></c></row>`, "rich\tone"},
		{"formula", `<row><c><f>1+1</f><v>2</v></c><c t="str"><f>A</f><v>text</v></c><c t="e"><v>#N/A</v></c></row>`, "2\ttext\t#N/A"},
		{"dates of 1904", `<row><c s="2"><v>1</v></c><c s="1"><v>1.50</v></c><c s="3"><v>0.5</v></c></row>`, "1904-01-02\t1.5\t12:00:00"},
		{"gaps", `<row><c r="B1"><v>1</v></c><c r="D1"><v>2</v></c></row><row/><row><c r="ZZZZZZ1"><v>3</v></c></row>`, "\t1\t\t2\n3"},
		{"inline", `<row><c t="inlineStr"><is><r><t>in</t></r><r><t>line</t></r></is></c><c t="b"><v>1</v></c></row>`, "inline\tTRUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := extract(t, "a.xlsx", book(t, c.xml), document.Options{})
			if want := "--- Sheet: S ---\n" + c.want; err != nil || got.Content != want {
				t.Errorf("%q, %v; want %q", got.Content, err, want)
			}
		})
	}
}
