package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Change says what happened to a log since a Cursor was there.
type Change int

// The changes.
const (
	Same    Change = iota // nothing
	Grown                 // lines were added
	Another               // it was replaced, shortened or edited: what was read of it is void
)

// tailKept is how many bytes before a cursor are remembered: the ids of logs
// may be used again.
const tailKept = 128

// Cursor is how far a reader has come in a log that others may write to. The
// zero value has read nothing.
type Cursor struct {
	ID      string
	At      int64 // everything before was read
	Changed time.Time
	Tail    []byte // the last bytes before At
}

// Inspect compares a log with the cursor and returns what happened to it.
func (c *Cursor) Inspect(ctx context.Context, l Log) (Info, Change, error) {
	info, err := l.Info(ctx)
	if err != nil {
		return info, Another, err
	}
	if info.ID == c.ID && info.Size == c.At && info.Changed.Equal(c.Changed) {
		return info, Same, nil
	}
	if info.ID != c.ID || info.Size <= c.At {
		return info, Another, nil
	}

	ok, err := c.holds(l)
	if err != nil || !ok {
		return info, Another, err
	}
	return info, Grown, nil
}

// holds reports whether a log has the bytes before the cursor.
func (c *Cursor) holds(l Log) (bool, error) {
	if c.At == 0 {
		return true, nil
	}
	return diskio.SameTail(l, c.At, c.Tail)
}

// Resume is Look for a cursor that outlived its process and knows no id: only
// the bytes before it tell whether the log is the same.
func (c *Cursor) Resume(ctx context.Context, l Log) (Info, Change, error) {
	info, err := l.Info(ctx)
	if err != nil {
		return info, Another, err
	}

	ok, err := info.Size >= c.At, error(nil)
	if ok {
		ok, err = c.holds(l)
	}

	switch {
	case err != nil || !ok:
		return info, Another, err
	case info.Size > c.At:
		return info, Grown, nil
	}
	return info, Same, nil
}

// Reached notes that a log was read to the end of info.
func (c *Cursor) Reached(l Log, info Info) error {
	tail := make([]byte, min(info.Size, tailKept))
	if _, err := l.ReadAt(tail, info.Size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		*c = Cursor{}
		return err
	}
	*c = Cursor{ID: info.ID, At: info.Size, Changed: info.Changed, Tail: tail}
	return nil
}

// Lines yields the lines of a log between two offsets.
func Lines(l io.ReaderAt, from, to int64) iter.Seq2[diskio.Line, error] {
	return diskio.Lines(io.NewSectionReader(l, from, to-from), from)
}
