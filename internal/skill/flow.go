package skill

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseFlow reads one value in flow style, of which JSON is a part. What
// follows the value is ignored.
func parseFlow(src string) any {
	f := flowParser{src: src}
	v, _ := f.value(0)
	return v
}

type flowParser struct {
	src        string
	at         int
	unfinished bool // the text ended inside the value
}

// blank skips white space and comments.
func (f *flowParser) blank() {
	for f.at < len(f.src) {
		switch c := f.src[f.at]; {
		case c == ' ' || c == '\t' || c == '\n':
			f.at++
		case c == '#' && (f.at == 0 || strings.IndexByte(" \t\n", f.src[f.at-1]) >= 0):
			end := strings.IndexByte(f.src[f.at:], '\n')
			if end < 0 {
				f.at = len(f.src)
				return
			}
			f.at += end
		default:
			return
		}
	}
}

func (f *flowParser) value(depth int) (any, bool) {
	f.blank()
	if f.at >= len(f.src) || depth > maxDepth {
		f.unfinished = depth <= maxDepth
		return nil, false
	}
	switch f.src[f.at] {
	case '{':
		return f.mapping(depth)
	case '[':
		return f.list(depth)
	case '"', '\'':
		return f.quoted()
	}
	return plainValue(f.plain()), true
}

func (f *flowParser) mapping(depth int) (any, bool) {
	m := map[string]any{}
	for f.at++; ; {
		if done, ok := f.end('}'); done || !ok {
			return m, ok
		}
		var key string
		var ok bool
		if c := f.src[f.at]; c == '"' || c == '\'' {
			if key, ok = f.quoted(); !ok {
				return nil, false
			}
		} else if key = f.plain(); key == "" {
			return nil, false
		}
		f.blank()
		var v any
		if f.at < len(f.src) && f.src[f.at] == ':' {
			f.at++
			f.blank()
			if f.at < len(f.src) && f.src[f.at] != ',' && f.src[f.at] != '}' {
				if v, ok = f.value(depth + 1); !ok {
					return nil, false
				}
			}
		}
		m[key] = v
		if !f.comma('}') {
			return nil, false
		}
	}
}

func (f *flowParser) list(depth int) (any, bool) {
	list := []any{}
	for f.at++; ; {
		if done, ok := f.end(']'); done || !ok {
			return list, ok
		}
		before := f.at
		v, ok := f.value(depth + 1)
		if !ok || f.at == before {
			return nil, false
		}
		list = append(list, v)
		if !f.comma(']') {
			return nil, false
		}
	}
}

// end reports whether the closing bracket follows, and steps over it.
func (f *flowParser) end(bracket byte) (done, ok bool) {
	f.blank()
	if f.at >= len(f.src) {
		f.unfinished = true
		return false, false
	}
	if f.src[f.at] == bracket {
		f.at++
		return true, true
	}
	return false, true
}

// comma steps over a comma; before the closing bracket there may be none.
func (f *flowParser) comma(bracket byte) bool {
	f.blank()
	switch {
	case f.at >= len(f.src):
		f.unfinished = true
		return false
	case f.src[f.at] == ',':
		f.at++
		return true
	}
	return f.src[f.at] == bracket
}

// plain reads an unquoted word up to a character that ends it.
func (f *flowParser) plain() string {
	from := f.at
	for ; f.at < len(f.src); f.at++ {
		c := f.src[f.at]
		if strings.IndexByte(",[]{}\n", c) >= 0 || c == ':' && (f.at+1 == len(f.src) || strings.IndexByte(" \t\n,]}", f.src[f.at+1]) >= 0) {
			break
		}
	}
	return strings.TrimSpace(f.src[from:f.at])
}

// quoted reads a quoted scalar; line ends inside it are folded.
func (f *flowParser) quoted() (string, bool) {
	quote := f.src[f.at]
	var b strings.Builder
	for f.at++; f.at < len(f.src); f.at++ {
		c := f.src[f.at]
		switch {
		case c == quote && quote == '\'' && strings.HasPrefix(f.src[f.at+1:], "'"):
			f.at++
			b.WriteByte(c)
		case c == quote:
			f.at++
			return b.String(), true
		case c == '\\' && quote == '"' && f.at+1 < len(f.src):
			f.at++
			f.escape(&b)
		case c == '\n':
			b.WriteByte(' ')
		default:
			b.WriteByte(c)
		}
	}
	f.unfinished = true
	return "", false
}

// escape writes the character that the letter at the current place stands
// for, and leaves the last byte of the sequence to the caller's loop.
func (f *flowParser) escape(b *strings.Builder) {
	digits := 0
	switch c := f.src[f.at]; c {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r', '\n', '0', 'a', 'b', 'e', 'f', 'v': // nothing worth keeping
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		b.WriteByte(c)
	}
	if digits == 0 {
		return
	}
	r, ok := f.hex(f.at+1, digits)
	if !ok {
		b.WriteByte(f.src[f.at])
		return
	}
	f.at += digits
	if r >= 0xD800 && r < 0xDC00 && strings.HasPrefix(f.src[f.at+1:], `\u`) {
		if low, ok := f.hex(f.at+3, 4); ok && low >= 0xDC00 && low < 0xE000 {
			f.at += 6
			r = (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
		}
	}
	if !utf8.ValidRune(r) {
		r = utf8.RuneError
	}
	b.WriteRune(r)
}

func (f *flowParser) hex(at, digits int) (rune, bool) {
	if at+digits > len(f.src) {
		return 0, false
	}
	n, err := strconv.ParseUint(f.src[at:at+digits], 16, 32)
	return rune(n), err == nil && n <= utf8.MaxRune //nolint:gosec // bounded
}
