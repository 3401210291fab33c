package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// report writes the figures of a tree beside those of an earlier one.
type report struct {
	now, before *shape // before is nil if there is nothing to compare with
	other       choice
	all         bool // complete tables
	allocations int  // of package initialisation; 0 if it was not measured

	was map[string]string // folder of now -> what it was called before
}

// row is a row of a table.
type row struct {
	name        string
	now, before float64
	isNew, gone bool // there is no figure of before, or of now
	isShare     bool // the figures are parts of one, not counts
	note        string
	size        float64 // the biggest rows come first
}

func (r *report) String() string {
	r.was = map[string]string{}
	if r.before != nil {
		r.was = match(r.now.folders, r.before.folders)
	}

	var b strings.Builder
	b.WriteString("# Shape of the code\n\n")
	if r.before != nil {
		fmt.Fprintf(&b, "Beside commit %s of %s, %s. **Bold**: grew by a tenth or more.\n", r.other.commit, r.other.date, r.other.why)
	} else {
		fmt.Fprintf(&b, "Figures of today alone: %s.\n", r.other.why)
	}
	r.table(&b, "The whole", r.whole(), 0)
	if r.allocations > 0 {
		fmt.Fprintf(&b, "\nPackage initialisation: %s allocations.\n", grouped(r.allocations))
	}
	r.table(&b, "Biggest packages, in lines of Go", r.packages(), 10)
	r.table(&b, fmt.Sprintf("Types with more than %d methods", maxMethods), r.types(), 10)
	r.table(&b, "References between files that run back up, by their number", r.upward(), 12)
	r.table(&b, fmt.Sprintf("Files over %d lines", maxFileLines), r.files(), 5)
	r.duplicates(&b, 5)
	return b.String()
}

// table writes the first rows of a table, or all for a limit of 0.
func (r *report) table(b *strings.Builder, title string, rows []row, limit int) {
	fmt.Fprintf(b, "\n## %s\n\n", title)
	cells := [][]string{{"", "now"}}
	if r.before != nil {
		cells[0] = append(cells[0], "before", "change")
	}
	shown := r.limit(len(rows), limit)
	for _, row := range rows[:shown] {
		line := []string{row.name, row.figure(row.now, row.gone) + row.note}
		if r.before != nil {
			line = append(line, row.figure(row.before, row.isNew), row.change())
		}
		cells = append(cells, line)
	}
	writeTable(b, cells)
	if rest := len(rows) - shown; rest > 0 {
		fmt.Fprintf(b, "\nand %s more, with -all\n", grouped(rest))
	}
}

func (r *report) limit(rows, limit int) int {
	if r.all || limit == 0 {
		return rows
	}
	return min(rows, limit)
}

func (r row) figure(n float64, missing bool) string {
	switch {
	case missing:
		return "-"
	case r.isShare:
		return fmt.Sprintf("%.1f %%", 100*n)
	}
	return grouped(int(n))
}

// change says how much the figure of a row grew, in bold from a tenth on.
func (r row) change() string {
	switch {
	case r.isNew:
		return "new"
	case r.gone:
		return "gone"
	case r.now == r.before:
		return ""
	case r.before == 0:
		return "**from 0**"
	}

	grew := r.now/r.before - 1
	text := fmt.Sprintf("%+.1f %%", 100*grew)
	if r.isShare {
		text = fmt.Sprintf("%+.1f points", 100*(r.now-r.before))
	}
	switch {
	case strings.HasPrefix(text[1:], "0.0 "):
		return ""
	case grew >= 0.1:
		return "**" + text + "**"
	}
	return text
}

// writeTable writes a table of Markdown whose columns are aligned for a terminal, too.
// All columns but the first one are to the right.
func writeTable(b *strings.Builder, cells [][]string) {
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	for n, line := range cells {
		for i, cell := range line {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("| " + cell + space + " |")
			} else {
				b.WriteString(" " + space + cell + " |")
			}
		}
		b.WriteString("\n")
		if n > 0 {
			continue
		}
		for i, width := range widths {
			if i == 0 {
				b.WriteString("| " + strings.Repeat("-", width) + " |")
			} else {
				b.WriteString(" " + strings.Repeat("-", width-1) + ": |")
			}
		}
		b.WriteString("\n")
	}
}

