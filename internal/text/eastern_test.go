package text_test

import (
	"bytes"
	"compress/flate"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"github.com/nanobot-go/nanobot/internal/text"
)

var update = flag.Bool("update", false, "write the tables of eastern encodings")

// read decodes bytes with an encoding of golang.org/x/text or of ours.
func read(tb testing.TB, e text.Encoding, b []byte) string {
	tb.Helper()
	out, err := e.NewDecoder().Bytes(b)
	if err != nil {
		tb.Fatalf("%x: %v", b, err)
	}
	return string(out)
}

// grid lists the characters of two bytes in the given ranges after some others.
func grid(tb testing.TB, e text.Encoding, before string, leads, trails [2]int) (table []rune) {
	tb.Helper()
	for lead := leads[0]; lead <= leads[1]; lead++ {
		for trail := trails[0]; trail <= trails[1]; trail++ {
			table = append(table, single(tb, e, append([]byte(before), byte(lead), byte(trail))...))
		}
	}
	return table
}

// single is the one character that some bytes are, or 0.
func single(tb testing.TB, e text.Encoding, b ...byte) rune {
	tb.Helper()
	s := read(tb, e, b)
	r, n := utf8.DecodeRuneInString(s)
	if n != len(s) || r == utf8.RuneError {
		return 0
	}
	return r
}

// fourBytes is the form of a number in GB 18030.
func fourBytes(i int) []byte {
	return []byte{byte(0x81 + i/12600), byte('0' + i/1260%10), byte(0x81 + i/10%126), byte('0' + i%10)}
}

