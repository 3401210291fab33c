package origin

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// changeTimeOf returns when the inode last changed. Programs cannot set it.
func changeTimeOf(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}

// inodeOf identifies the inode of a path, whatever its name is: numbers are
// given away again, so the time of its birth belongs to it. It is zero where the
// file system does not tell that time.
func inodeOf(path string, _ fs.FileInfo) inode {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return inode{}
	}
	return inode{number: st.Ino, born: st.Btime.Sec*int64(time.Second) + int64(st.Btime.Nsec)}
}

// inodeNumber returns the number of an inode, which may be that of an earlier one.
func inodeNumber(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
