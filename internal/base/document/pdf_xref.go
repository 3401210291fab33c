package document

import (
	"bytes"
	"io"
)

// readXref reads the tables that say where the objects are, newest first.
func (d *pdf) readXref() error {
	tail := make([]byte, min(d.in.size, 2048))
	if _, err := d.in.ReadAt(tail, d.in.size-int64(len(tail))); err != nil && err != io.EOF { //nolint:errorlint // ReadAt of files returns it bare
		return err
	}

	i := bytes.LastIndex(tail, []byte("startxref"))
	if i < 0 {
		return problem(errMalformed, "no startxref")
	}

	at, _ := newLexer(bytes.NewReader(tail[i+9:]), 0, false).next()
	next, ok := at.(int)
	seen := map[int]bool{}
	for ok && !seen[next] && len(seen) < 1000 {
		seen[next] = true
		t, err := d.readSection(int64(next))
		if err != nil {
			return err
		}

		for k, v := range t {
			if _, known := d.trailer[k]; !known {
				d.trailer[k] = v
			}
		}

		if hidden, isInt := t["XRefStm"].(int); isInt && !seen[hidden] { // objects older readers cannot see
			seen[hidden] = true
			if _, err := d.readSection(int64(hidden)); err != nil {
				return err
			}
		}

		next, ok = t["Prev"].(int)
	}

	if d.trailer["Root"] == nil {
		return problem(errMalformed, "no Root")
	}
	return nil
}

// set notes where an object is, unless a newer table has said so.
func (d *pdf) set(num int, p place) error {
	if num < 0 || num >= maxObjects {
		return problem(ErrTooLarge, "more than %d objects", maxObjects)
	}

	if num >= len(d.where) {
		d.where = append(d.where, make([]place, num+1-len(d.where))...)
	}
	if d.where[num].kind == nowhere {
		d.where[num] = p
	}
	return nil
}

// readSection reads one table, in either of the two forms.
func (d *pdf) readSection(at int64) (dict, error) {
	l := d.lexAt(at)
	first, err := l.token(0)
	if err != nil {
		return nil, err
	}
	if first == keyword("xref") {
		return d.readTable(l)
	}

	_, o, err := d.objectAt(at)
	if err != nil {
		return nil, err
	}

	s, ok := o.(stream)
	if !ok {
		return nil, problem(errMalformed, "no cross-reference table at offset %d", at)
	}
	return s.dict, d.readXrefStream(s)
}

// readTable reads the old form: lines of text, and a trailer.
func (d *pdf) readTable(l *lexer) (dict, error) {
	l.refs = false
	for {
		t, err := l.token(0)
		if err != nil {
			return nil, err
		}
		if t == keyword("trailer") {
			break
		}

		start, ok := t.(int)
		n, err := l.token(0)
		count, ok2 := n.(int)
		if err != nil || !ok || !ok2 {
			return nil, problem(errMalformed, "damaged cross-reference table")
		}

		for i := range count {
			off, err1 := l.token(0)
			_, err2 := l.token(0)
			kind, err3 := l.token(0)
			at, ok := off.(int)
			if err1 != nil || err2 != nil || err3 != nil || !ok {
				return nil, problem(errMalformed, "damaged cross-reference table")
			}

			p := place{kind: free}
			if kind == keyword("n") {
				p = place{int64(at), inFile}
			}

			if err := d.set(start+i, p); err != nil {
				return nil, err
			}
		}
	}

	l.refs = true
	o, err := l.next()
	t, ok := o.(dict)
	if err != nil || !ok {
		return nil, problem(errMalformed, "damaged trailer")
	}
	return t, nil
}

// readXrefStream reads the new form: numbers of fixed width.
func (d *pdf) readXrefStream(s stream) error {
	var widths [3]int
	size := 0
	w, _ := s.dict["W"].(array)
	for i := range min(len(w), 3) {
		widths[i], _ = w[i].(int)
		if widths[i] < 0 || widths[i] > 8 {
			return problem(errMalformed, "damaged cross-reference stream")
		}
		size += widths[i]
	}

	if size == 0 {
		return problem(errMalformed, "damaged cross-reference stream")
	}

	total, _ := s.dict["Size"].(int)
	index, ok := s.dict["Index"].(array)
	if !ok {
		index = array{0, total}
	}

	r, err := d.decode(s)
	if err != nil {
		return err
	}

	entry := make([]byte, size)
	for i := 0; i+1 < len(index); i += 2 {
		start, _ := index[i].(int)
		count, _ := index[i+1].(int)
		for k := range count {
			if _, err := io.ReadFull(r, entry); err != nil {
				return d.in.ctx.Err() // shorter than it says: what is there counts
			}
			if err := d.set(start+k, entryPlace(entry, widths)); err != nil {
				return err
			}
		}
	}

	return nil
}

