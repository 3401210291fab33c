package origin

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTimeOf is when the inode last changed. Programs cannot set it.
func changeTimeOf(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctimespec.Unix())
	}
	return info.ModTime()
}
