//go:build unix

package disk

import (
	"os"
	"strconv"
	"syscall"
)

// openNow lets the opening of a pipe not wait for its other end.
const openNow = syscall.O_NONBLOCK

// ident tells a file from one that took its name.
func ident(fi os.FileInfo) string {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(st.Ino), 36) //nolint:unconvert // its type depends on the system
	}
	return "-"
}
