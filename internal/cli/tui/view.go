package tui

import (
	"context"
	"errors"
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

	text     *renderer // the segment being streamed, if any
	thinking *renderer // reasoning being streamed, if any
	stream   string    // StreamID of text
	headed   bool      // rows of the segment were given out, so what precedes it was, too
	titled   bool      // the bot's name stands above this answer
	shown    bool      // streamed text was shown in this stretch
	blank    bool      // the last line was empty
	lastTurn string    // id of the last turn whose Final was shown

	since  time.Time       // start of the stretch
	tool   string          // what runs now, for the status line
	wait   string          // a brief notice, for the status line
	queue  []func() []line // what waits for the end of the line that is arriving
	unsaid []line          // messages among it, to be seen until then
}

func newView(o *Options, columns func() int) *view { return &view{o: o, columns: columns, blank: true} }

// begin starts a stretch of activity.
func (v *view) begin(now time.Time) {
	v.since = now
	v.titled = false
	v.shown = false
	v.tool = ""
	v.wait = ""
}

// show returns the finished lines that out adds.
func (v *view) show(out bus.Outbound) []line {
	v.wait = ""
	switch out.Kind {
	case bus.Delta:
		return v.delta(out)
	case bus.Reasoning:
		return v.reasoning(out.Text)
	case bus.DeltaEnd:
		v.tool = ""
		switch {
		case out.Void:
			return v.discard()
		case !out.Resuming:
			return v.closeSegment() // the reply follows
		}
		return v.close()

	case bus.Final:
		return append(v.final(out), v.catchUp()...)
	case bus.Progress:
		return append(v.close(), v.arrow(out.Text)...)
	case bus.ToolHint:
		v.tool = firstLine(out.Text)
		return v.close()
	case bus.FileEdit:
		return v.fileEdit(out.Edits)
	case bus.ToolEvent:
		return v.toolEvent(out.Tool)
	case bus.Notice:
		if out.Brief {
			v.wait = firstLine(out.Text)
			return nil
		}
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
		lines = append(lines, v.track(append(r.feed(text), r.flush()...))...)
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
	v.tool = v.o.words("waiting for your answer")
	lines := append(v.gap(), v.track(v.marked("? ", yellow|bold, out.Text))...)
	if q := out.Question; q != nil && len(q.Options) > 0 {
		lines = append(lines, v.options(q)...)
	}
	return lines
}

// options shows the answers to choose from.
func (v *view) options(q *bus.Question) []line {
	return v.track(v.marked("  ", dim, strings.Join(v.o.options(q), " / ")))
}

func (v *view) delta(out bus.Outbound) []line {
	var lines []line
	if v.thinking != nil || v.text != nil && v.stream != out.StreamID {
		lines = v.close()
	}

	text := out.Text
	if v.text == nil {
		if strings.TrimSpace(text) == "" {
			return lines
		}
		text = strings.TrimLeft(text, "\n")
		v.text = v.renderer(!v.o.Markdown || out.Plain)
		v.stream = out.StreamID
		v.headed = false
	}

	v.shown, v.tool = true, ""
	v.text.o.Width = v.columns()
	for len(v.queue) > 0 {
		head, tail, ok := strings.Cut(text, "\n")
		if !ok {
			break
		}
		lines = append(lines, v.rows(v.text.feed(head+"\n"))...)
		lines = append(lines, v.catchUp()...)
		text = tail
	}

	return append(lines, v.rows(v.text.feed(text))...)
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
		lines = v.close()
		v.thinking, v.headed = v.renderer(true), false
		v.thinking.tint = dim | italic
	}

	v.thinking.o.Width = v.columns()
	return append(lines, v.rows(v.thinking.feed(text))...)
}

// rows gives out rows of the segment being streamed, the first with what
// precedes it: so nothing else can come between the two.
func (v *view) rows(lines []line) []line {
	for !v.headed && len(lines) > 0 && len(lines[0]) == 0 {
		lines = lines[1:]
	}

	if len(lines) == 0 {
		return nil
	}

	var head []line
	switch {
	case v.headed:
	case v.thinking != nil:
		head = v.gap()
	default:
		head = v.title()
	}

	v.headed = true
	return append(head, v.track(lines)...)
}

func (v *view) renderer(literal bool) *renderer {
	return newRenderer(renderOptions{Width: v.columns(), Literal: literal})
}

// open reports whether a text is being streamed.
func (v *view) open() bool { return v.text != nil || v.thinking != nil }

// aside shows something that has nothing to do with the text being streamed:
// above what is still arriving, without ending it.
func (v *view) aside(show func() []line) []line {
	text, thinking, tool := v.text, v.thinking, v.tool
	v.text = nil
	v.thinking = nil
	v.titled = false
	v.headed = false
	lines := show()
	v.text = text
	v.thinking = thinking
	v.titled = false
	v.headed = false
	v.tool = tool
	return lines
}

// later shows something as soon as the line that is arriving has ended. Until
// then the rows in seen stand below it.
func (v *view) later(show func() []line, seen ...line) []line {
	v.queue = append(v.queue, show)
	v.unsaid = append(v.unsaid, seen...)
	return v.catchUp()
}

