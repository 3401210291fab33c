package diskio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// linkHops bounds how often a path is resolved again after a link.
const linkHops = 8

// Open opens a regular file for reading. It never blocks on a FIFO and never
// touches a device.
func (j *Jail) Open(name string) (*os.File, error) {
	p, err := j.locate(name, false)
	start := p.abs
	for range linkHops {
		if err != nil {
			return nil, err
		}

		var f *os.File
		if f, err = j.openPlace(p); err == nil {
			if err = j.straight.checkFile(start, f); err != nil {
				_ = f.Close()
				return nil, err
			}
			return f, nil
		}

		if !escapes(err) {
			return nil, err
		}
		p, err = j.follow(p, false)
	}

	return nil, refuse(p.abs, ErrOutside, "too many links")
}

// follow goes on after os.Root refused a link.
func (j *Jail) follow(p place, parent bool) (place, error) {
	target, err := j.throughLink(p, parent)
	if err != nil {
		return place{}, err
	}
	return j.locate(target, parent)
}

func (j *Jail) openPlace(p place) (*os.File, error) {
	// Looking first keeps devices from being opened at all; the check that
	// counts is made on the open file.
	if info, err := p.root.Stat(p.rel); err != nil {
		return nil, err
	} else if err := mustBeRegular(p.abs, info); err != nil {
		return nil, err
	}

	f, err := p.root.OpenFile(p.rel, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	if err := j.vet(f, p.abs); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// vet checks an open file by what it is, not by how it was called.
func (j *Jail) vet(f *os.File, abs string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := mustBeRegular(abs, info); err != nil {
		return err
	}
	if err := clearNonblock(f); err != nil {
		return err
	}

	resolved, err := realPath(f, abs)
	if err != nil {
		return err
	}
	if err := j.guard().check(resolved, false); err != nil {
		return err
	}

	same := func(other fs.FileInfo) bool { return os.SameFile(other, info) }
	if linkCount(info) > 1 && j.guard().alias(inodeChange(info), same) {
		return refuse(abs, ErrProtected, "is another name of a protected file")
	}
	return nil
}

func mustBeRegular(path string, info fs.FileInfo) error {
	m := info.Mode()
	switch {
	case m.IsRegular():
		return nil
	case m.IsDir():
		return refuse(path, ErrNotRegular, "is a directory")
	case m&fs.ModeNamedPipe != 0:
		return refuse(path, ErrNotRegular, "is a named pipe, not a regular file")
	case m&fs.ModeSocket != 0:
		return refuse(path, ErrNotRegular, "is a socket, not a regular file")
	case m&fs.ModeDevice != 0:
		return refuse(path, ErrNotRegular, "is a device, not a regular file")
	}

	return refuse(path, ErrNotRegular, "is not a regular file")
}

// realPathByName finds the link-free path of an open file and proves it by
// identity: if the path names this very file, checking the path is sound.
func realPathByName(f *os.File, abs string) (string, error) {
	resolved, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", err
	}

	byName, err := os.Lstat(resolved)
	if err != nil {
		return "", err
	}

	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !os.SameFile(byName, info) {
		return "", refuse(abs, ErrChanged, "was replaced while it was being opened; try again")
	}
	return resolved, nil
}

// Stat describes what a name leads to, following links inside the root.
func (j *Jail) Stat(name string) (fs.FileInfo, error) { return j.stat(name, (*os.Root).Stat) }

// Lstat describes the name itself.
func (j *Jail) Lstat(name string) (fs.FileInfo, error) { return j.stat(name, (*os.Root).Lstat) }

func (j *Jail) stat(name string, how func(*os.Root, string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	p, err := j.locate(name, false)
	for range linkHops {
		if err != nil {
			return nil, err
		}
		var info fs.FileInfo
		if info, err = how(p.root, p.rel); err == nil || !escapes(err) {
			return info, err
		}
		p, err = j.follow(p, false)
	}

	return nil, refuse(p.abs, ErrOutside, "too many links")
}

// OpenDir opens a directory for listing and walking.
func (j *Jail) OpenDir(name string) (*Dir, error) {
	p, err := j.locate(name, false)
	for range linkHops {
		if err != nil {
			return nil, err
		}

		var d *Dir
		if d, err = j.openDirPlace(p); err == nil {
			return d, nil
		}
		if !escapes(err) {
			return nil, err
		}
		p, err = j.follow(p, false)
	}

	return nil, refuse(p.abs, ErrOutside, "too many links")
}

func (j *Jail) openDirPlace(p place) (*Dir, error) {
	info, err := p.root.Stat(p.rel)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, refuse(p.abs, ErrNotRegular, "is not a directory")
	}

	d, resolved, err := newDir(p.root, p.rel, p.abs)
	if err != nil {
		return nil, err
	}

	g := j.guard()
	if err := g.checkDir(resolved); err != nil {
		_ = d.Close()
		return nil, err
	}

	d.jail, d.path, d.guard, d.hidden = j, resolved, g, g.below(resolved)
	return d, nil
}

// ReadDir lists a directory by name order. Protected entries are left out.
func (j *Jail) ReadDir(name string) ([]fs.DirEntry, error) {
	d, err := j.OpenDir(name)
	if err != nil {
		return nil, err
	}

	entries, err := d.Entries()
	if cerr := d.Close(); err == nil {
		err = cerr
	}

	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// Readlink returns where a link points, as written in the link.
func (j *Jail) Readlink(name string) (string, error) {
	p, err := j.locate(name, false)
	if err != nil {
		return "", err
	}
	return p.root.Readlink(p.rel)
}

// IsMissing reports whether an error means that a file or a directory on the
// way to it does not exist.
func IsMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) || notDirectory(err) }
