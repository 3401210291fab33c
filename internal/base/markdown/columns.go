package markdown

import (
	"strings"
	"unicode"
)

// Columns draws a table with characters of one width: a header, a line and the
// rows, cells padded to the widest of their column.
func Columns(t Node) string {
	var rows [][]string
	var width []int
	for _, row := range t.Children {
		var texts []string
		for i, c := range row.Children {
			s := strings.Join(strings.Fields(Plain(c)), " ")
			texts = append(texts, s)
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], Width(s))
		}

		rows = append(rows, texts)
	}

	var b strings.Builder
	for i, row := range rows {
		drawRow(&b, row, width, t.Align)
		if i == 0 {
			for k, w := range width {
				if k > 0 {
					b.WriteString("-+-")
				}
				b.WriteString(strings.Repeat("-", w))
			}
			b.WriteByte('\n')
		}
	}

	return strings.TrimRight(b.String(), "\n")
}

func drawRow(b *strings.Builder, row []string, width []int, align []Align) {
	var line strings.Builder
	for i, s := range row {
		if i > 0 {
			line.WriteString(" | ")
		}

		pad, left := width[i]-Width(s), 0
		switch {
		case i < len(align) && align[i] == AlignRight:
			left = pad
		case i < len(align) && align[i] == AlignCenter:
			left = pad / 2
		}

		line.WriteString(strings.Repeat(" ", left))
		line.WriteString(s)
		line.WriteString(strings.Repeat(" ", pad-left))
	}

	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}

// Width returns how many columns a text takes where letters have one width:
// East Asian ones and emoji take two, marks that join others none.
func Width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
			r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
			r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd):
			n += 2
		default:
			n++
		}
	}

	return n
}
