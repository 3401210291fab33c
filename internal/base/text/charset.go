package text

import (
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

// Charset finds an encoding by a label of mails or web pages; nil and true is
// UTF-8. UTF-16 without an order of its bytes is read as browsers do, little end
// first.
func Charset(label string) (e encoding.Encoding, known bool) {
	label = strings.ToLower(strings.Trim(label, " \t\r\n\"'"))
	switch label {
	case "utf-8", "utf8", "unicode-1-1-utf-8":
		return nil, true
	case "ascii", "us-ascii", "iso-8859-1", "iso8859-1", "latin1", "l1", "windows-1252", "cp1252", "x-cp1252":
		return charmap.Windows1252, true
	case "gbk", "gb2312", "gb_2312-80", "gb18030", "x-gbk", "chinese", "euc-cn", "cp936":
		return simplifiedchinese.GB18030, true
	case "hz-gb-2312":
		return simplifiedchinese.HZGB2312, true
	case "big5", "big5-hkscs", "cn-big5", "x-x-big5", "cp950":
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

	e = singleByte(label)
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
	case "iso-8859-8", "iso-8859-8-i":
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
	case "windows-874", "cp874", "tis-620", "iso-8859-11":
		return charmap.Windows874
	case "koi8-r", "koi8":
		return charmap.KOI8R
	case "koi8-u":
		return charmap.KOI8U
	case "macintosh", "x-mac-roman":
		return charmap.Macintosh
	case "ibm866", "cp866", "windows-866":
		return charmap.CodePage866
	}
	return nil
}
