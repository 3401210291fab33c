package files

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding is how a file's bytes become text.
type encoding int

const (
	utf8Text encoding = iota
	utf16LE
	utf16BE
	latin1
	notText
)

// sniff decides the encoding by the first bytes of a file. whole says that head
// is all of it. Latin-1 cannot be told from noise, so only files whose name
// promises text are taken for it.
func sniff(head []byte, whole bool, name string) encoding {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return utf16LE
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return utf16BE
	case bytes.IndexByte(head, 0) >= 0:
		return notText
	case validUTF8(head, whole):
		return utf8Text
	case textExtension(name):
		return latin1
	}
	return notText
}

// validUTF8 forgives a character cut at the end of a partial head.
func validUTF8(head []byte, whole bool) bool {
	if !whole {
		for i := range min(utf8.UTFMax, len(head)) {
			if b := head[len(head)-1-i]; utf8.RuneStart(b) {
				if !utf8.FullRune(head[len(head)-1-i:]) {
					head = head[:len(head)-1-i]
				}
				break
			}
		}
	}
	return utf8.Valid(head)
}

func textExtension(name string) bool {
	switch strings.ToLower(extension(name)) {
	case ".txt", ".md", ".csv", ".tsv", ".json", ".xml", ".html", ".htm", ".log", ".yaml", ".yml", ".toml", ".ini", ".cfg",
		".conf", ".srt", ".tex", ".sql", ".bat", ".properties":
		return true
	}
	return false
}

func extension(name string) string {
	if i := strings.LastIndexAny(name, `./\`); i >= 0 && name[i] == '.' {
		return name[i:]
	}
	return ""
}

// decoder turns a file's bytes into UTF-8 as they are read, without the byte order mark.
func decoder(r *bufio.Reader, enc encoding) io.Reader {
	switch enc {
	case utf16LE, utf16BE:
		_, _ = r.Discard(2)
		return &utf16Reader{r: r, big: enc == utf16BE}
	case latin1:
		return &latin1Reader{r: r}
	default:
		if head, _ := r.Peek(3); bytes.Equal(head, []byte("\xef\xbb\xbf")) {
			_, _ = r.Discard(3)
		}
		return r
	}
}

type latin1Reader struct{ r *bufio.Reader }

func (l *latin1Reader) Read(p []byte) (int, error) {
	n := 0
	for n+2 <= len(p) {
		b, err := l.r.ReadByte()
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		n += utf8.EncodeRune(p[n:n+2], rune(b))
	}

	return n, nil
}

type utf16Reader struct {
	r   *bufio.Reader
	big bool
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	n := 0
	for n+utf8.UTFMax <= len(p) {
		r, err := u.rune()
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		n += utf8.EncodeRune(p[n:n+utf8.UTFMax], r)
	}

	return n, nil
}

func (u *utf16Reader) unit(b []byte) rune {
	if u.big {
		return rune(b[0])<<8 | rune(b[1])
	}
	return rune(b[1])<<8 | rune(b[0])
}

func (u *utf16Reader) rune() (rune, error) {
	b, err := u.r.Peek(2)
	if len(b) < 2 {
		_, _ = u.r.Discard(len(b))
		return 0, err
	}

	first := u.unit(b)
	if utf16.IsSurrogate(first) {
		if b, _ = u.r.Peek(4); len(b) == 4 {
			if r := utf16.DecodeRune(first, u.unit(b[2:])); r != utf8.RuneError {
				_, _ = u.r.Discard(4)
				return r, nil
			}
		}
		first = utf8.RuneError
	}

	_, _ = u.r.Discard(2)
	return first, nil
}

// decodeAll is decoder for content already in memory.
func decodeAll(data []byte, enc encoding) []byte {
	if enc == utf8Text {
		return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	}
	out, _ := io.ReadAll(decoder(bufio.NewReader(bytes.NewReader(data)), enc))
	return out
}

// visible spells out characters that a reader cannot see but that change how
// text is read: bidirectional controls, zero-width characters, tags and
// terminal controls. Joiners between non-Latin letters or emoji are left alone.
// It reports whether anything was changed.
//
// The rule is not that of text.Reveal: the model reads lines here that it sends
// back to be found in the file, so letters, spaces and joiners of ordinary texts
// must stay as they are, and the result of the tool explains the notation.
func visible(s string) (string, bool) {
	if !needsEscape(s) {
		return s, false
	}

	var b strings.Builder
	changed := false
	prev := rune(0)
	for i, r := range s {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(s[i:])
		}

		next, _ := utf8.DecodeRuneInString(s[i+size:])
		if invisible(r) && !joins(r, prev, next) {
			fmt.Fprintf(&b, "<U+%04X>", r)
			changed = true
		} else {
			b.WriteRune(r)
		}

		prev = r
	}

	return b.String(), changed
}

// joins reports whether r is a joiner where one belongs: between letters of a
// script that uses them, or between emoji.
func joins(r, prev, next rune) bool {
	return (r == 0x200C || r == 0x200D) && prev >= 0x600 && next >= 0x600 && next != utf8.RuneError
}

func needsEscape(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 && c != '\t' || c == 0x7F || c == 0xC2 || c == 0xE2 || c == 0xEF || c == 0xF3 {
			return true
		}
	}
	return !utf8.ValidString(s)
}

func invisible(r rune) bool {
	switch {
	case r < 0x20:
		return r != '\t'
	case r >= 0x7F && r <= 0x9F, r == 0xAD, r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E,
		r >= 0x2028 && r <= 0x2029, r >= 0x2060 && r <= 0x2069, r == 0xFEFF, r >= 0xE0000 && r <= 0xE007F:
		return true
	}
	return false
}

// printable makes a file name safe for one line of output.
func printable(name string) string {
	s, _ := visible(strings.ToValidUTF8(name, "\uFFFD"))
	return s
}

// unescape reverses visible in text the model gives back.
func unescape(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "<U+")
		if i < 0 {
			break
		}

		end := strings.IndexByte(s[i:], '>')
		var r rune
		if end < 7 || end > 9 {
			b.WriteString(s[:i+3])
			s = s[i+3:]
			continue
		}

		if _, err := fmt.Sscanf(s[i+3:i+end], "%X", &r); err != nil || !invisible(r) {
			b.WriteString(s[:i+3])
			s = s[i+3:]
			continue
		}

		b.WriteString(s[:i])
		b.WriteRune(r)
		s = s[i+end+1:]
	}

	b.WriteString(s)
	return b.String()
}
