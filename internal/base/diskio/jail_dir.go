package diskio

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Dir is a directory held open by descriptor. Its children are reached relative
// to it and links are never followed, so a walk cannot be led astray by names
// that change under it. Methods may be called concurrently, except with Close.
type Dir struct {
	dirHandle
	jail   *Jail
	path   string   // absolute, free of links when it was opened
	guard  *guard   // that hidden is of
	hidden []string // protected paths at or below this directory
}

// FileMeta holds what a walk needs to know about a file it read.
type FileMeta struct {
	Size    int64
	ModTime time.Time
}

// Path is the absolute path the directory had when it was opened.
func (d *Dir) Path() string { return d.path }

// Entries lists the directory in no particular order, without protected entries.
func (d *Dir) Entries() ([]fs.DirEntry, error) {
	entries, err := d.entries()
	if len(d.hidden) > 0 {
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return d.isHidden(e.Name()) })
	}
	return entries, err
}

func (d *Dir) isHidden(name string) bool {
	if len(d.hidden) == 0 {
		return false
	}
	full := filepath.Join(d.path, name)
	return slices.ContainsFunc(d.hidden, func(p string) bool { return d.guard.covers(p, full) })
}

// OpenDir opens a child directory; a link is refused.
func (d *Dir) OpenDir(name string) (*Dir, error) {
	if d.isHidden(name) {
		return nil, refuse(filepath.Join(d.path, name), ErrProtected, "protected")
	}

	h, err := d.openDir(name)
	if err != nil {
		return nil, err
	}

	child := &Dir{dirHandle: h, jail: d.jail, path: filepath.Join(d.path, name), guard: d.jail.guard()}
	if child.guard != d.guard { // something was mounted meanwhile
		if err := child.guard.check(child.path, false); err != nil {
			_ = child.Close()
			return nil, err
		}
	}

	if len(d.hidden) > 0 || child.guard != d.guard {
		child.hidden = child.guard.below(child.path)
	}

	if kernelPath(filepath.ToSlash(child.path)+"/", false) {
		_ = child.Close()
		return nil, refuse(child.path, ErrProtected, "protected")
	}
	return child, nil
}

// ReadFile reads a child that is a regular file of at most limit bytes, into buf
// if it is large enough. After the first piece probe (if not nil) decides
// whether to go on; if not, that piece alone is returned. A larger file gives
// ErrTooLarge and its FileMeta; links and everything else that is not a
// regular file give an error.
func (d *Dir) ReadFile(name string, limit int64, buf []byte, probe func(head []byte) bool) ([]byte, FileMeta, error) {
	if d.isHidden(name) {
		return nil, FileMeta{}, refuse(filepath.Join(d.path, name), ErrProtected, "protected")
	}
	return d.readFile(name, limit, buf, probe)
}

// ModTime returns when a child itself, not what it may link to, was last changed.
func (d *Dir) ModTime(name string) (time.Time, error) { return d.modTime(name) }

// piecewise says how readPieces goes on.
type piecewise struct {
	size  int64 // as the system reports it; 0 for the generated files of /proc
	limit int64
	probe func(head []byte) bool
}

// readPieces reads up to the reported size or the end, growing buf as needed.
// Stopping at the reported size saves one system call per file.
func readPieces(w piecewise, buf []byte, read func([]byte) (int, error)) ([]byte, error) {
	buf = buf[:0]
	if cap(buf) == 0 {
		buf = make([]byte, 0, 32<<10)
	}

	for first := true; ; {
		if len(buf) == cap(buf) {
			bigger := make([]byte, len(buf), max(2*cap(buf), min(int(w.size)+1, int(w.limit)+1)))
			copy(bigger, buf)
			buf = bigger
		}

		n, err := read(buf[len(buf):cap(buf)])
		if n > 0 {
			buf = buf[:len(buf)+n]
		}

		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, io.EOF) || err == nil && n <= 0:
			return buf, nil
		case err != nil:
			return buf, err
		case int64(len(buf)) > w.limit:
			return buf, refuse("file", ErrTooLarge, "grew while it was read")
		}

		if first {
			first = false
			if w.probe != nil && !w.probe(buf) {
				return buf, nil
			}
		}

		if w.size > 0 && int64(len(buf)) >= w.size {
			return buf, nil
		}
	}
}
