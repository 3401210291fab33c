package files

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxLineChars is how much of a long line is shown around its match.
const maxLineChars = 2000

// block is a matching line with its context.
type block struct {
	line  int // of the match
	first int // of the first line in text
	text  []string
}

func makeBlock(data []byte, l lineMatch, before, after int) block {
	b := block{line: l.num, first: l.num}
	start, end := l.start, l.end
	lead := start
	for range before {
		if lead == 0 {
			break
		}
		lead = bytes.LastIndexByte(data[:lead-1], '\n') + 1
		b.first--
	}

	if lead < start {
		for l := range strings.SplitSeq(string(data[lead:start-1]), "\n") {
			b.text = append(b.text, cutLine(l, 0, 0))
		}
	}

	b.text = append(b.text, cutLine(string(data[start:end]), l.from, l.to))
	for range after {
		if end+1 >= len(data) {
			break
		}
		start = end + 1
		if end = len(data); bytes.IndexByte(data[start:], '\n') >= 0 {
			end = start + bytes.IndexByte(data[start:], '\n')
		}
		b.text = append(b.text, cutLine(string(data[start:end]), 0, 0))
	}

	return b
}

// cutLine shortens a long line to the part around the match.
func cutLine(line string, from, to int) string {
	if len(line) <= maxLineChars || utf8.RuneCountInString(line) <= maxLineChars {
		s, _ := visible(line)
		return s
	}

	shown := min(to-from, maxLineChars)
	lo := max(0, from-(maxLineChars-shown)/2)
	hi := min(len(line), lo+maxLineChars)
	lo = max(0, min(lo, hi-maxLineChars))
	for lo > 0 && !utf8.RuneStart(line[lo]) {
		lo--
	}

	for hi < len(line) && !utf8.RuneStart(line[hi]) {
		hi++
	}

	s, _ := visible(line[lo:hi])
	if lo > 0 {
		s = "…" + s
	}
	if hi < len(line) {
		s += "…"
	}
	return fmt.Sprintf("%s [line of %d bytes cut]", s, len(line))
}

// renderBlocks shows the blocks of the window, as many as fit.
func (g *grepRun) renderBlocks() string {
	g.blocks.trim()
	var b strings.Builder
	n := 0
	shown := 0
	chars := 0
	more, full := false, false
	for _, f := range g.blocks.files {
		before := shown
		for _, bl := range f.blocks {
			if n++; n <= g.win.offset {
				continue
			}
			if g.win.limit > 0 && shown == g.win.limit {
				more = true
				break
			}

			text := bl.render(f.path)
			if size := utf8.RuneCountInString(text) + 2; chars+size > maxResultChars && shown > 0 {
				more, full = true, true
			} else {
				chars += size
			}

			if more {
				break
			}

			if shown > 0 {
				b.WriteString("\n\n")
			}

			b.WriteString(text)
			shown++
		}

		g.foreign = g.foreign || shown > before && g.f.foreign(f.abs())
		if more {
			break
		}
	}

	from := g.win.offset
	switch {
	case shown == 0:
		return fmt.Sprintf("(offset %d is past the last of %s)", from, plural(n, "match")) + g.skipped()
	case more && full:
		fmt.Fprintf(&b, "\n\n(Matches %d-%d, cut at %d characters; next: offset=%d)", from+1, from+shown, maxResultChars, from+shown)
	case more:
		fmt.Fprintf(&b, "\n\n(Matches %d-%d, more follow; next: offset=%d)", from+1, from+shown, from+shown)
	case from > 0:
		fmt.Fprintf(&b, "\n\n(Matches %d-%d, the last)", from+1, from+shown)
	}

	if !more { // with more to come not everything was searched
		b.WriteString(g.skipped())
	}
	return b.String()
}

func (bl block) render(path string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d", path, bl.line)
	for i, text := range bl.text {
		mark := " "
		if bl.first+i == bl.line {
			mark = ">"
		}
		fmt.Fprintf(&b, "\n%s %d| %s", mark, bl.first+i, text)
	}

	return b.String()
}
