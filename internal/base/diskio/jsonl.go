package diskio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
)

// Line is one line of a log and its place.
type Line struct {
	Offset int64  // of the first byte in the file
	Bytes  []byte // without the newline; valid only until the next line is asked for
	Whole  bool   // the newline is there; false only for a torn end
}

// End is the offset behind the line and its newline.
func (l Line) End() int64 {
	end := l.Offset + int64(len(l.Bytes))
	if l.Whole {
		end++
	}
	return end
}

const lineBuffer = 16 << 10

// Lines yields the lines that r delivers, of any length; offset is the place
// of r's first byte. An error of r is yielded last.
func Lines(r io.Reader, offset int64) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		br := bufio.NewReaderSize(r, lineBuffer)
		var long []byte
		for {
			part, err := br.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				long = append(long, part...)
				continue
			}

			if len(long) > 0 {
				long = append(long, part...)
				part = long
			}

			if err != nil && !errors.Is(err, io.EOF) {
				yield(Line{Offset: offset}, err)
				return
			}

			line := Line{Offset: offset, Bytes: part, Whole: err == nil}
			if line.Whole {
				line.Bytes = part[:len(part)-1]
			}

			if len(part) > 0 && !yield(line, nil) {
				return
			}
			if err != nil {
				return
			}

			offset += int64(len(part))
			long = long[:0]
		}
	}
}

// LinesBackward yields the lines of the first size bytes of r from the last to
// the first, reading only as far back as the caller goes on.
func LinesBackward(r io.ReaderAt, size int64) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		var buf []byte // the bytes from start on that are not yet yielded
		start, chunk := size, int64(4<<10)
		for start > 0 || len(buf) > 0 {
			// The last byte of buf may be the newline that ends the line; the
			// line begins behind the newline before that one.
			body := len(buf)
			if body > 0 && buf[body-1] == '\n' {
				body--
			}

			cut := bytes.LastIndexByte(buf[:body], '\n') + 1
			if (cut > 0 || start == 0) && len(buf) > 0 {
				line := Line{Offset: start + int64(cut), Bytes: buf[cut:body], Whole: body < len(buf)}
				if !yield(line, nil) {
					return
				}
				buf = buf[:cut]
				continue
			}

			n := min(chunk, start)
			chunk *= 2 // so that a line of any length is copied a bounded number of times
			grown := make([]byte, n, n+int64(len(buf)))
			if _, err := r.ReadAt(grown, start-n); err != nil {
				yield(Line{}, err)
				return
			}

			buf = append(grown, buf...)
			start -= n
		}
	}
}

// TornBytes says how many bytes at the end of the first size bytes of r follow
// the last newline.
func TornBytes(r io.ReaderAt, size int64) (int64, error) {
	for line, err := range LinesBackward(r, size) {
		if err != nil {
			return 0, err
		}
		if line.Whole {
			return 0, nil
		}
		return int64(len(line.Bytes)), nil
	}
	return 0, nil
}

// RepairTail cuts a line without its newline off the end of a log. The bytes
// are first appended to the file named aside, so nothing is lost; sync makes
// both durable in that order. It returns the size of the log and how many
// bytes were cut.
func RepairTail(f *os.File, aside string, sync bool) (size, torn int64, err error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	if torn, err = TornBytes(f, fi.Size()); err != nil || torn == 0 {
		return fi.Size(), 0, err
	}

	size = fi.Size() - torn
	if err := appendAside(aside, io.NewSectionReader(f, size, torn), sync); err != nil {
		return 0, 0, fmt.Errorf("keep the torn tail aside: %w", err)
	}
	if err := f.Truncate(size); err != nil {
		return 0, 0, err
	}

	if sync {
		err = f.Sync()
	}
	return size, torn, err
}

func appendAside(path string, src io.Reader, sync bool) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	_, err = io.Copy(f, src)
	if err == nil {
		_, err = f.Write([]byte{'\n'})
	}
	if err == nil && sync {
		err = errors.Join(f.Sync(), SyncDir(filepath.Dir(path)))
	}
	return errors.Join(err, f.Close())
}

// AppendLines adds data, which is one or more whole lines, to the end of a log
// whose size is known, in one write. When the write fails half-way the log is
// cut back to its old size; if even that fails the error wraps errLogBroken.
func AppendLines(f *os.File, size int64, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		return nil
	}
	if cut := f.Truncate(size); cut != nil {
		return fmt.Errorf("%w: %w", errLogBroken, errors.Join(err, cut))
	}
	return err
}

// errLogBroken says that a failed append may have left a torn line behind.
var errLogBroken = errors.New("the log may end in a torn line")

// SameTail reports whether the bytes of r before end are exactly tail.
func SameTail(r io.ReaderAt, end int64, tail []byte) (bool, error) {
	if int64(len(tail)) > end {
		return false, nil
	}
	got := make([]byte, len(tail))
	if _, err := r.ReadAt(got, end-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return slices.Equal(got, tail), nil
}
