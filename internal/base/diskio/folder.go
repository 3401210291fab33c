package diskio

import (
	"errors"
	"io/fs"
	"os"
)

const inside = string(os.PathSeparator) + "."

// OpenFolder opens a folder, following links on the way, and nothing else. What
// is not a folder has no entry ".", so the kernel does not open it: it would wait
// for a FIFO that another program may put there at any moment.
func OpenFolder(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir + inside)
	return root, named(err, dir)
}

// OpenFolderIn is the same inside a root, where links that stay inside are followed.
func OpenFolderIn(root *os.Root, name string) (*os.Root, error) {
	sub, err := root.OpenRoot(name + inside)
	return sub, named(err, name)
}

// named is an error with the path that the caller gave.
func named(err error, path string) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}
