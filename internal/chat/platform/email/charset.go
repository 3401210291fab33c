package email

import (
	"fmt"
	"io"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// codepage returns the encoding that mails call by a name; nil is UTF-8 or unknown.
func codepage(name string) encoding.Encoding {
	if strings.EqualFold(strings.Trim(name, " \"'"), "utf-16") { // as the standard has it
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	}
	e, _ := text.Charset(name)
	return e
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
