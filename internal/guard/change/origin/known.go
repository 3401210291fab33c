package origin

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// tooLarge is reported by search for a root in which it cannot look at
// everything.
const tooLarge = "what may lie anywhere in this large workspace"

// maxSearch bounds the entries that are looked at for a file that is not where it
// was marked. It is a look at each, without its content: about a second.
const maxSearch = 200_000

// inode identifies a file whatever its name is. The zero value is not known.
type inode struct {
	number uint64
	born   int64 // Unix time in nanoseconds
}

// identity holds what a file is apart from its name.
type identity struct {
	sum     [32]byte // of its content; zero: not known
	size    int64
	inode   inode
	changed time.Time // zero: not known
}

// identify looks at a file. The error is errFolder for a folder, whose inode is
// known all the same.
func identify(file string) (identity, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return identity{}, err
	}

	k := identity{inode: inodeOf(file, info), changed: changeTimeOf(info)}
	if info.IsDir() {
		return k, errFolder
	}

	k.sum, k.size, err = sumOf(file)
	if err != nil {
		return identity{inode: k.inode, changed: k.changed}, nil //nolint:nilerr // the inode tells it
	}
	return k, nil
}

// describe adds to a line what a file is apart from its name.
func (l *line) describe(k identity) {
	if k.sum != ([32]byte{}) {
		l.Sum, l.Size = k.sum[:], k.size
	}
	l.Number, l.Born = k.inode.number, k.inode.born
	if !k.changed.IsZero() {
		l.From = k.changed.UnixNano()
	}
}

// identity returns what a line says that its file is apart from its name.
func (l *line) identity() identity {
	k := identity{size: l.Size, inode: inode{l.Number, l.Born}}
	copy(k.sum[:], l.Sum)
	if since := max(l.From, l.At); since > 0 {
		k.changed = time.Unix(0, since)
	}
	return k
}

// packedSize is the length of a packed identity: a sum and four numbers.
const packedSize = 32 + 4*8

// pack appends an identity to those of a folder.
func (k identity) pack(to []byte) []byte {
	to = append(to, k.sum[:]...)
	since := int64(0)
	if !k.changed.IsZero() {
		since = k.changed.UnixNano()
	}
	for _, n := range []uint64{uint64(k.size), k.inode.number, uint64(k.inode.born), uint64(since)} { //nolint:gosec // the same bits come back
		to = binary.LittleEndian.AppendUint64(to, n)
	}
	return to
}

// unpack calls use for each packed identity.
func unpack(data []byte, use func(identity)) {
	for ; len(data) >= packedSize; data = data[packedSize:] {
		var k identity
		number := func(i int) uint64 { return binary.LittleEndian.Uint64(data[32+8*i:]) }
		copy(k.sum[:], data)
		k.size, k.inode = int64(number(0)), inode{number(1), int64(number(2))} //nolint:gosec // as above
		if since := int64(number(3)); since > 0 {                              //nolint:gosec // as above
			k.changed = time.Unix(0, since)
		}
		use(k)
	}
}

// known are files by what they are.
type known struct {
	contents map[[32]byte]sighting
	inodes   map[inode]bool
	numbers  map[uint64]bool     // of the inodes
	since    map[int64]time.Time // by size, when the first content of that size was seen
}

// sighting is where a content was seen first.
type sighting struct {
	size  int64
	since time.Time // zero: not known
}

func newKnown() known {
	return known{
		contents: map[[32]byte]sighting{},
		inodes:   map[inode]bool{},
		numbers:  map[uint64]bool{},
		since:    map[int64]time.Time{},
	}
}

func (n *known) empty() bool { return len(n.contents) == 0 && len(n.inodes) == 0 }

func (n *known) has(sum [32]byte) bool {
	_, ok := n.contents[sum]
	return ok
}

func (n *known) add(k identity) {
	if k.inode != (inode{}) {
		n.inodes[k.inode], n.numbers[k.inode.number] = true, true
	}

	if k.sum == ([32]byte{}) || k.size <= 0 {
		return
	}

	at := sighting{size: k.size, since: k.changed}
	if old, ok := n.contents[k.sum]; ok && old.since.Before(at.since) {
		at.since = old.since
	}

	n.contents[k.sum] = at
	if first, ok := n.since[k.size]; !ok || at.since.Before(first) {
		n.since[k.size] = at.since
	}
}

func (n *known) remove(k identity) {
	delete(n.inodes, k.inode) // its number may stay: it only saves a look
	delete(n.contents, k.sum)
}

// pack is everything that is known.
func (n *known) pack() []byte {
	var out []byte
	for sum, c := range n.contents {
		out = identity{sum: sum, size: c.size, changed: c.since}.pack(out)
	}
	for id := range n.inodes {
		out = identity{inode: id}.pack(out)
	}
	return out
}

// addKnown records that a file came from outside, whatever its name is.
func (s *Store) addKnown(k identity) {
	s.known.add(k)
	s.trusts.remove(k)
	if k.sum != ([32]byte{}) && k.size > 0 {
		s.sums[k.sum] = s.sums[k.sum] || k.size >= minSum
	}
}

// removeKnown records that a file is the owner's.
func (s *Store) removeKnown(k identity) {
	s.known.remove(k)
	delete(s.sums, k.sum)
	s.trusts.add(k)
}

// records are this record and the others of the same place: a file that is moved
// from one root to another is known to the first one.
func (s *Store) records() []*Store {
	if s.alone {
		return []*Store{s}
	}
	return append(s.neighbours(), s)
}

