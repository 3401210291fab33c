//go:build !windows

package diskio

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

func lockOpenError(_ string, err error) error { return err }

func lockFile(f *os.File) (bool, error) {
	for {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// unlockFile removes the name first: whoever opened the file before finds it
// nameless after locking it and starts over.
func unlockFile(f *os.File, path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// flock goes through SyscallConn, because Fd would switch the file's mode first.
func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := conn.Control(func(fd uintptr) { err = syscall.Flock(int(fd), how) }); cerr != nil {
		return cerr
	}
	return err
}
