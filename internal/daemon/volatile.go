package daemon

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// putVolatile replaces a file that is about processes of this boot, in one
// step for those who read it. It is not synced: after a power loss nothing in
// it is true any more, and a start would wait for the disk. Such a loss may
// leave the file empty.
func putVolatile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := diskio.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".tmp-*") // only we can read it
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
