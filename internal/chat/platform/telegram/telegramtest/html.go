package telegramtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Units is the length of a text as Telegram counts it.
func Units(s string) int { return len(utf16.Encode([]rune(s))) }

// PlainOfHTML reads the HTML that Telegram understands and returns what people
// see. Everything else is an error, as it is there.
func PlainOfHTML(s string) (string, error) {
	plain, _, err := readHTML(s)
	return plain, err
}

// entity is markup of a text: where it is, in UTF-16 units, and what it means.
type entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
	URL    string `json:"url,omitempty"`
}

// entityOf is the kind of a tag.
func entityOf(body string) entity {
	name, attrs, _ := strings.Cut(body, " ")
	kind := map[string]string{
		"b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "ins": "underline", "s": "strikethrough",
		"strike": "strikethrough", "del": "strikethrough", "tg-spoiler": "spoiler", "a": "text_link",
	}[name]
	e := entity{Type: kind}
	switch {
	case name == "a":
		e.URL, _ = PlainOfHTML(strings.TrimSuffix(strings.TrimPrefix(attrs, `href="`), `"`))
	case name == "blockquote" && attrs == "expandable":
		e.Type = "expandable_blockquote"
	case kind == "":
		e.Type = name
	}

	return e
}

// readHTML is PlainOfHTML with the markup.
func readHTML(s string) (string, []entity, error) {
	if !utf8.ValidString(s) {
		return "", nil, errors.New("strings must be encoded in UTF-8")
	}

	var out strings.Builder
	var open []string
	var begun []entity // of the open tags
	var list []entity
	for i := 0; i < len(s); {
		switch s[i] {
		case '<':
			end := strings.IndexByte(s[i:], '>')
			if end < 0 {
				return "", nil, fmt.Errorf("unclosed start tag at byte offset %d", i)
			}

			body, before, here := s[i+1:i+end], len(open), Units(out.String())
			var err error
			if open, err = tag(body, open, i); err != nil {
				return "", nil, err
			}

			if len(open) > before {
				e := entityOf(body)
				e.Offset = here
				begun = append(begun, e)
			} else {
				e := begun[len(begun)-1]
				begun = begun[:len(begun)-1]
				if e.Length = here - e.Offset; e.Length > 0 {
					list = append(list, e)
				}
			}

			i += end + 1

		case '&':
			r, n := character(s[i:])
			out.WriteString(r)
			i += n
		default:
			out.WriteByte(s[i])
			i++
		}
	}

	if len(open) > 0 {
		return "", nil, fmt.Errorf("can't find end tag corresponding to start tag %q", open[len(open)-1])
	}

	slices.SortStableFunc(list, func(a, b entity) int { return cmp.Compare(a.Offset, b.Offset) })
	return out.String(), list, nil
}

// tag keeps the stack of open tags.
func tag(body string, open []string, at int) ([]string, error) {
	if name, ok := strings.CutPrefix(body, "/"); ok {
		if len(open) == 0 || open[len(open)-1] != name {
			return nil, fmt.Errorf("unmatched end tag at byte offset %d, found %q", at, name)
		}
		return open[:len(open)-1], nil
	}

	name, attrs, _ := strings.Cut(body, " ")
	good := attrs == ""
	switch name {
	case "b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "tg-spoiler", "pre":
	case "code":
		good = good || strings.HasPrefix(attrs, `class="language-`) && strings.HasSuffix(attrs, `"`) && strings.Count(attrs, `"`) == 2
	case "blockquote":
		good = good || attrs == "expandable"
		if slices.Contains(open, name) {
			return nil, fmt.Errorf("blockquote at byte offset %d is nested", at)
		}

	case "a":
		good = strings.HasPrefix(attrs, `href="`) && strings.HasSuffix(attrs, `"`) && strings.Count(attrs, `"`) == 2
	default:
		return nil, fmt.Errorf("unsupported start tag %q at byte offset %d", name, at)
	}

	if !good {
		return nil, fmt.Errorf("unexpected attributes of tag %q at byte offset %d", name, at)
	}

	for _, o := range open {
		if (o == "code" || o == "pre") && (o != "pre" || name != "code") {
			return nil, fmt.Errorf("tag %q inside of %q at byte offset %d", name, o, at)
		}
	}
	return append(open, name), nil
}

// character reads an entity; anything else is an ampersand.
func character(s string) (string, int) {
	for name, r := range map[string]string{"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": `"`} {
		if strings.HasPrefix(s, name) {
			return r, len(name)
		}
	}
	return "&", 1
}
