package diskio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces path with data so that after a crash or a power loss the
// file holds either the old or the new bytes, never a mixture. A symbolic link
// is followed, so that a linked configuration stays linked. The directory must
// exist. A crash may leave a hidden temporary file beside the target.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}

	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	if err := fill(f, data, perm); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := Replace(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func fill(f *os.File, data []byte, perm fs.FileMode) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Replace renames a finished and synced file over path and makes the rename durable.
func Replace(tmp, path string) error {
	if err := Retry(func() error { return os.Rename(tmp, path) }); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// CopyFile writes what src yields to a new file at path, which must not exist,
// and syncs it. On failure nothing stays at path. The caller syncs the directory.
func CopyFile(path string, src io.Reader, perm fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}

	_, err = io.Copy(f, src)
	if err == nil {
		err = f.Sync()
	}

	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// MkdirAll makes path and its missing parents, and makes their entries durable.
func MkdirAll(path string, perm fs.FileMode) error {
	switch fi, err := os.Stat(path); {
	case err == nil && fi.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s is not a directory", path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}

	parent := filepath.Dir(path)
	if parent != path {
		if err := MkdirAll(parent, perm); err != nil {
			return err
		}
	}

	if err := os.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent)
}
