package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
)

// item is something to choose from a menu.
type item struct {
	name  string // as it may be typed
	title string // as it is shown
	about string
	head  string // of the group that it is in
}

// menu is a numbered list. It shows a page of what fits the last text that was
// typed; numbers count through all pages.
type menu struct {
	items  []item
	first  int // entries of the first page of everything
	page   int // of every other page
	fits   []int
	filter string
	from   int

	language string
}

func newMenu(items []item, first, page int, language string) *menu {
	m := &menu{items: items, first: first, page: page, language: language}
	m.narrow("")
	return m
}

// narrow leaves the entries that have typed in a name, and says how many.
func (m *menu) narrow(typed string) int {
	m.filter = typed
	m.from = 0
	m.fits = nil
	for i := range m.items {
		if m.items[i].has(typed) {
			m.fits = append(m.fits, i)
		}
	}
	return len(m.fits)
}

func (it item) has(part string) bool {
	return strings.Contains(plainName(it.name), plainName(part)) || strings.Contains(plainName(it.title), plainName(part))
}

// plainName returns the form in which names are compared: GitHub-Copilot is
// github_copilot.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// size returns how many entries the page has that begins at from.
func (m *menu) size(from int) int {
	n := m.page
	if from == 0 && m.filter == "" {
		n = m.first
	}
	return min(n, len(m.fits)-from)
}

// next turns the page, from the last one to the first.
func (m *menu) next() {
	if m.from += m.size(m.from); m.from >= len(m.fits) {
		m.from = 0
	}
}

// pick finds what was typed: a number, a whole name, or a part of one name
// only. A part of several names narrows the menu; then, and if nothing fits,
// ok is false and found says how many do.
func (m *menu) pick(typed string) (at, found int, ok bool) {
	if n, err := strconv.Atoi(typed); err == nil && n >= 1 && n <= len(m.fits) && strconv.Itoa(n) == typed {
		return m.fits[n-1], 1, true
	}

	for i := range m.items {
		if plainName(m.items[i].name) == plainName(typed) || plainName(m.items[i].title) == plainName(typed) {
			return i, 1, true
		}
	}

	was := *m
	switch found = m.narrow(typed); found {
	case 0:
		*m = was
	case 1:
		return m.fits[0], 1, true
	}
	return 0, found, false
}

// show prints the page for a width in columns.
func (m *menu) show(w io.Writer, width int) {
	shown := m.fits[m.from : m.from+m.size(m.from)]
	names, bare := 0, true
	for _, i := range shown {
		names = max(names, tui.Width(m.items[i].title))
		bare = bare && m.items[i].about == ""
	}

	digits := len(strconv.Itoa(m.from + len(shown)))
	cell := digits + 4 + min(names, width-digits-4)
	columns := 1
	if bare && len(shown) > 12 {
		columns = max(1, (width-1)/cell)
	}

	names = min(names, max(width-digits-26, 12))

	rows := (len(shown) + columns - 1) / columns
	head := ""
	for row := range rows {
		if it := m.items[shown[row]]; it.head != head && m.filter == "" {
			head = it.head
			fmt.Fprintf(w, "\n%s\n", head)
		}

		line := ""
		for at := row; at < len(shown); at += rows {
			it := m.items[shown[at]]
			if columns > 1 {
				line += fmt.Sprintf("  %*d  %s", digits, m.from+at+1, pad(tui.Cut(it.title, cell-digits-4), cell-digits-4))
				continue
			}
			line = fmt.Sprintf("  %*d  %s  %s", digits, m.from+at+1, pad(tui.Cut(it.title, names), names), it.about)
		}

		fmt.Fprintln(w, strings.TrimRight(tui.Cut(strings.TrimRight(line, " "), width-1), " "))
	}

	if left := len(m.fits) - m.from - len(shown); left > 0 {
		more := phrase.In(m.language, "  %*s  %d more: type more, or a part of a name", digits, "…", left)
		fmt.Fprintln(w, tui.Cut(more, width-1))
	}
}
