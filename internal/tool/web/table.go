package web

import (
	"strings"

	"golang.org/x/net/html/atom"
)

// Limits of tables written as such.
const (
	maxColumns   = 40
	maxCellChars = 600
)

// table writes a table of data as rows; one that only arranges the page is
// written like the blocks in it.
func (r *renderer) table(i int32) {
	rows, caption, ok := r.rows(i)
	if !ok {
		r.want(2)
		r.children(i)
		r.flush()
		r.want(2)
		return
	}
	r.want(2)
	if caption != 0 {
		r.children(caption)
		r.flush()
		r.want(2)
	}
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	for at, row := range rows {
		if r.full {
			break
		}
		cells := make([]string, width)
		for j, c := range row {
			cells[j] = r.cell(c)
		}
		if strings.Join(cells, "") == "" && at > 0 {
			continue
		}
		if r.plain {
			r.emit(strings.TrimRight(strings.Join(cells, "\t"), "\t"))
			continue
		}
		r.emit("| " + strings.Join(cells, " | ") + " |")
		if at == 0 {
			r.emit(strings.Repeat("|---", width) + "|")
		}
	}
	r.want(2)
}

// grid collects the cells of a table.
type grid struct {
	rows    [][]int32
	caption int32
	wide    int  // rows of more than one cell
	headed  bool // there are cells that name others
	ragged  bool // rows differ in length
}

// rows lists the cells of a table, or says that it is not one of data.
func (r *renderer) rows(i int32) (rows [][]int32, caption int32, ok bool) {
	var g grid
	if r.t.nodes[i].flags&hasTable != 0 || !g.collect(r.t, i, 0) {
		return nil, 0, false
	}
	return g.rows, g.caption, len(g.rows) > 1 && g.wide > 1 && (g.headed || !g.ragged)
}

// collect goes through the rows below an element; false means that a cell is
// too long for a line.
func (g *grid) collect(t *tree, of int32, depth int) bool {
	for c := t.nodes[of].first; c != 0; c = t.nodes[c].next {
		ok := true
		switch t.nodes[c].tag {
		case atom.Caption:
			g.caption = c
		case atom.Tbody, atom.Thead, atom.Tfoot:
			ok = depth > 1 || g.collect(t, c, depth+1)
		case atom.Tr:
			ok = g.add(t, c)
		}
		if !ok {
			return false
		}
	}
	return true
}

// add takes one row.
func (g *grid) add(t *tree, tr int32) bool {
	var row []int32
	for d := t.nodes[tr].first; d != 0; d = t.nodes[d].next {
		cell := &t.nodes[d]
		if cell.tag != atom.Td && cell.tag != atom.Th {
			continue
		}
		if cell.chars > maxCellChars || len(row) == maxColumns {
			return false
		}
		g.headed = g.headed || cell.tag == atom.Th
		row = append(row, d)
	}
	if len(row) == 0 {
		return true
	}
	if len(row) > 1 {
		g.wide++
	}
	g.ragged = g.ragged || len(g.rows) > 0 && len(g.rows[0]) != len(row)
	g.rows = append(g.rows, row)
	return true
}

// row writes a row of a table that arranges the page: on one line when its
// cells are no more than that.
func (r *renderer) row(i int32) {
	r.want(1)
	inline := r.t.nodes[i].chars <= maxCellChars
	for c := r.t.nodes[i].first; c != 0; c = r.t.nodes[c].next {
		inline = inline && r.t.nodes[c].flags&hasBlock == 0
	}
	for c := r.t.nodes[i].first; c != 0 && !r.full; c = r.t.nodes[c].next {
		n := &r.t.nodes[c]
		if inline && (n.tag == atom.Td || n.tag == atom.Th) && (r.all || n.flags&isAside == 0) {
			r.space = true
			r.children(c)
			r.space = true
			continue
		}
		r.node(c)
	}
	r.flush()
	r.want(1)
}

// cell is the content of a cell on one line.
func (r *renderer) cell(i int32) string {
	sub := &renderer{t: r.t, plain: r.plain, all: r.all, single: true, cells: true, resolve: r.resolve, at: r.at}
	sub.children(i)
	r.written += sub.written
	r.links = append(r.links, sub.links[:min(len(sub.links), max(maxLinks-len(r.links), 0))]...)
	return strings.TrimSpace(string(sub.line))
}
