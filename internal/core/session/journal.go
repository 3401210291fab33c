package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

const (
	// metadataEvery bounds the bytes between two metadata lines, so that a cold
	// load finds the last one near the end even after a crash in a long turn.
	metadataEvery = 256 << 10
	// metadataReach is how far from the end a load looks for a metadata line
	// before it reads the file from the beginning.
	metadataReach = 1 << 20
)

// errOtherKey says that a log belongs to another key.
var errOtherKey = errors.New("the log belongs to another session key")

// journal is the memory of one log: what its live part holds and where. It has
// no lock of its own; whoever holds the session owns it.
type journal struct {
	key  string
	name string    // of the log
	log  store.Log // nil: in memory only

	size int64        // of the log, 0 when there is none
	seen store.Cursor // how far the log is in here; zero: it must be loaded again

	meta      metadata
	metaEnd   int64    // behind the last metadata line
	first     int      // index of recs[0] in the whole session
	recs      []Record // the live part
	offsets   []int64  // of recs
	trusted   int64    // offset of the metadata line a load goes by; earlier ones say nothing new
	skipped   int      // lines in the live part that could not be read
	dirty     bool     // meta differs from the last metadata line
	placed    bool     // some metadata line told where the live part begins
	misplaced bool     // ... and was found wrong
	bytesRead int64    // by loads, for tests
}

func (j *journal) count() int { return j.first + len(j.recs) }

// recordBytes is the memory that a record takes beside its text.
const recordBytes = 512

// liveBytes is about what the live part occupies in memory.
func (j *journal) liveBytes() int64 {
	return j.size - j.liveOffset(j.size) + int64(len(j.recs))*recordBytes
}

// liveOffset returns where the live part begins; next is where a new record
// would.
func (j *journal) liveOffset(next int64) int64 {
	if len(j.offsets) > 0 {
		return j.offsets[0]
	}
	return next
}

// counted counts what loads read.
type counted struct {
	io.ReaderAt
	n *int64
}

func (c counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	*c.n += int64(n)
	return n, err
}

// refresh makes the journal agree with the log: nothing to do when the log is
// as it was left, only the new end is read when another process appended,
// everything else is a fresh load. It returns the torn bytes put aside.
func (j *journal) refresh(ctx context.Context) (torn int64, err error) {
	info, change, err := j.seen.Inspect(ctx, j.log)
	if err == nil && change != store.Same {
		if torn, err = j.log.Repair(ctx); torn > 0 && err == nil {
			info, err = j.log.Info(ctx)
		}
	}

	switch {
	case err != nil:
	case !info.Exists():
		j.reset()
		return torn, nil
	case change == store.Same:
		return 0, nil
	default:
		err = j.read(info, change == store.Grown && j.size > 0)
	}

	if err != nil {
		j.reset()
	}
	return torn, err
}

// read takes over the lines of the log, or only the new ones.
func (j *journal) read(info store.Info, grown bool) (err error) {
	in := counted{j.log, &j.bytesRead}
	if grown {
		err = j.scan(in, j.size, info.Size)
	}
	if err == nil && (!grown || j.misplaced) {
		err = j.load(in, info.Size)
	}

	if err != nil {
		return err
	}
	if j.meta.key != "" && j.meta.key != j.key {
		return fmt.Errorf("%w: %q", errOtherKey, j.meta.key)
	}

	j.size = info.Size
	return j.seen.Reached(j.log, info)
}

func (j *journal) reset() {
	*j = journal{key: j.key, name: j.name, log: j.log, bytesRead: j.bytesRead}
}

// load reads the live part, which the last metadata line points to, or the
// whole file when there is no such line or it does not fit.
func (j *journal) load(in counted, size int64) error {
	j.reset()
	m, err := lastMetadata(in, size)
	if err != nil {
		return err
	}

	if r := m.replay; r != nil && r.Offset > 0 {
		j.first, j.trusted = r.Index, r.At
		if err := j.scan(in, r.Offset, size); err != nil {
			return err
		}
		if j.placed && !j.misplaced {
			return nil
		}
		j.reset()
	}

	if err := j.scan(in, 0, size); err != nil {
		return err
	}

	if !j.placed {
		j.placeByCursor()
	}
	return nil
}

// placeByCursor finds the live part of a file another program wrote: what is
// not consolidated, but at least the last eight messages.
func (j *journal) placeByCursor() {
	if j.meta.consolidated > j.count() {
		j.meta.consolidated = 0
	}
	j.drop(min(j.meta.consolidated-j.first, SuffixStart(j.recs, 8)))
}

// drop forgets the first n live records.
func (j *journal) drop(n int) {
	if n <= 0 {
		return
	}
	j.first += n
	j.recs = slices.Clone(j.recs[n:])
	j.offsets = slices.Clone(j.offsets[n:])
}

// lastMetadata looks for the last metadata line near the end that can be
// believed about where the live part begins.
func lastMetadata(in io.ReaderAt, size int64) (metadata, error) {
	for line, err := range diskio.LinesBackward(in, size) {
		if err != nil {
			return metadata{}, err
		}

		if mayBeMetadata(line.Bytes) {
			if m, kind := parseMetadata(line.Bytes); kind == "metadata" {
				if !m.replay.fits(line.Offset) || !afterNewline(in, m.replay.Offset) {
					m.replay = nil
				}
				return m, nil
			}
		}

		if size-line.Offset > metadataReach {
			break
		}
	}
	return metadata{}, nil
}

// fits reports whether a position is plausible for a metadata line found at at.
func (r *replay) fits(at int64) bool {
	return r != nil && r.At == at && r.Offset >= 0 && r.Offset <= at && r.Index >= 0 && r.Index <= r.Count
}

func afterNewline(in io.ReaderAt, offset int64) bool {
	var b [1]byte
	if offset == 0 {
		return true
	}
	_, err := in.ReadAt(b[:], offset-1)
	return err == nil && b[0] == '\n'
}

// scan takes over the lines between two offsets.
func (j *journal) scan(in io.ReaderAt, from, to int64) error {
	for line, err := range diskio.Lines(io.NewSectionReader(in, from, to-from), from) {
		if err != nil {
			return err
		}
		j.apply(line)
	}
	return nil
}

func (j *journal) apply(line diskio.Line) {
	if line.Offset < j.trusted && bytes.HasPrefix(line.Bytes, []byte(metadataStart)) {
		return
	}

	if mayBeMetadata(line.Bytes) {
		m, kind := parseMetadata(line.Bytes)
		if kind == "metadata" {
			j.place(m.replay, line.Offset)
			m.ended = nil
			j.meta, j.metaEnd = m, line.End()
		}

		if kind != "" {
			return
		}
	}

	var r Record
	if err := r.UnmarshalJSON(line.Bytes); err != nil {
		j.skipped++
		return
	}

	j.recs = append(j.recs, r)
	j.offsets = append(j.offsets, line.Offset)
}

// place moves the beginning of the live part to where a metadata line wants it.
func (j *journal) place(r *replay, at int64) {
	if !r.fits(at) {
		return
	}
	j.placed = true
	if j.misplaced = r.Count != j.count(); j.misplaced {
		j.placed = false
		return
	}
	j.drop(r.Index - j.first)
}

// recordState remembers what the log is after our own writes.
func (j *journal) recordState(ctx context.Context) error {
	info, err := j.log.Info(ctx)
	if err != nil || info.Size != j.size {
		j.seen = store.Cursor{}
		return err
	}
	j.seen.ID, j.seen.Changed = info.ID, info.Changed
	return nil
}
