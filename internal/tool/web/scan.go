package web

import (
	"strings"

	"golang.org/x/net/html/atom"
)

// tokenKind is what a piece of a page is.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota // the page is over, or breaks off inside a tag
	tokenText
	tokenStart
	tokenClosed // a start tag that ends itself: <br/>
	tokenStop   // an end tag
	tokenNone   // a comment, a declaration
)

// scanner cuts a page into text and tags where browsers do. It looks at each
// byte once and copies none: text and attributes are parts of the page.
type scanner struct {
	page string
	at   int
	raw  atom.Atom // the element whose content is text up to its end tag; 0 for none

	text string    // of the last token, if that is text
	tag  atom.Atom // of the last token, if that is a tag
	attr attributes
}

// next reads one token.
func (z *scanner) next() tokenKind {
	if z.raw != 0 {
		end := rawEnd(z.page, z.at, z.raw)
		z.raw = 0
		if end > z.at {
			return z.textTo(end)
		}
	}
	for i := z.at; ; i++ {
		n := strings.IndexByte(z.page[i:], '<')
		if n < 0 || i+n+1 >= len(z.page) {
			if z.at >= len(z.page) {
				return tokenEnd
			}
			return z.textTo(len(z.page))
		}
		i += n
		c := z.page[i+1]
		if !letter(c) && c != '/' && c != '!' && c != '?' {
			continue
		}
		if i > z.at {
			return z.textTo(i)
		}
		switch {
		case c == '/' && i+2 >= len(z.page):
			return z.textTo(len(z.page))
		case c == '/' && letter(z.page[i+2]):
			return z.readTag(i+2, tokenStop)
		case c == '!' && strings.HasPrefix(z.page[i+2:], "--"):
			z.at = commentEnd(z.page, i+4)
			return tokenNone
		case c == '/' || c == '!' || c == '?':
			z.at = after(z.page, i+2, '>')
			if c == '?' {
				z.at = after(z.page, i+1, '>')
			}
			return tokenNone
		}
		return z.readTag(i+1, tokenStart)
	}
}

func (z *scanner) textTo(end int) tokenKind {
	z.text, z.at = z.page[z.at:end], end
	return tokenText
}

// after is the place behind the next c, or the end.
func after(s string, from int, c byte) int {
	if n := strings.IndexByte(s[min(from, len(s)):], c); n >= 0 {
		return from + n + 1
	}
	return len(s)
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

func skipBlank(s string, i int) int {
	for i < len(s) && blank(s[i]) {
		i++
	}
	return i
}

// readTag reads a tag whose name starts at i. Attributes of end tags mean
// nothing but may hold the sign a tag ends with.
func (z *scanner) readTag(i int, kind tokenKind) tokenKind {
	s := z.page
	start := i
	for i < len(s) && s[i] != '>' && s[i] != '/' && !blank(s[i]) {
		i++
	}
	z.tag = tagOf(s[start:i])
	if kind == tokenStart {
		z.attr = attributes{}
		z.raw = holdsText(z.tag)
	}
	valueEnd := 0 // of the last value without quotes, which may end with a slash
	for {
		i = skipBlank(s, i)
		if i >= len(s) {
			z.at = len(s)
			return tokenEnd
		}
		if s[i] == '>' {
			z.at = i + 1
			if kind == tokenStart && s[i-1] == '/' && i > valueEnd {
				return tokenClosed
			}
			return kind
		}
		name := i
		if s[i] == '=' {
			i++ // a name may start with it
		}
		for i < len(s) && s[i] != '=' && s[i] != '>' && s[i] != '/' && !blank(s[i]) {
			i++
		}
		nameEnd := i
		i = skipBlank(s, i)
		value := ""
		if i < len(s) && s[i] == '/' {
			i++
		} else if i < len(s) && s[i] == '=' {
			value, i = attributeValue(s, skipBlank(s, i+1))
			if i > 0 && s[i-1] != '"' && s[i-1] != '\'' {
				valueEnd = i
			}
		}
		if kind == tokenStart {
			z.attr.set(s[name:nameEnd], value)
		}
	}
}

// attributeValue reads a value, quoted or not, and returns where it ends.
func attributeValue(s string, i int) (value string, end int) {
	if i >= len(s) || s[i] == '>' {
		return "", i
	}
	if quote := s[i]; quote == '"' || quote == '\'' {
		n := strings.IndexByte(s[i+1:], quote)
		if n < 0 {
			return s[i+1:], len(s)
		}
		return s[i+1 : i+1+n], i + n + 2
	}
	start := i
	for i < len(s) && s[i] != '>' && !blank(s[i]) {
		i++
	}
	return s[start:i], i
}

// holdsText returns the tag if tags mean nothing inside it.
func holdsText(tag atom.Atom) atom.Atom {
	switch tag {
	case atom.Iframe, atom.Noembed, atom.Noframes, atom.Plaintext, atom.Script, atom.Style, atom.Textarea, atom.Title, atom.Xmp:
		return tag
	}
	return 0
}

// rawEnd is where the end tag of an element that holds text begins.
func rawEnd(s string, i int, tag atom.Atom) int {
	switch tag {
	case atom.Plaintext:
		return len(s)
	case atom.Script:
		return scriptEnd(s, i)
	}
	name := tag.String()
	for i < len(s) {
		n := strings.Index(s[i:], "</")
		if n < 0 {
			break
		}
		i += n + 2
		if named(s[i:], name) {
			return i - 2
		}
	}
	return len(s)
}

// named says that s begins with the name of a tag, in any case.
func named(s, name string) bool {
	if len(s) <= len(name) || !strings.EqualFold(s[:len(name)], name) {
		return false
	}
	c := s[len(name)]
	return blank(c) || c == '/' || c == '>'
}

// scriptEnd is where the end tag of a script begins. A script may hold what
// looks like a comment, and in that a script of its own with its end tag.
func scriptEnd(s string, i int) int {
	const name = "script"
	escaped, inner, dashes := false, false, 0
	for ; i < len(s); i++ {
		if !escaped {
			n := strings.IndexByte(s[i:], '<')
			if n < 0 {
				break
			}
			i += n
			switch rest := s[i+1:]; {
			case strings.HasPrefix(rest, "/") && named(rest[1:], name):
				return i
			case strings.HasPrefix(rest, "!--"):
				i += 3
				escaped, inner, dashes = true, false, 2
			}
			continue
		}
		c := s[i]
		switch {
		case c == '-':
			dashes++
			continue
		case c == '>' && dashes >= 2:
			escaped = false
		case c == '<' && strings.HasPrefix(s[i+1:], "/"):
			switch ends := named(s[i+2:], name); {
			case ends && !inner:
				return i
			case ends:
				i += len("</script")
				inner = false
			}
		case c == '<' && !inner && i+1 < len(s) && letter(s[i+1]):
			inner = named(s[i+1:], name)
		case c == '<' && !inner:
			escaped = false
		}
		dashes = 0
	}
	return len(s)
}

// commentEnd is the place behind a comment whose content starts at i.
func commentEnd(s string, i int) int {
	for from := i; ; {
		n := strings.IndexByte(s[from:], '>')
		if n < 0 {
			return len(s)
		}
		body := s[i : from+n]
		from += n + 1
		if body == "" || body == "-" || strings.HasSuffix(body, "--") || strings.HasSuffix(body, "--!") {
			return from
		}
	}
}
