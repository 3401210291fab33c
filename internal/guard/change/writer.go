package change

import (
	"io/fs"
	"path"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// Writer writes files of one workspace for the program itself: at the word of
// the owner on a page or at the command line, and in work without content from
// outside. What is written takes with it where it comes from, as
// origin.Store.Write says. No link inside the workspace is followed, and a crash
// leaves the old or the new content of a file.
//
// It is safe for concurrent use, also by several processes.
type Writer struct {
	workspace string
	origin    func() (*origin.Store, error)
}

// NewWriter makes the writer of a workspace, an absolute path. records opens the
// record of where its files come from; nil records nothing.
func NewWriter(workspace string, records func() (*origin.Store, error)) *Writer {
	return &Writer{workspace: workspace, origin: records}
}

// File is a file that is written.
type File struct {
	Name string // relative to the workspace, with slashes
	Data []byte
}

// Write makes a file hold a content; name is relative to the workspace, with
// slashes. from are contents that parts of data were taken from, besides what
// the file holds until now. Its folder is made if it is missing. A new file is
// private, an existing one keeps its permissions. A link or a folder in its
// place is refused.
func (w *Writer) Write(name string, data []byte, from ...[]byte) error {
	written := []origin.Written{{Path: w.path(name), Data: data, From: from}}
	return w.writeRecorded(written, func(root *diskio.Tree) error {
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		perm := fs.FileMode(0o600)
		if info, err := root.Lstat(name); err == nil {
			perm = info.Mode().Perm()
		}
		return root.WriteFile(name, data, perm)
	})
}

// Create makes a file that does not exist yet, with its folder, and reports
// whether it did. An existing regular file stays as it is.
func (w *Writer) Create(name string, data []byte) (created bool, err error) {
	exists := false
	err = w.in(func(root *diskio.Tree) error {
		info, err := root.Lstat(name)
		exists = err == nil && info.Mode().IsRegular()
		return nil // what else is there is found when it is written
	})
	if err != nil || exists { // nothing is said about a file that stays
		return false, err
	}

	err = w.writeRecorded([]origin.Written{{Path: w.path(name), Data: data}}, func(root *diskio.Tree) error {
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		created, err = root.CreateNew(name, data, 0o600)
		return err
	})
	return created, err
}

// Remove deletes a file, a link or an empty folder. What the record says about
// the name stays.
func (w *Writer) Remove(name string) error {
	return w.in(func(root *diskio.Tree) error { return root.Remove(name) })
}

// Put lets put give files their contents in a way of its own, such as all at once.
// root is the workspace.
func (w *Writer) Put(files []File, put func(root *diskio.Tree) error) error {
	return w.writeRecorded(w.written(files, false), put)
}

// Replace is Put for files of which nothing remains, such as those of a folder
// that is replaced by another one.
func (w *Writer) Replace(files []File, put func(root *diskio.Tree) error) error {
	return w.writeRecorded(w.written(files, true), put)
}

func (w *Writer) written(files []File, whole bool) []origin.Written {
	out := make([]origin.Written, len(files))
	for i, f := range files {
		out[i] = origin.Written{Path: w.path(f.Name), Data: f.Data, Whole: whole}
	}
	return out
}

func (w *Writer) writeRecorded(written []origin.Written, put func(root *diskio.Tree) error) error {
	if w.origin == nil {
		return w.in(put)
	}
	record, err := w.origin()
	if err != nil {
		return err
	}
	return record.Write(written, func() error { return w.in(put) })
}

// Keeping records a content of a file that is going to be saved, such as in a
// history of versions. What it says about the content then counts when it is
// written again.
func (w *Writer) Keeping(name string, data []byte) error {
	if w.origin == nil {
		return nil
	}
	record, err := w.origin()
	if err != nil {
		return err
	}
	return record.Copying(w.path(name), data)
}

func (w *Writer) path(name string) string {
	return filepath.Join(w.workspace, filepath.FromSlash(name))
}

// in opens the workspace for do.
func (w *Writer) in(do func(root *diskio.Tree) error) error {
	root, err := diskio.OpenTree(w.workspace)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is pending
	return do(root)
}
