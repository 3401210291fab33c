package document_test

import (
	"bytes"
	"compress/zlib"
	"encoding/ascii85"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/document"
)

// makePDF numbers the objects from 1 and writes a table of them. The first is
// the catalog.
func makePDF(objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n%\xe2\xe3\n")
	var at []int
	for i, o := range objects {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, o := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, start)
	return b.Bytes()
}

func streamOf(dict, data string) string {
	return fmt.Sprintf("<<%s/Length %d>>\nstream\n%s\nendstream", dict, len(data), data)
}

// onePage is a file of one page with fonts F1 (Helvetica) and F2, whose object is 5.
func onePage(content, font string, more ...string) []byte {
	if font == "" {
		font = "<</Type/Font/Subtype/Type1/BaseFont/Times-Roman>>"
	}
	return makePDF(append([]string{
		"<</Type/Catalog/Pages 2 0 R>>",
		"<</Type/Pages/Kids[3 0 R]/Count 1/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>/F2 5 0 R>>/XObject<</X 6 0 R>>/Properties<</P 6 0 R>>>>>>",
		"<</Type/Page/Parent 2 0 R/Contents 4 0 R>>",
		content, font,
	}, more...)...)
}

func TestPDFText(t *testing.T) {
	t.Parallel()
	show := func(s string) string { return streamOf("", "BT /F1 10 Tf "+s+" ET") }
	second := func(s string) string { return streamOf("", "BT /F2 10 Tf "+s+" ET") }
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"string escapes", onePage(show(`(a\(b\)\\ \101\7c (nested) x\
y) Tj`), ""), "a(b)\\ Ac (nested) xy"},
		{"hex string", onePage(show("<48 65 6C6c 6F2> Tj"), ""), "Hello"},
		{"lines", onePage(show("12 TL 1 0 0 1 50 700 Tm (one) Tj T* (two) Tj (three) ' 1 2 (four) \" 0 -12 Td (five) Tj"), ""), "one\ntwo\nthree\nfour\nfive"},
		{"gaps are spaces", onePage(show("[(wo)-40(rd)-300(next)] TJ 100 0 Td (cell) Tj"), ""), "word next cell"},
		{"letters spread apart", onePage(show("5 Tc (ab) Tj"), ""), "a b"},
		{"space squeezed to nothing", onePage(show("-2.8 Tw (a b) Tj"), ""), "ab"},
		{"turned", onePage(show("0 1 -1 0 100 100 Tm (up) Tj 0 1 -1 0 100 120 Tm (side) Tj"), ""), "up side"},
		{"bold by drawing twice", onePage(show("1 0 0 1 5 5 Tm (once) Tj 1 0 0 1 5.2 5 Tm (once) Tj"), ""), "once"},
		{"inline picture", onePage(show("(a) Tj ET BI /W 4 /H 1 ID \x00(EI\xff) EI BT /F1 10 Tf (b) Tj"), ""), "ab"},
		{"given text", onePage(show("/Span<</ActualText<FEFF00E4>>> BDC (x) Tj (y) Tj EMC (z) Tj"), ""), "äz"},
		{"given text by name", onePage(show("/Span/P BDC (x) Tj EMC"), "", "<</ActualText(plain)>>"), "plain"},
		{"form", onePage(streamOf("", "/X Do"), "", streamOf("/Subtype/Form/Matrix[1 0 0 1 5 5]", "BT /F1 9 Tf (in a form) Tj ET")), "in a form"},
		{"differences", onePage(second("(ABC\001) Tj"), "<</Subtype/Type1/BaseFont/X/Encoding<</Differences[65/Zcaron/f_f_i 1/uni20AC 67/afii10017]>>>>"), "ŽffiА€"},
		{"mac roman", onePage(second("(\x8a) Tj"), "<</Subtype/TrueType/BaseFont/X/Encoding/MacRomanEncoding>>"), "ä"},
		{"symbol", onePage(second("(abc) Tj"), "<</Subtype/Type1/BaseFont/Symbol>>"), "αβχ"},
		{"map of ranges", onePage(second("<000100020003000400050041> Tj"), "<</Subtype/Type0/Encoding/Identity-H/ToUnicode 6 0 R>>",
			streamOf("", "1 begincodespacerange <0000><ffff> endcodespacerange 1 beginbfchar <0001> <D83DDE00> endbfchar 2 beginbfrange <0002><0003><0041> <0004><0005>[<00660069><0393>] endbfrange")), "😀ABfiΓ"},
		{"one byte codes in a map", onePage(second("(A) Tj"), "<</Subtype/Type1/ToUnicode 6 0 R>>", streamOf("", "1 beginbfrange <41><5a><0061> endbfrange")), "a"},
		{"utf-16 codes", onePage(second("<4F60D83DDE00> Tj"), "<</Subtype/Type0/Encoding/UniGB-UTF16-H>>"), "你😀"},
		{"vertical", onePage(second("<4F60597D> Tj <FF01> Tj"), "<</Subtype/Type0/Encoding/UniGB-UCS2-V>>"), "你好！"},
		{"wrong length", onePage("<</Length 3>>\nstream\nBT /F1 9 Tf (whole) Tj ET\nendstream", ""), "whole"},
		{"content in parts", makePDF("<</Pages 2 0 R>>", "<</Kids[3 0 R]>>",
			"<</Type/Page/Resources<</Font<</F1<</Subtype/Type1/BaseFont/Courier>>>>>>/Contents[4 0 R 5 0 R]>>",
			streamOf("", "BT /F1 9 Tf (on) Tj"), streamOf("", "(e) Tj ET")), "one"},
		{"junk before the header", append([]byte("junk\n"), onePage(show("(late) Tj"), "")...), "late"},
		{"no table", bytes.ReplaceAll(onePage(show("(found) Tj"), ""), []byte("xref"), []byte("gone")), "found"},
		{"wrong table", bytes.ReplaceAll(onePage(show("(found) Tj"), ""), []byte(" 00000 n"), []byte(" 00001 n")), "found"},
		{"shifted table", bytes.Replace(onePage(show("(found) Tj"), ""), []byte("1 0 obj"), []byte("   1 0 obj"), 1), "found"},
		{"cut off", onePage(show("(kept) Tj"), "")[:420], "kept"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := extract(t, "a.pdf", c.data, document.Options{})
			if want := "--- Page 1 ---\n" + c.want; err != nil || got.Content != want {
				t.Errorf("%q, %v; want %q", got.Content, err, want)
			}
		})
	}
}

