package diskio

import (
	"errors"
	"io/fs"
	"os"
)

// inside is appended to the path of a folder: what is not one has no such entry,
// and the kernel says so without opening it.
const inside = string(os.PathSeparator) + "."

// OpenFolder opens a folder, following links on the way, and nothing else: a
// FIFO in its place would otherwise be opened and waited for. The kernel itself
// tells them apart, so that nothing can be swapped between a look and the
// opening.
func OpenFolder(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir + inside)
	return root, named(err, dir)
}

// OpenFolderIn is OpenFolder for a folder inside a root. Like os.Root itself it
// follows links that stay inside.
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
