package diskio

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ErrLink means that a name, or a folder on the way to it, is a link.
var ErrLink = errors.New("a link")

// Tree is a folder whose content others may change at any moment: a workspace,
// where commands run. Names are slash paths relative to it. No link is followed
// in any part of a name, not even one that stays inside, and only regular files
// are read or replaced. Every access starts at a descriptor of the folder and
// goes from one verified folder to the next, so that names that change while
// they are used lead to an error and never to another place.
//
// A Tree is for what the program itself opens below a workspace. For names that
// a model chose there is Jail. Methods may be called concurrently, except with
// Close.
type Tree struct {
	path      string // without links, when it was opened
	root      *os.Root
	self      *os.File // the same folder for the kernel's own way, or nil
	protected []string
}

// OpenTree opens a folder. The way to it may contain links, because the owner
// chose it; it is followed once. Protected are files that the tree never gives
// out, whatever they are called inside it: a hard link to one of them, or a
// mount of it, is refused. The caller closes the tree.
func OpenTree(dir string, protected ...string) (*Tree, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}

	root, err := OpenFolder(abs)
	if err != nil {
		return nil, err
	}

	return newTree(root, abs, slices.Clone(protected))
}

// OpenTreeAt opens a folder whose absolute path was found before and held no
// link then. It must hold none now.
func OpenTreeAt(dir string, protected ...string) (*Tree, error) {
	top, rel, err := openTop(dir)
	if err != nil {
		return nil, err
	}
	defer top.Close() //nolint:errcheck // only a way
	top.protected = slices.Clone(protected)

	return top.Sub(rel)
}

// openTop opens the volume of an absolute path as a tree.
func openTop(abs string) (top *Tree, rel string, err error) {
	if !filepath.IsAbs(abs) {
		return nil, "", refuse(abs, ErrBadName, "is not an absolute path")
	}

	abs = filepath.Clean(abs)
	volume := filepath.VolumeName(abs) + string(filepath.Separator)
	top, err = OpenTree(volume)
	if err != nil {
		return nil, "", err
	}

	if rel = filepath.ToSlash(strings.TrimPrefix(abs, volume)); rel == "" {
		rel = "."
	}
	return top, rel, nil
}

func newTree(root *os.Root, abs string, protected []string) (*Tree, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}

	t := &Tree{path: abs, root: root, protected: protected}
	if resolved, err := realPath(f, abs); err == nil {
		t.path = resolved
	}

	if kernelWay {
		t.self = f
		return t, nil
	}
	if err := f.Close(); err != nil {
		return nil, errors.Join(err, root.Close())
	}

	return t, nil
}

// Close releases the folder. Files already opened stay usable.
func (t *Tree) Close() error {
	err := t.root.Close()
	if t.self != nil {
		err = errors.Join(err, t.self.Close())
	}
	return err
}

// Path is the path, free of links, that the folder had when it was opened.
func (t *Tree) Path() string { return t.path }

// Sub opens a folder inside as a tree of its own.
func (t *Tree) Sub(name string) (*Tree, error) {
	dir, err := t.folder(name)
	if err != nil {
		return nil, err
	}
	return newTree(dir, t.full(name), t.protected)
}

// Open opens a regular file for reading. It never waits for a FIFO.
func (t *Tree) Open(name string) (*os.File, error) {
	clean, err := t.clean(name, false)
	if err != nil {
		return nil, err
	}

	if f, err := t.openKernel(clean); err == nil {
		return f, nil
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil, t.describe("open", clean, fs.ErrNotExist)
	}

	return t.openSteps(clean, os.O_RDONLY, 0)
}

// OpenFile opens a regular file as os.OpenFile does. A file that others read at
// the same time is better written by WriteFile.
func (t *Tree) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	clean, err := t.clean(name, false)
	if err != nil {
		return nil, err
	}

	f, err := t.openSteps(clean, flag&^os.O_TRUNC, perm)
	if err != nil {
		return nil, err
	}

	if flag&os.O_TRUNC != 0 {
		if err := f.Truncate(0); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}

	return f, nil
}