// The tables are those of golang.org/x/text.
func TestEasternTables(t *testing.T) {
	t.Parallel()
	wide, high := [2]int{0x81, 0xFE}, [2]int{0xA1, 0xFE}
	tables := map[string][]rune{
		"gbk":     grid(t, simplifiedchinese.GB18030, "", wide, [2]int{0x40, 0xFE}),
		"big5":    grid(t, traditionalchinese.Big5, "", wide, [2]int{0x40, 0xFE}),
		"euckr":   grid(t, korean.EUCKR, "", wide, [2]int{0x40, 0xFE}),
		"jis0212": grid(t, japanese.EUCJP, "\x8F", high, high),
	}
	for i := range 39_420 {
		tables["gb18030"] = append(tables["gb18030"], single(t, simplifiedchinese.GB18030, fourBytes(i)...))
	}
	for lead := 0x81; lead <= 0xFC; lead++ {
		for trail := 0x40; trail <= 0xFC; trail++ {
			if trail != 0x7F && (lead < 0xA0 || lead >= 0xE0) {
				tables["jis0208"] = append(tables["jis0208"], single(t, japanese.ShiftJIS, byte(lead), byte(trail)))
			}
		}
	}
	for name, table := range tables {
		var low, middle, plane []byte
		last := uint16(0)
		for _, r := range table {
			d := uint16(r) - last
			last = uint16(r)
			low, middle, plane = append(low, byte(d)), append(middle, byte(d>>8)), append(plane, byte(r>>16))
		}
		want := slices.Concat(low, middle, plane)
		file := "eastern/" + name + ".bin"
		if *update {
			var b bytes.Buffer
			w, _ := flate.NewWriter(&b, flate.BestCompression)
			_, _ = w.Write(want)
			_ = w.Close()
			if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(flate.NewReader(bytes.NewReader(data))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the library has (%v); write it with -update", file, err)
		}
	}
}

// easterns are the encodings of ours and those of golang.org/x/text.
func easterns(t *testing.T) map[string][2]text.Encoding {
	t.Helper()
	all := map[string][2]text.Encoding{}
	for name, theirs := range map[string]encoding.Encoding{
		"gb18030": simplifiedchinese.GB18030, "hz-gb-2312": simplifiedchinese.HZGB2312, "big5": traditionalchinese.Big5, "euc-kr": korean.EUCKR,
		"shift_jis": japanese.ShiftJIS, "euc-jp": japanese.EUCJP, "iso-2022-jp": japanese.ISO2022JP,
	} {
		ours, known := text.Charset(name)
		if !known || ours == nil {
			t.Fatalf("no encoding %q", name)
		}
		all[name] = [2]text.Encoding{ours, theirs}
	}
	return all
}

// What golang.org/x/text can read is read as there, and what it cannot is
// marked as there: all that may be a character of two bytes, and a part of the
// rest.
func TestEasternLikeTheLibrary(t *testing.T) {
	t.Parallel()
	for name, e := range easterns(t) {
		before := []string{""}
		switch name {
		case "hz-gb-2312":
			before = append(before, "~{")
		case "iso-2022-jp":
			before = append(before, "\x1b$B", "\x1b$@", "\x1b$(D", "\x1b(I", "\x1b(J", "\x1b$")
		case "euc-jp":
			before = append(before, "\x8f")
		case "gb18030":
			before = append(before, "\x81\x30", "\x84\x31", "\x90\x30", "\xe3\x32", "\xe3\x38")
		}
		wrong := 0
		for _, b := range before {
			for i := range 1 << 16 {
				likely := b == "" && i >= 0x8000
				if strings.HasPrefix(b, "~{") || strings.HasPrefix(b, "\x1b") {
					likely = i&0x8080 == 0
				}
				if !likely && i%29 != 0 {
					continue
				}
				in := append([]byte(b), byte(i>>8), byte(i), 'A', 'B', 'C')
				got, want := read(t, e[0], in), read(t, e[1], in)
				bad := strings.ContainsRune(want, utf8.RuneError)
				if got != want && !bad || bad != strings.ContainsRune(got, utf8.RuneError) {
					if wrong++; wrong < 10 {
						t.Errorf("%s: %x is %q, want %q", name, in, got, want)
					}
				}
			}
		}
	}
	gb := easterns(t)["gb18030"]
	for i := 0; i < 126*10*126*10; i += 97 {
		if got, want := read(t, gb[0], fourBytes(i)), read(t, gb[1], fourBytes(i)); got != want {
			t.Fatalf("%x is %q, want %q", fourBytes(i), got, want)
		}
	}
}

// Any bytes become text, the same in one piece and byte by byte.
func TestEasternAnyBytes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for name, e := range easterns(t) {
		for range 2000 {
			in := make([]byte, rng.IntN(40))
			for i := range in {
				in[i] = byte(rng.Uint32())
				if rng.IntN(3) == 0 {
					in[i] = "~{}\x1b$B(DJI@\n\x8e\x8f0"[rng.IntN(15)]
				}
			}
			whole := read(t, e[0], in)
			if !utf8.ValidString(whole) {
				t.Fatalf("%s: %x is %q", name, in, whole)
			}
			parts, err := io.ReadAll(e[0].NewDecoder().Reader(iotest.OneByteReader(bytes.NewReader(in))))
			if err != nil || string(parts) != whole {
				t.Fatalf("%s: %x is %q, and %q byte by byte; %v", name, in, whole, parts, err)
			}
		}
	}
}

// What is written by others can be read.
func TestEasternTexts(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]string{
		"gb18030": "你好，世界！€ 𠮷 ½", "hz-gb-2312": "你好 ~ world\n再见", "big5": "你好，世界！", "euc-kr": "안녕하세요 세계 똠방각하",
		"shift_jis": "こんにちは、世界！ｱｲｳ ①", "euc-jp": "こんにちは、世界！ｱｲｳ 丂", "iso-2022-jp": "こんにちは、\n世界！ABC",
	} {
		e := easterns(t)[name]
		library, ok := e[1].(encoding.Encoding)
		if !ok {
			t.Fatal(name)
		}
		b, err := library.NewEncoder().Bytes([]byte(words))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := read(t, e[0], b); got != words {
			t.Errorf("%s: got %q, want %q", name, got, words)
		}
	}
}
