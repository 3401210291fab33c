package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Limits of PDF files.
const (
	maxObjects     = 1_000_000
	maxPageNodes   = 100_000
	maxPageBytes   = 32 << 20 // of decompressed content per page
	maxPacked      = 16 << 20 // of a decompressed object stream
	maxPackedCache = 24 << 20
	maxHops        = 16 // from reference to reference
)

// pdf is an open PDF file. Objects are read when they are needed and, apart
// from fonts and object streams, not kept.
type pdf struct {
	in      *input
	shift   int64 // bytes before the header, which offsets do not count
	where   []place
	trailer dict
	rebuilt bool
	crypt   *crypt // nil if the file is not encrypted

	packs     map[int]*pack
	packBytes int
	fonts     map[ref]*font
	glyphs    int // entries in the tables of all fonts
	notes     notes
}

// place says where an object is.
type place struct {
	at   int64 // offset in the file; if packed, the number of the object stream
	kind placeKind
}

type placeKind byte

const (
	nowhere placeKind = iota
	inFile
	inStream
	free
)

// readPDF reads the text of the wanted pages.
func readPDF(in *input, out *output, o Options) (Text, error) {
	d, err := openPDF(in)
	if err != nil {
		return Text{}, err
	}

	pages, err := d.pages()
	if err != nil {
		return Text{}, err
	}

	t := Text{Pages: len(pages)}
	if t.From, t.To, err = o.pages(t.Pages); err != nil {
		return Text{}, err
	}

	empty := 0
	for n := t.From; n <= t.To; n++ {
		if err := in.ctx.Err(); err != nil {
			return Text{}, err
		}

		s := d.pageText(pages[n-1], n, out.left)
		if strings.TrimSpace(s) == "" {
			empty++
			continue
		}

		head := fmt.Sprintf("--- Page %d ---", n)
		if o.WholePages && n > t.From && len([]rune(s))+len(head)+3 > out.left {
			t.To = n - 1
			break
		}

		out.section(head)
		if err := out.write("", s); errors.Is(err, errFull) {
			t.To, t.Cut = n, true
			break
		}
	}

	if empty > 0 && out.b.Len() > 0 {
		d.notes.add("Pages without text: %d. They may be scans; nothing in pictures is read.", empty)
	}

	t.Content, t.Notes = out.b.String(), d.notes
	return t, nil
}

// openPDF finds the objects.
func openPDF(in *input) (*pdf, error) {
	d := &pdf{in: in, packs: map[int]*pack{}, fonts: map[ref]*font{}, trailer: dict{}}
	head := make([]byte, min(in.size, 1024))
	if _, err := in.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	i := bytes.Index(head, []byte("%PDF-"))
	if i < 0 {
		return nil, problem(errMalformed, "not a PDF file although its name says so")
	}

	d.shift = int64(i)
	err := d.readXref()
	if in.ctx.Err() != nil {
		return nil, in.ctx.Err()
	}

	if err == nil && d.trailer["Encrypt"] != nil {
		if err := d.unlock(); err != nil {
			return nil, err
		}
	}

	if err != nil || d.catalog() == nil {
		if err := d.rebuild(); err != nil {
			return nil, err
		}
	}

	if d.trailer["Encrypt"] != nil && d.crypt == nil {
		if err := d.unlock(); err != nil {
			return nil, err
		}
		d.rebuilt = false // now object streams can be read
		if err := d.rebuild(); err != nil {
			return nil, err
		}
	}

	if d.catalog() == nil {
		return nil, problem(errMalformed, "damaged: it has no list of pages")
	}
	return d, nil
}

func (d *pdf) catalog() dict {
	root, _ := d.resolve(d.trailer["Root"]).(dict)
	if root["Pages"] == nil {
		return nil
	}
	return root
}

// resolve follows references to the object itself; nil if there is none.
func (d *pdf) resolve(o object) object {
	for range maxHops {
		r, ok := o.(ref)
		if !ok {
			return o
		}
		o = d.load(int(r))
	}
	return nil
}

// load reads an object by its number.
func (d *pdf) load(num int) object {
	if num < 0 || num >= len(d.where) {
		return nil
	}

	switch p := d.where[num]; p.kind {
	case inFile:
		got, o, err := d.objectAt(p.at)
		if (err != nil || got != num) && d.in.ctx.Err() == nil && !d.rebuilt {
			if d.rebuild() == nil {
				return d.load(num)
			}
			return nil
		}

		if err != nil || got != num {
			return nil
		}
		return o
	case inStream:
		return d.unpack(int(p.at), num)
	}

	return nil
}

// objectAt reads "12 0 obj ..." at an offset.
func (d *pdf) objectAt(at int64) (num int, o object, err error) {
	l := d.lexAt(at)
	var of id
	for i, want := range []object{0, 0, keyword("obj")} {
		t, err := l.token(0)
		if err != nil {
			return 0, nil, err
		}

		n, isInt := t.(int)
		if _, wantInt := want.(int); wantInt != isInt || !isInt && t != want {
			return 0, nil, problem(errMalformed, "no object at offset %d", at)
		}

		switch i {
		case 0:
			of.num = n
		case 1:
			of.generation = n
		}
	}

	if o, err = l.next(); err != nil {
		return 0, nil, err
	}

	if d.crypt != nil {
		o = d.crypt.inside(o, of, 0)
	}

	if sd, ok := o.(dict); ok {
		if t, err := l.nextToken(0); err == nil && t == keyword("stream") {
			return of.num, stream{sd, l.dataStart(), of}, nil
		}
	}
	return of.num, o, nil
}

