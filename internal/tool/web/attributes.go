package web

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

// attributes are those that matter.
type attributes struct {
	class, id, role, href, alt, style, name, content, start, width, height, ariaHidden string
	hidden, open                                                                       bool
}

// read takes the attributes out of a tag, from after its name. Of several with
// one name the first counts.
func (a *attributes) read(s string) {
	for s != "" {
		s = strings.TrimLeft(s, " \t\r\n\f/>")
		end := strings.IndexAny(s, " \t\r\n\f/>=")
		if end == 0 {
			end = 1 // a name may start with =
		}
		if end < 0 {
			end = len(s)
		}
		name := s[:end]
		s = strings.TrimLeft(s[end:], " \t\r\n\f")
		value := ""
		if strings.HasPrefix(s, "=") {
			s = strings.TrimLeft(s[1:], " \t\r\n\f")
			value, s = attributeValue(s)
		}
		a.set(name, value)
	}
}

// attributeValue splits off a value, quoted or not.
func attributeValue(s string) (value, rest string) {
	if s == "" {
		return "", ""
	}
	if s[0] == '"' || s[0] == '\'' {
		value, rest, _ = strings.Cut(s[1:], s[:1])
		return value, rest
	}
	if end := strings.IndexAny(s, " \t\r\n\f>"); end >= 0 {
		return s[:end], s[end:]
	}
	return s, ""
}

func (a *attributes) set(name, value string) {
	to := a.field(name)
	if to == nil || *to != "" {
		return
	}
	if strings.IndexByte(value, '&') >= 0 {
		value = html.UnescapeString(value)
	}
	*to = value
}

// field is where an attribute is kept; nil for one that does not matter.
func (a *attributes) field(name string) *string {
	if len(name) < 2 || len(name) > 11 {
		return nil
	}
	var lower [11]byte
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	switch string(lower[:len(name)]) {
	case "class":
		return &a.class
	case "id":
		return &a.id
	case "role":
		return &a.role
	case "href":
		return &a.href
	case "alt":
		return &a.alt
	case "style":
		return &a.style
	case "name", "property", "http-equiv":
		return &a.name
	case "content":
		return &a.content
	case "start":
		return &a.start
	case "width":
		return &a.width
	case "height":
		return &a.height
	case "aria-hidden":
		return &a.ariaHidden
	case "hidden":
		a.hidden = true
	case "open":
		a.open = true
	}
	return nil
}

// language finds the name of a programming language in the classes of code.
func language(class string) string {
	for c := range strings.FieldsSeq(class) {
		for _, prefix := range []string{"language-", "lang-", "highlight-source-", "brush:"} {
			if l, ok := strings.CutPrefix(c, prefix); ok && len(l) < 20 && !strings.ContainsFunc(l, func(r rune) bool {
				return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '+' && r != '-' && r != '#'
			}) {
				return l
			}
		}
	}
	return ""
}
