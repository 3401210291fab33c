package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// syntax turns a parser error into an offset and words that help. The parser's
// own text is not shown, since it may quote a value.
func (d *document) syntax(err error) (off int, msg, hint string) {
	var line, col int
	text := err.Error()
	if _, e := fmt.Sscanf(text, "hujson: line %d, column %d:", &line, &col); e != nil {
		return 0, "the text cannot be understood", ""
	}

	off = d.offset(line, col)
	rest := d.text[min(off, len(d.text)):]
	switch {
	case strings.Contains(text, "parsing string"):
		return d.openString(), "a text is not closed", `add the missing "`
	case strings.Contains(text, "parsing comment"):
		return off, "a comment is not closed", "add */"
	case strings.Contains(text, "unexpected EOF"):
		return len(bytes.TrimRight(d.text, " \t\r\n")), "the file ends too early", "a } or ] is missing"
	case strings.Contains(text, "after top-level value"):
		return off, "there is more after the end of the configuration", "remove it, or look for a } too many above"
	}

	if h := typing(rest); h != "" {
		return off, "this is not JSON", h
	}

	switch {
	case strings.Contains(text, "expecting ','"):
		return off, "a comma is missing before this", "add , at the end of the value before"
	case strings.Contains(text, "after object name"):
		return off, "a colon is missing before this", ""
	case strings.Contains(text, "object name"):
		return off, "a key is expected here", "keys are written in double quotes"
	case strings.Contains(text, "at start of value"):
		return off, "a value is expected here", ""
	case strings.Contains(text, "invalid literal") && bytes.HasPrefix(rest, []byte(`"`)):
		return off, "this text holds a character JSON does not allow", `write \\ for a backslash and \n for a line break, and look for a missing "`
	case strings.Contains(text, "invalid literal"):
		return off, "this is neither a number nor true, false or null", "texts are written in double quotes"
	}

	return off, "the text cannot be understood here", ""
}

// typing recognises the usual slips by the first character.
func typing(rest []byte) string {
	r, _ := utf8.DecodeRune(rest)
	switch r {
	case '\'', '`':
		return `use double quotes "`
	case '“', '”', '„', '‘', '’', '«', '»', '「', '＂':
		return `typographic quotes are not allowed, use "`
	case '，', '、':
		return "this is a full-width comma, use ,"
	case '：':
		return "this is a full-width colon, use :"
	case '=':
		return "use : between key and value"
	case '#':
		return "comments start with //"
	case ';':
		return "use , between values"
	}

	for _, w := range []string{"True", "False", "None", "TRUE", "FALSE", "NULL", "Null"} {
		if bytes.HasPrefix(rest, []byte(w)) {
			return "write true, false and null in lower case"
		}
	}
	return ""
}

// offset returns the inverse of the parser's line and byte column.
func (d *document) offset(line, col int) int {
	off := 0
	for range line - 1 {
		i := bytes.IndexByte(d.text[off:], '\n')
		if i < 0 {
			break
		}
		off += i + 1
	}
	return min(off+col-1, len(d.text))
}

// openString finds the quote of the text that runs to the end of the file. A
// forgotten quote usually swallows the following lines, so the first text that
// spans a line end is the better guess.
func (d *document) openString() int {
	start, last := -1, 0
	for i := 0; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case start < 0 && c == '"':
			start, last = i, i
		case start >= 0 && c == '\\':
			i++
		case start >= 0 && c == '"':
			start = -1
		case start >= 0 && c == '\n':
			return start
		}
	}

	return last
}

// excerpt shows the line around off with a caret below. Everything but
// structure and keys is starred out: the line may hold a credential.
func (d *document) excerpt(off int) string {
	off = min(off, len(d.text))
	start := bytes.LastIndexByte(d.text[:off], '\n') + 1
	end := len(d.text)
	if i := bytes.IndexByte(d.text[off:], '\n'); i >= 0 {
		end = off + i
	}

	line := []rune(strings.TrimRight(string(d.text[start:end]), "\r"))
	caret := utf8.RuneCount(d.text[start:off])
	line = hideValues(line)
	const before, after = 60, 30 // characters of context on one screen line
	lo, hi := max(0, caret-before), min(len(line), caret+after)
	if lo > 0 {
		line, caret = append([]rune("..."), line[lo:hi]...), caret-lo+3
	} else {
		line = line[:hi]
	}

	pad := make([]rune, caret)
	for i := range pad {
		pad[i] = ' '
		if i < len(line) && line[i] == '\t' {
			pad[i] = '\t'
		}
	}

	num, _ := d.position(off)
	gutter := fmt.Sprintf("%5d | ", num)
	return gutter + string(line) + "\n" + strings.Repeat(" ", len(gutter)-2) + "| " + string(pad) + "^\n"
}

// hideValues keeps punctuation, quoted names followed by a colon, and the words
// true, false and null.
func hideValues(line []rune) []rune {
	out := make([]rune, len(line))
	for i, r := range line {
		out[i] = '*'
		if strings.ContainsRune("{}[]:, \t\"", r) {
			out[i] = r
		}
	}

	for i := 0; i < len(line); i++ {
		if line[i] != '"' {
			continue
		}

		end := i + 1
		for end < len(line) && line[end] != '"' {
			end++
		}

		if end == len(line) {
			break
		}

		after := strings.TrimLeft(string(line[end+1:]), " \t")
		if name := string(line[i+1 : end]); strings.HasPrefix(after, ":") && plainPart(name) {
			copy(out[i:end+1], line[i:end+1])
		} else {
			for j := i + 1; j < end; j++ {
				out[j] = '*'
			}
		}

		i = end
	}

	return out
}
