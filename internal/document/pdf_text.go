package document

import (
	"errors"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Limits of what one page draws.
const (
	maxForms  = 8     // inside each other
	maxDraws  = 5_000 // of forms
	maxStates = 256
	maxArgs   = 1024
)

// matrix is an affine map: x' = a x + c y + e, y' = b x + d y + f.
type matrix [6]float64

// mul is m followed by n.
func (m matrix) mul(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// state is what the operators of a page set.
type state struct {
	ctm     matrix
	font    *font
	size    float64
	charGap float64
	wordGap float64
	scale   float64 // horizontal
	leading float64
	rise    float64
}

// painter follows the operators of a page and collects its text.
type painter struct {
	d         *pdf
	state     state
	stack     []state
	text      matrix
	line      matrix
	resources dict
	left      int64 // bytes of content that may still be read
	depth     int   // of forms
	draws     int

	out     strings.Builder
	room    int     // characters that may still be written
	x, y    float64 // where the last text ended
	dx, dy  float64 // its direction
	height  float64 // its size on the page; 0: there is none yet
	start   [2]float64
	last    string
	spaced  bool // it ended in space
	unknown int
	known   int
	marks   []mark
}

// mark is a marked part of the content. Its text may be given beside what is drawn.
type mark struct {
	actual string
	given  bool
	shown  bool
}

// pageText is the text of a page.
func (d *pdf) pageText(p page, number, room int) string {
	pd, _ := d.resolve(p.id).(dict)
	res, _ := d.resolve(p.resources).(dict)
	w := &painter{d: d, resources: res, left: maxPageBytes, room: room + 1024}
	w.state = state{ctm: matrix{1, 0, 0, 1, 0, 0}, scale: 1}
	var readers []io.Reader
	for _, o := range d.list(pd["Contents"]) {
		s, ok := d.resolve(o).(stream)
		if !ok {
			continue
		}
		if r, err := d.decode(s); err == nil {
			readers = append(readers, r, strings.NewReader("\n"))
		}
	}
	w.run(io.MultiReader(readers...))
	for _, o := range d.list(pd["Annots"])[:min(maxArgs, len(d.list(pd["Annots"])))] {
		w.annotation(o)
	}
	if w.left <= 0 {
		d.notes.add("Page %d was cut: it holds more than %d MiB of drawing instructions.", number, maxPageBytes>>20)
	}
	if w.draws > maxDraws {
		d.notes.add("Page %d was cut: it draws more than %d forms.", number, maxDraws)
	}
	if w.unknown > 0 && w.unknown*20 > w.known {
		d.notes.add("Page %d has characters in a font that does not say which they are; they are missing.", number)
	}
	return tidy(w.out.String())
}

// limited counts the content of a page, forms included.
type limited struct {
	w *painter
	r io.Reader
}

func (l limited) Read(p []byte) (int, error) {
	if l.w.left <= 0 {
		return 0, io.EOF
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.w.left)])
	l.w.left -= int64(n)
	return n, err
}

// run interprets content.
func (w *painter) run(r io.Reader) {
	l := newLexer(limited{w, r}, 0, false)
	var args []object
	for w.room > 0 && w.draws <= maxDraws {
		l.budget = maxElements
		o, err := l.next()
		if err != nil {
			if _, ours := errors.AsType[*Error](err); ours && l.err == nil {
				continue // an object over a limit; what follows may be fine
			}
			return
		}
		op, isOp := o.(keyword)
		if !isOp {
			if len(args) < maxArgs {
				args = append(args, o)
			}
			continue
		}
		if op == "BI" {
			skipImage(l)
		} else {
			w.do(op, args)
		}
		args = args[:0]
	}
}

