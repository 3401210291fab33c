package document_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/document"
)

// blocks is a deflate stream that gives head and then chunk so many times; the
// chunk is only compressed once.
func blocks(head, chunk string, times int) []byte {
	var b bytes.Buffer
	pack := func(s string) string {
		b.Reset()
		w, _ := flate.NewWriter(&b, flate.BestSpeed)
		_, _ = io.WriteString(w, s)
		_ = w.Flush()
		return b.String()
	}
	first, again := pack(head), pack(chunk)
	return []byte(first + strings.Repeat(again, times) + "\x01\x00\x00\xff\xff")
}

// bomb is a Word file with one huge part, made without holding it in memory.
func bomb(tb testing.TB, head, chunk string, times int) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	data := blocks(head, chunk, times)
	f, err := w.CreateRaw(&zip.FileHeader{Name: "word/document.xml", Method: zip.Deflate, CompressedSize64: uint64(len(data)), UncompressedSize64: 1 << 31})
	if err != nil {
		tb.Fatal(err)
	}
	_, _ = f.Write(data)
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// crowded is a zip file whose table of contents holds far more than it says.
func crowded() []byte {
	const members = 70_000
	var b bytes.Buffer
	entry := make([]byte, 46)
	copy(entry, "PK\x01\x02")
	for range members {
		b.Write(entry)
	}
	end := make([]byte, 22)
	copy(end, "PK\x05\x06")
	binary.LittleEndian.PutUint16(end[8:], members%65_536)
	binary.LittleEndian.PutUint16(end[10:], members%65_536)
	binary.LittleEndian.PutUint32(end[12:], 46*members)
	return append(b.Bytes(), end...)
}

