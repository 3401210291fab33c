package email

import (
	"testing"
	"unicode/utf8"
)

// Whatever is in a mail, taking it apart ends, and what comes out is text.
func FuzzContent(f *testing.F) {
	for _, s := range []string{
		"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html; charset=gb2312\r\n\r\n<blockquote><a href=x>\xc4\xe3</a>\r\n--b--",
		"Content-Type: text/plain; charset=iso-2022-jp\r\nContent-Transfer-Encoding: base64\r\n\r\nGyRCJDMkcxsoQg==",
		"Content-Disposition: attachment; filename*=utf-8''%e2%82%ac.txt\r\n\r\nx",
		"Subject: x\r\n\r\nOn Monday A\r\n<b> wrote:\r\n> a\r\n-- \r\nme",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := readContent(data)
		s := c.text()
		if got := ownWords(s); !utf8.ValidString(got) || len(got) > len(s) {
			t.Errorf("own words %q of %q", got, s)
		}
		forwarded("x", s)
	})
}
