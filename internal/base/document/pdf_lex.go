package document

import (
	"io"
	"math"
	"strconv"
)

// Limits of a single PDF object.
const (
	maxElements    = 300_000 // in all its arrays and dictionaries together
	maxStringBytes = 1 << 20
	maxNesting     = 64
)

// The kinds of PDF objects, beside nil, bool, int and float64.
type (
	object any
	name   string
	text   string // the bytes of a PDF string
	array  []object
	dict   map[name]object
	ref    int
	stream struct {
		dict  dict
		start int64 // of the data in the file
		id    id
	}
	// keyword is anything else: an operator or a word of the file structure.
	keyword string
	// closing is a bracket that ends an array or dictionary.
	closing byte
)

// lexer reads PDF objects from a stream of bytes.
type lexer struct {
	r      io.Reader
	buf    []byte
	i, n   int
	base   int64    // offset of buf[0]
	refs   bool     // "1 0 R" is a reference; not so in content
	err    error    // of the reader, io.EOF included
	held   []object // tokens read ahead
	budget int      // elements left
}

func newLexer(r io.Reader, base int64, refs bool) *lexer {
	return &lexer{r: r, buf: make([]byte, 4096), base: base, refs: refs, budget: maxElements}
}

func (l *lexer) fill() bool {
	for l.err == nil {
		l.base += int64(l.n)
		l.i = 0
		l.n, l.err = l.r.Read(l.buf)
		if l.n > 0 {
			return true
		}
	}

	l.i, l.n = 0, 0
	return false
}

func (l *lexer) byte() (byte, bool) {
	if l.i == l.n && !l.fill() {
		return 0, false
	}
	c := l.buf[l.i]
	l.i++
	return c, true
}

// back takes back the last byte; only once.
func (l *lexer) back() { l.i-- }

// offset returns the position of the next byte.
func (l *lexer) offset() int64 { return l.base + int64(l.i) }

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool {
	switch c {
	case '(', ')', '<', '>', '[', ']', '{', '}', '/', '%':
		return true
	}
	return false
}

// skipSpace reads past space and comments and returns the byte after them.
func (l *lexer) skipSpace() (byte, bool) {
	for {
		c, ok := l.byte()
		if !ok {
			return 0, false
		}

		if c == '%' {
			for ok && c != '\n' && c != '\r' {
				c, ok = l.byte()
			}
			continue
		}

		if !isSpace(c) {
			return c, true
		}
	}
}

// next returns the next object. At the end the error is io.EOF or that of the
// reader. Damage is passed over as far as possible.
func (l *lexer) next() (object, error) { return l.object(0) }

func (l *lexer) object(depth int) (object, error) {
	t, err := l.nextToken(depth)
	num, ok := t.(int)
	if err != nil || !l.refs || !ok || num < 0 {
		return t, err
	}

	second, err := l.nextToken(depth)
	if err != nil {
		return t, nil //nolint:nilerr // the reader repeats it
	}
	if _, ok := second.(int); !ok {
		l.held = append(l.held, second)
		return t, nil
	}

	third, err := l.nextToken(depth)
	switch {
	case err != nil:
		l.held = append(l.held, second)
	case third == keyword("R"):
		return ref(num), nil
	default:
		l.held = append(l.held, second, third)
	}

	return t, nil
}

// nextToken returns the next token, those read ahead first.
func (l *lexer) nextToken(depth int) (object, error) {
	if len(l.held) > 0 {
		t := l.held[0]
		l.held = l.held[1:]
		return t, nil
	}
	return l.token(depth)
}

// token reads a whole array or dictionary, or a single word.
func (l *lexer) token(depth int) (object, error) {
	c, ok := l.skipSpace()
	if !ok {
		return nil, l.err
	}

	switch c {
	case '/':
		return l.name(), nil
	case '(':
		return l.literal()
	case '[':
		return l.array(depth)
	case ']', '}':
		return closing(']'), nil
	case '{':
		return keyword("{"), nil
	case '<':
		if c, ok = l.byte(); ok && c == '<' {
			return l.dict(depth)
		} else if ok {
			l.back()
		}
		return l.hex()

	case '>':
		if c, ok = l.byte(); ok && c != '>' {
			l.back()
		}
		return closing('>'), nil

	case ')':
		return keyword(")"), nil
	}

	return l.word(c), nil
}

func (l *lexer) name() name {
	var b []byte
	for {
		c, ok := l.byte()
		if !ok {
			break
		}
		if isSpace(c) || isDelimiter(c) {
			l.back()
			break
		}

		if len(b) < maxNameBytes {
			b = append(b, c)
		}
	}

	for i := 0; i+2 < len(b); i++ {
		if hi, lo := hexDigit(b[i+1]), hexDigit(b[i+2]); b[i] == '#' && hi >= 0 && lo >= 0 {
			b = append(append(b[:i:i], byte((hi<<4|lo)&0xFF)), b[i+3:]...)
		}
	}
	return name(b)
}

