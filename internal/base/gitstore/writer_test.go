package gitstore

import (
	"io/fs"
	"path"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// plainWriter writes files below a folder and does not know where they come from.
type plainWriter string

func (w plainWriter) Keeping(string, []byte) error { return nil }

func (w plainWriter) Write(name string, data []byte, _ ...[]byte) error {
	return w.in(func(root *diskio.Tree) error {
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

func (w plainWriter) Remove(name string) error {
	return w.in(func(root *diskio.Tree) error { return root.Remove(name) })
}

func (w plainWriter) in(do func(root *diskio.Tree) error) error {
	root, err := diskio.OpenTree(string(w))
	if err != nil {
		return err
	}
	defer root.Close()
	return do(root)
}