// grouped writes a number with commas.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func (r *report) whole() []row {
	figures := func(s *shape) []float64 {
		goLines, scriptLines := s.productLines()
		return []float64{
			float64(s.goLines[product]), float64(s.goLines[tests]), float64(s.goLines[tooling]),
			float64(s.scriptLines[product]), float64(s.scriptLines[tests] + s.scriptLines[tooling]),
			float64(len(s.packages)),
			float64(s.bigTypes()), float64(s.longFiles()),
			float64(s.goWide), float64(s.scriptWide),
			share(s.goBlank, goLines), share(s.scriptBlank, scriptLines),
			float64(len(s.pairs)), float64(s.pairLines),
			s.upwardSums.share(),
		}
	}
	rows := []row{
		{name: "lines of Go: product"},
		{name: "lines of Go: tests, suites, fakes, benchmarks"},
		{name: "lines of Go: tools"},
		{name: "lines of TypeScript: product"},
		{name: "lines of TypeScript and JavaScript: tests"},
		{name: "packages of Go"},
		{name: fmt.Sprintf("types with more than %d methods", maxMethods)},
		{name: fmt.Sprintf("files over %d lines", maxFileLines)},
		{name: fmt.Sprintf("lines of statements over %d columns: Go", maxColumns)},
		{name: fmt.Sprintf("lines of statements over %d columns: TypeScript", maxColumns)},
		{name: "share of blank lines: Go", isShare: true},
		{name: "share of blank lines: TypeScript", isShare: true},
		{name: fmt.Sprintf("pairs of places with %d or more equal lines", minEqual)},
		{name: "lines that are in such a pair"},
		{name: "share of references between files that run back up", isShare: true},
	}
	for i, n := range figures(r.now) {
		rows[i].now = n
	}
	if r.before != nil {
		for i, n := range figures(r.before) {
			rows[i].before = n
		}
	}
	return rows
}

func share(part, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// productLines returns how many lines the measured files have.
func (s *shape) productLines() (goLines, scriptLines int) {
	for name, n := range s.files {
		if (file{path: name}).isGo() {
			goLines += n
		} else {
			scriptLines += n
		}
	}
	return goLines, scriptLines
}

func (s *shape) bigTypes() int {
	n := 0
	for _, methods := range s.types {
		if methods > maxMethods {
			n++
		}
	}
	return n
}

func (s *shape) longFiles() int {
	n := 0
	for _, lines := range s.files {
		if lines > maxFileLines {
			n++
		}
	}
	return n
}

func (r *report) packages() []row {
	var before map[string]int
	if r.before != nil {
		before = r.before.packages
	}
	return compare(r.now.packages, before, r.folderBefore, strings.Clone, 0)
}

func (r *report) types() []row {
	var before map[typeName]int
	if r.before != nil {
		before = r.before.types
	}
	was := func(t typeName) typeName { return typeName{r.folderBefore(t.folder), t.name} }
	return compare(r.now.types, before, was, func(t typeName) string { return t.folder + "." + t.name }, maxMethods)
}

func (r *report) files() []row {
	var before map[string]int
	if r.before != nil {
		before = r.before.files
	}
	was := func(name string) string { return path.Join(r.folderBefore(path.Dir(name)), path.Base(name)) }
	return compare(r.now.files, before, was, strings.Clone, maxFileLines)
}

func (r *report) upward() []row {
	var rows []row
	for folder, u := range r.now.upward {
		rows = append(rows, row{
			name:    folder,
			now:     u.share(),
			isShare: true,
			isNew:   true,
			note:    " of " + grouped(u.all),
			size:    float64(u.up),
		})
		if r.before == nil {
			continue
		}
		last := &rows[len(rows)-1]
		if old, ok := r.before.upward[r.folderBefore(folder)]; ok {
			last.isNew = false
			last.before = old.share()
		}
	}
	sortRows(rows)
	return rows
}

// folderBefore returns what a folder was called before, and "?" for a new one, which
// is the name of none.
func (r *report) folderBefore(folder string) string {
	if was, ok := r.was[folder]; ok {
		return was
	}
	return "?"
}

// compare makes the rows for figures that are over a limit now or were so before. was
// returns what something was called before.
func compare[K comparable](now, before map[K]int, was func(K) K, name func(K) string, limit int) []row {
	var rows []row
	found := map[K]bool{}
	for key, n := range now {
		old, ok := before[was(key)]
		found[was(key)] = true
		if max(n, old) > limit {
			rows = append(rows, row{name: name(key), now: float64(n), before: float64(old), isNew: !ok, size: float64(max(n, old))})
		}
	}
	for key, old := range before {
		if old > limit && !found[key] {
			rows = append(rows, row{name: name(key), before: float64(old), gone: true, size: float64(old)})
		}
	}
	sortRows(rows)
	return rows
}

func sortRows(rows []row) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.name, b.name))
	})
}

// duplicates writes the longest pairs.
func (r *report) duplicates(b *strings.Builder, limit int) {
	fmt.Fprint(b, "\n## Longest pairs of places with equal lines\n\n")
	shown := r.limit(len(r.now.pairs), limit)
	for _, p := range r.now.pairs[:shown] {
		fmt.Fprintf(b, "- %d lines: %s:%d and %s:%d\n", p.lines, p.a.file, p.a.line, p.b.file, p.b.line)
	}
	if rest := len(r.now.pairs) - shown; rest > 0 {
		fmt.Fprintf(b, "\nand %s more, with -all\n", grouped(rest))
	}
}