func entryPlace(b []byte, widths [3]int) place {
	var v [3]int64
	for i, w := range widths {
		for range w {
			v[i] = v[i]<<8 | int64(b[0])
			b = b[1:]
		}
	}

	if widths[0] == 0 {
		v[0] = 1
	}

	switch v[0] {
	case 1:
		return place{v[1], inFile}
	case 2:
		return place{v[1], inStream}
	}
	return place{kind: free}
}

// rebuild finds the objects by looking through the whole file, for files whose
// tables are missing or wrong. It happens once at most.
func (d *pdf) rebuild() error {
	if d.rebuilt {
		return problem(errMalformed, "damaged beyond repair")
	}

	d.rebuilt = true
	d.where, d.trailer = nil, dict{}
	clear(d.packs)
	if err := d.scan(); err != nil {
		return err
	}

	for num := range d.where {
		if err := d.in.ctx.Err(); err != nil {
			return err
		}
		if d.where[num].kind != inFile {
			continue
		}

		switch o := d.load(num).(type) {
		case stream:
			if err := d.adopt(num, o); err != nil {
				return err
			}
		case dict:
			if o["Type"] == name("Catalog") && d.trailer["Root"] == nil {
				d.trailer["Root"] = ref(num)
			}
		}
	}

	return nil
}

// adopt makes use of a stream found in a damaged file.
func (d *pdf) adopt(num int, s stream) error {
	switch s.dict["Type"] {
	case name("XRef"):
		for _, k := range []name{"Root", "Encrypt", "ID"} {
			if v := s.dict[k]; v != nil && d.trailer[k] == nil {
				d.trailer[k] = v
			}
		}
	case name("ObjStm"):
		p := d.openPack(num)
		if p == nil {
			return nil
		}

		for inner, at := range p.index {
			if err := d.set(inner, place{int64(num), inStream}); err != nil {
				return err
			}
			if d.trailer["Root"] == nil && bytes.Contains(p.data[at:min(at+512, len(p.data))], []byte("/Catalog")) {
				if o, ok := d.unpack(num, inner).(dict); ok && o["Type"] == name("Catalog") {
					d.trailer["Root"] = ref(inner)
				}
			}
		}
	}
	return nil
}

// scan notes every "12 0 obj" and every trailer of the file.
func (d *pdf) scan() error {
	const overlap = 64
	buf := make([]byte, 256<<10)
	for from := int64(0); from < d.in.size; {
		n, _ := d.in.ReadAt(buf, from)
		if d.in.ctx.Err() != nil {
			return d.in.ctx.Err()
		}

		b := buf[:n]
		for i := 0; ; {
			k := bytes.Index(b[i:], []byte("obj"))
			if k < 0 {
				break
			}

			i += k
			if num, start := objectHeader(b[:i]); start >= 0 {
				if num < maxObjects {
					if err := d.set(num, place{}); err != nil {
						return err
					}
					d.where[num] = place{from + int64(start) - d.shift, inFile} // the last one counts
				}
			}

			i += 3
		}

		for i := 0; ; {
			k := bytes.Index(b[i:], []byte("trailer"))
			if k < 0 {
				break
			}

			i += k + len("trailer")
			if t, _ := d.lexAt(from + int64(i) - d.shift).next(); t != nil {
				if td, ok := t.(dict); ok && td["Root"] != nil {
					d.trailer = td
				}
			}
		}

		if n < len(buf) {
			break
		}
		from += int64(n - overlap)
	}

	return nil
}

// objectHeader finds the "12 0 " at the end of b; start is -1 without it.
func objectHeader(b []byte) (num, start int) {
	end := len(b)
	space := func() bool {
		from := end
		for end > 0 && isSpace(b[end-1]) {
			end--
		}
		return end < from
	}

	digits := func() int {
		from, v := end, 0
		for end > 0 && b[end-1] >= '0' && b[end-1] <= '9' && from-end < 10 {
			end--
		}

		for _, c := range b[end:from] {
			v = v*10 + int(c-'0')
		}

		if from == end {
			return -1
		}
		return v
	}
	if !space() || digits() < 0 || !space() {
		return 0, -1
	}
	if num = digits(); num < 0 {
		return 0, -1
	}
	return num, end
}
