package gitstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // git's index ends in a SHA-1
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// staged is an entry of git's index, which says what the next commit of a git
// program would hold.
type staged struct {
	name  string
	stat  [40]byte // times, owner, mode, size of the file when it was staged
	id    hash
	flags uint16 // without the length of the name
	more  uint16 // of version 3
}

const (
	stagedMode  = 24 // offset of the mode in stat
	flagMore    = 0x4000
	flagStages  = 0x3000
	flagNameLen = 0x0fff
)

// refreshIndex makes the index agree with a commit about the tracked files, so
// that git sees no difference that is none. What others staged stays. When git
// is using the index, it is left for the next time.
func (s *Store) refreshIndex(r *repo, t *tip) error {
	c, err := r.commit(t.id)
	if err != nil {
		return err
	}

	ps := s.patterns()
	old, _ := r.root.ReadFile("index", maxPart) // a missing one is made
	entries, ok := parseIndex(old)
	fresh, err := r.stage(c.tree, func(name string) bool { return !ok || tracks(ps, name) })
	if err != nil {
		return err
	}

	same := map[string]staged{}
	for _, e := range entries {
		same[e.name] = e
	}

	for i, e := range fresh {
		if o, ok := same[e.name]; ok && o.id == e.id && o.flags&flagStages == 0 {
			fresh[i] = o // with what git noted about the file
		}
	}

	entries = slices.DeleteFunc(entries, func(e staged) bool { return tracks(ps, e.name) })
	data := formatIndex(append(entries, fresh...))
	if bytes.Equal(data, old) {
		return nil
	}

	f, err := r.root.OpenFile("index.lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil //nolint:nilerr // git works on it
	}
	return r.fillLock(f, "index", data)
}

// stage lists the files of a tree as entries of the index. They carry no times:
// git then compares the content.
func (r *repo) stage(tree hash, want func(string) bool) (out []staged, err error) {
	err = r.walk(tree, func(name string, e entry) bool {
		if e.dir() || !want(name) {
			return e.dir()
		}

		mode, err := strconv.ParseUint(e.mode, 8, 32)
		if err != nil {
			return false
		}

		s := staged{name: name, id: e.id}
		binary.BigEndian.PutUint32(s.stat[stagedMode:], uint32(mode))
		out = append(out, s)
		return false
	})
	return out, err
}

// parseIndex reads versions 2 to 4. It reports false for anything it would not
// write back faithfully.
func parseIndex(data []byte) (out []staged, ok bool) {
	if len(data) < 12+sha1.Size || string(data[:4]) != "DIRC" {
		return nil, false
	}

	body, sum := data[:len(data)-sha1.Size], data[len(data)-sha1.Size:]
	got := sha1.Sum(body) //nolint:gosec // as git does
	version := binary.BigEndian.Uint32(data[4:])
	if !bytes.Equal(got[:], sum) || version < 2 || version > 4 {
		return nil, false
	}

	c := &cursor{data: body, at: 12}
	prev := ""
	for range binary.BigEndian.Uint32(data[8:]) {
		start := c.at
		e := staged{stat: [40]byte(c.read(40)), id: hash(c.read(20)), flags: binary.BigEndian.Uint16(c.read(2)) &^ flagNameLen}
		if e.flags&flagMore != 0 {
			e.more = binary.BigEndian.Uint16(c.read(2))
		}

		if version == 4 {
			cut := c.back()
			if cut > len(prev) {
				return nil, false
			}
			e.name = prev[:len(prev)-cut]
		}

		n := bytes.IndexByte(c.data[c.at:], 0)
		if c.short || n < 0 {
			return nil, false
		}

		e.name += string(c.read(n))
		if prev = e.name; version == 4 {
			c.read(1)
		} else {
			c.read(8 - (c.at-start)%8)
		}

		out = append(out, e)
	}

	for c.at < len(c.data) && !c.short { // extensions: a small letter means it cannot be left out
		name := c.read(4)
		if name[0] >= 'a' && name[0] <= 'z' {
			return nil, false
		}
		c.read(int(binary.BigEndian.Uint32(c.read(4))))
	}

	return out, !c.short
}

// back reads a number in the form of version 4.
func (c *cursor) back() int {
	b := c.next()
	n := int(b & 0x7f)
	for b&0x80 != 0 && n < 1<<30 {
		b = c.next()
		n = (n+1)<<7 | int(b&0x7f)
	}
	return n
}

