package markdown

import "strings"

// Fence returns a block of code as Markdown, with marks that nothing in it ends. Info
// is the language, of which the first word is kept.
func Fence(info, code string) string {
	fence := "```"
	for strings.Contains(code, fence) {
		fence += "`"
	}
	language, _, _ := strings.Cut(strings.TrimSpace(info), " ")
	return fence + strings.ReplaceAll(language, "`", "") + "\n" + code + "\n" + fence
}

// Span returns a piece of code within words as Markdown.
func Span(code string) string {
	tick := "`"
	for strings.Contains(code, tick) {
		tick += "`"
	}
	if len(tick) > 1 {
		code = " " + code + " "
	}
	return tick + code + tick
}

// Address returns the address of a link as Markdown has it between parentheses.
func Address(url string) string {
	return strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E").Replace(url)
}

// Pipes returns a table as Markdown. Words returns what is in a cell, which Pipes writes
// on one line and without the sign that would end the cell; rule returns what stands in
// a column of the line below the header.
func Pipes(table Node, words func([]Node) string, rule func(Align) string) string {
	cell := strings.NewReplacer("\n", " ", "|", `\|`)
	var lines []string
	for i, row := range table.Children {
		line := "|"
		for _, c := range row.Children {
			line += " " + cell.Replace(words(c.Children)) + " |"
		}

		lines = append(lines, line)
		if i > 0 {
			continue
		}

		line = "|"
		for k := range row.Children {
			align := AlignNone
			if k < len(table.Align) {
				align = table.Align[k]
			}
			line += rule(align) + "|"
		}

		lines = append(lines, line)
	}

	return strings.Join(lines, "\n")
}
