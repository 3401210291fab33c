package diskio

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// kernelWay says that the kernel may know how to open without following links.
const kernelWay = true

// openKernel opens a regular file in one step of the kernel, which follows no
// link at all. Any error but fs.ErrNotExist means that the caller goes step by
// step, which works on kernels before 5.6, too, and can say what is wrong.
func (t *Tree) openKernel(clean string) (*os.File, error) {
	info, err := t.lstatKernel(clean) // a device is not opened at all
	if err != nil {
		return nil, err
	}
	if err := t.mustBeFile(clean, info); err != nil {
		return nil, err
	}

	f, err := t.beneath(clean, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	if _, err := t.vet(f, clean); err != nil {
		return nil, errors.Join(err, f.Close())
	}

	return f, nil
}

// lstatKernel describes a name in one step of the kernel. Errors are as those of
// openKernel.
func (t *Tree) lstatKernel(clean string) (fs.FileInfo, error) {
	if t.self == nil {
		return nil, errors.ErrUnsupported
	}
	seen, err := t.beneath(clean, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	info, err := seen.Stat()
	return info, errors.Join(err, seen.Close())
}

func (t *Tree) beneath(clean string, flags uint64) (*os.File, error) {
	conn, err := t.self.SyscallConn()
	if err != nil {
		return nil, err
	}

	how := &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, inner := -1, error(nil)
	err = conn.Control(func(dir uintptr) {
		for {
			fd, inner = unix.Openat2(int(dir), clean, how)
			if !errors.Is(inner, unix.EINTR) {
				return
			}
		}
	})
	if err = errors.Join(err, inner); err != nil {
		return nil, &fs.PathError{Op: "open", Path: t.full(clean), Err: err}
	}
	return os.NewFile(uintptr(fd), t.full(clean)), nil
}
