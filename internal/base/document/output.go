package document

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// errFull ends reading when no more text fits.
var errFull = errors.New("enough text")

// output collects text under headers, up to a number of characters.
type output struct {
	b    strings.Builder
	left int
	head string // of the section, until something is written below it
	open bool   // something was written in this section
}

// section starts a new part. Parts without text leave no trace.
func (o *output) section(head string) { o.head, o.open = head, false }

// write adds a piece of text, separated by sep from what came before in its
// section. It returns errFull when the text had to be cut.
func (o *output) write(sep, s string) error {
	s = clean(s)
	if strings.TrimSpace(s) == "" {
		return nil
	}

	lead := sep
	if !o.open {
		lead = ""
		if o.b.Len() > 0 {
			lead = "\n\n"
		}
		if o.head != "" {
			lead += o.head + "\n"
		}
	}

	n := utf8.RuneCountInString(lead)
	if n >= o.left {
		o.left = 0
		return errFull
	}

	o.b.WriteString(lead)
	o.left -= n
	o.head, o.open = "", true

	if n = utf8.RuneCountInString(s); n > o.left {
		o.b.WriteString(firstRunes(s, o.left))
		o.left = 0
		return errFull
	}

	o.b.WriteString(s)
	o.left -= n
	return nil
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// clean makes a piece of text one that can be shown: valid, without control
// characters, without space at the ends of lines. Other invisible characters
// stay, other than with text.Clean: it is the document's own text, and the
// tool that shows it spells it out.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r' || r == '\v' || r == '\f' || r == 0x85 || r == 0x2028 || r == 0x2029:
			return '\n'
		case r < 0x20 || r >= 0x7F && r < 0xA0 || r == 0xFEFF || r == 0xFFFE || r == 0xFFFF:
			return -1
		}
		return r
	}, s)
	if !strings.Contains(s, " \n") && !strings.HasSuffix(s, " ") && !strings.HasSuffix(s, "\n") && !strings.HasPrefix(s, "\n") {
		return s
	}

	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}
