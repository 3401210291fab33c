// Package text hides the small decisions about text that would otherwise be
// made differently in every package: how to shorten without breaking a
// character, which part of a model's answer is thinking and not meant for the
// reader, how many tokens a text is worth, how a path or an arbitrary id
// becomes something short and safe to show or to use as a file name, what the
// user probably meant by a misspelt word, and which encoding a label means.
//
// Lengths are Unicode code points unless a name or comment says bytes. All
// functions accept any bytes. Think is for one goroutine; Calibration may be
// shared; everything else is a pure function.
package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cut returns the first n code points of s, or s itself when it is not longer.
func Cut(s string, n int) string {
	if len(s) <= max(n, 0) {
		return s
	}
	return s[:offset(s, n)]
}

// CutBytes returns the beginning of s that is at most n bytes long and ends between two
// characters. It is for limits of what is stored or sent; people count characters.
func CutBytes(s string, n int) string {
	if len(s) <= max(n, 0) {
		return s
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// FirstLine returns the first line of s that is not blank, shortened as Ellipsis does to at
// most n code points; 0 is no limit.
func FirstLine(s string, n int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	line = strings.TrimSpace(line)
	if n > 0 {
		line = Ellipsis(line, n)
	}
	return line
}

// CutEnd returns the last n code points of s, or s itself when it is not longer.
func CutEnd(s string, n int) string {
	if len(s) <= max(n, 0) {
		return s
	}
	at := len(s)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return s[at:]
}

// Ellipsis shortens s to at most n code points, the last of which is then "…".
func Ellipsis(s string, n int) string {
	if len(s) <= max(n, 0) || offset(s, n) == len(s) {
		return s
	}
	if n <= 0 {
		return ""
	}
	return Cut(s, n-1) + "…"
}

// CutMiddle keeps n code points of a longer s, the first two thirds of them
// from its beginning and the rest from its end, because an answer usually
// stands in one of the two. The marker line between them says how many
// characters are missing and is not part of n.
func CutMiddle(s string, n int) string {
	if len(s) <= max(n, 0) {
		return s
	}

	n = max(n, 0)
	count := utf8.RuneCountInString(s)
	if count <= n {
		return s
	}

	head := n - n/3
	marker := "\n\n[... " + strconv.Itoa(count-n) + " characters cut ...]\n\n"
	return Cut(s, head) + marker + CutEnd(s, n-head)
}

// Valid returns s with every run of invalid UTF-8 replaced by U+FFFD, because
// providers reject a request that carries anything else.
func Valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// offset returns the byte position of the n-th code point, or len(s).
func offset(s string, n int) int {
	if n <= 0 {
		return 0
	}

	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// LowerASCII makes small letters of the large ones of ASCII and leaves everything
// else alone. It is for comparing identifiers: strings.ToLower and EqualFold also
// take some other letters for those of ASCII, such as the sign for kelvin.
func LowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// Blank reports whether nothing of a text is seen: there is only white space, and
// characters without a shape, such as those that join others.
func Blank(s string) bool {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }) == ""
}