// skipImage reads past a picture inside the content.
func skipImage(l *lexer) {
	for {
		o, err := l.next()
		if err != nil {
			return
		}
		if o == keyword("ID") {
			break
		}
	}
	a, b, c := byte(' '), byte(' '), byte(' ')
	for {
		next, ok := l.byte()
		if !ok {
			return
		}
		a, b, c = b, c, next
		if isSpace(a) && b == 'E' && c == 'I' {
			if next, ok = l.byte(); !ok || isSpace(next) {
				return
			}
			l.back()
		}
	}
}

func num(args []object, i int) float64 {
	if i < len(args) {
		v, _ := toFloat(args[i])
		return v
	}
	return 0
}

func sixth(args []object) matrix {
	var m matrix
	for i := range m {
		m[i] = num(args, i)
	}
	return m
}

// do executes an operator. Those that draw no text are left out.
func (w *painter) do(op keyword, args []object) {
	s := &w.state
	switch op {
	case "q":
		if len(w.stack) < maxStates {
			w.stack = append(w.stack, *s)
		}
	case "Q":
		if n := len(w.stack); n > 0 {
			*s, w.stack = w.stack[n-1], w.stack[:n-1]
		}
	case "cm":
		s.ctm = sixth(args).mul(s.ctm)
	case "BT":
		w.text, w.line = matrix{1, 0, 0, 1, 0, 0}, matrix{1, 0, 0, 1, 0, 0}
	case "Tc":
		s.charGap = num(args, 0)
	case "Tw":
		s.wordGap = num(args, 0)
	case "Tz":
		s.scale = num(args, 0) / 100
	case "TL":
		s.leading = num(args, 0)
	case "Ts":
		s.rise = num(args, 0)
	case "Tf":
		w.setFont(args)
	case "Td":
		w.move(num(args, 0), num(args, 1))
	case "TD":
		s.leading = -num(args, 1)
		w.move(num(args, 0), num(args, 1))
	case "Tm":
		w.text = sixth(args)
		w.line = w.text
	case "T*":
		w.move(0, -s.leading)
	case "Tj", "TJ", "'", "\"":
		w.showOperator(op, args)
	case "Do":
		w.form(args)
	case "BMC", "BDC":
		w.mark(args)
	case "EMC":
		if n := len(w.marks); n > 0 {
			w.marks = w.marks[:n-1]
		}
	}
}

func (w *painter) move(x, y float64) {
	w.line = matrix{1, 0, 0, 1, x, y}.mul(w.line)
	w.text = w.line
}

func (w *painter) setFont(args []object) {
	if len(args) < 2 {
		return
	}
	w.state.size = num(args, 1)
	n, _ := args[0].(name)
	fonts, _ := w.d.resolve(w.resources["Font"]).(dict)
	w.state.font = w.d.font(fonts[n])
}

func (w *painter) showOperator(op keyword, args []object) {
	if len(args) == 0 {
		return
	}
	switch op {
	case "'":
		w.move(0, -w.state.leading)
	case "\"":
		w.state.wordGap, w.state.charGap = num(args, 0), num(args, 1)
		w.move(0, -w.state.leading)
	}
	switch v := args[len(args)-1].(type) {
	case text:
		w.show(v)
	case array:
		for _, o := range v {
			if s, ok := o.(text); ok {
				w.show(s)
			} else if n, ok := toFloat(o); ok {
				w.advance(-n / 1000 * w.state.size)
			}
		}
	}
}

// advance moves along the line of text, before horizontal scaling.
func (w *painter) advance(by float64) {
	if w.state.font != nil && w.state.font.vertical {
		w.text = matrix{1, 0, 0, 1, 0, by}.mul(w.text)
		return
	}
	w.text = matrix{1, 0, 0, 1, by * w.state.scale, 0}.mul(w.text)
}

