package origin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// The kinds of lines.
const (
	opMark         = "mark"
	opTrust        = "trust"
	opForget       = "forget" // the file is gone, and what it was is nowhere below the root
	opKnown        = "known"  // files from outside, without their names
	opOwn          = "own"    // files of the owner, without their names
	opOpen         = "open"   // a window begins
	opTaint        = "taint"  // its command has brought something
	opClose        = "close"  // its command has ended
	opDrop         = "drop"   // it brought nothing
	opWindowMarked = "settle" // what it wrote is marked
)

// maxLog is the size from which the record is written again without what later
// lines made void, if that makes it much shorter.
const maxLog = 4 << 20

// line is one line of the record.
type line struct {
	Op   string `json:"op"`
	Path string `json:"path,omitempty"`
	Dir  bool   `json:"dir,omitempty"`
	Sum  []byte `json:"sum,omitempty"`
	Size int64  `json:"size,omitempty"`
	ID   string `json:"id,omitempty"`
	At   int64  `json:"at,omitempty"`   // Unix time in nanoseconds
	From int64  `json:"from,omitempty"` // the same, of a beginning; of a file, when it had changed last
	PID  int    `json:"pid,omitempty"`

	Number uint64 `json:"ino,omitempty"`
	Born   int64  `json:"born,omitempty"` // Unix time in nanoseconds
	Held   []byte `json:"held,omitempty"` // packed identities

	Unsealed bool `json:"unsealed,omitempty"`
	Clean    bool `json:"clean,omitempty"` // of a window: a line tells when it is no longer
	Lost     bool `json:"lost,omitempty"`  // of a window: it stands for a damaged line
}

// follow takes over what was recorded since the last look, by any process. If
// nothing was, it costs one call of the system.
func (s *Store) follow() error {
	ctx := context.Background()
	info, err := s.o.Store.Stat(ctx, s.names[0])
	if err != nil {
		return err
	}
	if s.loaded && info.ID == s.read.ID && info.Size == s.read.At && info.Changed.Equal(s.read.Changed) {
		return nil
	}
	return s.with(ctx, 0, func(log store.Log) error {
		info, change, err := s.read.Inspect(ctx, log)
		switch {
		case err != nil || change == store.Same && s.loaded:
			return err
		case change == store.Another || !s.loaded:
			return s.load(ctx, log)
		}

		data, err := content(log, s.read.At, info.Size)
		if err != nil {
			return err
		}
		if !s.apply(data) {
			return s.load(ctx, log)
		}
		return s.read.Reached(log, info)
	})
}

// with opens the record or its copy.
func (s *Store) with(ctx context.Context, i int, use func(store.Log) error) (err error) {
	log, err := s.o.Store.Log(ctx, s.names[i])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return use(log)
}

func content(log store.Log, from, to int64) ([]byte, error) {
	data := make([]byte, to-from)
	_, err := io.ReadFull(io.NewSectionReader(log, from, to-from), data)
	return data, err
}

// load reads the record from the start. Where the two copies differ, because
// one was lost or damaged, both count.
func (s *Store) load(ctx context.Context, log store.Log) error {
	s.reset()
	if s.loaded { // what was added since a command began cannot be told any more
		s.flip("")
	}

	s.loaded = false

	info, err := log.Info(ctx)
	if err != nil {
		return err
	}

	one, err := content(log, 0, info.Size)
	if err != nil {
		return err
	}

	var two []byte
	err = s.with(ctx, 1, func(copied store.Log) error {
		there, err := copied.Info(ctx)
		if err != nil {
			return err
		}
		if two, err = content(copied, 0, there.Size); err != nil {
			return err
		}
		if len(two) == 0 && len(one) > 0 {
			two = one
			return unlessMoved(copied.Replace(ctx, 0, one))
		}
		return nil
	})
	if err != nil {
		return err
	}

	whole := true
	if !bytes.HasPrefix(one, two) { // the copy is written first: its end may be missing in the other
		whole = s.apply(two)
	}

	if !info.Exists() && len(two) > 0 {
		s.o.Log.WarnContext(ctx, "the record of outside files was lost and is taken from its copy", "file", s.o.Store.Where(s.names[0]))
		if err := unlessMoved(log.Replace(ctx, 0, two)); err != nil {
			return err
		}
	}

	whole = s.apply(one) && whole
	if !whole {
		s.loadDamaged(ctx, one, two)
	}

	if err := s.read.Reached(log, info); err != nil {
		return err
	}

	s.loaded = true
	if !whole && !s.alone {
		if err := unlessMoved(s.rewrite(ctx, log, int64(len(two)), s.snapshot())); err != nil {
			s.o.Log.ErrorContext(ctx, "cannot write the damaged record of outside files again", "err", err)
		}
	}

	s.closeDead()
	if whole && len(one) > maxLog {
		return unlessMoved(s.compact(ctx, log, int64(len(two))))
	}
	return nil
}

