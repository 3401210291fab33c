package diskio

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// clean checks a name. Whether it may be the tree itself is up to the caller.
func (t *Tree) clean(name string, whole bool) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}

	clean := path.Clean(name)
	if !fs.ValidPath(clean) || runtime.GOOS == "windows" && strings.Contains(clean, `\`) {
		return "", refuse(name, ErrOutside, "is not a slash path relative to %s", t.path)
	}
	if clean == "." && !whole {
		return "", refuse(t.path, ErrNotRegular, "is the folder itself")
	}
	return clean, nil
}

// full returns how a name is shown in errors.
func (t *Tree) full(name string) string { return filepath.Join(t.path, filepath.FromSlash(name)) }

// describe gives an error the whole path. Refusals name it already.
func (t *Tree) describe(op, name string, err error) error {
	if stepErr, ok := errors.AsType[*stepError](err); ok {
		if errors.Is(stepErr.kind, ErrLink) {
			return refuse(t.full(name), ErrLink, "is a link; nanobot does not follow links inside a workspace; put the file or folder itself there")
		}
		return refuse(t.full(name), stepErr.kind, "%s", stepErr.detail)
	}

	if _, ok := errors.AsType[*JailError](err); ok {
		return err
	}

	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	} else if le, ok := errors.AsType[*os.LinkError](err); ok {
		err = le.Err
	}
	return &fs.PathError{Op: op, Path: t.full(name), Err: err}
}

// mustBeFile refuses everything but a regular file, by what the name itself is.
func (t *Tree) mustBeFile(clean string, info fs.FileInfo) error {
	if isLink(info) {
		return t.describe("", clean, &stepError{kind: ErrLink})
	}
	return mustBeRegular(t.full(clean), info)
}

func isLinkError(err error) bool { return errors.Is(err, ErrLink) }

// isLink also knows the mount points and other redirections of Windows, which
// are neither files nor folders.
func isLink(info fs.FileInfo) bool { return info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0 }

// folder opens a folder inside, or the tree's own again.
func (t *Tree) folder(name string) (*os.Root, error) {
	clean, err := t.clean(name, true)
	if err != nil {
		return nil, err
	}
	if clean == "." {
		return t.root.OpenRoot(".")
	}

	at, held := t.root, []*os.Root(nil)
	for done, part := range prefixes(clean) {
		next, err := enter(at, part)
		if err != nil {
			closeRoots(held)
			return nil, t.describe("open", done, err)
		}
		at, held = next, append(held, next)
	}

	closeRoots(held[:len(held)-1])
	return at, nil
}

// parent opens the folder that a name is in. The caller calls done.
func (t *Tree) parent(clean string) (dir *os.Root, base string, done func(), err error) {
	up, base := path.Split(clean)
	if up == "" {
		return t.root, base, func() {}, nil
	}
	dir, err = t.folder(strings.TrimSuffix(up, "/"))
	if err != nil {
		return nil, "", nil, err
	}
	return dir, base, func() { _ = dir.Close() }, nil
}

// prefixes yields the beginnings of a slash path with their last parts.
func prefixes(clean string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		start := 0
		for i := range len(clean) + 1 {
			if i < len(clean) && clean[i] != '/' {
				continue
			}
			if !yield(clean[:i], clean[start:i]) {
				return
			}
			start = i + 1
		}
	}
}

func closeRoots(roots []*os.Root) {
	for _, r := range roots {
		_ = r.Close()
	}
}

// stepError is why a folder was not entered.
type stepError struct {
	kind   error
	detail string
}

func (e *stepError) Error() string { return e.detail }

// enter opens a child folder. A root follows links inside itself, so what was
// opened has to be what the name itself was.
func enter(dir *os.Root, name string) (*os.Root, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if isLink(before) {
		return nil, &stepError{ErrLink, "is a link"}
	}
	if !before.IsDir() {
		return nil, &stepError{ErrNotRegular, "is not a folder"}
	}

	sub, err := OpenFolderIn(dir, name)
	if err != nil {
		return nil, err
	}

	after, err := sub.Stat(".")
	if err != nil || !os.SameFile(before, after) {
		return nil, errors.Join(&stepError{ErrChanged, "was replaced while it was being opened; try again"}, sub.Close())
	}

	return sub, nil
}

// tempName is the name of a file that is being written. It is hidden and says
// whose it is.
func tempName() string { return ".nanobot-" + strings.ToLower(rand.Text()) + ".tmp" }

// fillTemp writes a new file with a name of its own into a folder.
func fillTemp(dir *os.Root, data []byte, perm fs.FileMode) (name string, err error) {
	name = tempName()
	return name, fillNew(dir, name, data, perm)
}

// fillNew writes a file that must not exist. On failure none stays.
func fillNew(dir *os.Root, name string, data []byte, perm fs.FileMode) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm.Perm())
	if err != nil {
		return err
	}
	if err := fill(f, data, perm); err != nil {
		return errors.Join(fmt.Errorf("write: %w", err), dir.Remove(name))
	}
	return nil
}

// syncRoot makes the entries of a folder durable where that is possible.
func syncRoot(dir *os.Root) error {
	if runtime.GOOS == "windows" {
		return nil // see SyncDir
	}
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return syncOpen(d)
}
