package origin

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTimeOf returns when the inode last changed. Programs cannot set it.
func changeTimeOf(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctimespec.Unix())
	}
	return info.ModTime()
}

// inodeOf identifies the inode of a path, whatever its name is: numbers are
// given away again, so the time of its birth belongs to it.
func inodeOf(_ string, info fs.FileInfo) inode {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Birthtimespec.Sec <= 0 {
		return inode{}
	}
	return inode{number: st.Ino, born: st.Birthtimespec.Nano()}
}

// inodeNumber returns the number of an inode, which may be that of an earlier one.
func inodeNumber(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