// isKnown reports whether a file is one that was marked under another name, or
// has the content of one. The owner's word about it counts.
func (s *Store) isKnown(abs string, last entry) bool {
	for _, r := range s.records() {
		if r.known.empty() {
			continue
		}
		if info, err := os.Lstat(abs); err == nil && !info.IsDir() && s.matches(r, abs, info) && !isOwn(abs, last) {
			return true
		}
	}
	return false
}

// matches reports whether a record knows a file by its inode or its content. A
// copy of a content changed later than the file in which it was seen first; an
// older file has it by accident.
func (s *Store) matches(r *Store, abs string, info fs.FileInfo) bool {
	if r.known.numbers[inodeNumber(info)] {
		id := inodeOf(abs, info)
		if r.known.inodes[id] && !s.trusts.inodes[id] {
			return true
		}
	}

	changed := changeTimeOf(info)
	since, ok := r.known.since[info.Size()]
	if !ok || !info.Mode().IsRegular() || changed.Before(since) {
		return false
	}

	sum, _, err := sumOf(abs)
	if err != nil || s.trusts.has(sum) {
		return false
	}

	seen, ok := r.known.contents[sum]
	return ok && !changed.Before(seen.since)
}

// search looks below the root for marked files that have other names now, marks
// them there, and returns one that a command could read which sees a folder; ""
// if there is none.
func (s *Store) search(dir string) string {
	records := s.records()
	others := false
	for _, r := range records {
		others = others || r != s && !r.known.empty()
	}

	if s.known.empty() && len(s.past) == 0 && !others {
		return ""
	}

	tree, err := diskio.OpenTree(s.realRoot())
	if err != nil {
		return "" // there is nothing to read
	}

	defer tree.Close() //nolint:errcheck // read only
	look := &search{s: s, records: records, tree: tree, left: maxSearch}
	whole := look.folder(".", 0)

	if len(look.lines) > 0 {
		if err := s.append(look.lines...); err != nil {
			return "a file whose new name cannot be recorded"
		}
	}

	for _, name := range look.found {
		if s.visible(name, dir, false) {
			return name
		}
	}

	if !whole && (!s.known.empty() || s.hasLost()) {
		return tooLarge
	}
	return ""
}

// search is a walk for marked files with other names.
type search struct {
	s       *Store
	records []*Store
	tree    *diskio.Tree
	left    int
	lines   []line
	found   []string
}

// folder reports whether the walk could look at everything.
func (w *search) folder(name string, depth int) bool {
	entries, err := w.tree.ReadDir(name)
	if err != nil {
		return true // it is gone, or commands cannot read it either
	}

	whole := true
	for _, e := range entries {
		if w.left--; w.left < 0 || depth > maxDepth {
			return false
		}

		child := path.Join(name, e.Name())
		info, err := e.Info()
		if err != nil {
			continue // it is gone
		}
		if w.isFrom(child, info) {
			w.found = append(w.found, child)
			continue
		}

		if info.IsDir() {
			whole = w.folder(child, depth+1) && whole
		}
	}

	return whole
}

// isFrom reports whether an entry came from outside, and marks it if it is not.
func (w *search) isFrom(name string, info fs.FileInfo) bool {
	s := w.s
	last := s.lookup(name)
	if last.foreign {
		return true
	}

	abs := filepath.Join(s.realRoot(), filepath.FromSlash(name))
	l := line{Op: opMark, Path: name, Dir: info.IsDir()}
	for _, r := range w.records {
		switch {
		case r.known.empty():
		case info.IsDir():
			if id := inodeOf(abs, info); r.known.numbers[id.number] && r.known.inodes[id] && !s.trusts.inodes[id] {
				l.Number, l.Born = id.number, id.born
				w.lines = append(w.lines, l)
				return true
			}

		case s.matches(r, abs, info) && !isOwn(abs, last):
			return w.mark(l, abs)
		}
	}

	if !info.IsDir() && s.inPast(abs, name, last) {
		return w.mark(l, abs)
	}
	return false
}

func (w *search) mark(l line, abs string) bool {
	if k, err := identify(abs); err == nil {
		l.describe(k)
	}
	w.lines = append(w.lines, l)
	return true
}

// held has what the files of a folder are, in lines that go with one about the
// folder. Of a folder that is too large the rest is known by its name alone.
func (s *Store) held(op, dir string) []line {
	tree, err := diskio.OpenTree(dir)
	if err != nil {
		return nil
	}

	defer tree.Close() //nolint:errcheck // read only
	var packed []byte
	left := maxWalk
	var folder func(name string, depth int)
	folder = func(name string, depth int) {
		entries, err := tree.ReadDir(name)
		if err != nil {
			return
		}

		for _, e := range entries {
			if left--; left < 0 || depth > maxDepth {
				return
			}

			child := path.Join(name, e.Name())
			k, err := identify(filepath.Join(dir, filepath.FromSlash(child)))
			if err == nil || errors.Is(err, errFolder) {
				packed = k.pack(packed)
			}
			if e.IsDir() {
				folder(child, depth+1)
			}
		}
	}

	folder(".", 0)
	return packedLines(op, packed)
}

// maxPacked bounds what one line holds.
const maxPacked = 4096 * packedSize

// packedLines are lines about files without names: what goes with a mark or with
// the owner's word.
func packedLines(op string, packed []byte) []line {
	what := opKnown
	if op == opTrust {
		what = opOwn
	}

	var out []line
	for len(packed) > 0 {
		n := min(len(packed), maxPacked)
		out = append(out, line{Op: what, Held: packed[:n]})
		packed = packed[n:]
	}
	return out
}
