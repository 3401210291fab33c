package web

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/nanobot-go/nanobot/internal/base/text"
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

	enc, known := text.Charset(name)
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

			if _, known := text.Charset(name); known {
				return name
			}
			rest = after
		}
	}

	return ""
}
