package text

import (
	"bytes"
	"compress/flate"
	_ "embed" // the tables
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
)

// The encodings of East Asia are read here and not by golang.org/x/text, whose
// tables for both directions take half a megabyte of the binary: nobody writes
// them any more. The tables are made, and compared, by the tests.
var (
	//go:embed eastern/gbk.bin
	gbkData string
	//go:embed eastern/gb18030.bin
	gb18030Data string
	//go:embed eastern/big5.bin
	big5Data string
	//go:embed eastern/euckr.bin
	euckrData string
	//go:embed eastern/jis0208.bin
	jis0208Data string
	//go:embed eastern/jis0212.bin
	jis0212Data string

	gbkTable     = sync.OnceValue(func() []rune { return unpack(gbkData) })     // by lead and trail
	gb18030Table = sync.OnceValue(func() []rune { return unpack(gb18030Data) }) // by number
	big5Table    = sync.OnceValue(func() []rune { return unpack(big5Data) })    // by lead and trail
	euckrTable   = sync.OnceValue(func() []rune { return unpack(euckrData) })   // by lead and trail
	jis0208Table = sync.OnceValue(func() []rune { return unpack(jis0208Data) }) // by row and cell
	jis0212Table = sync.OnceValue(func() []rune { return unpack(jis0212Data) }) // by row and cell
)

// unpack reads a table: for each character the low byte of its difference to
// the one before, then the next byte of all these, then the plane of each
// character. Zero is no character.
func unpack(packed string) []rune {
	b, _ := io.ReadAll(flate.NewReader(strings.NewReader(packed))) // a part of the program
	n := len(b) / 3
	table, last := make([]rune, n), uint16(0)
	for i := range table {
		last += uint16(b[i]) | uint16(b[n+i])<<8
		table[i] = rune(b[2*n+i])<<16 | rune(last)
	}
	return table
}

// eastern is an encoding that can be read. next reads the first character of
// some bytes and says how many of them it took; 0 is that they are too few. A
// mark may follow the character; nothing is -1, after a change of the mode.
type eastern func(mode *int, b []byte) (r, mark rune, n int)

// NewDecoder implements Encoding.
func (e eastern) NewDecoder() *encoding.Decoder {
	return &encoding.Decoder{Transformer: &easternDecoder{next: e}}
}

type easternDecoder struct {
	next eastern
	mode int
}

func (d *easternDecoder) Reset() { d.mode = 0 }

// Transform implements transform.Transformer.
func (d *easternDecoder) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	for nSrc < len(src) {
		r, mark, n := d.next(&d.mode, src[nSrc:])
		if n == 0 {
			if !atEOF {
				return nDst, nSrc, transform.ErrShortSrc
			}
			r, n = utf8.RuneError, 1
		}
		if r >= 0 {
			if len(dst)-nDst < utf8.RuneLen(r)+utf8.RuneLen(mark) {
				return nDst, nSrc, transform.ErrShortDst
			}
			nDst += utf8.EncodeRune(dst[nDst:], r)
		}
		if mark > 0 {
			nDst += utf8.EncodeRune(dst[nDst:], mark)
		}
		nSrc += n
	}
	return nDst, nSrc, nil
}

// trails is how many second bytes the tables by lead and trail have: from 0x40
// to 0xFE, for leads from 0x81 on.
const trails = 0xFF - 0x40

// pair reads ASCII or two bytes.
func pair(table func() []rune, b []byte) (rune, int) {
	switch lead := b[0]; {
	case lead < utf8.RuneSelf:
		return rune(lead), 1
	case lead == 0x80 || lead == 0xFF:
		return utf8.RuneError, 1
	case len(b) < 2:
		return 0, 0
	case b[1] < 0x40 || b[1] == 0xFF:
		return broken(b[1])
	default:
		return found(table(), int(lead-0x81)*trails+int(b[1]-0x40), b[1])
	}
}

// found looks a character of two bytes up.
func found(table []rune, i int, second byte) (rune, int) {
	if i < len(table) && table[i] != 0 {
		return table[i], 2
	}
	return broken(second)
}

// broken is a character that does not exist. An ASCII byte is no part of it.
func broken(second byte) (rune, int) {
	if second < utf8.RuneSelf {
		return utf8.RuneError, 1
	}
	return utf8.RuneError, 2
}

func eucKR(_ *int, b []byte) (r, mark rune, n int) {
	r, n = pair(euckrTable, b)
	return r, 0, n
}

func big5(_ *int, b []byte) (r, mark rune, n int) {
	if len(b) > 1 && b[0] == 0x88 {
		switch b[1] { // two code points each
		case 0x62:
			return 'Ê', 0x304, 2
		case 0x64:
			return 'Ê', 0x30C, 2
		case 0xA3:
			return 'ê', 0x304, 2
		case 0xA5:
			return 'ê', 0x30C, 2
		}
	}
	r, n = pair(big5Table, b)
	return r, 0, n
}

