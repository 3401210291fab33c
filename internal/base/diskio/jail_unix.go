//go:build unix

package diskio

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

const openNonblock = syscall.O_NONBLOCK

// clearNonblock makes reads of a regular file ordinary again.
func clearNonblock(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := c.Control(func(fd uintptr) { inner = syscall.SetNonblock(int(fd), false) }); err != nil {
		return err
	}
	return inner
}

func linkCount(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // the width differs between platforms
	}
	return 1
}

func notDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// volumeRoots is the root of an unrestricted jail.
type volumeRoots struct {
	mu   sync.Mutex
	root *os.Root
}

func (v *volumeRoots) open(string) (*os.Root, string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.root == nil {
		root, err := os.OpenRoot("/")
		if err != nil {
			return nil, "", err
		}
		v.root = root
	}

	return v.root, "/", nil
}

func (v *volumeRoots) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.root == nil {
		return nil
	}
	err := v.root.Close()
	v.root = nil
	return err
}
