package gitstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// pack is a file of many objects, as git's own housekeeping makes them. They
// are only read.
type pack struct {
	name string // without its ending
	idx  *idxfile.MemoryIndex
}

const (
	maxIdx = 64 << 20 // bytes of all packs' indexes
	// maxDeltas bounds how many objects one may be built on. git makes chains
	// of at most 50 by itself.
	maxDeltas = 100
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
		if p.idx, err = r.packIndex(p.name + ".idx"); err != nil {
			return err
		}
		r.packs = append(r.packs, p)
	}

	r.looked = true
	return nil
}

func (r *repo) packIndex(name string) (*idxfile.MemoryIndex, error) {
	f, err := r.root.Open(name)
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if r.indexed += info.Size(); r.indexed > maxIdx {
		return nil, fmt.Errorf("%s is too large: %w", name, errCorrupt)
	}

	// The decoder asks the file for its size before it takes memory.
	idx := idxfile.NewMemoryIndex()
	if err := idxfile.NewDecoder(f).Decode(idx); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, errCorrupt, err)
	}
	return idx, nil
}

// inPack finds the pack that holds an object; damaged packs hold nothing.
func (r *repo) inPack(h hash) (*pack, int64) {
	if r.loadPacks() != nil {
		return nil, 0
	}
	for _, p := range r.packs {
		if at, err := p.idx.FindOffset(plumbing.Hash(h)); err == nil {
			return p, at
		}
	}
	return nil, 0
}

func (r *repo) packed(h hash, deltas int) (kind string, data []byte, err error) {
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
	return r.unpack(packfile.NewScanner(f), at, deltas)
}

// unpack reads the object at an offset and builds it up if it is stored as a
// difference from another one.
func (r *repo) unpack(s *packfile.Scanner, at int64, deltas int) (kind string, data []byte, err error) {
	h, err := s.SeekObjectHeader(at)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	if r.room -= h.Length; deltas == 0 || h.Length > maxObject || r.room < 0 {
		return "", nil, errCorrupt
	}

	var b bytes.Buffer
	n, _, err := s.NextObject(&b) // at most h.Length bytes
	if err != nil || n != h.Length {
		return "", nil, errors.Join(errCorrupt, err)
	}

	var base []byte
	switch h.Type {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		return h.Type.String(), b.Bytes(), nil
	case plumbing.OFSDeltaObject:
		kind, base, err = r.unpack(s, h.OffsetReference, deltas-1)
	case plumbing.REFDeltaObject:
		kind, base, err = r.build(hash(h.Reference), deltas-1)
	default:
		err = errCorrupt
	}

	if err != nil {
		return "", nil, err
	}

	data, err = applyDelta(base, b.Bytes())
	return kind, data, err
}

// applyDelta builds an object from another one and a list of copies and
// insertions. The library would make an object of any size.
func applyDelta(base, delta []byte) ([]byte, error) {
	_, n := binary.Uvarint(delta) // the size of the base
	if n <= 0 {
		return nil, errCorrupt
	}
	if size, n := binary.Uvarint(delta[n:]); n <= 0 || size > maxObject {
		return nil, errCorrupt
	}

	data, err := packfile.PatchDelta(base, delta)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return data, nil
}
