package origin

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// The kinds of lines.
const (
	opMark   = "mark"
	opTrust  = "trust"
	opForget = "forget" // the file is gone
	opOpen   = "open"   // a window begins
	opClose  = "close"  // its command has ended
	opDrop   = "drop"   // it brought nothing
	opSettle = "settle" // what it wrote is marked
)

// maxLog is the size at which the record is written again without what later
// lines made void.
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
	From int64  `json:"from,omitempty"` // the same, of a beginning
	PID  int    `json:"pid,omitempty"`

	Unsealed bool `json:"unsealed,omitempty"`
}

// follow takes over what was recorded since the last look, by any process.
func (s *Store) follow() error {
	info, err := os.Stat(s.paths[0])
	if s.loaded != nil && err == nil && os.SameFile(info, s.loaded) && info.Size() == s.loaded.Size() {
		return nil
	}
	if s.loaded != nil && err == nil && os.SameFile(info, s.loaded) && info.Size() > s.loaded.Size() {
		return s.read(s.paths[0], s.loaded.Size(), true)
	}
	return s.load()
}

// load reads the record from the start. Where the two copies differ, because
// one was lost or damaged, both count.
func (s *Store) load() error {
	s.seq = 0
	clear(s.entries)
	clear(s.sums)
	clear(s.windows)
	s.past, s.unwalked = nil, false
	s.loaded = nil

	one, err := s.content(0)
	if err != nil {
		return err
	}
	two, err := s.content(1)
	if err != nil {
		return err
	}
	if one == nil && two == nil {
		if err := s.create(); err != nil {
			return err
		}
	}
	if !bytes.HasPrefix(one, two) { // the copy is written last
		s.apply(two)
	}
	if one == nil && two != nil {
		s.o.Log.Warn("the record of outside files was lost and is taken from its copy", "file", s.paths[0])
		if err := diskio.WriteFile(s.paths[0], two, 0o600); err != nil {
			return err
		}
	}
	if err := s.read(s.paths[0], 0, true); err != nil {
		return err
	}
	if len(two) == 0 && len(one) > 0 {
		if err := diskio.WriteFile(s.paths[1], one, 0o600); err != nil {
			return err
		}
	}
	s.endDead()
	if len(one) > maxLog {
		return s.compact()
	}
	return nil
}

func (s *Store) content(i int) ([]byte, error) {
	b, err := os.ReadFile(s.paths[i])
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

func (s *Store) create() error {
	if err := diskio.MkdirAll(s.o.Dir, 0o700); err != nil {
		return err
	}
	for _, path := range s.paths {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// read applies the lines of a file from an offset on.
func (s *Store) read(path string, from int64, remember bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return err
	}
	data := make([]byte, max(info.Size()-from, 0))
	if _, err := io.ReadFull(io.NewSectionReader(f, from, int64(len(data))), data); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	s.apply(data)
	if remember {
		s.loaded = info
	}
	return nil
}

// apply takes lines over. One that cannot be read, because the process died
// while it was written, says nothing; its copy does.
func (s *Store) apply(data []byte) {
	for raw := range bytes.Lines(data) {
		var l line
		if json.Unmarshal(raw, &l) != nil {
			continue
		}
		s.seq++
		switch l.Op {
		case opMark, opTrust:
			e := entry{seq: s.seq, foreign: l.Op == opMark, dir: l.Dir}
			copy(e.sum[:], l.Sum)
			s.entries[l.Path] = e
			if e.foreign && len(l.Sum) == len(e.sum) && l.Size >= minSum {
				s.sums[e.sum] = true
			}
			if !e.foreign {
				s.trusted(l.Path, e)
			}
			if e.foreign && l.At > 0 {
				at := time.Unix(0, l.At)
				s.past = append(s.past, window{seq: s.seq, start: at, end: at})
			}
		case opForget:
			delete(s.entries, l.Path)
		case opOpen:
			s.windows[l.ID] = &window{seq: s.seq, start: time.Unix(0, l.At), pid: l.PID, unsealed: l.Unsealed}
		case opClose:
			if w := s.windows[l.ID]; w != nil {
				w.end = time.Unix(0, l.At)
			}
		case opDrop:
			delete(s.windows, l.ID)
		case opSettle:
			w := s.windows[l.ID]
			if w == nil && l.From > 0 { // of a record that was written again
				w = &window{start: time.Unix(0, l.From), end: time.Unix(0, l.At)}
			}
			if w != nil {
				w.seq = s.seq
				s.past = append(s.past, *w)
			}
			s.unwalked = s.unwalked || l.Dir
			delete(s.windows, l.ID)
		}
	}
}

// trusted forgets the contents that a trusted file or folder holds.
func (s *Store) trusted(name string, e entry) {
	delete(s.sums, e.sum)
	if !e.dir {
		return
	}
	for path, old := range s.entries {
		if strings.HasPrefix(path, name+"/") {
			delete(s.sums, old.sum)
		}
	}
}

// append writes a line into the record and its copy, in one write each.
func (s *Store) append(lines ...line) error {
	var buf bytes.Buffer
	for _, l := range lines {
		b, err := json.Marshal(l)
		if err != nil {
			return err
		}
		buf.Write(append(b, '\n'))
	}

	for i, path := range slices.Backward(s.paths[:]) { // the one that is followed comes last
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("record where files came from: %w", err)
		}
		_, err = f.Write(buf.Bytes())
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("record where files came from (copy %d): %w", i+1, err)
		}
	}
	return s.follow()
}

// endDead ends the windows of processes that died: their commands died with
// them.
func (s *Store) endDead() {
	now := s.o.Now()
	for id, w := range s.windows {
		if w.end.IsZero() && w.pid != os.Getpid() && !alive(w.pid) {
			_ = s.append(line{Op: opClose, ID: id, At: now.UnixNano()}) // the next start tries again
		}
	}
}

// compact writes the record again. Other processes notice by the new file.
func (s *Store) compact() error {
	lock, err := diskio.TryLock(s.paths[0] + ".lock")
	if err != nil {
		return nil
	}
	defer lock.Unlock() //nolint:errcheck // the process that holds it ends at some time

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
			l.Sum, l.Size = e.sum[:], minSum
		}
		all = append(all, numbered{e.seq, l})
	}
	for _, w := range s.past {
		all = append(all, numbered{w.seq, line{Op: opSettle, ID: newID(), From: w.start.UnixNano(), At: w.end.UnixNano()}})
	}
	slices.SortFunc(all, func(a, b numbered) int { return a.seq - b.seq })
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, l := range all {
		_ = enc.Encode(l.line) // a buffer takes everything
	}
	if s.unwalked {
		_ = enc.Encode(line{Op: opSettle, ID: newID(), Dir: true})
	}
	for id, w := range s.windows {
		_ = enc.Encode(line{Op: opOpen, ID: id, At: w.start.UnixNano(), PID: w.pid, Unsealed: w.unsealed})
		if !w.end.IsZero() {
			_ = enc.Encode(line{Op: opClose, ID: id, At: w.end.UnixNano()})
		}
	}
	for _, path := range slices.Backward(s.paths[:]) {
		if err := diskio.WriteFile(path, buf.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return s.read(s.paths[0], int64(buf.Len()), true)
}

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
