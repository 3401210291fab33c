package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// vt is a small terminal: it understands exactly the sequences this package
// may write and reports any other, so tests see what a user would see.
type vt struct {
	mu            sync.Mutex
	columns, rows int
	cells         [][]rune // scroll-back and screen; a wide rune is followed by 0
	y, x          int
	paste         bool
	raw           strings.Builder
	bad           []string
	carry         string
}

func newVT(columns, rows int) *vt { return &vt{columns: columns, rows: rows, cells: [][]rune{nil}} }

func (v *vt) size() (int, int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.columns, v.rows
}

func (v *vt) top() int { return max(0, len(v.cells)-v.rows) }

func (v *vt) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.raw.Write(p)
	s := v.carry + string(p)
	for s != "" {
		n := v.step(s)
		s = s[n:]
	}
	return len(p), nil
}

func (v *vt) step(s string) int {
	switch s[0] {
	case '\r':
		v.x = 0
		return 1
	case '\n':
		v.feed()
		return 1
	case 0x1b:
		end := strings.IndexFunc(s[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
		v.csi(s[2:2+end], s[2+end])
		return end + 3
	}
	r, n := utf8.DecodeRuneInString(s)
	if unsafeRune(r) {
		v.bad = append(v.bad, fmt.Sprintf("%q", r))
	}
	v.put(r)
	return n
}

func (v *vt) feed() {
	if v.y++; v.y == len(v.cells) {
		v.cells = append(v.cells, nil)
	}
}

func (v *vt) put(r rune) {
	w := runeWidth(r)
	if v.x+w > v.columns {
		v.x = 0
		v.feed()
	}
	row := v.cells[v.y]
	if w == 0 {
		if v.x > 0 {
			row[v.x-1] = r // good enough for the tests: the mark replaces its base
		}
		return
	}
	for len(row) < v.x+w {
		row = append(row, ' ')
	}
	row[v.x] = r
	if w == 2 {
		row[v.x+1] = 0
	}
	v.cells[v.y] = row
	v.x += w
}

func (v *vt) csi(params string, final byte) {
	n, err := strconv.Atoi(params)
	if params == "" {
		n, err = 0, nil
	}
	switch {
	case final == 'm' && strings.HasPrefix(params, "0"):
	case params == "?2004" && (final == 'h' || final == 'l'):
		v.paste = final == 'h'
	case err != nil:
		v.bad = append(v.bad, params+string(final))
	case final == 'A':
		v.y = max(v.y-n, v.top())
	case final == 'C':
		v.x = min(v.x+n, v.columns-1)
	case final == 'K' && n == 2:
		v.cells[v.y] = nil
	case final == 'J' && n == 0:
		v.cells = v.cells[:v.y+1]
		v.cells[v.y] = v.cells[v.y][:min(v.x, len(v.cells[v.y]))]
	case final == 'J' && n == 2:
		v.cells = v.cells[:v.top()+1]
		v.cells[v.top()] = nil
	case final == 'H' && n == 0:
		v.y, v.x = v.top(), 0
	default:
		v.bad = append(v.bad, params+string(final))
	}
}

// text is everything on the terminal, scroll-back included, with the cursor
// shown as ▮.
func (v *vt) text(t *testing.T) string {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bad != nil {
		t.Errorf("unexpected sequences: %q", v.bad)
	}
	var b strings.Builder
	for y, row := range v.cells {
		row = slices.Clone(row)
		if y == v.y {
			for len(row) <= v.x {
				row = append(row, ' ')
			}
			row[v.x] = '▮'
		}
		s := string(slices.DeleteFunc(row, func(r rune) bool { return r == 0 }))
		b.WriteString(strings.TrimRight(s, " ") + "\n")
	}
	return b.String()
}

// resize folds rows like a terminal that becomes narrower.
func (v *vt) resize(columns int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var cells [][]rune
	for y, row := range v.cells {
		start := len(cells)
		for len(row) > columns {
			cells = append(cells, row[:columns])
			row = row[columns:]
		}
		cells = append(cells, row)
		if y == v.y {
			v.y, v.x = start+v.x/columns, v.x%columns
			for len(cells) <= v.y {
				cells = append(cells, nil)
			}
		}
	}
	v.cells, v.columns = cells, columns
}

// setRows makes the terminal higher or lower; what does not fit scrolls away.
func (v *vt) setRows(rows int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rows = rows
}
