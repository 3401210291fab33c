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
	given                                                                              uint16 // which ones the tag has
}

// set keeps an attribute that matters. Of several with one name the first
// counts.
func (a *attributes) set(name, value string) {
	to, place := a.field(name)
	if to == nil || a.given&(1<<place) != 0 {
		return
	}
	a.given |= 1 << place
	if *to != "" {
		return // two names share the field
	}
	if strings.IndexByte(value, '&') >= 0 {
		value = html.UnescapeString(value)
	}
	*to = value
}

// field is where an attribute is kept and its place in given; nil for one that
// does not matter.
func (a *attributes) field(name string) (to *string, place uint8) {
	if len(name) < 2 || len(name) > 11 {
		return nil, 0
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
		return &a.class, 0
	case "id":
		return &a.id, 1
	case "role":
		return &a.role, 2
	case "href":
		return &a.href, 3
	case "alt":
		return &a.alt, 4
	case "style":
		return &a.style, 5
	case "name":
		return &a.name, 6
	case "property":
		return &a.name, 7
	case "http-equiv":
		return &a.name, 8
	case "content":
		return &a.content, 9
	case "start":
		return &a.start, 10
	case "width":
		return &a.width, 11
	case "height":
		return &a.height, 12
	case "aria-hidden":
		return &a.ariaHidden, 13
	case "hidden":
		a.hidden = true
	case "open":
		a.open = true
	}
	return nil, 0
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
