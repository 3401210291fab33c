package email

import (
	"fmt"
	"io"
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

	"github.com/nanobot-go/nanobot/internal/text"
)

// codepage is the encoding that mails call by a name; nil is UTF-8 or unknown.
func codepage(name string) encoding.Encoding {
	name = strings.ToLower(strings.Trim(name, " \"'"))
	switch name {
	case "iso-8859-1", "latin1", "windows-1252", "cp1252", "iso8859-1":
		return charmap.Windows1252
	case "gb2312", "gbk", "gb18030", "cp936", "x-gbk", "euc-cn", "hz-gb-2312":
		if name == "hz-gb-2312" {
			return simplifiedchinese.HZGB2312
		}
		return simplifiedchinese.GB18030
	case "big5", "big5-hkscs", "cp950":
		return traditionalchinese.Big5
	case "iso-2022-jp":
		return japanese.ISO2022JP
	case "shift_jis", "shift-jis", "sjis", "cp932", "windows-31j", "ms_kanji":
		return japanese.ShiftJIS
	case "euc-jp":
		return japanese.EUCJP
	case "euc-kr", "ks_c_5601-1987", "cp949", "uhc":
		return korean.EUCKR
	case "koi8-r":
		return charmap.KOI8R
	case "koi8-u":
		return charmap.KOI8U
	case "utf-16":
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	case "utf-16le":
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case "utf-16be":
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	return numbered(name)
}

// numbered are the families of encodings with one byte per character.
func numbered(name string) encoding.Encoding {
	if n, ok := strings.CutPrefix(name, "iso-8859-"); ok {
		parts := map[string]encoding.Encoding{
			"2": charmap.ISO8859_2, "3": charmap.ISO8859_3, "4": charmap.ISO8859_4, "5": charmap.ISO8859_5, "6": charmap.ISO8859_6,
			"7": charmap.ISO8859_7, "8": charmap.ISO8859_8, "8-i": charmap.ISO8859_8, "9": charmap.Windows1254, "10": charmap.ISO8859_10,
			"11": charmap.Windows874, "13": charmap.ISO8859_13, "14": charmap.ISO8859_14, "15": charmap.ISO8859_15, "16": charmap.ISO8859_16,
		}
		return parts[n]
	}
	n, ok := strings.CutPrefix(name, "windows-")
	if !ok {
		n, ok = strings.CutPrefix(name, "cp")
	}
	if !ok {
		return nil
	}
	pages := map[string]encoding.Encoding{
		"874": charmap.Windows874, "1250": charmap.Windows1250, "1251": charmap.Windows1251, "1253": charmap.Windows1253, "1254": charmap.Windows1254,
		"1255": charmap.Windows1255, "1256": charmap.Windows1256, "1257": charmap.Windows1257, "1258": charmap.Windows1258, "866": charmap.CodePage866,
	}
	return pages[n]
}

// toUTF8 reads bytes as the encoding says. Mails that lie about it are common:
// what is valid UTF-8 already stays, and what cannot be read is marked.
func toUTF8(data []byte, name string) string {
	lower := strings.ToLower(name)
	if utf8.Valid(data) && !strings.HasPrefix(lower, "iso-2022") && !strings.HasPrefix(lower, "utf-16") && !strings.HasPrefix(lower, "hz") {
		return string(data)
	}
	e := codepage(name)
	if e == nil {
		e = charmap.Windows1252
		if strings.Contains(lower, "utf-8") {
			return text.Valid(string(data))
		}
	}
	out, err := e.NewDecoder().Bytes(data)
	if err != nil {
		return text.Valid(string(data))
	}
	return text.Valid(string(out))
}

// wordDecoder reads encoded words of headers.
func wordDecoder() *mime.WordDecoder {
	return &mime.WordDecoder{CharsetReader: func(name string, r io.Reader) (io.Reader, error) {
		e := codepage(name)
		if e == nil {
			return nil, fmt.Errorf("unknown encoding %q", name)
		}
		return e.NewDecoder().Reader(r), nil
	}}
}
