package web

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

// toUTF8 decodes text by its byte order mark, the charset of the header, the
// one the page names itself, or by looking at it.
func toUTF8(data []byte, contentType string) []byte {
	if rest, ok := bytes.CutPrefix(data, []byte("\xef\xbb\xbf")); ok {
		return bytes.ToValidUTF8(rest, []byte("\uFFFD"))
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return decode(data, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM))
	}
	_, params, _ := mime.ParseMediaType(contentType)
	name := params["charset"]
	if name == "" {
		name = declared(data)
	}
	enc, known := charset(name)
	switch {
	case known && enc != nil:
		return decode(data, enc)
	case utf8.Valid(data):
		return data
	case known || utf8.Valid(wholeRunes(data[:min(len(data), 4096)])): // UTF-8 with some damage
		return bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	return decode(data, charmap.Windows1252)
}

func decode(data []byte, e encoding.Encoding) []byte {
	out, err := e.NewDecoder().Bytes(data)
	if err != nil {
		return bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	return out
}

// wholeRunes leaves out a character that is cut off at the end.
func wholeRunes(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

// declared finds the charset that a page names in a <meta> tag or in the XML
// declaration, which must stand near its beginning.
func declared(data []byte) string {
	head := bytes.ToLower(data[:min(len(data), 4096)])
	for _, mark := range []string{"charset=", "encoding="} {
		rest := head
		for {
			_, after, found := bytes.Cut(rest, []byte(mark))
			if !found {
				break
			}
			name := strings.Trim(string(after[:min(len(after), 40)]), " \t\"'")
			if end := strings.IndexAny(name, " \t\r\n\"'>/;?"); end >= 0 {
				name = name[:end]
			}
			if _, known := charset(name); known {
				return name
			}
			rest = after
		}
	}
	return ""
}

// charset finds an encoding by its label; nil and true is UTF-8.
func charset(name string) (encoding.Encoding, bool) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "utf-8", "utf8", "unicode-1-1-utf-8":
		return nil, true
	case "ascii", "us-ascii", "iso-8859-1", "iso8859-1", "latin1", "l1", "windows-1252", "cp1252", "x-cp1252":
		return charmap.Windows1252, true
	case "gbk", "gb2312", "gb_2312-80", "gb18030", "x-gbk", "chinese", "euc-cn":
		return simplifiedchinese.GB18030, true
	case "hz-gb-2312":
		return simplifiedchinese.HZGB2312, true
	case "big5", "big5-hkscs", "cn-big5", "x-x-big5":
		return traditionalchinese.Big5, true
	case "shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j", "ms_kanji", "cp932", "ms932":
		return japanese.ShiftJIS, true
	case "euc-jp", "x-euc-jp":
		return japanese.EUCJP, true
	case "iso-2022-jp":
		return japanese.ISO2022JP, true
	case "euc-kr", "ks_c_5601-1987", "ksc5601", "korean", "windows-949", "cp949", "uhc":
		return korean.EUCKR, true
	case "utf-16", "utf-16le":
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), true
	case "utf-16be":
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), true
	}
	e := singleByte(strings.ToLower(strings.TrimSpace(name)))
	return e, e != nil
}

func singleByte(name string) encoding.Encoding {
	switch strings.ReplaceAll(strings.Replace(name, "iso8859", "iso-8859", 1), "cp125", "windows-125") {
	case "iso-8859-2", "latin2":
		return charmap.ISO8859_2
	case "iso-8859-3":
		return charmap.ISO8859_3
	case "iso-8859-4":
		return charmap.ISO8859_4
	case "iso-8859-5":
		return charmap.ISO8859_5
	case "iso-8859-6":
		return charmap.ISO8859_6
	case "iso-8859-7":
		return charmap.ISO8859_7
	case "iso-8859-8":
		return charmap.ISO8859_8
	case "iso-8859-9", "windows-1254", "latin5":
		return charmap.Windows1254
	case "iso-8859-10":
		return charmap.ISO8859_10
	case "iso-8859-13":
		return charmap.ISO8859_13
	case "iso-8859-14":
		return charmap.ISO8859_14
	case "iso-8859-15", "latin9":
		return charmap.ISO8859_15
	case "iso-8859-16":
		return charmap.ISO8859_16
	case "windows-1250":
		return charmap.Windows1250
	case "windows-1251":
		return charmap.Windows1251
	case "windows-1253":
		return charmap.Windows1253
	case "windows-1255":
		return charmap.Windows1255
	case "windows-1256":
		return charmap.Windows1256
	case "windows-1257":
		return charmap.Windows1257
	case "windows-1258":
		return charmap.Windows1258
	case "windows-874", "tis-620":
		return charmap.Windows874
	case "koi8-r", "koi8":
		return charmap.KOI8R
	case "koi8-u":
		return charmap.KOI8U
	case "macintosh", "x-mac-roman":
		return charmap.Macintosh
	case "ibm866", "cp866":
		return charmap.CodePage866
	}
	return nil
}
