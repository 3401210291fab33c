package origin

import (
	"errors"
	"io/fs"
	"syscall"
	"time"
)

// changeTimeOf is when the inode last changed. Programs cannot set it.
func changeTimeOf(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}

// alive reports whether a process exists.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
