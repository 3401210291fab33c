package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// tables makes tables of paragraphs, as long as the text has cells left. Goldmark
// has the same in its package for extensions, which compiles expressions when the
// program starts (decision 152).
type tables struct{ *budget }

// Transform looks for the line of dashes below the header. What stands above the
// header stays a paragraph.
func (t tables) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	source := reader.Source()
	lines := p.Lines()
	for i := 1; i < lines.Len(); i++ {
		line := lines.At(i)
		align := alignments(line.Value(source))
		if align == nil {
			continue
		}
		if !t.spend(len(align)*lines.Len(), len(align), pc) {
			return
		}

		header := tableRow(lines.At(i-1), align, true, source)
		if header.ChildCount() != len(align) {
			return
		}

		table := extast.NewTable()
		table.Alignments = align
		table.AppendChild(table, extast.NewTableHeader(header))
		for j := i + 1; j < lines.Len(); j++ {
			table.AppendChild(table, tableRow(lines.At(j), align, false, source))
		}

		p.Parent().InsertAfter(p.Parent(), p, table)
		shorten(p, i-1)
		return
	}
}

// spend takes cells from the budget of the text, and reports whether it had them.
func (t tables) spend(cells, columns int, pc parser.Context) bool {
	used, _ := pc.Get(t.cells).(int)
	used += cells
	if columns > maxColumns || used > maxCells {
		return false
	}
	pc.Set(t.cells, used)
	return true
}

// shorten leaves a paragraph its first lines, and removes it if there are none.
func shorten(p *ast.Paragraph, lines int) {
	if lines == 0 {
		p.Parent().RemoveChild(p.Parent(), p)
		return
	}
	p.Lines().SetSliced(0, lines)
	last := p.Lines().At(lines - 1)
	last.Stop-- // the line end
	p.Lines().Set(lines-1, last)
}

// alignments reads the line below a header, such as |:-|-:|, nil if it is another
// line.
func alignments(line []byte) []extast.Alignment {
	if width, _ := util.IndentWidth(line, 0); width >= 4 {
		return nil
	}
	if len(bytes.Trim(line, "|:- \t\n")) > 0 {
		return nil
	}
	if len(bytes.Trim(line, "-")) == 0 {
		return nil // without a bar or a line end, it is a rule
	}

	columns := bytes.Split(line, []byte{'|'})
	if util.IsBlank(columns[0]) {
		columns = columns[1:]
	}
	if len(columns) > 0 && util.IsBlank(columns[len(columns)-1]) {
		columns = columns[:len(columns)-1]
	}

	var all []extast.Alignment
	for _, c := range columns {
		c = bytes.Trim(c, " \t\n")
		dashes, left := bytes.CutPrefix(c, []byte{':'})
		dashes, right := bytes.CutSuffix(dashes, []byte{':'})
		if len(dashes) == 0 || len(bytes.Trim(dashes, "-")) > 0 {
			return nil
		}

		switch {
		case left && right:
			all = append(all, extast.AlignCenter)
		case left:
			all = append(all, extast.AlignLeft)
		case right:
			all = append(all, extast.AlignRight)
		default:
			all = append(all, extast.AlignNone)
		}
	}

	return all
}

// tableRow cuts a line at the bars that are not escaped. A row that is too short is
// filled up, one that is too long loses the rest, but a header keeps it, so that
// it can be told from one that fits.
func tableRow(line text.Segment, align []extast.Alignment, header bool, source []byte) *extast.TableRow {
	line = line.TrimLeftSpace(source)
	line = line.TrimRightSpace(source)
	s := line.Value(source)
	from := 0
	if bytes.HasPrefix(s, []byte{'|'}) {
		from = 1
	}

	end := len(s)
	if bytes.HasSuffix(s, []byte{'|'}) {
		end--
	}

	row := extast.NewTableRow(align)
	for from < end {
		i := row.ChildCount()
		if i >= len(align) && !header {
			return row
		}

		cell := extast.NewTableCell()
		if i < len(align) {
			cell.Alignment = align[i]
		}

		to := cellEnd(s[:end], from)
		words := text.NewSegment(line.Start+from, line.Start+to)
		words = words.TrimLeftSpace(source)
		words = words.TrimRightSpace(source)
		cell.Lines().Append(words)
		row.AppendChild(row, cell)
		from = to + 1
	}

	for row.ChildCount() < len(align) {
		row.AppendChild(row, extast.NewTableCell())
	}
	return row
}

// cellEnd returns where the cell ends that begins at from.
func cellEnd(s []byte, from int) int {
	for i := from; i < len(s); i++ {
		if s[i] == '|' && (i == 0 || s[i-1] != '\\') {
			return i
		}
	}
	return len(s)
}
