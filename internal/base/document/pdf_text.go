package document

import (
	"errors"
	"io"
	"math"
	"strings"
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

// state holds what the operators of a page set.
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
	room    int // characters that may still be written
	pen     pen
	unknown int
	known   int
	marks   []mark
}

// pen holds what the last text left behind.
type pen struct {
	x, y   float64 // where it ended
	dx, dy float64 // its direction
	height float64 // its size on the page; 0: there is none yet
	start  [2]float64
	last   string
	spaced bool // it ended in space
}

// mark is a marked part of the content. Its text may be given beside what is drawn.
type mark struct {
	actual string
	given  bool
	shown  bool
}

// pageText returns the text of a page.
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
			if _, ours := errors.AsType[*failure](err); ours && l.err == nil {
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

	var a, b, c byte
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