// show writes a string. Some producers squeeze a space to nothing or spread
// letters apart to make one, so what counts is where the glyphs end up.
func (w *painter) show(s text) {
	f := w.state.font
	if f == nil || s == "" {
		return
	}
	var run strings.Builder
	size, sign := w.state.size, 1.0
	if f.vertical {
		sign = -1
	}
	before, end := w.text, w.text
	for s != "" {
		var g glyph
		g, s = f.decode(s)
		by, gap := g.width*size, w.state.charGap
		if f.vertical {
			by = size
		}
		if g.space {
			by += w.state.wordGap
		}
		w.advance(sign * by)
		end = w.text
		w.advance(sign * gap)
		blank := g.text == " " || g.text == "\u00a0"
		switch {
		case !g.known:
			w.unknown++
			continue
		case blank && size != 0 && (by+gap)/size < 0.1:
			continue
		case blank:
			run.WriteByte(' ')
		default:
			w.known++
			run.WriteString(spellOut(g.text))
		}
		if s != "" && s[0] != ' ' && !blank && gap > 0.2*math.Abs(size) {
			run.WriteByte(' ')
		}
	}
	w.place(run.String(), before, end)
}

// place writes text that was drawn from one place to another, with the space
// or the line end that the gap to the text before it stands for.
func (w *painter) place(s string, from, to matrix) {
	at, end := from.mul(w.state.ctm), to.mul(w.state.ctm)
	x, y := at[4]+w.state.rise*at[2], at[5]+w.state.rise*at[3]
	height := math.Abs(w.state.size) * math.Hypot(at[2], at[3])
	dx, dy := unit(at[0], at[1])
	if w.state.font.vertical {
		dx, dy = unit(-at[2], -at[3])
	}
	if m := w.given(); m != nil && m.shown {
		w.x, w.y = end[4], end[5]
		return
	} else if m != nil {
		m.shown, s = true, m.actual
	}
	if s == "" {
		return
	}
	if w.height > 0 && s == w.last && math.Hypot(x-w.start[0], y-w.start[1]) < 0.1*height && strings.TrimSpace(s) != "" {
		return // drawn twice to look bold
	}
	w.separate(x, y, height, strings.HasPrefix(s, " "))
	w.last, w.start = s, [2]float64{x, y}
	w.put(s)
	w.x, w.y, w.height = end[4]+w.state.rise*at[2], end[5]+w.state.rise*at[3], height
	w.dx, w.dy = dx, dy
	w.spaced = strings.HasSuffix(s, " ")
}

func unit(x, y float64) (float64, float64) {
	if n := math.Hypot(x, y); n > 0 {
		return x / n, y / n
	}
	return 1, 0
}

// separate writes what lies between the last text and a new place.
func (w *painter) separate(x, y, height float64, spaced bool) {
	if w.height == 0 {
		return
	}
	along := (x-w.x)*w.dx + (y-w.y)*w.dy
	aside := math.Abs((y-w.y)*w.dx - (x-w.x)*w.dy)
	size := min(w.height, height)
	if size <= 0 {
		size = max(w.height, height)
	}
	switch {
	case aside > 0.5*max(w.height, height), along < -4*size && aside > 0.2*size:
		w.put("\n")
	case w.spaced || spaced:
	case along > 0.17*size, along < -size:
		w.put(" ")
	}
}

func (w *painter) put(s string) {
	if w.room -= utf8.RuneCountInString(s); w.room >= 0 {
		w.out.WriteString(s)
	}
}

// form draws a piece of content that is used by name.
func (w *painter) form(args []object) {
	if len(args) == 0 {
		return
	}
	n, _ := args[0].(name)
	all, _ := w.d.resolve(w.resources["XObject"]).(dict)
	s, ok := w.d.resolve(all[n]).(stream)
	if ok && w.d.resolve(s.dict["Subtype"]) == name("Form") {
		w.draw(s)
	}
}

