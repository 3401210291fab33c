package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text that others wrote is shown to people in names, lists, questions, logs
// and on terminals, and to models in lists and results. Control characters
// could move the cursor there or begin a line that looks like our own,
// direction marks could reverse what is read ("txt.exe" for "exe.txt"), and
// invisible characters could carry a message that only a model reads. There are
// three ways to show such text, one function for each:
//
//   - Label: one line, as a name or in a list. What cannot be seen is dropped.
//   - Clean: several lines, for a model or a chat. What cannot be seen is dropped.
//   - Reveal: for decisions and for terminals. What cannot be seen is spelled
//     out, because whoever decides must see all of it.

// Prose lists the characters that Reveal leaves as they are in the texts of
// people, several lines of which are printed on a terminal: line breaks, tabs,
// wide and narrow spaces, and the marks that join letters and emoji. None of
// them reorders text or moves the cursor elsewhere.
const Prose = "\n\t\u00a0\u200c\u200d\u202f\u3000\ufe0f"

// Label makes one line of a name or another text of others: white space and
// control characters become single spaces, invisible characters are dropped.
// More than n code points are shortened as Ellipsis does; 0 is no limit. The
// result may be empty.
func Label(s string, n int) string {
	if !printableASCII(s) {
		s = dropHidden(s, func(rune) rune { return ' ' })
	}
	if s = strings.Join(strings.Fields(s), " "); n > 0 {
		s = Ellipsis(s, n)
	}
	return s
}

// speakerShown is how many characters of a name are shown before what was said.
const speakerShown = 64

// Speaker returns the name of another person as it stands before what they said: on one
// line, and without a colon, which would let a name put words into the mouth of another.
func Speaker(name string) string {
	return strings.TrimSpace(Label(strings.NewReplacer(":", " ", "：", " ").Replace(name), speakerShown))
}

// Plain reports whether a name of at most n bytes shows as it is: Label and
// Reveal would change nothing, and it is not empty.
func Plain(s string, n int) bool {
	return s != "" && len(s) <= n && Label(s, 0) == s && Reveal(s, "") == s
}

// Clean removes from a text of several lines what is not seen: control
// characters, direction marks, invisible and private characters. Every kind of
// line break becomes "\n"; tabs stay, and so do joiners where they belong, as
// between emoji.
func Clean(s string) string {
	if printableASCII(s) {
		return s
	}
	return dropHidden(strings.ReplaceAll(s, "\r\n", "\n"), func(r rune) rune {
		switch r {
		case '\n', '\t':
			return r
		case '\r', '\v', '\f', 0x85, 0x2028, 0x2029:
			return '\n'
		}
		return -1
	})
}

// Reveal spells out every character that prints nothing, changes the direction
// or moves the cursor, as ‹U+202E›, and every byte that is not UTF-8, as ‹FF›.
// The brackets of the notation are spelled out themselves, so that no text can
// pass for another one. Characters of keep, such as Prose, stay as they are.
func Reveal(s, keep string) string {
	spelled := func(r rune) bool { return obscure(r) && !strings.ContainsRune(keep, r) }
	if printableASCII(s) || utf8.ValidString(s) && !strings.ContainsFunc(s, spelled) {
		return s
	}

	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, "‹%02X›", s[i])
		case spelled(r):
			fmt.Fprintf(&b, "‹U+%04X›", r)
		default:
			b.WriteRune(r)
		}
	}

	return b.String()
}

// printableASCII reports whether no character of s needs a look.
func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// dropHidden leaves out what is hidden. Control characters and separators of
// lines become what control says; -1 drops them, too.
func dropHidden(s string, control func(rune) rune) string {
	s = Valid(s)
	var b strings.Builder
	b.Grow(len(s))
	prev := rune(-1) // the last one that was kept
	for i, r := range s {
		switch {
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
			r = control(r)
		case hidden(r):
			if next, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):]); !joins(r, prev, next) {
				continue
			}
		}
		if r >= 0 {
			b.WriteRune(r)
			prev = r
		}
	}

	return b.String()
}

// hidden characters are not seen, or change how the text around them is shown.
func hidden(r rune) bool {
	switch {
	case r < 0x80:
		return false
	case r == 0x2800: // a pattern of Braille without dots
		return true
	case unicode.Is(unicode.Cf, r):
		return !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
	}
	return unicode.In(r, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
}

// joins reports whether a hidden character is a part of what is seen: a joiner
// between two letters of a script that uses them or between two emoji, or the
// mark after a symbol that makes it an emoji.
func joins(r, prev, next rune) bool {
	switch r {
	case 0x200C, 0x200D:
		return joined(prev) && joined(next) && !hidden(next) && prev != 0x200C && prev != 0x200D
	case 0xFE0F:
		return unicode.IsSymbol(prev)
	}
	return false
}

// joined characters are those that a joiner may stand beside.
func joined(r rune) bool { return r >= 0x600 && r != utf8.RuneError && !unicode.IsSpace(r) }

// obscure characters are hidden ones, all others that are not printed as a sign
// of their own, and the brackets of Reveal.
func obscure(r rune) bool {
	return r == '‹' || r == '›' || !unicode.IsPrint(r) || hidden(r)
}