// catchUp shows what waited, unless a line is still arriving.
func (v *view) catchUp() []line {
	for _, r := range []*renderer{v.thinking, v.text} {
		if r != nil && !r.idle() {
			return nil
		}
	}

	var lines []line
	for len(v.queue) > 0 {
		show := v.queue[0]
		v.queue = v.queue[1:]
		if v.open() {
			lines = append(lines, v.aside(show)...)
		} else {
			lines = append(lines, show()...)
		}
	}

	v.queue, v.unsaid = nil, nil
	return lines
}

// close ends the segment being streamed and shows what waited for that.
func (v *view) close() []line { return append(v.closeSegment(), v.catchUp()...) }

// closeSegment ends the segment being streamed.
func (v *view) closeSegment() []line {
	var lines []line
	if v.thinking != nil {
		lines = append(lines, v.flushSegment(v.thinking)...)
		v.thinking = nil // before the text: rows puts a title above it only then
	}
	if v.text != nil {
		lines = append(lines, v.flushSegment(v.text)...)
		v.text = nil
	}
	return lines
}

// flushSegment returns the rest of what a renderer was given.
func (v *view) flushSegment(r *renderer) []line {
	r.o.Width = v.columns()
	return v.rows(r.flush())
}

// discard ends a segment that comes again.
func (v *view) discard() []line {
	headed := v.headed && v.open()
	v.thinking, v.text = nil, nil
	if !headed {
		return v.catchUp()
	}
	return append(v.track(v.marked("… ", dim, v.o.words("broke off and starts again"))), v.catchUp()...)
}

// preview shows the part of the answer that may still change, with what
// precedes it and the messages that wait for its end.
func (v *view) preview() []line {
	blank, titled, headed := v.blank, v.titled, v.headed
	defer func() { v.blank, v.titled, v.headed = blank, titled, headed }()
	var lines []line
	for _, r := range []*renderer{v.thinking, v.text} {
		if r != nil {
			r.o.Width = v.columns()
			lines = v.rows(r.preview())
			break
		}
	}

	if len(v.unsaid) > 0 {
		lines = append(append(lines, v.gap()...), v.unsaid...)
	}
	return lines
}

func (v *view) final(out bus.Outbound) []line {
	repeated := out.Turn != nil && out.Turn.ID != "" && out.Turn.ID == v.lastTurn
	if repeated { // a follow-up answered by the turn it joined
		return nil
	}

	lines := v.closeSegment()
	said := out
	if out.Streamed && v.shown || isError(out) {
		said.Text = ""
	}

	lines = append(lines, v.message(said)...)
	if t := out.Turn; t != nil {
		v.lastTurn = t.ID
		if t.Error != "" {
			lines = append(lines, v.gap()...)
			lines = append(lines, v.track(v.marked(v.o.words("error: "), red, t.Error))...)
		}
		lines = append(lines, v.footer(t)...)
	}

	v.titled, v.tool = false, ""
	return lines
}

// isError reports whether the text of a reply is only why there is none.
func isError(out bus.Outbound) bool {
	return out.Turn != nil && out.Turn.Error != "" && strings.TrimSpace(out.Text) == strings.TrimSpace(out.Turn.Error)
}

// title returns the line with the bot's name that precedes an answer.
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
	s := v.o.footer(t)
	if s == "" {
		return nil
	}
	return v.track([]line{styled(s, dim)})
}

func (o *Options) footer(t *bus.Turn) string {
	var parts []string
	if u := t.Usage; u.Prompt > 0 || u.Completion > 0 {
		about := ""
		if u.Estimated {
			about = "~"
		}

		in := o.words("%s in", about+thousands(u.Prompt))
		if u.Cached > 0 && u.Prompt > 0 {
			in += o.words(" (%d%% cached)", min(100, 100*u.Cached/u.Prompt))
		}
		parts = append(parts, in, o.words("%s out", about+thousands(u.Completion)))
	}

	if t.DurationMS > 0 {
		parts = append(parts, o.words("%.1f s", float64(t.DurationMS)/1000))
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

// options returns the answers to a question as they may be typed.
func (o *Options) options(q *bus.Question) []string {
	shown := make([]string, len(q.Options))
	for i, option := range q.Options {
		shown[i] = option
		if said := o.words(option); said != option {
			shown[i] += " " + said
		}
	}
	return shown
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

// failure shows an error that ended a turn.
func (v *view) failure(err error) []line {
	lines := v.close()
	if errors.Is(err, context.Canceled) {
		return append(lines, v.track(v.marked("! ", yellow, v.o.words("stopped")))...)
	}

	text, hint := v.o.explain(err)
	lines = append(lines, v.gap()...)
	lines = append(lines, v.track(v.marked(v.o.words("error: "), red, text))...)
	if hint != "" {
		lines = append(lines, v.track(v.marked("  → ", dim, hint))...)
	}
	return lines
}

// status returns the line with the spinner.
func (v *view) status(now time.Time) line {
	const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
	spent := now.Sub(v.since)
	frame := []rune(frames)[int(spent/spinnerPeriod)%(len(frames)/3)]
	what := v.o.words("thinking")
	switch {
	case v.wait != "":
		what = v.wait
	case v.tool != "":
		what = v.tool
	case v.text != nil:
		what = v.o.words("writing")
	}

	seconds := ""
	if s := int(spent.Seconds()); s > 0 {
		seconds = v.o.words(" %ds", s)
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