// cursor reads bytes and remembers that there were too few.
type cursor struct {
	data  []byte
	at    int
	short bool
}

func (c *cursor) next() byte { return c.read(1)[0] }

func (c *cursor) read(n int) []byte {
	if n < 0 || n > len(c.data)-c.at {
		c.short, c.at = true, len(c.data)
		return make([]byte, min(max(n, 1), 256)) // no caller reads more of it
	}
	c.at += n
	return c.data[c.at-n : c.at]
}

func formatIndex(entries []staged) []byte {
	slices.SortStableFunc(entries, func(a, b staged) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.flags&flagStages, b.flags&flagStages))
	})
	version := uint32(2)
	if slices.ContainsFunc(entries, func(e staged) bool { return e.flags&flagMore != 0 }) {
		version = 3
	}

	b := append([]byte("DIRC"), 0, 0, 0, byte(version))
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries))) //nolint:gosec // far fewer files
	for _, e := range entries {
		start := len(b)
		b = append(append(b, e.stat[:]...), e.id[:]...)
		b = binary.BigEndian.AppendUint16(b, e.flags|uint16(min(len(e.name), flagNameLen))) //nolint:gosec // bounded
		if e.flags&flagMore != 0 {
			b = binary.BigEndian.AppendUint16(b, e.more)
		}
		b = append(b, e.name...)
		b = append(b, make([]byte, 8-(len(b)-start)%8)...)
	}

	sum := sha1.Sum(b) //nolint:gosec // as git does
	return append(b, sum[:]...)
}

// record commits the tracked files if they changed and moves the tip.
func (s *Store) record(ctx context.Context, r *repo, t *tip, subject, body string) (changed bool, err error) {
	w, err := s.openWork()
	if err != nil {
		return false, err
	}

	defer w.close()
	ps := s.patterns()
	files, odd, err := w.snapshot(ctx, ps)
	if err != nil {
		return false, err
	}

	var base Commit
	if !t.id.zero() {
		if base, err = r.commit(t.id); err != nil {
			return false, err
		}
	}

	old, err := r.tracked(base.tree, ps)
	if err != nil {
		return false, err
	}

	changes, err := r.changes(old, files, odd)
	if err != nil {
		return false, err
	}
	if len(changes) == 0 && !t.id.zero() {
		return false, s.refreshIndex(r, t)
	}

	for name, e := range changes {
		if e == nil {
			continue // it is gone
		}
		if err := s.o.Writer.Keeping(name, files[name]); err != nil {
			return false, fmt.Errorf("keep %s: %w", name, err)
		}
	}

	tree, err := r.change(base.tree, changes)
	if err == nil && tree.zero() {
		tree, err = r.storeTree(nil)
	}

	if err != nil {
		return false, err
	}
	return true, s.advance(ctx, r, t, Commit{Subject: subject, Body: body, tree: tree})
}

// changes compares files with those of a commit and stores what is new.
func (r *repo) changes(old map[string]entry, files filesOf, odd map[string]bool) (map[string]*entry, error) {
	out := map[string]*entry{}
	for name := range old {
		if _, there := files[name]; !there && !odd[name] {
			out[name] = nil
		}
	}

	for name, data := range files {
		e, known := old[name]
		if known && e.id == hashOf(blobKind, data) {
			continue
		}

		id, err := r.store(blobKind, data)
		if err != nil {
			return nil, err
		}

		if !known {
			e.mode = modeFile
		}
		out[name] = &entry{mode: e.mode, id: id}
	}

	return out, nil
}

// advance makes a commit of a tree that is stored, points the branch to it and
// brings the index up to date.
func (s *Store) advance(ctx context.Context, r *repo, t *tip, c Commit) error {
	c.Author = s.o.Name
	c.Email = s.o.Email
	c.Time = s.o.Now()
	if !t.id.zero() {
		c.parents = []hash{t.id}
	}

	id, err := r.storeCommit(c)
	if err != nil {
		return err
	}

	if c.written {
		if err := r.mark(checkoutMark + id.String()); err != nil {
			return err
		}
	}

	if err := s.broken("objects"); err != nil {
		return err
	}
	if err := r.setRef(ctx, t.ref, t.id, id); err != nil {
		return err
	}

	t.id = id
	if err := s.broken("ref"); err != nil {
		return err
	}
	if err := s.refreshIndex(r, t); err != nil {
		return err
	}
	if c.written {
		return nil // the mark must stay until they are
	}
	return s.trim(ctx, r, t)
}
