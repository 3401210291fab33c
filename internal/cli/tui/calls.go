package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

const maxDiffLines = 12 // of one edit that are shown

// toolEvent shows a call that has ended: what it was, how it ended and how long
// it took; of a command that failed also the end of its output.
func (v *view) toolEvent(t *bus.Tool) []line {
	if t == nil {
		return nil
	}

	label := neutral(cmp.Or(t.Label, t.Name))
	if t.Phase == "start" {
		v.tool = cmp.Or(v.tool, firstLine(label))
		return nil
	}

	v.tool = ""
	if !v.o.ShowTools {
		return nil
	}

	mark, a := "✓ ", dim
	if t.Phase == "error" || t.Output != "" {
		mark, a = "✗ ", dim|red
	}

	lines := append(v.close(), v.track(v.marked(mark, a, v.o.callLine(t)))...)
	if t.Output != "" {
		lines = append(lines, v.quoted(t.Output)...)
	}
	return lines
}

// quoted shows output of a program as it is.
func (v *view) quoted(text string) []line {
	var out []line
	bar := styled("  │ ", dim)
	for l := range strings.SplitSeq(text, "\n") {
		out = append(out, wrap(styled(neutral(strings.TrimRight(l, " \r")), dim), v.columns(), bar, bar)...)
	}
	return v.track(out)
}

// callLine sums up a call that has ended.
func (o *Options) callLine(t *bus.Tool) string {
	parts := []string{cmp.Or(t.Label, t.Name)}
	outcome := o.words(t.Outcome)
	if t.Phase == "error" {
		outcome = cmp.Or(outcome, o.words("failed"))
	}
	if outcome != "" {
		parts = append(parts, outcome)
	}
	if t.DurationMS > 0 {
		parts = append(parts, o.duration(time.Duration(t.DurationMS)*time.Millisecond))
	}
	return strings.Join(parts, " · ")
}

func (o *Options) duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return o.words("%d ms", d.Milliseconds())
	case d < time.Minute:
		return o.words("%.1f s", d.Seconds())
	}
	return o.words("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

// fileEdit shows the beginning of what a call changed in each file.
func (v *view) fileEdit(edits []bus.Edit) []line {
	if !v.o.ShowTools {
		return nil
	}

	var out []line
	for _, e := range edits {
		head := styled("  ", 0).add(neutral(v.o.words(e.What)+" "+e.Path), dim)
		if e.Lines {
			head = head.add(fmt.Sprintf(" +%d", e.Added), green).add(fmt.Sprintf(" -%d", e.Deleted), red)
		}

		out = append(out, wrap(head, v.columns(), nil, blanks(2))...)
		shown := 0
		for l := range strings.SplitSeq(strings.TrimRight(e.Diff, "\n"), "\n") {
			if l == "" || strings.HasPrefix(l, "--- ") || strings.HasPrefix(l, "+++ ") {
				continue
			}
			if shown++; shown > maxDiffLines {
				continue
			}
			out = append(out, v.diffLine(neutral(strings.TrimRight(l, "\r"))))
		}

		if rest := shown - maxDiffLines; rest > 0 {
			out = append(out, styled(v.o.words("    … %d more lines; /diff shows them", rest), dim))
		}
	}

	return append(v.close(), v.track(out)...)
}

// diffLine returns one row of a diff, cut where the window ends.
func (v *view) diffLine(s string) line {
	a := dim
	switch s[0] {
	case '+':
		a = green
	case '-':
		a = red
	}

	l := append(blanks(4), styled(s, a)...)
	if l.width() > v.columns() {
		l = append(hardWrap([]line{l}, v.columns()-1)[0], cell{'…', dim})
	}
	return l
}