// openSteps opens without the kernel's help: the folder first, then what the
// name is, then the file, which has to be what was seen.
func (t *Tree) openSteps(clean string, flag int, perm fs.FileMode) (*os.File, error) {
	dir, base, done, err := t.parent(clean)
	if err != nil {
		return nil, err
	}

	defer done()

	for range maxOpens {
		before, err := dir.Lstat(base)
		switch {
		case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
			f, err := dir.OpenFile(base, flag|os.O_EXCL, perm)
			if err == nil {
				return f, nil
			}
			if !errors.Is(err, fs.ErrExist) {
				return nil, t.describe("create", clean, err)
			}
			continue // it has just appeared
		case err != nil:
			return nil, t.describe("open", clean, err)
		}

		if flag&os.O_EXCL != 0 {
			return nil, t.describe("create", clean, fs.ErrExist)
		}
		if err := t.mustBeFile(clean, before); err != nil {
			return nil, err
		}
		return t.openSeen(dir, base, clean, flag&^os.O_CREATE, before)
	}

	return nil, refuse(t.full(clean), ErrChanged, "appears and vanishes; try again")
}

// maxOpens is how often a file may appear between the look and its creation.
const maxOpens = 8

// openSeen opens a file that has to be the one that was seen.
func (t *Tree) openSeen(dir *os.Root, base, clean string, flag int, before fs.FileInfo) (*os.File, error) {
	f, err := dir.OpenFile(base, flag|openNonblock, 0)
	if err != nil {
		return nil, t.describe("open", clean, err)
	}

	after, err := t.vet(f, clean)
	if err == nil && !os.SameFile(before, after) {
		err = refuse(t.full(clean), ErrChanged, "was replaced while it was being opened; try again")
	}

	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// vet checks an open file by what it is and makes its reads ordinary again.
func (t *Tree) vet(f *os.File, clean string) (fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := mustBeRegular(t.full(clean), info); err != nil {
		return nil, err
	}

	for _, p := range t.protected {
		if other, err := os.Stat(p); err == nil && os.SameFile(other, info) {
			return nil, refuse(t.full(clean), ErrProtected, "is another name of a protected file")
		}
	}

	return info, clearNonblock(f)
}

// ReadFile reads a regular file of at most limit bytes; a larger one is
// ErrTooLarge.
func (t *Tree) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // only read

	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, refuse(t.full(name), ErrTooLarge, "is %d bytes; at most %d are read", info.Size(), limit)
	}

	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = refuse(t.full(name), ErrTooLarge, "grew over %d bytes while it was read", limit)
	}

	if err != nil {
		return nil, err
	}

	return data, nil
}

// ReadHead reads the first bytes of a regular file.
func (t *Tree) ReadHead(name string, limit int64) ([]byte, error) {
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, errors.Join(err, f.Close())
}

// WriteFile creates or replaces a regular file, so that a crash leaves the old
// or the new bytes. Its folder must exist. A link in its place is refused; one
// that appears meanwhile is replaced itself. Other names of a hard-linked file
// keep the old content.
func (t *Tree) WriteFile(name string, data []byte, perm fs.FileMode) error {
	clean, err := t.clean(name, false)
	if err != nil {
		return err
	}

	dir, base, done, err := t.parent(clean)
	if err != nil {
		return err
	}

	defer done()

	if info, err := dir.Lstat(base); err == nil {
		if err := t.mustBeFile(clean, info); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return t.describe("write", clean, err)
	}

	temp, err := fillTemp(dir, data, perm)
	if err != nil {
		return t.describe("write", clean, err)
	}
	if err := dir.Rename(temp, base); err != nil {
		return errors.Join(t.describe("write", clean, err), dir.Remove(temp))
	}

	return syncRoot(dir)
}

// CreateNew makes a file that does not exist yet, with all of its content at
// once, and reports whether it did. An existing regular file stays as it is;
// anything else of that name is an error.
func (t *Tree) CreateNew(name string, data []byte, perm fs.FileMode) (created bool, err error) {
	clean, err := t.clean(name, false)
	if err != nil {
		return false, err
	}

	dir, base, done, err := t.parent(clean)
	if err != nil {
		return false, err
	}

	defer done()

	if info, err := dir.Lstat(base); err == nil {
		return false, t.mustBeFile(clean, info)
	}

	temp, err := fillTemp(dir, data, perm)
	if err != nil {
		return false, t.describe("create", clean, err)
	}

	err = dir.Link(temp, base)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = fillNew(dir, base, data, perm) // a disk without hard links
	}

	if gone := dir.Remove(temp); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		return err == nil, errors.Join(err, gone)
	}

	switch {
	case errors.Is(err, fs.ErrExist):
		info, err := dir.Lstat(base)
		if err != nil {
			return false, t.describe("create", clean, err)
		}
		return false, t.mustBeFile(clean, info)
	case err != nil:
		return false, t.describe("create", clean, err)
	}

	return true, syncRoot(dir)
}

