package diskio

import (
	"io/fs"
	"math"
)

// FS is the tree for functions that take an fs.FS. It describes and lists links
// and never follows one.
func (t *Tree) FS() fs.FS { return treeFS{t} }

type treeFS struct{ t *Tree }

// Open opens a regular file; folders are for ReadDir.
func (f treeFS) Open(name string) (fs.File, error) {
	file, err := f.t.Open(name)
	if err != nil { // a nil *os.File would not be a nil fs.File
		return nil, err
	}
	return file, nil
}

// ReadDir is Tree.ReadDir.
func (f treeFS) ReadDir(name string) ([]fs.DirEntry, error) { return f.t.ReadDir(name) }

// Stat is Tree.Lstat.
func (f treeFS) Stat(name string) (fs.FileInfo, error) { return f.t.Lstat(name) }

// ReadFile is Tree.ReadFile without a limit.
func (f treeFS) ReadFile(name string) ([]byte, error) { return f.t.ReadFile(name, math.MaxInt64-1) }

// Links returns those of some names that are links, or that lead through one.
// It is how a program tells a user what it does not follow.
func (t *Tree) Links(names ...string) (links []string) {
	for _, name := range names {
		if info, err := t.Lstat(name); err == nil && isLink(info) || err != nil && isLinkError(err) {
			links = append(links, name)
		}
	}
	return links
}
