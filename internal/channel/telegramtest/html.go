package telegramtest

import (
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
	if !utf8.ValidString(s) {
		return "", errors.New("strings must be encoded in UTF-8")
	}
	var out strings.Builder
	var open []string
	for i := 0; i < len(s); {
		switch s[i] {
		case '<':
			end := strings.IndexByte(s[i:], '>')
			if end < 0 {
				return "", fmt.Errorf("unclosed start tag at byte offset %d", i)
			}
			var err error
			if open, err = tag(s[i+1:i+end], open, i); err != nil {
				return "", err
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
		return "", fmt.Errorf("can't find end tag corresponding to start tag %q", open[len(open)-1])
	}
	return out.String(), nil
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
