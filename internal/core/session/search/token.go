package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// maxToken bounds a token in bytes. What is longer is cut, in texts as in
// queries, so that it is still found.
const maxToken = 64

// token is a unit of search and its place in the text.
type token struct {
	text       string
	start, end int
	// dense tokens are two neighbouring characters, or the last one, of a
	// script that is written without spaces between words. They begin at start;
	// end is behind their first character.
	dense bool
}

// tokens splits a text that is in form NFC. Words are folded: lower case,
// without accents, in the plain form of letters. Scripts without spaces give
// one token for every character: it and the next one. A single character is
// therefore found as a prefix, and the index holds as many tokens as the text
// has characters.
func tokens(s string) []token {
	out := make([]token, 0, len(s)/6+1)
	var dense []token // characters of the current run
	flush := func() {
		for i := range dense {
			t := dense[i]
			if i+1 < len(dense) {
				t.text += dense[i+1].text
			}
			out = append(out, t)
		}
		dense = dense[:0]
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case isDense(r):
			dense = append(dense, token{plainChar(r), i, i + n, true})
			i += n
		case wordRune(r):
			flush()
			end := wordEnd(s, i)
			if w := fold(s[i:end]); w != "" {
				out = append(out, token{text: w, start: i, end: end})
			}
			i = end

		default:
			flush()
			i += n
		}
	}

	flush()
	return out
}

func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// wordEnd returns where the word that begins at i ends. Marks belong to the
// letters they stand on.
func wordEnd(s string, i int) int {
	for i < len(s) {
		if c := s[i]; c < utf8.RuneSelf {
			if !wordRune(rune(c)) {
				return i
			}
			i++
			continue
		}

		r, n := utf8.DecodeRuneInString(s[i:])
		if isDense(r) || !wordRune(r) && !unicode.IsMark(r) {
			return i
		}
		i += n
	}
	return i
}

// fold returns the form of a word under which it is kept.
func fold(w string) string {
	ascii := true
	for i := range len(w) {
		if w[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}

	if !ascii {
		w = strings.Map(func(r rune) rune {
			switch {
			case unicode.IsMark(r) || !wordRune(r):
				return -1
			case r == 'ς':
				return 'σ'
			case r == 'ı':
				return 'i'
			}
			return r
		}, norm.NFKD.String(w))

		w = strings.ToLower(w)
		if strings.ContainsAny(w, "ßøłđæœ\u0307") {
			w = strings.NewReplacer("ß", "ss", "ø", "o", "ł", "l", "đ", "d", "æ", "ae", "œ", "oe", "\u0307", "").Replace(w)
		}
	} else {
		w = strings.ToLower(w)
	}

	return text.CutBytes(w, maxToken)
}

// isDense reports whether a character belongs to a script that is written
// without spaces between words, or with words that carry their grammar.
func isDense(r rune) bool {
	switch {
	case r < 0x0e00:
		return false
	case r < 0x0f00: // Thai, Lao
		return r != 0x0e3f && r != 0x0e4f && (unicode.IsLetter(r) || unicode.IsMark(r))
	case r < 0x1000:
		return false
	case r < 0x1200: // Myanmar; Hangul letters
		return r < 0x10a0 && (unicode.IsLetter(r) || unicode.IsMark(r)) || r >= 0x1100
	case r < 0x1780:
		return false
	case r < 0x17d4: // Khmer
		return true
	case r < 0x3005:
		return false
	case r < 0x3008: // repetition mark and zero of Han
		return true
	case r < 0x3041:
		return false
	case r < 0x3190: // Kana, Bopomofo, Hangul letters
		return r != 0x30a0 && r != 0x30fb
	case r < 0x31a0:
		return false
	case r < 0x3200:
		return r < 0x31c0 || r >= 0x31f0
	case r < 0x3400:
		return false
	case r < 0xa000: // Han
		return r < 0x4dc0 || r >= 0x4e00
	case r < 0xac00:
		return false
	case r < 0xd7b0: // Hangul
		return true
	case r < 0xf900:
		return false
	case r < 0xfb00: // Han for compatibility
		return true
	case r < 0xff66:
		return false
	case r < 0xffa0: // narrow Katakana
		return true
	}
	return r >= 0x20000 && r < 0x40000
}

// plainChar returns the usual form of a character that has several.
func plainChar(r rune) string {
	if r >= 0xf900 && r < 0x20000 {
		return norm.NFKC.String(string(r))
	}
	return string(r)
}

// canonical returns the form in which texts are split and shown: whole characters
// where a keyboard or file system left letters and marks.
func canonical(s string) string {
	return norm.NFC.String(strings.ToValidUTF8(s, "\uFFFD"))
}

// body returns what the full-text table gets: the tokens, which its tokenizer
// only has to tell apart at the spaces.
func body(toks []token, more ...string) string {
	n := 0
	for i := range toks {
		n += len(toks[i].text) + 1
	}

	var b strings.Builder
	b.Grow(n + 16*len(more))
	seen := make(map[string]struct{}, len(toks))
	for i := range toks {
		if _, dup := seen[toks[i].text]; dup {
			continue // the table does not count
		}
		seen[toks[i].text] = struct{}{}
		b.WriteString(toks[i].text)
		b.WriteByte(' ')
	}

	for _, m := range more {
		b.WriteString(m)
		b.WriteByte(' ')
	}
	return b.String()
}
