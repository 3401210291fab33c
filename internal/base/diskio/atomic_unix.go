//go:build !windows

package diskio

import (
	"errors"
	"os"
	"syscall"
)

// Retry opens or renames a file. Here no other program can be in the way.
func Retry(do func() error) error { return do() }

// SyncDir makes the entries of a directory durable: names created, renamed or
// removed in it survive a power loss. File systems that cannot do it are let off.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return syncOpen(d)
}

// syncOpen makes the entries of an open directory durable and closes it.
func syncOpen(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