// dataStart returns where the data after the word stream begins.
func (l *lexer) dataStart() int64 {
	if c, ok := l.byte(); ok && c == '\r' {
		if c, ok = l.byte(); ok && c != '\n' {
			l.back()
		}
	} else if ok && c != '\n' {
		l.back()
	}
	return l.offset()
}

func (d *pdf) lexAt(at int64) *lexer {
	at += d.shift
	return newLexer(io.NewSectionReader(d.in, at, max(0, d.in.size-at)), at, true)
}

// length returns the number of bytes of a stream's data. What the file says is only
// believed if the data is followed by its end mark.
func (d *pdf) length(s stream) int64 {
	start := s.start
	if n, ok := d.resolve(s.dict["Length"]).(int); ok && n >= 0 && start+int64(n) <= d.in.size {
		tail := make([]byte, 32)
		k, _ := d.in.ReadAt(tail, start+int64(n))
		if bytes.HasPrefix(bytes.TrimLeft(tail[:k], "\r\n\t \x00"), []byte("endstream")) {
			return int64(n)
		}
	}

	end, _ := d.find(start, []byte("endstream"))
	return end - start
}

// find returns the offset of a word from a place on; the end of the file without it.
func (d *pdf) find(from int64, word []byte) (at int64, ok bool) {
	buf := make([]byte, 64<<10)
	for from < d.in.size {
		n, err := d.in.ReadAt(buf, from)
		if i := bytes.Index(buf[:n], word); i >= 0 {
			return from + int64(i), true
		}
		if err != nil || n < len(word) {
			break
		}
		from += int64(n - len(word) + 1)
	}

	return d.in.size, false
}

// pack is a decompressed stream of objects.
type pack struct {
	data  []byte
	index map[int]int // number -> offset
}

// unpack reads an object out of an object stream.
func (d *pdf) unpack(holder, num int) object {
	p := d.packs[holder]
	if p == nil {
		if p = d.openPack(holder); p == nil {
			p = &pack{}
		}
		if d.packBytes += len(p.data) + 32*len(p.index); d.packBytes > maxPackedCache {
			clear(d.packs)
			d.packBytes = len(p.data) + 32*len(p.index)
		}
		d.packs[holder] = p
	}

	at, ok := p.index[num]
	if !ok {
		return nil
	}

	o, err := newLexer(bytes.NewReader(p.data[at:]), 0, true).next()
	if err != nil {
		return nil
	}
	return o
}

func (d *pdf) openPack(holder int) *pack {
	if holder < 0 || holder >= len(d.where) || d.where[holder].kind != inFile {
		return nil // an object stream is never inside another
	}

	s, ok := d.load(holder).(stream)
	if !ok {
		return nil
	}

	count, _ := d.resolve(s.dict["N"]).(int)
	first, _ := d.resolve(s.dict["First"]).(int)
	r, err := d.decode(s)
	if err != nil || count <= 0 || first < 0 {
		return nil
	}

	data, err := io.ReadAll(io.LimitReader(r, maxPacked))
	if err != nil || first > len(data) {
		return nil
	}

	p := &pack{data: data, index: map[int]int{}}
	l := newLexer(bytes.NewReader(data[:first]), 0, false)
	for range min(count, maxObjects) {
		num, err1 := l.next()
		off, err2 := l.next()
		n, ok1 := num.(int)
		o, ok2 := off.(int)
		if err1 != nil || err2 != nil || !ok1 || !ok2 {
			break
		}

		if o >= 0 && first+o < len(data) {
			p.index[n] = first + o
		}
	}

	return p
}

// page is a leaf of the page tree with what it inherits.
type page struct {
	id        ref
	resources object
}

// pages lists the pages in order. Every node is visited once, so a tree that
// contains itself ends.
func (d *pdf) pages() ([]page, error) {
	type node struct {
		o         object
		resources object
	}
	var found []page
	seen := map[ref]bool{}
	todo := []node{{o: d.catalog()["Pages"]}}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if err := d.in.ctx.Err(); err != nil {
			return nil, err
		}

		id, ok := n.o.(ref)
		if !ok || seen[id] {
			continue
		}
		if len(seen) >= maxPageNodes {
			d.notes.add("The list of pages was cut at %d.", maxPageNodes)
			break
		}

		seen[id] = true
		nd, ok := d.resolve(id).(dict)
		if !ok {
			continue
		}

		if r := nd["Resources"]; r != nil {
			n.resources = r
		}

		kids, isTree := d.resolve(nd["Kids"]).(array)
		if !isTree || d.resolve(nd["Type"]) == name("Page") {
			found = append(found, page{id, n.resources})
			continue
		}

		for _, kid := range slices.Backward(kids) {
			todo = append(todo, node{kid, n.resources})
		}
	}

	return found, nil
}
