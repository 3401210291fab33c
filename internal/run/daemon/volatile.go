package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// writeVolatile writes a file of JSON that is about processes of this boot. It is
// neither synced nor replaced as a whole: after a power loss nothing in it is
// true any more, and making a file and waiting for the disk is what a start
// would take longest for. For the same reason the file is not cut first, but
// filled up with empty lines to its old length; file systems flush one that is
// cut when it is closed. Readers may find it empty, at its first writing and
// after a power loss.
func writeVolatile(path string, data []byte) error {
	if err := diskio.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}

	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	info, err := f.Stat()
	if err == nil {
		if more := info.Size() - int64(len(data)); more > 0 {
			data = append(data, bytes.Repeat([]byte("\n"), int(more))...)
		}
		_, err = f.Write(data)
	}
	return errors.Join(err, f.Close())
}
