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
	// From are contents that parts of Data were taken from; what the file holds
	// until now is always one of them.
	From [][]byte
	// Perm are the permissions of a new file, 0600 if zero. An existing file keeps its own.
	Perm fs.FileMode
}

// Write makes a file hold a content. Its folder is made if it is missing. A link
// or a folder in its place is refused.
func (w *Writer) Write(f File) error {
	return w.put([]File{f}, func(root *diskio.Tree) error {
		if err := root.MkdirAll(path.Dir(f.Name), 0o700); err != nil {
			return err
		}
		perm := f.perm()
		if info, err := root.Lstat(f.Name); err == nil {
			perm = info.Mode().Perm()
		}
		return root.WriteFile(f.Name, f.Data, perm)
	})
}

// Create makes a file that does not exist yet, with its folder, and reports
// whether it did. An existing regular file stays as it is.
func (w *Writer) Create(f File) (created bool, err error) {
	exists := false
	err = w.in(func(root *diskio.Tree) error {
		info, err := root.Lstat(f.Name)
		exists = err == nil && info.Mode().IsRegular()
		return nil // what else is there is found when it is written
	})
	if err != nil || exists { // nothing is said about a file that stays
		return false, err
	}
	err = w.put([]File{f}, func(root *diskio.Tree) error {
		if err := root.MkdirAll(path.Dir(f.Name), 0o700); err != nil {
			return err
		}
		created, err = root.CreateNew(f.Name, f.Data, f.perm())
		return err
	})
	return created, err
}

func (f File) perm() fs.FileMode {
	if f.Perm == 0 {
		return 0o600
	}
	return f.Perm
}

// Remove deletes a file, a link or an empty folder. What the record says about
// the name stays.
func (w *Writer) Remove(name string) error {
	return w.in(func(root *diskio.Tree) error { return root.Remove(name) })
}

// put lets do give files their contents, and records where these come from.
func (w *Writer) put(files []File, do func(root *diskio.Tree) error) error {
	if w.origin == nil {
		return w.in(do)
	}
	record, err := w.origin()
	if err != nil {
		return err
	}
	written := make([]origin.Written, len(files))
	for i, f := range files {
		written[i] = origin.Written{Path: w.path(f.Name), Data: f.Data, From: f.From}
	}
	return record.Write(written, func() error { return w.in(do) })
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