func TestPDFFilters(t *testing.T) {
	t.Parallel()
	// Long enough for codes of 12 bits and a full table.
	var long strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&long, "(%d) Tj ", i*i)
	}
	content := "BT /F1 10 Tf " + long.String() + "(the end) Tj ET"
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write([]byte(content))
	_ = z.Close()
	var a85 bytes.Buffer
	e := ascii85.NewEncoder(&a85)
	_, _ = e.Write(packed.Bytes())
	_ = e.Close()
	damaged := bytes.Clone(packed.Bytes())
	damaged[len(damaged)-1] ^= 1
	var runs bytes.Buffer
	for rest := content; rest != ""; {
		n := min(128, len(rest))
		runs.WriteByte(byte(n - 1))
		runs.WriteString(rest[:n])
		rest = rest[n:]
	}
	runs.WriteString("\xfe \x80") // three spaces, the end
	for _, c := range []struct{ name, dict, data string }{
		{"flate", "/Filter/FlateDecode", packed.String()},
		{"bad checksum", "/Filter/FlateDecode", string(damaged)},
		{"ascii85 and flate", "/Filter[/ASCII85Decode/FlateDecode]", "<~" + a85.String() + "~>"},
		{"hex", "/Filter/AHx", hex.EncodeToString([]byte(content)) + ">"},
		{"runs", "/Filter/RunLengthDecode", runs.String()},
		{"lzw", "/Filter/LZWDecode", string(packLZW([]byte(content), 1))},
		{"lzw, late", "/Filter[/LZWDecode]/DecodeParms[<</EarlyChange 0>>]", string(packLZW([]byte(content), 0))},
		{"predictor", "/Filter/Fl/DecodeParms<</Predictor 12/Columns 40>>", string(deflate(filterRows([]byte(content), 40)))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := extract(t, "a.pdf", onePage(streamOf(c.dict, c.data), ""), document.Options{})
			if err != nil || !strings.HasPrefix(got.Content, "--- Page 1 ---\n0149162536") || !strings.HasSuffix(got.Content, "15992001the end") {
				t.Errorf("%.60q ... %.40q, %v", got.Content, got.Content[max(0, len(got.Content)-40):], err)
			}
		})
	}
}

func deflate(b []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// filterRows applies the five PNG filters in turn.
func filterRows(b []byte, width int) (out []byte) {
	for len(b)%width != 0 {
		b = append(b, ' ')
	}
	up := make([]byte, width)
	for n := 0; len(b) > 0; n++ {
		row := b[:width]
		out = append(out, byte(n%5))
		for i, v := range row {
			var left, corner byte
			if i > 0 {
				left, corner = row[i-1], up[i-1]
			}
			switch n % 5 {
			case 1:
				v -= left
			case 2:
				v -= up[i]
			case 3:
				v -= byte((int(left) + int(up[i])) / 2)
			case 4:
				p := int(left) + int(up[i]) - int(corner)
				a, b, c := abs(p-int(left)), abs(p-int(up[i])), abs(p-int(corner))
				switch {
				case a <= b && a <= c:
					v -= left
				case b <= c:
					v -= up[i]
				default:
					v -= corner
				}
			}
			out = append(out, v)
		}
		up, b = row, b[width:]
	}
	return out
}

func abs(n int) int { return max(n, -n) }

// packLZW is a plain encoder, clearing its table when that is full.
func packLZW(data []byte, early int) (out []byte) {
	var bits uint64
	var n uint
	width := uint(9)
	emit := func(code int) {
		bits = bits<<width | uint64(code)
		for n += width; n >= 8; n -= 8 {
			out = append(out, byte(bits>>(n-8)))
		}
	}
	table := map[string]int{}
	next := 258
	emit(256)
	code := func(s string) int {
		if len(s) == 1 {
			return int(s[0])
		}
		return table[s]
	}
	w := ""
	for _, c := range data {
		longer := w + string([]byte{c})
		if _, known := table[longer]; known || len(longer) == 1 {
			w = longer
			continue
		}
		emit(code(w))
		table[longer] = next
		next++
		if next+early > 1<<width && width < 12 {
			width++
		}
		if next == 4094 {
			emit(256)
			clear(table)
			next, width = 258, 9
		}
		w = string([]byte{c})
	}
	emit(code(w))
	emit(257)
	return append(out, byte(bits<<(8-n)))
}