// gb18030 reads GBK, too.
func gb18030(_ *int, b []byte) (r, mark rune, n int) {
	switch {
	case b[0] == 0x80:
		return '€', 0, 1
	case b[0] > 0x80 && b[0] < 0xFF && len(b) > 1 && b[1] >= '0' && b[1] <= '9':
		if len(b) < 4 {
			return 0, 0, 0
		}
		if b[2] < 0x81 || b[2] == 0xFF || b[3] < '0' || b[3] > '9' {
			return utf8.RuneError, 0, 1
		}
		i := ((rune(b[0]-0x81)*10+rune(b[1]-'0'))*126+rune(b[2]-0x81))*10 + rune(b[3]-'0')
		const planes = 189_000 // the number of U+10000
		switch table := gb18030Table(); {
		case int(i) < len(table) && table[i] != 0:
			return table[i], 0, 4
		case int(i) < len(table): // U+FFFD itself
			return utf8.RuneError, 0, 4
		case i >= planes && i-planes+0x10000 <= utf8.MaxRune:
			return i - planes + 0x10000, 0, 4
		}
		return utf8.RuneError, 0, 1
	}
	r, n = pair(gbkTable, b)
	return r, 0, n
}

// hz reads HZ-GB-2312, where ~{ and ~} surround two bytes of seven bits each.
func hz(mode *int, b []byte) (r, mark rune, n int) {
	switch c := b[0]; {
	case c >= utf8.RuneSelf:
		return utf8.RuneError, 0, 1
	case c != '~' && *mode == 0:
		return rune(c), 0, 1
	case len(b) < 2:
		return 0, 0, 0
	case c != '~':
		if r, n := pair(gbkTable, []byte{c | 0x80, b[1] | 0x80}); c > 0x20 && b[1] > 0x20 && b[1] < 0x7F && n == 2 {
			return r, 0, 2
		}
		return utf8.RuneError, 0, 2
	}
	switch b[1] {
	case '~':
		return '~', 0, 2
	case '{':
		*mode = 1
	case '}':
		*mode = 0
	case '\n':
	default:
		return utf8.RuneError, 0, 2
	}
	return -1, 0, 2
}

const (
	kana      = 0xFF61 // the first of the narrow characters
	cells     = 94     // in a row of JIS
	firstByte = 0xA1   // of a row or a cell in EUC
)

func shiftJIS(_ *int, b []byte) (r, mark rune, n int) {
	c := b[0]
	switch {
	case c <= 0x80:
		return rune(c), 0, 1
	case c >= 0xA1 && c <= 0xDF:
		return kana + rune(c-0xA1), 0, 1
	case c == 0xA0 || c > 0xFC:
		return utf8.RuneError, 0, 1
	case len(b) < 2:
		return 0, 0, 0
	case b[1] < 0x40 || b[1] == 0x7F || b[1] > 0xFC:
		r, n = broken(b[1])
		return r, 0, n
	}
	lead, trail := int(c)-0x81, int(b[1])-0x40
	if c >= 0xE0 {
		lead -= 0xE0 - 0xA0
	}
	if b[1] > 0x7F {
		trail--
	}
	r, n = found(jis0208Table(), lead*2*cells+trail, b[1])
	return r, 0, n
}

func eucJP(_ *int, b []byte) (r, mark rune, n int) {
	c := b[0]
	switch {
	case c < utf8.RuneSelf:
		return rune(c), 0, 1
	case c != 0x8E && c != 0x8F && (c < firstByte || c == 0xFF):
		return utf8.RuneError, 0, 1
	case len(b) < 2:
		return 0, 0, 0
	case b[1] < firstByte || b[1] == 0xFF || c == 0x8E && b[1] > 0xDF:
		r, n = broken(b[1])
		return r, 0, n
	case c == 0x8E:
		return kana + rune(b[1]-firstByte), 0, 2
	case c != 0x8F:
		r, n = found(jis0208Table(), int(c-firstByte)*cells+int(b[1]-firstByte), b[1])
		return r, 0, n
	case len(b) < 3:
		return 0, 0, 0
	case b[2] < firstByte || b[2] == 0xFF:
		r, n = broken(b[2])
		return r, 0, n + 1
	}
	r, n = found(jis0212Table(), int(b[1]-firstByte)*cells+int(b[2]-firstByte), b[2])
	return r, 0, n + 1
}

// Modes of ISO-2022-JP; ASCII is 0.
const (
	narrow = 1 + iota
	rows0208
	rows0212
)

func iso2022JP(mode *int, b []byte) (r, mark rune, n int) {
	c := b[0]
	switch {
	case c == 0x1B:
		for _, e := range []struct {
			text string
			mode int
		}{{"\x1b$@", rows0208}, {"\x1b$B", rows0208}, {"\x1b$(D", rows0212}, {"\x1b(B", 0}, {"\x1b(J", 0}, {"\x1b(I", narrow}} {
			if bytes.HasPrefix(b, []byte(e.text)) {
				*mode = e.mode
				return -1, 0, len(e.text)
			}
			if strings.HasPrefix(e.text, string(b)) {
				return 0, 0, 0
			}
		}
		return utf8.RuneError, 0, 1
	case c >= utf8.RuneSelf:
		return utf8.RuneError, 0, 1
	case c == '\n' && *mode != narrow:
		*mode = 0
		return '\n', 0, 1
	case *mode == 0:
		return rune(c), 0, 1
	case *mode == narrow && c > 0x20 && c < 0x60:
		return kana + rune(c-0x21), 0, 1
	case *mode == narrow:
		return utf8.RuneError, 0, 1
	case len(b) < 2:
		return 0, 0, 0
	case c < 0x21 || c == 0x7F || b[1] < 0x21 || b[1] >= 0x7F:
		return utf8.RuneError, 0, 2
	}
	table := jis0208Table()
	if *mode == rows0212 {
		table = jis0212Table()
	}
	r, n = found(table, int(c-0x21)*cells+int(b[1]-0x21), 0xFF)
	return r, 0, n
}
