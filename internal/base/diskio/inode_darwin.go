package diskio

import (
	"io/fs"
	"syscall"
	"time"
)

// inodeChange returns when the inode changed last.
func inodeChange(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctimespec.Unix())
	}
	return time.Now()
}
