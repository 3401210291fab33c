package document

import (
	"math"
	"strings"
	"unicode/utf8"
)

// place writes text that was drawn from one place to another, with the space
// or the line end that the gap to the text before it stands for.
func (w *painter) place(s string, from, to matrix) {
	at, end := from.mul(w.state.ctm), to.mul(w.state.ctm)
	x, y := at[4]+w.state.rise*at[2], at[5]+w.state.rise*at[3]
	height := math.Abs(w.state.size) * math.Hypot(at[2], at[3])
	dx, dy := unit(at[0], at[1])
	if w.state.font.vertical {
		dx, dy = unit(-at[2], -at[3])
	}

	if m := w.given(); m != nil && m.shown {
		w.pen.x, w.pen.y = end[4], end[5]
		return
	} else if m != nil {
		m.shown, s = true, m.actual
	}

	if s == "" {
		return
	}
	if w.pen.height > 0 && s == w.pen.last && math.Hypot(x-w.pen.start[0], y-w.pen.start[1]) < 0.1*height && strings.TrimSpace(s) != "" {
		return // drawn twice to look bold
	}

	w.separate(x, y, height, strings.HasPrefix(s, " "))
	w.pen.last, w.pen.start = s, [2]float64{x, y}
	w.write(s)
	w.pen.x = end[4] + w.state.rise*at[2]
	w.pen.y = end[5] + w.state.rise*at[3]
	w.pen.height = height
	w.pen.dx, w.pen.dy = dx, dy
	w.pen.spaced = strings.HasSuffix(s, " ")
}

func unit(x, y float64) (float64, float64) {
	if n := math.Hypot(x, y); n > 0 {
		return x / n, y / n
	}
	return 1, 0
}

// separate writes what lies between the last text and a new place.
func (w *painter) separate(x, y, height float64, spaced bool) {
	if w.pen.height == 0 {
		return
	}

	along := (x-w.pen.x)*w.pen.dx + (y-w.pen.y)*w.pen.dy
	aside := math.Abs((y-w.pen.y)*w.pen.dx - (x-w.pen.x)*w.pen.dy)
	size := min(w.pen.height, height)
	if size <= 0 {
		size = max(w.pen.height, height)
	}

	switch {
	case aside > 0.5*max(w.pen.height, height), along < -4*size && aside > 0.2*size:
		w.write("\n")
	case w.pen.spaced || spaced:
	case along > 0.17*size, along < -size:
		w.write(" ")
	}
}

func (w *painter) write(s string) {
	if w.room -= utf8.RuneCountInString(s); w.room >= 0 {
		w.out.WriteString(s)
	}
}

// tidy drops space at the ends of lines and all but one of several blank lines.
func tidy(s string) string {
	var b strings.Builder
	blank := 0
	for l := range strings.SplitSeq(strings.Trim(s, "\n "), "\n") {
		if l = strings.TrimRight(l, " "); l == "" {
			blank++
			continue
		}

		if b.Len() > 0 {
			b.WriteString("\n\n"[:min(blank+1, 2)])
		}

		b.WriteString(l)
		blank = 0
	}

	return b.String()
}
