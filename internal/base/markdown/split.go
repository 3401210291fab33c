package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unit says in what a platform counts texts.
type Unit string

// The units.
const (
	Runes Unit = "runes" // also the meaning of ""
	UTF16 Unit = "utf16"
	Bytes Unit = "bytes"
)

// Split cuts a Markdown text into parts of at most limit units, at the end of
// a paragraph, a line, a sentence or a word where there is one. A code block
// that is cut is closed and opened again with the same words. Nothing but the
// white space at the cuts is lost. The parts of a text that grows stay the
// same, except the last. A limit of 0 is none; a very small one is raised to
// what a code block needs.
func Split(text string, limit int, unit Unit) []string {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if limit <= 0 {
		return []string{text}
	}

	limit = max(limit, minPart)
	var parts []string
	var open codeFence // goes on from the part before
	for text != "" {
		head := open.opening()
		room := limit - unit.Length(head)
		if unit.within(text, room) == len(text) {
			return append(parts, head+text)
		}
		var part string
		part, text, open = cut(text, room, unit, open)
		parts = append(parts, head+part)
	}

	return parts
}

const (
	minPart  = 64 // units
	infoMax  = 16 // bytes of a code block's words that are repeated
	nearness = 2  // a place to cut must leave a part at least 1/nearness full to be preferred
)

// codeFence is a code block that is open at some place of a text.
type codeFence struct {
	mark string // "" is none
	info string
}

func (f codeFence) opening() string {
	if f.mark == "" {
		return ""
	}
	return f.mark + f.info + "\n"
}

// Length counts a text.
func (u Unit) Length(s string) int {
	switch u {
	case Bytes:
		return len(s)
	case UTF16:
		n := 0
		for _, r := range s {
			n += units16(r)
		}
		return n
	}
	return utf8.RuneCountInString(s)
}

func units16(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// Cut shortens a text to at most n units, whole characters only.
func (u Unit) Cut(s string, n int) string { return s[:u.within(s, n)] }

// within returns how many bytes of s fit into n units, whole characters only.
func (u Unit) within(s string, n int) int {
	if len(s) <= n {
		return len(s) // no unit is smaller than a byte
	}

	used := 0
	for i, r := range s {
		size := 1
		switch u {
		case Bytes:
			size = utf8.RuneLen(r)
			if r == utf8.RuneError {
				_, size = utf8.DecodeRuneInString(s[i:])
			}
		case UTF16:
			size = units16(r)
		}

		if used += size; used > n {
			return i
		}
	}

	return len(s)
}

// cut takes one part off a text that does not fit. It looks only at what may
// become part of it, so that later text changes nothing.
func cut(text string, room int, unit Unit, open codeFence) (part, rest string, next codeFence) {
	at := unit.within(text, room)
	for {
		end := place(text[:at], text[at:], open)
		next = fenceAfter(text[:end], open)
		if next.mark == "" {
			break
		}

		closing := unit.Length("\n" + next.mark)
		if unit.Length(text[:end])+closing <= room || at <= 1 {
			break
		}
		at = unit.within(text, room-closing) // room for the end of the code block
	}

	end := max(place(text[:at], text[at:], open), firstRune(text))
	next = fenceAfter(text[:end], open)
	part, rest = text[:end], text[end:]
	if next.mark == "" {
		return strings.TrimRightFunc(part, unicode.IsSpace), strings.TrimLeftFunc(rest, unicode.IsSpace), next
	}

	// Inside code only the line end at the cut goes: the space is part of it.
	rest = strings.TrimPrefix(rest, "\n")
	return strings.TrimSuffix(part, "\n") + "\n" + next.mark, rest, next
}

func firstRune(s string) int { _, n := utf8.DecodeRuneInString(s); return n }

// place finds where to cut: the best place in the second half, or the end.
func place(s, after string, open codeFence) int {
	if after == "" {
		return len(s)
	}
	if boundary(s, after) {
		return len(s)
	}

	least := len(s) / nearness
	if fenceAfter(s, open).mark == "" {
		if i := strings.LastIndex(s, "\n\n"); i >= least {
			return i
		}
	}

	if strings.HasPrefix(after, "\n") && !opensCode(s, open) {
		return len(s)
	}
	if i := lastLine(s, open); i >= least && i > 0 {
		return i
	}

	for _, sep := range []string{". ", "! ", "? ", "。", "！", "？"} {
		if i := strings.LastIndex(s, sep); i >= least*3/2 && i > 0 {
			return i + len(strings.TrimSuffix(sep, " "))
		}
	}

	if r, _ := utf8.DecodeRuneInString(after); unicode.IsSpace(r) {
		return len(s)
	}
	if i := strings.LastIndexFunc(s, unicode.IsSpace); i >= least && i > 0 {
		return i
	}
	return whole(s, after)
}

// boundary reports whether a paragraph ends exactly here.
func boundary(s, after string) bool {
	return strings.HasPrefix(after, "\n\n") && !strings.HasSuffix(s, "\n")
}

// lastLine returns the end of the last whole line, but not one that only opens a
// code block, which would leave an empty one behind.
func lastLine(s string, open codeFence) int {
	i := strings.LastIndexByte(s, '\n')
	for i > 0 && opensCode(s[:i], open) {
		i = strings.LastIndexByte(s[:i], '\n')
	}
	return i
}

// opensCode reports whether the last line of a text opens a code block.
func opensCode(s string, open codeFence) bool {
	at := strings.LastIndexByte(s, '\n') + 1
	_, ok := fenceLine(s[at:])
	return ok && fenceAfter(s, open).mark != "" && fenceAfter(s[:at], open).mark == ""
}

// whole moves a cut in the middle of a word so that no character is separated
// from the marks that belong to it.
func whole(s, after string) int {
	end := len(s)
	for range 16 {
		r, _ := utf8.DecodeRuneInString(after)
		last, n := utf8.DecodeLastRuneInString(s[:end])
		if !joins(r) && last != zeroWidthJoiner || end-n <= 0 {
			return end
		}
		after = s[end-n:]
		end -= n
	}

	return len(s)
}

const zeroWidthJoiner = 0x200d

// joins reports whether a character belongs to the one before it.
func joins(r rune) bool {
	return r == zeroWidthJoiner || r >= 0xfe00 && r <= 0xfe0f || r >= 0x1f3fb && r <= 0x1f3ff || unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc)
}

// fenceLine reads a line that opens or closes a code block.
func fenceLine(line string) (codeFence, bool) {
	bare := strings.TrimLeft(line, " ")
	if len(line)-len(bare) > 3 || bare == "" || bare[0] != '`' && bare[0] != '~' {
		return codeFence{}, false
	}

	n := len(bare) - len(strings.TrimLeft(bare, bare[:1]))
	info := strings.TrimSpace(bare[n:])
	if n < 3 || n > minPart/4 || bare[0] == '`' && strings.Contains(info, "`") {
		return codeFence{}, false
	}

	info, _, _ = strings.Cut(info, " ")
	if len(info) > infoMax {
		info = ""
	}
	return codeFence{mark: bare[:n], info: info}, true
}

// fenceAfter returns the code block that is open at the end of a text.
func fenceAfter(s string, open codeFence) codeFence {
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\r\n")
		f, ok := fenceLine(line)
		switch {
		case !ok:
		case open.mark == "":
			open = f
		case f.mark[0] == open.mark[0] && len(f.mark) >= len(open.mark) && strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), f.mark[:1])) == "":
			open = codeFence{}
		}
	}
	return open
}
