package text

import "unicode/utf8"

// AppendJSON appends s as a JSON string without HTML escaping; invalid UTF-8
// becomes U+FFFD. Encoding is byte-stable, which keeps prompt prefixes cacheable.
func AppendJSON(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}

		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}

		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}

		i++
		start = i
	}

	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
