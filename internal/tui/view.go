package tui

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// view turns what the agent sends into finished lines and a preview of what is
// still arriving. It spans a stretch of activity: from the first question until
// every Ask has ended.
type view struct {
	o       *Options
	columns func() int

	text     *Renderer // the segment being streamed, if any
	thinking *Renderer // reasoning being streamed, if any
	stream   string    // StreamID of text
	titled   bool      // the bot's name stands above this answer
	shown    bool      // streamed text was shown in this stretch
	blank    bool      // the last line was empty
	lastTurn string    // id of the last turn whose Final was shown

	since time.Time // start of the stretch
	tool  string    // what runs now, for the status line
}

func newView(o *Options, columns func() int) *view { return &view{o: o, columns: columns, blank: true} }

// begin starts a stretch of activity.
func (v *view) begin(now time.Time) {
	v.since, v.titled, v.shown, v.tool = now, false, false, ""
}

// show returns the finished lines that out adds.
func (v *view) show(out bus.Outbound) []line {
	switch out.Kind {
	case bus.Delta:
		return v.delta(out)
	case bus.Reasoning:
		return v.reasoning(out.Text)
	case bus.DeltaEnd:
		v.tool = ""
		return v.close()
	case bus.Final:
		return v.final(out)
	case bus.Progress:
		return append(v.close(), v.arrow(out.Text)...)
	case bus.ToolHint:
		v.tool = firstLine(out.Text)
		if !v.o.ShowTools {
			return v.close()
		}
		return append(v.close(), v.arrow(out.Text)...)
	case bus.ToolEvent:
		return v.toolEvent(out.Tool)
	case bus.Notice:
		return append(v.close(), v.track(v.marked("! ", yellow, out.Text))...)
	case bus.Gone:
		v.tool = ""
		if out.Text == "" {
			return nil
		}
		return append(v.close(), v.track(v.marked("! ", yellow, out.Text))...)
	case bus.Message:
		return append(v.close(), v.message(out)...)
	case bus.Ask:
		return append(v.close(), v.question(out)...)
	}
	return nil
}

// message shows a complete text with the files that go with it.
func (v *view) message(out bus.Outbound) []line {
	var lines []line
	if text := strings.Trim(out.Text, "\n"); strings.TrimSpace(text) != "" {
		r := v.renderer(!v.o.Markdown || out.Plain)
		lines = append(lines, v.title()...)
		lines = append(lines, v.track(append(r.feed(text), r.finish()...))...)
	}
	for _, m := range out.Media {
		lines = append(lines, v.track(v.marked("+ ", cyan, m.Path))...)
	}
	if q := out.Question; q != nil && q.Text == "" {
		lines = append(lines, v.options(q)...)
	}
	return lines
}

// question shows what the turn waits for. The text is shown as it is: it names
// what is going to happen.
func (v *view) question(out bus.Outbound) []line {
	v.tool = "waiting for your answer"
	lines := append(v.gap(), v.track(v.marked("? ", yellow|bold, out.Text))...)
	if q := out.Question; q != nil && len(q.Options) > 0 {
		lines = append(lines, v.options(q)...)
	}
	return lines
}

// options shows the answers to choose from.
func (v *view) options(q *bus.Question) []line {
	return v.track(v.marked("  ", dim, strings.Join(q.Options, " / ")))
}

func (v *view) delta(out bus.Outbound) []line {
	var lines []line
	if v.thinking != nil || v.text != nil && v.stream != out.StreamID {
		lines = v.close()
	}
	if v.text == nil {
		if strings.TrimSpace(out.Text) == "" {
			return lines
		}
		out.Text = strings.TrimLeft(out.Text, "\n")
		v.text, v.stream = v.renderer(!v.o.Markdown || out.Plain), out.StreamID
		lines = append(lines, v.title()...)
	}
	v.shown, v.tool = true, ""
	v.text.o.Width = v.columns()
	return append(lines, v.track(v.text.feed(out.Text))...)
}

func (v *view) reasoning(text string) []line {
	if !v.o.ShowReasoning {
		return nil
	}
	var lines []line
	if v.thinking == nil {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		text = strings.TrimLeft(text, "\n")
		lines = append(v.close(), v.gap()...)
		v.thinking = v.renderer(true)
		v.thinking.tint = dim | italic
	}
	v.thinking.o.Width = v.columns()
	return append(lines, v.track(v.thinking.feed(text))...)
}

func (v *view) renderer(literal bool) *Renderer {
	return newRenderer(renderOptions{Width: v.columns(), Literal: literal})
}

// open reports whether a text is being streamed.
func (v *view) open() bool { return v.text != nil || v.thinking != nil }

// aside shows something that has nothing to do with the text being streamed:
// above it, without ending it.
func (v *view) aside(show func() []line) []line {
	if !v.open() {
		return show()
	}
	text, thinking, titled, tool := v.text, v.thinking, v.titled, v.tool
	v.text, v.thinking, v.titled = nil, nil, false
	lines := show()
	lines = append(lines, v.gap()...)
	v.text, v.thinking, v.titled, v.tool = text, thinking, titled, tool
	return lines
}

// close ends the segment being streamed.
func (v *view) close() []line {
	var lines []line
	for _, r := range []*Renderer{v.thinking, v.text} {
		if r != nil {
			r.o.Width = v.columns()
			lines = append(lines, v.track(r.finish())...)
		}
	}
	v.thinking, v.text = nil, nil
	return lines
}

