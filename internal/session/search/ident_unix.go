//go:build unix

package search

import (
	"os"
	"syscall"
)

// ident tells a file from one that took its name.
func ident(fi os.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int64(st.Ino) //nolint:gosec // it is only compared, so its sign does not matter
	}
	return 0
}
