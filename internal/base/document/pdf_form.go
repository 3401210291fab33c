package document

import "strings"

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
	w.state = before
	w.stack = stack
	w.resources = res
	w.marks = marks
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

// given returns the outermost open mark that brings its own text.
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
