package search

import (
	"os"
	"syscall"
)

// ident tells a file from one that took its name.
func ident(fi os.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Win32FileAttributeData); ok {
		return st.CreationTime.Nanoseconds()
	}
	return 0
}
