package document

import (
	"bufio"
	"compress/flate"
	"encoding/ascii85"
	"io"
)

// decode opens the data of a stream with its filters undone. Damage ends the
// data without an error, as in other readers.
func (d *pdf) decode(s stream) (io.Reader, error) {
	var r io.Reader = io.NewSectionReader(d.in, s.start, d.length(s))
	filters, params := d.list(s.dict["Filter"]), d.list(s.dict["DecodeParms"])
	if d.crypt != nil && s.dict["Type"] != name("XRef") && (len(filters) == 0 || d.resolve(filters[0]) != name("Crypt")) {
		r = d.crypt.open(r, s.id, d.crypt.streams)
	}

	if len(filters) > 8 {
		return nil, problem(ErrTooLarge, "more than 8 filters on a stream")
	}

	for i, f := range filters {
		var parms dict
		if i < len(params) {
			parms, _ = d.resolve(params[i]).(dict)
		}

		n, _ := d.resolve(f).(name)
		switch n {
		case "FlateDecode", "Fl":
			r = d.predictor(&inflater{r: bufio.NewReader(r)}, parms)
		case "LZWDecode", "LZW":
			early, ok := d.resolve(parms["EarlyChange"]).(int)
			r = d.predictor(newLZW(bufio.NewReader(r), !ok || early != 0), parms)
		case "ASCII85Decode", "A85":
			r = &lenient{r: ascii85.NewDecoder(&upToTilde{r: bufio.NewReader(r)})}
		case "ASCIIHexDecode", "AHx":
			r = &hexReader{r: bufio.NewReader(r)}
		case "RunLengthDecode", "RL":
			r = &runLength{r: bufio.NewReader(r)}
		case "Crypt": // encrypted in another way than the rest, which is: not at all
		default:
			return nil, problem(errUnsupported, "a stream packed with %.40q", string(n))
		}

		r = &timed{d.in, r} // each stage may swell what it gets a thousandfold
	}

	return r, nil
}

// list returns an object as a list: an array, or one thing, or nothing.
func (d *pdf) list(o object) array {
	switch v := d.resolve(o).(type) {
	case nil:
		return nil
	case array:
		return v
	default:
		return array{v}
	}
}

// lenient ends at the first error instead of reporting it.
type lenient struct{ r io.Reader }

func (l *lenient) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// inflater undoes zlib compression without insisting on its header or checksum.
type inflater struct {
	r     *bufio.Reader
	flate io.Reader
}

func (f *inflater) Read(p []byte) (int, error) {
	if f.flate == nil {
		for range 4 { // some writers leave a line end before the data
			if c, err := f.r.Peek(1); err != nil || c[0] != '\r' && c[0] != '\n' {
				break
			}
			_, _ = f.r.Discard(1)
		}

		if h, err := f.r.Peek(2); err == nil && h[0]&0x0F == 8 && (int(h[0])<<8|int(h[1]))%31 == 0 {
			_, _ = f.r.Discard(2)
		}
		f.flate = &lenient{flate.NewReader(f.r)}
	}
	return f.flate.Read(p)
}

// upToTilde ends at the mark that closes ASCII85 data.
type upToTilde struct {
	r     *bufio.Reader
	ended bool
}

func (u *upToTilde) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && !u.ended {
		c, err := u.r.ReadByte()
		if err != nil || c == '~' {
			u.ended = true
			break
		}

		if c == '<' && n == 0 { // "<~" may open it
			if next, _ := u.r.Peek(1); len(next) == 1 && next[0] == '~' {
				_, _ = u.r.Discard(1)
				continue
			}
		}

		p[n] = c
		n++
	}

	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// hexReader undoes ASCIIHex.
type hexReader struct{ r *bufio.Reader }

func (h *hexReader) Read(p []byte) (int, error) {
	for n := range p {
		v, digits := 0, 0
		for digits < 2 {
			c, err := h.r.ReadByte()
			if err != nil || c == '>' {
				break
			}
			if d := hexDigit(c); d >= 0 {
				v = v<<4 | d
				digits++
			}
		}

		switch digits {
		case 0:
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		case 1:
			v <<= 4
		}

		p[n] = byte(v)
	}
	return len(p), nil
}

// runLength undoes run-length packing.
type runLength struct {
	r      *bufio.Reader
	left   int
	repeat bool
	value  byte
}

func (l *runLength) Read(p []byte) (int, error) {
	for n := range p {
		if l.left == 0 {
			c, err := l.r.ReadByte()
			if err != nil || c == 128 {
				return n, io.EOF
			}

			if l.repeat = c > 128; l.repeat {
				l.left = 257 - int(c)
				l.value, _ = l.r.ReadByte()
			} else {
				l.left = int(c) + 1
			}
		}

		l.left--
		if !l.repeat {
			c, err := l.r.ReadByte()
			if err != nil {
				return n, io.EOF
			}
			l.value = c
		}

		p[n] = l.value
	}
	return len(p), nil
}

