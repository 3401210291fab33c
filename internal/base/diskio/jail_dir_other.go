//go:build !(linux || darwin || freebsd)

package diskio

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// dirHandle is a nested os.Root. A root follows links inside itself, so each
// opened child is compared with what the name itself is.
type dirHandle struct{ root *os.Root }

// newDir also tells the directory's real path.
func newDir(root *os.Root, rel, abs string) (*Dir, string, error) {
	sub, err := OpenFolderIn(root, rel)
	if err != nil {
		return nil, "", err
	}

	resolved := ""
	f, err := sub.Open(".")
	if err == nil {
		resolved, err = realPath(f, abs)
		_ = f.Close()
	}

	if err != nil {
		_ = sub.Close()
		return nil, "", err
	}
	return &Dir{dirHandle: dirHandle{root: sub}}, resolved, nil
}

// Close releases the handle.
func (h dirHandle) Close() error { return h.root.Close() }

func (h dirHandle) entries() ([]fs.DirEntry, error) {
	f, err := h.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return f.ReadDir(-1)
}

func (h dirHandle) openDir(name string) (dirHandle, error) {
	sub, err := enter(h.root, name)
	if stepErr, ok := errors.AsType[*stepError](err); ok {
		return dirHandle{}, refuse(name, stepErr.kind, "%s", stepErr.detail)
	}
	if err != nil {
		return dirHandle{}, err
	}
	return dirHandle{root: sub}, nil
}

func (d *Dir) readFile(name string, limit int64, buf []byte, probe func([]byte) bool) ([]byte, FileMeta, error) {
	before, err := d.root.Lstat(name)
	if err != nil {
		return nil, FileMeta{}, err
	}

	meta := FileMeta{Size: before.Size(), ModTime: before.ModTime()}
	if !before.Mode().IsRegular() {
		return nil, meta, refuse(name, ErrNotRegular, "is not a regular file")
	}
	if before.Size() > limit {
		return nil, meta, refuse(name, ErrTooLarge, "is %d bytes", before.Size())
	}

	f, err := d.root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, meta, err
	}

	defer func() { _ = f.Close() }()
	after, err := f.Stat()
	if err != nil {
		return nil, meta, err
	}
	if !os.SameFile(before, after) {
		return nil, meta, refuse(name, ErrChanged, "was replaced while it was being opened")
	}
	if linkCount(after) > 1 && d.jail.guard().alias(inodeChange(after), func(o fs.FileInfo) bool { return os.SameFile(o, after) }) {
		return nil, meta, refuse(name, ErrProtected, "protected")
	}

	data, err := readPieces(piecewise{size: after.Size(), limit: limit, probe: probe}, buf, f.Read)
	return data, meta, err
}

func (h dirHandle) modTime(name string) (time.Time, error) {
	info, err := h.root.Lstat(name)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