// reset forgets what was read.
func (s *Store) reset() {
	s.seq = 0
	clear(s.entries)
	clear(s.sums)
	clear(s.windows)
	s.known, s.trusts = newKnown(), newKnown()
	s.past, s.unwalked = nil, false
}

// unlessMoved is err unless another process was faster.
func unlessMoved(err error) error {
	if errors.Is(err, store.ErrMoved) {
		return nil
	}
	return err
}

// apply takes lines over; false if one of them is damaged.
func (s *Store) apply(data []byte) (whole bool) {
	whole = true
	for raw := range bytes.Lines(data) {
		l, ok := parse(raw)
		if !ok {
			whole = false
			continue
		}
		s.applyLine(l)
	}

	return whole
}

// applyLine adds what a line says to the state.
func (s *Store) applyLine(l line) {
	s.seq++
	switch l.Op {
	case opMark, opTrust:
		s.arrived++
		e := entry{seq: s.seq, foreign: l.Op == opMark, dir: l.Dir, size: l.Size}
		copy(e.sum[:], l.Sum)
		s.entries[l.Path] = e

		if e.foreign {
			s.addKnown(l.identity())
			s.marked(l.Path, l.Dir)
		} else {
			s.removeKnown(l.identity())
			s.trusted(l.Path, e)
		}

		if e.foreign && l.At > 0 && l.Born == 0 { // its inode does not tell it
			at := time.Unix(0, l.At)
			s.past = append(s.past, window{seq: s.seq, start: at, end: at})
		}

	case opForget:
		delete(s.entries, l.Path)
	case opKnown:
		s.arrived++
		unpack(l.Held, s.addKnown)
	case opOwn:
		unpack(l.Held, s.removeKnown)
	case opOpen:
		s.arrived++
		s.windows[l.ID] = &window{seq: s.seq, start: time.Unix(0, l.At), pid: l.PID, unsealed: l.Unsealed, dir: l.Path}
		if !l.Clean || s.anyOutside() {
			s.flip("")
		}

	case opTaint:
		if s.windows[l.ID] != nil {
			s.flip(l.ID)
		}
	case opClose:
		if w := s.windows[l.ID]; w != nil {
			w.end = time.Unix(0, l.At)
		}
	case opDrop:
		delete(s.windows, l.ID)
	case opWindowMarked:
		s.applyMarked(l)
	}
}

// applyMarked records that what a command wrote is marked.
func (s *Store) applyMarked(l line) {
	w := s.windows[l.ID]
	if w == nil && l.From > 0 { // of a record that was written again
		w = &window{start: time.Unix(0, l.From), end: time.Unix(0, l.At), dir: l.Path, lost: l.Lost}
	}

	if w != nil {
		if l.Dir { // nothing was marked, and what it wrote may be moved
			w.dir = ""
		}
		if w.end.IsZero() { // the line about its end was damaged
			w.end = s.o.Now()
		}

		w.seq = s.seq
		s.past = append(s.past, *w)
		s.flip(l.ID)
	}

	s.unwalked = s.unwalked || l.Dir
	delete(s.windows, l.ID)
}

