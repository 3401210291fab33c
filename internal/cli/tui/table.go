package tui

import (
	"slices"
	"strings"
)

const (
	minColumn = 5 // columns are not squeezed below this
	columnGap = 3 // " │ "
)

// joinsTable reports whether src continues the table or the line that may turn
// out to be the header of one.
func (r *renderer) joinsTable(src string) bool {
	if len(r.table) == 1 {
		return isDelimiter(src) && len(splitRow(src)) == len(splitRow(r.table[0]))
	}
	mark, _ := fenceStart(src)
	return mark == "" && hasBar(src)
}

// hasBar reports whether a line could be a row of a table. A bar far from the
// beginning does not count, so that a long line need not be waited for.
func hasBar(src string) bool { return strings.Contains(src[:min(len(src), maxHeadBytes)], "|") }

// mayHead reports whether a line could be the header of a table.
func mayHead(src string) bool { return hasBar(src) && len(src) <= maxSpanBytes }

// flushTable renders and forgets the lines held back for a table.
func (r *renderer) flushTable() []line {
	src := r.table
	r.table = nil
	if len(src) < 2 {
		var out []line
		for _, s := range src {
			out = append(out, r.block(s)...)
		}
		return out
	}

	aligns := alignments(src[1])
	rows := make([][]line, 0, len(src))
	for i, s := range slices.Delete(slices.Clone(src), 1, 2) {
		var a attr
		if i == 0 {
			a = bold
		}

		var row []line
		for _, c := range splitRow(s) {
			row = append(row, r.inline(c, a))
		}
		rows = append(rows, row)
	}

	widths, fits := columnWidths(rows, r.o.Width)
	if !fits {
		var out []line
		for _, s := range src {
			out = append(out, r.paragraph(s)...)
		}
		return out
	}

	var out []line
	for i, row := range rows {
		out = append(out, r.tableRow(row, widths, aligns)...)
		if i == 0 {
			out = append(out, r.tableRule(widths))
		}
	}
	return out
}

// splitRow cuts a row at its bars; a bar after a backslash belongs to the text.
func splitRow(s string) []string {
	s = strings.TrimPrefix(strings.TrimSpace(s), "|")
	var cells []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '|':
			cells = append(cells, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}

	if last := strings.TrimSpace(s[start:]); last != "" || len(cells) == 0 {
		cells = append(cells, last)
	}
	return cells
}

func isDelimiter(s string) bool {
	for _, c := range splitRow(s) {
		c = strings.TrimSuffix(strings.TrimPrefix(c, ":"), ":")
		if c == "" || strings.Trim(c, "-") != "" {
			return false
		}
	}
	return true
}

type alignment int

const (
	alignLeft alignment = iota
	alignCentre
	alignRight
)

func alignments(delimiter string) []alignment {
	var out []alignment
	for _, c := range splitRow(delimiter) {
		left, right := strings.HasPrefix(c, ":"), strings.HasSuffix(c, ":")
		switch {
		case left && right:
			out = append(out, alignCentre)
		case right:
			out = append(out, alignRight)
		default:
			out = append(out, alignLeft)
		}
	}

	return out
}

// columnWidths gives every column the room of its widest cell and then takes
// from the widest ones until the table fits; it reports false if it cannot.
func columnWidths(rows [][]line, width int) ([]int, bool) {
	var w []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(w) {
				w = append(w, 1)
			}
			w[i] = max(w[i], c.width())
		}
	}

	if width <= 0 {
		return w, true
	}

	total := columnGap * (len(w) - 1)
	for _, n := range w {
		total += n
	}

	for ; total > width; total-- {
		widest := 0
		for i, n := range w {
			if n > w[widest] {
				widest = i
			}
		}

		if w[widest] <= minColumn {
			return nil, false
		}
		w[widest]--
	}

	return w, true
}

func (r *renderer) tableRow(row []line, widths []int, aligns []alignment) []line {
	columns := make([][]line, len(widths))
	height := 1
	for i := range widths {
		var c line
		if i < len(row) {
			c = row[i]
		}
		columns[i] = wrap(c, widths[i], nil, nil)
		height = max(height, len(columns[i]))
	}

	out := make([]line, height)
	for y := range height {
		for i, w := range widths {
			var c line
			if y < len(columns[i]) {
				c = columns[i][y]
			}

			room := max(w-c.width(), 0)
			left := 0
			if i < len(aligns) {
				left = room * int(aligns[i]) / int(alignRight)
			}
			if i > 0 {
				out[y] = out[y].add(" │ ", r.tint|dim)
			}

			out[y] = append(append(out[y], blanks(left)...), c...)
			if i < len(widths)-1 {
				out[y] = append(out[y], blanks(room-left)...)
			}
		}
	}

	return out
}

func (r *renderer) tableRule(widths []int) line {
	var l line
	for i, w := range widths {
		if i > 0 {
			l = l.add("─┼─", r.tint|dim)
		}
		l = l.add(strings.Repeat("─", w), r.tint|dim)
	}
	return l
}
