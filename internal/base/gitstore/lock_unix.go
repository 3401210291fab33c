//go:build !windows

package gitstore

import (
	"errors"
	"os"
	"syscall"
)

func tryLock(f *os.File) (ok bool, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	if cerr := conn.Control(func(fd uintptr) { err = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB) }); cerr != nil {
		return false, cerr
	}
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
