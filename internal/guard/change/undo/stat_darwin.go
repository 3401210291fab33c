package undo

import (
	"io/fs"
	"syscall"
)

// openFlags keep the opening of a pipe from waiting for its other end.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// stamps returns what changes whenever a file changes: the time of its content
// and of its inode in nanoseconds, and the inode's number.
func stamps(info fs.FileInfo) (mtime, ctime int64, inode uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Mtimespec.Nano(), st.Ctimespec.Nano(), st.Ino
	}
	return info.ModTime().UnixNano(), 0, 0
}