// draw runs the content of a form and leaves everything as it was.
func (w *painter) draw(s stream) {
	w.draws++
	if w.depth >= maxForms || w.draws > maxDraws {
		return
	}
	r, err := w.d.decode(s)
	if err != nil {
		return
	}
	before, stack, res, marks := w.state, w.stack, w.resources, w.marks
	text, line := w.text, w.line
	w.stack, w.marks = nil, nil
	if m := w.numbers(s.dict["Matrix"], 6); m != nil {
		w.state.ctm = matrix(m).mul(w.state.ctm)
	}
	if own, ok := w.d.resolve(s.dict["Resources"]).(dict); ok {
		w.resources = own
	}
	w.depth++
	w.run(r)
	w.depth--
	w.state, w.stack, w.resources, w.marks = before, stack, res, marks
	w.text, w.line = text, line
}

// numbers reads an array of exactly n numbers, else nil.
func (w *painter) numbers(o object, n int) []float64 {
	a := w.d.list(o)
	if len(a) != n {
		return nil
	}
	out := make([]float64, n)
	for i := range a {
		out[i], _ = toFloat(w.d.resolve(a[i]))
	}
	return out
}

// annotation draws what stands on the page as a note or a filled-in field.
func (w *painter) annotation(o object) {
	a, _ := w.d.resolve(o).(dict)
	flags, _ := w.d.resolve(a["F"]).(int)
	if flags&2 != 0 || w.d.resolve(a["Subtype"]) == name("Popup") { // hidden
		return
	}
	looks, _ := w.d.resolve(a["AP"]).(dict)
	normal := w.d.resolve(looks["N"])
	if states, ok := normal.(dict); ok { // a box that is ticked or not
		as, _ := w.d.resolve(a["AS"]).(name)
		normal = w.d.resolve(states[as])
	}
	s, ok := normal.(stream)
	if !ok {
		return
	}
	w.state = state{ctm: matrix{1, 0, 0, 1, 0, 0}, scale: 1}
	w.stack, w.marks = nil, nil
	rect, box := w.numbers(a["Rect"], 4), w.numbers(s.dict["BBox"], 4)
	if rect != nil && box != nil {
		w.state.ctm[4], w.state.ctm[5] = min(rect[0], rect[2])-min(box[0], box[2]), min(rect[1], rect[3])-min(box[1], box[3])
	}
	w.draw(s)
}

// tidy drops space at the ends of lines and all but one of several blank lines.
func tidy(s string) string {
	var b strings.Builder
	blank := 0
	for l := range strings.SplitSeq(strings.Trim(s, "\n "), "\n") {
		if l = strings.TrimRight(l, " "); l == "" {
			blank++
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n"[:min(blank+1, 2)])
		}
		b.WriteString(l)
		blank = 0
	}
	return b.String()
}

// mark opens a marked part.
func (w *painter) mark(args []object) {
	m := mark{}
	if len(args) > 1 {
		props, _ := args[1].(dict)
		if n, ok := args[1].(name); ok {
			all, _ := w.d.resolve(w.resources["Properties"]).(dict)
			props, _ = w.d.resolve(all[n]).(dict)
		}
		if s, ok := w.d.resolve(props["ActualText"]).(text); ok {
			m.actual, m.given = stringText(s), true
		}
	}
	if len(w.marks) < maxStates {
		w.marks = append(w.marks, m)
	}
}

// given is the outermost open mark that brings its own text.
func (w *painter) given() *mark {
	for i := range w.marks {
		if w.marks[i].given {
			return &w.marks[i]
		}
	}
	return nil
}

// stringText decodes a text string of the file: UTF-16 or UTF-8 with a mark at
// its start, else about Latin-1.
func stringText(s text) string {
	switch {
	case strings.HasPrefix(string(s), "\xfe\xff"):
		var b strings.Builder
		for rest := s[2:]; rest != ""; {
			b.WriteString(unicodeText(rest[:min(64, len(rest))]))
			rest = rest[min(64, len(rest)):]
		}
		return b.String()
	case strings.HasPrefix(string(s), "\xef\xbb\xbf"):
		return string(s[3:])
	}
	return latin1([]byte(s))
}
