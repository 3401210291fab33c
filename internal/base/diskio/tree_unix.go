//go:build unix

package diskio

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// renameBetween moves a name from one folder that is held open to another.
func (t *Tree) renameBetween(fromDir, toDir *os.Root, from, to string) error {
	return withFd(fromDir, func(a int) error {
		return withFd(toDir, func(b int) error { return unix.Renameat(a, path.Base(from), b, path.Base(to)) })
	})
}

// withFd lends a descriptor of a folder.
func withFd(dir *os.Root, use func(fd int) error) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}

	defer f.Close() //nolint:errcheck // only a handle

	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}

	var inner error
	err = conn.Control(func(fd uintptr) { inner = use(int(fd)) })
	return errors.Join(err, inner)
}