// Adversarial inputs 97 and 98: whatever a file claims or hides, reading it
// takes little memory and ends. The cases run one after another because the
// memory of the process is measured.
func TestBombs(t *testing.T) { // see above
	const word, mega = "word/document.xml", 1 << 20
	spaces := strings.Repeat(" ", 64<<10)
	page := func(content string, more ...string) []byte { return onePage(content, "", more...) }
	for _, c := range []struct {
		name, file string
		data       []byte
		want       error // nil: text or no text, but no error
		note       string
	}{
		{"docx of one text", "a.docx", bomb(t, "<w:p><w:t>", strings.Repeat("a", mega), 1000), document.ErrTooLarge, ""},
		{"docx of one tag", "a.docx", bomb(t, "<w:p ", strings.Repeat(`a="b" `, 10_000), 1000), document.ErrTooLarge, ""},
		{"docx of one doctype", "a.docx", bomb(t, "<!DOCTYPE a ", spaces, 3200), document.ErrTooLarge, ""},
		{"docx of one paragraph", "a.docx", bomb(t, "<w:p>", "<w:t>"+strings.Repeat("a", mega/2)+"</w:t>", 1000), nil, ""},
		{"docx of one row", "a.docx", bomb(t, "<w:tbl><w:tr>", "<w:tc><w:p><w:t>"+strings.Repeat("a", mega/2)+"</w:t></w:p></w:tc>", 5), document.ErrMalformed, ""},
		{"docx of tables in tables", "a.docx", office(t, map[string]string{word: "<a>" + strings.Repeat("<tbl><tr><tc>", 80) + strings.Repeat("</tc></tr></tbl>", 80) + "</a>"}), nil, "deeper than 8"},
		{"billion laughs", "a.docx", office(t, map[string]string{word: laughs()}), document.ErrMalformed, ""},
		{"crowded zip", "a.docx", crowded(), document.ErrTooLarge, ""},
		{"row of very many cells", "a.xlsx", book(t, "<row>"+strings.Repeat("<c><v>1</v></c>", 200_000)+"</row>"), nil, "first 100000 cells"},
		{"rows of one far cell", "a.xlsx", book(t, strings.Repeat(`<row><c r="XFD1"><v>1</v></c></row>`, 20_000)), nil, ""},
		{"a billion days", "a.xlsx", book(t, `<row><c s="2"><v>1e300</v></c><c s="2"><v>-5</v></c><c><v>nan</v></c></row>`), nil, ""},
		{"pdf of a huge stream", "a.pdf", page(streamOf("/Filter[/FlateDecode/FlateDecode]", string(blocks("", string(blocks("", spaces, 16_000)), 1)))), nil, "more than 32 MiB"},
		{"pdf of a huge array", "a.pdf", page(streamOf("/Filter/FlateDecode", string(blocks("[", strings.Repeat("0 ", 100_000), 10)))), nil, ""},
		{"pdf of a huge string", "a.pdf", page(streamOf("/Filter/FlateDecode", string(blocks("(", strings.Repeat("a", 65_000), 100)))), nil, ""},
		{"pdf with a page tree in a loop", "a.pdf", makePDF("<</Pages 2 0 R>>", "<</Kids[2 0 R 3 0 R 2 0 R]>>", "<</Kids[2 0 R 3 0 R]>>"), nil, ""},
		{"pdf whose length is itself", "a.pdf", page("<</Length 4 0 R>>\nstream\nBT ET\nendstream"), nil, ""},
		{"pdf of references in a loop", "a.pdf", makePDF("2 0 R", "1 0 R"), document.ErrMalformed, ""},
		{"pdf of forms in forms", "a.pdf", page(streamOf("", strings.Repeat("/X Do ", 5)), streamOf("/Subtype/Form", strings.Repeat("/X Do ", 5))), nil, "more than 5000 forms"},
		{"pdf of deep arrays", "a.pdf", makePDF("<</Pages " + strings.Repeat("[", 100_000) + ">>"), document.ErrMalformed, ""},
		{"pdf with tables in a loop", "a.pdf", []byte("%PDF-1.4\nxref\n0 0\ntrailer\n<</Root 1 0 R/Prev 9>>\nstartxref\n9\n%%EOF"), document.ErrMalformed, ""},
		{"pdf with a huge object number", "a.pdf", []byte("%PDF-1.4\n999999999 0 obj <<>> endobj\nxref\n999999999 1\n0000000009 00000 n \ntrailer\n<</Root 999999999 0 R>>\nstartxref\n41\n%%EOF"), document.ErrMalformed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			runtime.GC()
			peak := watchHeap()
			start := time.Now()
			got, err := extract(t, c.file, c.data, document.Options{})
			took := time.Since(start)
			grown := peak()
			if !errors.Is(err, c.want) && !errors.Is(err, document.ErrTooSlow) {
				t.Errorf("error = %v, want %v", err, c.want)
			}
			if err == nil && !strings.Contains(fmt.Sprint(got.Notes), c.note) {
				t.Errorf("notes = %q, want %q", got.Notes, c.note)
			}
			if n := len([]rune(got.Content)); n > document.DefaultMaxChars {
				t.Errorf("%d characters", n)
			}
			if grown > 64*mega {
				t.Errorf("memory grew by %d MiB", grown/mega)
			}
			if took > 70*time.Second { // ten seconds, and a slow machine does not notice their end at once
				t.Errorf("took %v", took)
			}
			t.Logf("%v, %d MiB, %v", took, grown/mega, err)
		})
	}
}

// watchHeap measures by how much the heap grows until the returned func is called.
func watchHeap() func() uint64 {
	heap := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := heap()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		most := before
		for {
			most = max(most, heap())
			select {
			case <-stop:
				peak <- most - before
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-peak
	}
}

func laughs() string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE x [<!ENTITY l0 'ha'>")
	for i := range 10 {
		fmt.Fprintf(&b, "<!ENTITY l%d '%s'>", i+1, strings.Repeat(fmt.Sprintf("&l%d;", i), 10))
	}
	return b.String() + "]><w:p><w:t>&l10;</w:t></w:p>"
}