const maxNameBytes = 256

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// word reads a number or a keyword.
func (l *lexer) word(c byte) object {
	var room [32]byte
	b := append(room[:0], c)
	for {
		c, ok := l.byte()
		if !ok {
			break
		}
		if isSpace(c) || isDelimiter(c) {
			l.back()
			break
		}

		if len(b) < maxNameBytes {
			b = append(b, c)
		}
	}

	if c == '+' || c == '-' || c == '.' || c >= '0' && c <= '9' {
		return number(b)
	}

	switch string(b) {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}

	return keyword(b)
}

// number reads what writers produce, malformed ones included ("--5", "1.2.3").
func number(b []byte) object {
	if n, err := strconv.Atoi(string(b)); err == nil {
		return n
	}

	for len(b) > 1 && (b[0] == '-' || b[0] == '+') && (b[1] == '-' || b[1] == '+') {
		b = b[1:]
	}

	end, dots := 0, 0
	for end < len(b) && (b[end] >= '0' && b[end] <= '9' || b[end] == '.' || end == 0) {
		if b[end] == '.' {
			if dots++; dots > 1 {
				break
			}
		}
		end++
	}

	f, err := strconv.ParseFloat(string(b[:end]), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

func (l *lexer) literal() (object, error) {
	var b []byte
	for depth := 1; ; {
		c, ok := l.byte()
		if !ok {
			return nil, l.err
		}

		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return text(b), nil
			}
		case '\\':
			if c, ok = l.escape(); !ok {
				continue
			}
		case '\r':
			if c, ok = l.byte(); ok && c != '\n' {
				l.back()
			}
			c = '\n'
		}

		if b = append(b, c); len(b) > maxStringBytes {
			return nil, problem(ErrTooLarge, "a string over %d MiB", maxStringBytes>>20)
		}
	}
}

// escape reads what follows a backslash; ok is false if it stands for nothing.
func (l *lexer) escape() (c byte, ok bool) {
	if c, ok = l.byte(); !ok {
		return 0, false
	}

	switch c {
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case '\r':
		if c, ok = l.byte(); ok && c != '\n' {
			l.back()
		}
		return 0, false

	case '\n':
		return 0, false
	}

	if c < '0' || c > '7' {
		return c, true
	}

	n := int(c - '0')
	for range 2 {
		if c, ok = l.byte(); !ok {
			break
		}
		if c < '0' || c > '7' {
			l.back()
			break
		}
		n = n<<3 | int(c-'0')
	}

	return byte(n), true
}

func (l *lexer) hex() (object, error) {
	var b []byte
	high := -1
	for {
		c, ok := l.byte()
		if !ok {
			return nil, l.err
		}

		if c == '>' {
			if high >= 0 {
				b = append(b, byte(high<<4&0xFF))
			}
			return text(b), nil
		}

		d := hexDigit(c)
		switch {
		case d < 0:
		case high < 0:
			high = d
		default:
			b = append(b, byte((high<<4|d)&0xFF))
			high = -1
		}

		if len(b) > maxStringBytes {
			return nil, problem(ErrTooLarge, "a string over %d MiB", maxStringBytes>>20)
		}
	}
}

// spend counts an element of an array or dictionary.
func (l *lexer) spend() error {
	if l.budget--; l.budget < 0 {
		return problem(ErrTooLarge, "an object with more than %d elements", maxElements)
	}
	return nil
}

func (l *lexer) array(depth int) (object, error) {
	if depth >= maxNesting {
		return nil, problem(ErrTooLarge, "objects nested deeper than %d", maxNesting)
	}

	a := array{}
	for {
		o, err := l.object(depth + 1)
		if err != nil {
			return nil, err
		}
		if _, end := o.(closing); end {
			return a, nil
		}
		if err := l.spend(); err != nil {
			return nil, err
		}
		a = append(a, o)
	}
}

func (l *lexer) dict(depth int) (object, error) {
	if depth >= maxNesting {
		return nil, problem(ErrTooLarge, "objects nested deeper than %d", maxNesting)
	}

	d := dict{}
	for {
		key, err := l.object(depth + 1)
		if err != nil {
			return nil, err
		}
		if _, end := key.(closing); end {
			return d, nil
		}

		k, ok := key.(name)
		if !ok {
			if key == keyword("endobj") || key == keyword("stream") { // the end is missing
				l.held = append(l.held, key)
				return d, nil
			}
			continue
		}

		v, err := l.object(depth + 1)
		if err != nil {
			return nil, err
		}
		if err := l.spend(); err != nil {
			return nil, err
		}
		if _, end := v.(closing); end {
			return d, nil
		}
		d[k] = v
	}
}
