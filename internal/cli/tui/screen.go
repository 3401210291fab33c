package tui

import (
	"io"
	"strconv"
	"strings"
)

// screen draws on a terminal without taking it over: finished lines are
// written once and scroll away, and below them lives an area that is redrawn in
// place. Everything of one refresh goes out in a single write, so nothing
// flickers.
type screen struct {
	w        io.Writer
	size     func() (columns, rows int)
	shown    attr   // attributes that the user wants to see
	pending  []line // finished, not written yet
	live     []line // the rows of the area as drawn
	row, col int    // the cursor within the area
	width    int    // columns of the terminal when the area was drawn
}

func newScreen(o *Options) *screen {
	s := &screen{w: o.Console.Out, size: o.Console.size, shown: ^attr(0)}
	if o.noColour() {
		s.shown &^= colours
	}
	return s
}

// print queues finished lines; the next draw writes them above the area.
func (s *screen) print(lines ...line) { s.pending = append(s.pending, lines...) }

// columns returns the room for text. The last column stays free: terminals disagree
// about where the cursor is after a character in it.
func (s *screen) columns() int {
	w, _ := s.size()
	return max(w-1, 8)
}

// draw writes the queued lines and replaces the area by live, whose lines must
// be no wider than columns. The cursor goes to row and col of live.
func (s *screen) draw(live []line, row, col int) {
	var b strings.Builder
	if up := s.rowsAbove(); up > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(up) + "A")
	}

	b.WriteByte('\r')
	fresh := len(s.pending) > 0 || len(live) < len(s.live)
	if fresh {
		b.WriteString("\x1b[J")
	}

	for _, l := range s.pending {
		l.encode(&b, s.shown)
		b.WriteString("\r\n")
	}

	for i, l := range live {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if !fresh {
			b.WriteString("\x1b[2K")
		}
		l.encode(&b, s.shown)
	}

	s.place(&b, live, row, col)
	s.pending, s.live = nil, live
	s.width, _ = s.size()
	_, _ = io.WriteString(s.w, b.String()) // a terminal that is gone also ends the input
}

// place moves the cursor from the end of the area to where it belongs.
func (s *screen) place(b *strings.Builder, live []line, row, col int) {
	last := max(len(live)-1, 0)
	if last > row {
		b.WriteString("\x1b[" + strconv.Itoa(last-row) + "A")
	}
	b.WriteByte('\r')
	if col > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(col) + "C")
	}
	s.row, s.col = row, col
}

// rowsAbove counts the rows between the top of the area and the cursor. A
// terminal that became narrower has folded the area's rows meanwhile.
func (s *screen) rowsAbove() int {
	w, _ := s.size()
	if len(s.live) == 0 || w >= s.width || w <= 0 {
		return s.row
	}
	n := s.col / w
	for _, l := range s.live[:s.row] {
		n += max(1, (l.width()+w-1)/w)
	}
	return n
}

// clear removes the area and writes what is queued.
func (s *screen) clear() { s.draw(nil, 0, 0) }

// wipe empties the whole terminal; the next draw starts at the top.
func (s *screen) wipe() {
	_, _ = io.WriteString(s.w, "\x1b[H\x1b[2J")
	s.forget()
}

// forget leaves the area as it is: the next draw starts at the cursor's row.
func (s *screen) forget() { s.live, s.row, s.col = nil, 0, 0 }
