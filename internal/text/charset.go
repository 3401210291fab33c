package text

import (
	"compress/flate"
	_ "embed" // the tables
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Encoding is a way to write text as bytes that can be read.
type Encoding interface{ NewDecoder() *encoding.Decoder }

// Charset finds an encoding by a label of mails or web pages; nil and true is
// UTF-8. UTF-16 without an order of its bytes is read as browsers do, little end
// first.
func Charset(label string) (e Encoding, known bool) {
	label = strings.ToLower(strings.Trim(label, " \t\r\n\"'"))
	switch label {
	case "utf-8", "utf8", "unicode-1-1-utf-8":
		return nil, true
	case "ascii", "us-ascii", "iso-8859-1", "iso8859-1", "latin1", "l1", "windows-1252", "cp1252", "x-cp1252":
		return page(0), true
	case "gbk", "gb2312", "gb_2312-80", "gb18030", "x-gbk", "chinese", "euc-cn", "cp936":
		return reading(gb18030), true
	case "hz-gb-2312":
		return reading(hz), true
	case "big5", "big5-hkscs", "cn-big5", "x-x-big5", "cp950":
		return reading(big5), true
	case "shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j", "ms_kanji", "cp932", "ms932":
		return reading(shiftJIS), true
	case "euc-jp", "x-euc-jp":
		return reading(eucJP), true
	case "iso-2022-jp":
		return reading(iso2022JP), true
	case "euc-kr", "ks_c_5601-1987", "ksc5601", "korean", "windows-949", "cp949", "uhc":
		return reading(eucKR), true
	case "utf-16", "utf-16le":
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), true
	case "utf-16be":
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), true
	}
	e = singleByte(label)
	return e, e != nil
}

func singleByte(name string) Encoding {
	switch strings.ReplaceAll(strings.Replace(name, "iso8859", "iso-8859", 1), "cp125", "windows-125") {
	case "iso-8859-2", "latin2":
		return page(1)
	case "iso-8859-3":
		return page(2)
	case "iso-8859-4":
		return page(3)
	case "iso-8859-5":
		return page(4)
	case "iso-8859-6":
		return page(5)
	case "iso-8859-7":
		return page(6)
	case "iso-8859-8", "iso-8859-8-i":
		return page(7)
	case "iso-8859-9", "windows-1254", "latin5":
		return page(8)
	case "iso-8859-10":
		return page(9)
	case "iso-8859-13":
		return page(10)
	case "iso-8859-14":
		return page(11)
	case "iso-8859-15", "latin9":
		return page(12)
	case "iso-8859-16":
		return page(13)
	case "windows-1250":
		return page(14)
	case "windows-1251":
		return page(15)
	case "windows-1253":
		return page(16)
	case "windows-1255":
		return page(17)
	case "windows-1256":
		return page(18)
	case "windows-1257":
		return page(19)
	case "windows-1258":
		return page(20)
	case "windows-874", "cp874", "tis-620", "iso-8859-11":
		return page(21)
	case "koi8-r", "koi8":
		return page(22)
	case "koi8-u":
		return page(23)
	case "macintosh", "x-mac-roman":
		return page(24)
	case "ibm866", "cp866", "windows-866":
		return page(25)
	}
	return nil
}

// Old encodings are read here and not by golang.org/x/text, whose tables for
// both directions take more than half a megabyte of the binary: nobody writes
// them any more. The tables are made, and compared, by the tests.
//
//go:embed charset/pages.bin
var pagesData string

var pagesTable = sync.OnceValue(func() []rune { return unpack(pagesData) }) // 128 characters each

// page is an encoding of single bytes, by its place in the table.
func page(i int) Encoding {
	return reading(func(_ *int, b []byte) (r, mark rune, n int) {
		if b[0] < utf8.RuneSelf {
			return rune(b[0]), 0, 1
		}
		if r = pagesTable()[i*utf8.RuneSelf+int(b[0]-utf8.RuneSelf)]; r == 0 {
			r = utf8.RuneError
		}
		return r, 0, 1
	})
}

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

// reading is an encoding that can only be read. It reads the first character of
// some bytes and says how many of them it took; 0 is that they are too few. A
// mark may follow the character; nothing is -1, after a change of the mode.
type reading func(mode *int, b []byte) (r, mark rune, n int)

// NewDecoder implements Encoding.
func (e reading) NewDecoder() *encoding.Decoder {
	return &encoding.Decoder{Transformer: &decoder{next: e}}
}

type decoder struct {
	next reading
	mode int
}

func (d *decoder) Reset() { d.mode = 0 }

// Transform implements transform.Transformer.
func (d *decoder) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
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