// Mkdir makes a folder whose parent exists.
func (t *Tree) Mkdir(name string, perm fs.FileMode) error {
	clean, err := t.clean(name, false)
	if err != nil {
		return err
	}

	dir, base, done, err := t.parent(clean)
	if err != nil {
		return err
	}

	defer done()

	if err := dir.Mkdir(base, perm); err != nil {
		return t.describe("mkdir", clean, err)
	}
	return syncRoot(dir)
}

// MkdirAll makes a folder and its missing parents.
func (t *Tree) MkdirAll(name string, perm fs.FileMode) error {
	clean, err := t.clean(name, true)
	if err != nil || clean == "." {
		return err
	}

	at, held := t.root, []*os.Root(nil)
	defer func() { closeRoots(held) }()
	for done, part := range prefixes(clean) {
		next, err := enter(at, part)
		if errors.Is(err, fs.ErrNotExist) {
			if err = at.Mkdir(part, perm); err == nil {
				err = syncRoot(at)
			}
			if err == nil || errors.Is(err, fs.ErrExist) {
				next, err = enter(at, part)
			}
		}

		if err != nil {
			return t.describe("mkdir", done, err)
		}
		at, held = next, append(held, next)
	}

	return nil
}

// ReadDir lists a folder in the order of names. Links are listed as such.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	dir, err := t.folder(name)
	if err != nil {
		return nil, err
	}

	defer dir.Close() //nolint:errcheck // only read

	f, err := dir.Open(".") // a file of a root looks entries up relative to itself
	if err != nil {
		return nil, t.describe("list", name, err)
	}

	defer f.Close() //nolint:errcheck // only read

	entries, err := f.ReadDir(-1)
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// Lstat describes a name itself, also when it is a link.
func (t *Tree) Lstat(name string) (fs.FileInfo, error) {
	clean, err := t.clean(name, true)
	if err != nil {
		return nil, err
	}
	if clean == "." {
		return t.root.Lstat(".")
	}

	if info, err := t.lstatKernel(clean); err == nil {
		return info, nil
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil, t.describe("lstat", clean, fs.ErrNotExist)
	}

	dir, base, done, err := t.parent(clean)
	if err != nil {
		return nil, err
	}

	defer done()

	info, err := dir.Lstat(base)
	if err != nil {
		return nil, t.describe("lstat", clean, err)
	}
	return info, nil
}

// Remove deletes a file, a link or an empty folder.
func (t *Tree) Remove(name string) error { return t.remove(name, (*os.Root).Remove) }

// RemoveAll deletes a name and, if it is a folder, what is inside. Links go
// themselves, never what they lead to. A missing name is not an error.
func (t *Tree) RemoveAll(name string) error {
	if err := t.remove(name, (*os.Root).RemoveAll); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (t *Tree) remove(name string, how func(*os.Root, string) error) error {
	clean, err := t.clean(name, false)
	if err != nil {
		return err
	}

	dir, base, done, err := t.parent(clean)
	if err != nil {
		return err
	}

	defer done()

	if err := how(dir, base); err != nil {
		return t.describe("remove", clean, err)
	}
	return nil
}

// Rename gives a file, folder or link another name, as os.Rename does, and makes
// the new name durable.
func (t *Tree) Rename(from, to string) error {
	from, err := t.clean(from, false)
	if err != nil {
		return err
	}

	to, err = t.clean(to, false)
	if err != nil {
		return err
	}

	fromDir, fromBase, fromDone, err := t.parent(from)
	if err != nil {
		return err
	}

	defer fromDone()
	toDir, toBase, toDone, err := t.parent(to)
	if err != nil {
		return err
	}

	defer toDone()

	if path.Dir(from) == path.Dir(to) {
		if err := fromDir.Rename(fromBase, toBase); err != nil {
			return t.describe("rename", from, err)
		}
		return syncRoot(fromDir)
	}

	if err := t.renameBetween(fromDir, toDir, from, to); err != nil {
		return t.describe("rename", from, err)
	}
	return syncRoot(toDir)
}
