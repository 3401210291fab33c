package gitstore

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strings"
)

// pack is a file of many objects, as git's own housekeeping makes them. They
// are only read.
type pack struct {
	name string // without its ending
	idx  []byte // version 2
	n    int
}

const (
	idxHeader = 8
	idxFan    = 256 * 4
	maxIdx    = 64 << 20
)

// loadPacks reads the indexes of all packs once.
func (r *repo) loadPacks() error {
	if r.looked {
		return nil
	}
	names, err := r.root.ReadDir("objects/pack")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, d := range names {
		base, ok := strings.CutSuffix(d.Name(), ".idx")
		if !ok {
			continue
		}
		p := &pack{name: "objects/pack/" + base}
		if p.idx, err = r.root.ReadFile(p.name+".idx", maxPart); err != nil {
			return err
		}
		if len(p.idx) < idxHeader+idxFan || len(p.idx) > maxIdx || !bytes.HasPrefix(p.idx, []byte("\xfftOc\x00\x00\x00\x02")) {
			continue // of another version
		}
		p.n = int(binary.BigEndian.Uint32(p.idx[idxHeader+idxFan-4:]))
		if int64(len(p.idx)) < int64(idxHeader+idxFan)+int64(p.n)*28 {
			return fmt.Errorf("%s.idx: %w", base, errCorrupt)
		}
		r.packs = append(r.packs, p)
	}
	r.looked = true
	return nil
}

// id is the name of the i-th object.
func (p *pack) id(i int) []byte { at := idxHeader + idxFan + i*20; return p.idx[at : at+20] }

// offset says where an object begins in the pack.
func (p *pack) offset(h hash) (int64, bool) {
	i := sort.Search(p.n, func(i int) bool { return bytes.Compare(p.id(i), h[:]) >= 0 })
	if i == p.n || !bytes.Equal(p.id(i), h[:]) {
		return 0, false
	}
	offsets := p.idx[idxHeader+idxFan+p.n*24:]
	o := binary.BigEndian.Uint32(offsets[i*4:])
	if o&(1<<31) == 0 {
		return int64(o), true
	}
	far := p.n*4 + int(o&^(1<<31))*8
	if far+8 > len(offsets) {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(offsets[far:]) & (1<<62 - 1)), true // masked to fit
}

// inPack finds the pack that holds an object; damaged packs hold nothing.
func (r *repo) inPack(h hash) (*pack, int64) {
	if r.loadPacks() != nil {
		return nil, 0
	}
	for _, p := range r.packs {
		if at, ok := p.offset(h); ok {
			return p, at
		}
	}
	return nil, 0
}

func (r *repo) packed(h hash) (kind string, data []byte, err error) {
	if err := r.loadPacks(); err != nil {
		return "", nil, err
	}
	p, at := r.inPack(h)
	if p == nil {
		return "", nil, fs.ErrNotExist
	}
	f, err := r.root.Open(p.name + ".pack")
	if err != nil {
		return "", nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return r.unpack(f, p, at, maxDeltas)
}

// maxDeltas bounds how many objects one may be built on.
const maxDeltas = 100

// unpack reads the object at an offset and builds it up if it is stored as a
// difference from another one.
func (r *repo) unpack(f *os.File, p *pack, at int64, deltas int) (kind string, data []byte, err error) {
	if deltas == 0 {
		return "", nil, errCorrupt
	}
	var head [64]byte
	n, err := f.ReadAt(head[:], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", nil, err
	}
	b := &cursor{data: head[:n]}
	c := b.next()
	typ, size, shift := c>>4&7, uint64(c&15), 4
	for ; c&0x80 != 0 && shift < 60; shift += 7 {
		c = b.next()
		size |= uint64(c&0x7f) << shift
	}
	var base func() (string, []byte, error)
	switch typ {
	case 1, 2, 3, 4:
		kind = [...]string{commitKind, treeKind, blobKind, tagKind}[typ-1]
	case 6:
		c = b.next()
		back := int64(c & 0x7f)
		for c&0x80 != 0 && back < 1<<50 {
			c = b.next()
			back = (back+1)<<7 | int64(c&0x7f)
		}
		if back <= 0 || back > at {
			return "", nil, errCorrupt
		}
		base = func() (string, []byte, error) { return r.unpack(f, p, at-back, deltas-1) }
	case 7:
		ref := hash(b.take(20))
		base = func() (string, []byte, error) { return r.object(ref, "") }
	default:
		return "", nil, errCorrupt
	}
	if b.short || size > maxObject {
		return "", nil, errCorrupt
	}
	z, err := zlib.NewReader(io.NewSectionReader(f, at+int64(b.at), 1<<40))
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	data = make([]byte, size)
	if _, err := io.ReadFull(z, data); err != nil {
		return "", nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	if base == nil {
		return kind, data, nil
	}
	kind, on, err := base()
	if err != nil {
		return "", nil, err
	}
	data, err = applyDelta(on, data)
	return kind, data, err
}

// cursor reads bytes and remembers that there were too few.
type cursor struct {
	data  []byte
	at    int
	short bool
}

func (c *cursor) next() byte { return c.take(1)[0] }

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.data)-c.at {
		c.short, c.at = true, len(c.data)
		return make([]byte, min(max(n, 1), 256)) // no caller reads more of it
	}
	c.at += n
	return c.data[c.at-n : c.at]
}

func (c *cursor) size() (n int) {
	for shift := 0; shift < 56; shift += 7 {
		b := c.next()
		n |= int(b&0x7f) << shift
		if b&0x80 == 0 {
			break
		}
	}
	return n
}

// applyDelta builds an object from another one and a list of copies and
// insertions.
func applyDelta(base, delta []byte) ([]byte, error) {
	c := &cursor{data: delta}
	from, to := c.size(), c.size()
	if from != len(base) || to > maxObject {
		return nil, errCorrupt
	}
	out := make([]byte, 0, to)
	for c.at < len(delta) && !c.short {
		op := c.next()
		if op&0x80 == 0 {
			if op == 0 {
				return nil, errCorrupt
			}
			out = append(out, c.take(int(op))...)
			continue
		}
		var at, n int
		for i := range 4 {
			if op&(1<<i) != 0 {
				at |= int(c.next()) << (8 * i)
			}
		}
		for i := range 3 {
			if op&(0x10<<i) != 0 {
				n |= int(c.next()) << (8 * i)
			}
		}
		if n == 0 {
			n = 0x10000
		}
		if at+n > len(base) || len(out)+n > to {
			return nil, errCorrupt
		}
		out = append(out, base[at:at+n]...)
	}
	if c.short || len(out) != to {
		return nil, errCorrupt
	}
	return out, nil
}