// lzw undoes LZW packing as PDF does it: codes of 9 to 12 bits, high bits first,
// growing one code early unless said otherwise.
type lzw struct {
	r      *bufio.Reader
	early  int
	bits   uint32
	nbits  uint
	width  uint
	next   int // code to be assigned
	prev   int // -1 after a clear
	prefix [4096]uint16
	suffix [4096]byte
	out    []byte // decoded, not yet read
	store  [4097]byte
	done   bool
}

func newLZW(r *bufio.Reader, early bool) *lzw {
	l := &lzw{r: r, width: 9, next: 258, prev: -1}
	if early {
		l.early = 1
	}
	return l
}

func (l *lzw) Read(p []byte) (int, error) {
	for len(l.out) == 0 && !l.done {
		l.step()
	}
	if len(l.out) == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.out)
	l.out = l.out[n:]
	return n, nil
}

// step decodes one code.
func (l *lzw) step() {
	for l.nbits < l.width {
		c, err := l.r.ReadByte()
		if err != nil {
			l.done = true
			return
		}
		l.bits = l.bits<<8 | uint32(c)
		l.nbits += 8
	}

	code := int(l.bits >> (l.nbits - l.width) & (1<<l.width - 1))
	l.nbits -= l.width
	switch {
	case code == 257:
		l.done = true
		return
	case code == 256:
		l.width = 9
		l.next = 258
		l.prev = -1
		return

	case l.prev < 0:
		if code > 255 {
			l.done = true
			return
		}
		l.out = append(l.store[:0], byte(code))
		l.prev = code
		return

	case code > l.next || code == l.next && l.next > 4095:
		l.done = true
		return
	}

	l.spell(code)
	if l.next <= 4095 {
		l.prefix[l.next], l.suffix[l.next] = uint16(l.prev), l.out[0] //nolint:gosec // at most 4095
		l.next++
		if l.next+l.early >= 1<<l.width && l.width < 12 {
			l.width++
		}
	}

	l.prev = code
}

// spell writes out the string of a code, from its end.
func (l *lzw) spell(code int) {
	at := len(l.store)
	c := code
	if code == l.next { // the string that is just being made: prev and its first byte
		c = l.prev
		at--
	}

	end := at
	for c > 255 && at > 1 {
		at--
		l.store[at] = l.suffix[c]
		c = int(l.prefix[c])
	}

	at--
	l.store[at] = byte(c) //nolint:gosec // below 256
	if code == l.next {
		l.store[end] = byte(c) //nolint:gosec // below 256
		end++
	}
	l.out = l.store[at:end]
}

// predictor undoes the differences some writers store instead of bytes.
func (d *pdf) predictor(r io.Reader, parms dict) io.Reader {
	number := func(key name, otherwise int) int {
		if v, ok := d.resolve(parms[key]).(int); ok && v > 0 && v <= 1<<16 {
			return v
		}
		return otherwise
	}

	kind := number("Predictor", 1)
	if kind < 2 {
		return r
	}

	bits := number("Colors", 1) * number("BitsPerComponent", 8)
	row := (bits*number("Columns", 1) + 7) / 8
	if bits > 1024 || row > 1<<20 || kind == 2 { // the second kind is for pictures only
		return r
	}
	return &unfilter{r: bufio.NewReader(r), pixel: max(1, bits/8), row: make([]byte, row), up: make([]byte, row)}
}

// unfilter undoes the predictors of PNG, row by row.
type unfilter struct {
	r       *bufio.Reader
	pixel   int
	row, up []byte
	out     []byte
}

func (u *unfilter) Read(p []byte) (int, error) {
	if len(u.out) == 0 {
		kind, err := u.r.ReadByte()
		if err != nil {
			return 0, io.EOF
		}

		u.row, u.up = u.up, u.row
		n, _ := io.ReadFull(u.r, u.row)
		if n == 0 {
			return 0, io.EOF
		}

		clear(u.row[n:])
		u.undo(kind)
		u.out = u.row[:n]
	}

	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

func (u *unfilter) undo(kind byte) {
	for i := range u.row {
		var left, corner byte
		if i >= u.pixel {
			left, corner = u.row[i-u.pixel], u.up[i-u.pixel]
		}

		switch kind {
		case 1:
			u.row[i] += left
		case 2:
			u.row[i] += u.up[i]
		case 3:
			u.row[i] += byte((int(left) + int(u.up[i])) / 2 & 0xFF)
		case 4:
			u.row[i] += paeth(left, u.up[i], corner)
		}
	}
}

// paeth picks the neighbour nearest to left + up - corner.
func paeth(left, up, corner byte) byte {
	away := func(v int) int { return max(v, -v) }
	a, b, c := int(left), int(up), int(corner)
	da, db, dc := away(b-c), away(a-c), away(a+b-2*c)
	switch {
	case da <= db && da <= dc:
		return left
	case db <= dc:
		return up
	}
	return corner
}
