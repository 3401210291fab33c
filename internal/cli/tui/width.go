package tui

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// runeWidth returns the number of terminal columns a rune takes: 0, 1 or 2. It
// follows what terminals do rune by rune; joined emoji are counted as the sum
// of their parts, which is also what most terminals draw.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		if r == 0xad {
			return 0
		}
		return 1

	case r >= 0x4e00 && r <= 0x9fff, r >= 0xac00 && r <= 0xd7a3:
		return 2
	case r >= 0x2100 && r <= 0x2bff && !isWideSymbol(r): // no marks there
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf), r >= 0x1160 && r <= 0x11ff:
		return 0
	case isWide(r):
		return 2
	}
	return 1
}

// isWide holds the ranges of Unicode 16 that are East Asian Wide or Fullwidth,
// neighbours joined where only unassigned code points lie between.
func isWide(r rune) bool {
	switch {
	case r < 0x1100:
		return false
	case r < 0x2e80:
		return r <= 0x115f || isWideSymbol(r)
	case r < 0x10000:
		return r <= 0x303e || r >= 0x3041 && r <= 0x3247 || r >= 0x3250 && r <= 0xa4c6 ||
			r >= 0xa960 && r <= 0xa97c || r >= 0xf900 && r <= 0xfaff ||
			r >= 0xfe10 && r <= 0xfe19 || r >= 0xfe30 && r <= 0xfe6b ||
			r >= 0xff01 && r <= 0xff60 || r >= 0xffe0 && r <= 0xffe6

	case r < 0x1f000:
		return r >= 0x16fe0 && r <= 0x18d08 || r >= 0x1aff0 && r <= 0x1b2fb || r >= 0x1d300 && r <= 0x1d376
	case r < 0x20000:
		return isWideEmoji(r)
	}
	return r <= 0x3fffd
}

func isWideSymbol(r rune) bool {
	switch r {
	case 0x231a, 0x231b, 0x2329, 0x232a, 0x23e9, 0x23ea, 0x23eb, 0x23ec, 0x23f0, 0x23f3, 0x25fd, 0x25fe,
		0x2614, 0x2615, 0x267f, 0x2693, 0x26a1, 0x26aa, 0x26ab, 0x26bd, 0x26be, 0x26c4, 0x26c5, 0x26ce,
		0x26d4, 0x26ea, 0x26f2, 0x26f3, 0x26f5, 0x26fa, 0x26fd, 0x2705, 0x270a, 0x270b, 0x2728, 0x274c,
		0x274e, 0x2753, 0x2754, 0x2755, 0x2757, 0x2795, 0x2796, 0x2797, 0x27b0, 0x27bf, 0x2b1b, 0x2b1c,
		0x2b50, 0x2b55:
		return true
	}
	return r >= 0x2630 && r <= 0x2637 || r >= 0x2648 && r <= 0x2653 || r >= 0x268a && r <= 0x268f
}

func isWideEmoji(r rune) bool {
	switch {
	case r == 0x1f004, r == 0x1f0cf, r == 0x1f18e, r >= 0x1f191 && r <= 0x1f19a, r >= 0x1f200 && r <= 0x1f265:
		return true
	case r >= 0x1f300 && r <= 0x1f64f:
		switch {
		case r >= 0x1f321 && r <= 0x1f32c, r == 0x1f336, r == 0x1f37d, r >= 0x1f394 && r <= 0x1f39f,
			r >= 0x1f3cb && r <= 0x1f3ce, r >= 0x1f3d4 && r <= 0x1f3df, r >= 0x1f3f1 && r <= 0x1f3f3,
			r >= 0x1f3f5 && r <= 0x1f3f7, r == 0x1f43f, r == 0x1f441, r == 0x1f4fd, r == 0x1f4fe,
			r >= 0x1f53e && r <= 0x1f54a, r == 0x1f54f, r >= 0x1f568 && r <= 0x1f579,
			r >= 0x1f57b && r <= 0x1f594, r >= 0x1f597 && r <= 0x1f5a3, r >= 0x1f5a5 && r <= 0x1f5fa:
			return false
		}
		return true

	case r >= 0x1f680 && r <= 0x1f6ff:
		return r <= 0x1f6c5 || r == 0x1f6cc || r >= 0x1f6d0 && r <= 0x1f6d2 || r >= 0x1f6d5 && r <= 0x1f6df ||
			r == 0x1f6eb || r == 0x1f6ec || r >= 0x1f6f4
	case r >= 0x1f7e0 && r <= 0x1f7f0:
		return true
	case r >= 0x1f90c && r <= 0x1f9ff:
		return r != 0x1f93b && r != 0x1f946
	}
	return r >= 0x1fa70 && r <= 0x1faff
}

// Width returns the number of terminal columns of a text without line breaks.
func Width(s string) int { return stringWidth(s) }

// Cut returns the beginning of a text that fits into so many columns, with an ellipsis if
// something is missing.
func Cut(s string, columns int) string {
	if stringWidth(s) <= columns {
		return s
	}

	used := 1 // the ellipsis
	for i, r := range s {
		if used += runeWidth(r); used > columns {
			return s[:i] + "…"
		}
	}
	return s
}

// Rows breaks a text without line breaks between words into rows of so many columns. A
// word that is longer, such as an address, stays in one piece.
func Rows(s string, columns int) []string {
	var rows []string
	for stringWidth(s) > columns {
		at, used, filled := 0, 0, 0 // filled is used without spaces at the end
		var before rune
		for i, r := range s {
			if i > 0 && breakable(before, r) {
				at = i
			}

			used += runeWidth(r)
			if r != ' ' {
				filled = used
			}

			if filled > columns {
				break
			}
			before = r
		}

		if at == 0 {
			break
		}

		rows = append(rows, strings.TrimRight(s[:at], " "))
		s = s[at:]
	}

	return append(rows, s)
}

// stringWidth returns the number of columns of a string without line breaks.
func stringWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// unsafeRune reports whether a rune could steer the terminal or make text look
// different from what it is: C0 and C1 controls (tab and line feed excepted),
// line separators, and the bidirectional overrides.
func unsafeRune(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f:
		return true
	}
	return r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// neutral returns s with every unsafe rune spelled out as a visible escape
// such as \x1b, and bytes that are not UTF-8 replaced by U+FFFD. It is not
// text.Reveal because the terminal shows drafts and answers as they are typed:
// only what a terminal obeys or reorders is spelled out, in ASCII of known width.
func neutral(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}

	var b strings.Builder
	for _, r := range s { // ranging turns invalid bytes into U+FFFD
		switch {
		case !unsafeRune(r):
			b.WriteRune(r)
		case r == '\r':
			b.WriteString(`\r`)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}

	return b.String()
}

// firstLine returns the first non-blank line of s made safe for one row of output.
func firstLine(s string) string {
	for l := range strings.SplitSeq(strings.TrimSpace(s), "\n") {
		return neutral(strings.TrimSpace(l))
	}
	return ""
}