// preview shows the part of the answer that may still change.
func (v *view) preview() []line {
	for _, r := range []*Renderer{v.thinking, v.text} {
		if r != nil {
			r.o.Width = v.columns()
			return r.preview()
		}
	}
	return nil
}

func (v *view) final(out bus.Outbound) []line {
	repeated := out.Turn != nil && out.Turn.ID != "" && out.Turn.ID == v.lastTurn
	if repeated { // a follow-up answered by the turn it joined
		return nil
	}
	lines := v.close()
	said := out
	if out.Streamed && v.shown {
		said.Text = ""
	}
	lines = append(lines, v.message(said)...)
	if t := out.Turn; t != nil {
		v.lastTurn = t.ID
		if t.Error != "" && !strings.Contains(out.Text, t.Error) {
			lines = append(lines, v.track(v.marked("error: ", red, firstLine(t.Error)))...)
		}
		lines = append(lines, v.footer(t)...)
	}
	v.titled, v.tool = false, ""
	return lines
}

// title is the line with the bot's name that precedes an answer.
func (v *view) title() []line {
	lines := v.gap()
	if v.titled {
		return lines
	}
	v.titled = true
	name := strings.TrimSpace(v.o.Banner.Icon + " " + v.o.Banner.Name)
	if name == "" {
		return lines
	}
	return append(lines, v.track([]line{styled(neutral(name), bold)})...)
}

// footer sums up a turn in one dimmed line.
func (v *view) footer(t *bus.Turn) []line {
	s := footer(t)
	if s == "" {
		return nil
	}
	return v.track([]line{styled(s, dim)})
}

func footer(t *bus.Turn) string {
	var parts []string
	if u := t.Usage; u.Prompt > 0 || u.Completion > 0 {
		about := ""
		if u.Estimated {
			about = "~"
		}
		in := about + thousands(u.Prompt) + " in"
		if u.Cached > 0 && u.Prompt > 0 {
			in += fmt.Sprintf(" (%d%% cached)", min(100, 100*u.Cached/u.Prompt))
		}
		parts = append(parts, in, about+thousands(u.Completion)+" out")
	}
	if t.DurationMS > 0 {
		parts = append(parts, fmt.Sprintf("%.1f s", float64(t.DurationMS)/1000))
	}
	return strings.Join(parts, " · ")
}

// thousands writes 950, 1.2k, 34k, 1.2M.
func thousands(n int) string {
	short := func(f float64, unit string) string {
		if f < 10 {
			return strconv.FormatFloat(f, 'f', 1, 64) + unit
		}
		return strconv.FormatFloat(f, 'f', 0, 64) + unit
	}
	switch {
	case n < 1000:
		return strconv.Itoa(n)
	case n < 999_500:
		return short(float64(n)/1e3, "k")
	}
	return short(float64(n)/1e6, "M")
}

func (v *view) arrow(text string) []line { return v.track(v.marked("↳ ", dim, text)) }

// marked sets a short text behind a mark, wrapped under itself.
func (v *view) marked(mark string, a attr, text string) []line {
	var out []line
	first := styled(mark, a)
	rest := blanks(first.width())
	tint := a & (dim | red | yellow)
	for s := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		out = append(out, wrap(styled(neutral(strings.TrimRight(s, " \r")), tint), v.columns(), first, rest)...)
		first = rest
	}
	return out
}

func (v *view) toolEvent(t *bus.Tool) []line {
	if t == nil {
		return nil
	}
	switch t.Phase {
	case "start":
		if v.tool == "" {
			v.tool = firstLine(t.Name)
		}
	case "error":
		v.tool = ""
		if v.o.ShowTools {
			detail := t.Name
			if t.Detail != "" {
				detail += ": " + firstLine(t.Detail)
			}
			return append(v.close(), v.track(v.marked("✗ ", dim|red, detail))...)
		}
	default:
		v.tool = ""
	}
	return nil
}

// failure shows an error that ended a turn.
func (v *view) failure(err error) []line {
	lines := v.close()
	if errors.Is(err, context.Canceled) {
		return append(lines, v.track(v.marked("! ", yellow, "stopped"))...)
	}
	text, hint := v.o.explain(err)
	lines = append(lines, v.track(v.marked("error: ", red, text))...)
	if hint != "" {
		lines = append(lines, v.track(v.marked("  → ", dim, hint))...)
	}
	return lines
}

// status is the line with the spinner.
func (v *view) status(now time.Time) line {
	const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
	spent := now.Sub(v.since)
	frame := []rune(frames)[int(spent/spinnerPeriod)%(len(frames)/3)]
	what := "thinking"
	switch {
	case v.tool != "":
		what = v.tool
	case v.text != nil:
		what = "writing"
	}
	seconds := ""
	if s := int(spent.Seconds()); s > 0 {
		seconds = fmt.Sprintf(" %ds", s)
	}
	l := styled(string(frame)+" ", cyan).add(what, dim)
	if limit := v.columns() - len(seconds); l.width() > limit {
		l = append(hardWrap([]line{l}, max(limit-1, 1))[0], cell{'…', dim})
	}
	return l.add(seconds, dim)
}

// spinnerPeriod is how long one frame of the spinner stays.
const spinnerPeriod = 120 * time.Millisecond

// gap separates what follows from what is on the screen by one empty line.
func (v *view) gap() []line {
	if v.blank {
		return nil
	}
	v.blank = true
	return []line{nil}
}

// track remembers whether the last line that goes out is empty.
func (v *view) track(lines []line) []line {
	if n := len(lines); n > 0 {
		v.blank = len(lines[n-1]) == 0
	}
	return lines
}