// trusted forgets the contents that a trusted file or folder holds.
func (s *Store) trusted(name string, e entry) {
	switch {
	case !e.dir:
		return
	case name == ".":
		clear(s.sums)
		s.known = newKnown()
		s.past = slices.DeleteFunc(s.past, func(w window) bool { return w.lost })
		return
	}
	for path, old := range s.entries {
		if strings.HasPrefix(path, name+"/") {
			s.removeKnown(identity{sum: old.sum, size: old.size})
		}
	}
}

// append writes a line into the record and its copy, in one write each.
func (s *Store) append(lines ...line) error {
	if len(lines) == 0 {
		return nil
	}

	var buf bytes.Buffer
	for _, l := range lines {
		if err := l.encode(&buf); err != nil {
			return err
		}
	}

	ctx := context.Background()
	for _, i := range []int{1, 0} { // the one that is followed comes last
		err := s.with(ctx, i, func(log store.Log) error { return store.Add(ctx, log, buf.Bytes(), false) })
		if err != nil {
			return fmt.Errorf("record where files came from: %w", err)
		}
	}
	return s.follow()
}

// closeDead ends the windows of processes that died: their commands died with
// them.
func (s *Store) closeDead() {
	now := s.o.Now()
	for id, w := range s.windows {
		if w.end.IsZero() && w.pid != os.Getpid() && !alive(w.pid) {
			// What it read and fetched at last may not have been recorded. The next
			// start tries again.
			_ = s.append(line{Op: opTaint, ID: id}, line{Op: opClose, ID: id, At: now.UnixNano()})
		}
	}
}

// compact writes the record again if that makes it much shorter.
func (s *Store) compact(ctx context.Context, log store.Log, copied int64) error {
	lines := s.snapshot()
	if int64(len(lines)) > s.read.At/2 {
		return nil // it is long because much is known
	}
	return s.rewrite(ctx, log, copied, lines)
}

// snapshot returns a record with only what still counts.
func (s *Store) snapshot() []byte {
	type numbered struct {
		seq int
		line
	}
	var all []numbered
	for name, e := range s.entries {
		l := line{Op: opTrust, Path: name, Dir: e.dir}
		if e.foreign {
			l.Op = opMark
		}
		if e.sum != ([32]byte{}) {
			l.Sum, l.Size = e.sum[:], e.size
		}
		all = append(all, numbered{e.seq, l})
	}

	for _, l := range slices.Concat(packedLines(opTrust, s.trusts.pack()), packedLines(opMark, s.known.pack())) {
		all = append(all, numbered{s.seq + 1, l})
	}

	for _, w := range s.past {
		all = append(all, numbered{w.seq, line{Op: opWindowMarked, ID: newID(), From: w.start.UnixNano(), At: w.end.UnixNano(), Path: w.dir, Lost: w.lost}})
	}

	slices.SortStableFunc(all, func(a, b numbered) int { return a.seq - b.seq })
	var buf bytes.Buffer
	add := func(l line) { _ = l.encode(&buf) } // all fields can be encoded
	for _, l := range all {
		add(l.line)
	}

	if s.unwalked {
		add(line{Op: opWindowMarked, ID: newID(), Dir: true})
	}

	for id, w := range s.windows {
		add(line{Op: opOpen, ID: id, At: w.start.UnixNano(), PID: w.pid, Unsealed: w.unsealed, Path: w.dir, Clean: !w.outside})
		if !w.end.IsZero() {
			add(line{Op: opClose, ID: id, At: w.end.UnixNano()})
		}
	}
	return buf.Bytes()
}

// rewrite puts other lines in place of the record, unless another process changes
// it or its copy meanwhile; the next start tries again.
func (s *Store) rewrite(ctx context.Context, log store.Log, copied int64, lines []byte) error {
	err := s.with(ctx, 1, func(log store.Log) error { return log.Replace(ctx, copied, lines) })
	if err == nil {
		err = log.Replace(ctx, s.read.At, lines)
	}

	if err != nil {
		return err
	}

	info, err := log.Info(ctx)
	if err != nil {
		return err
	}
	return s.read.Reached(log, info)
}

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
