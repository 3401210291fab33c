package session

import (
	"os"
	"syscall"
)

// folderIdentity tells a folder from all others, also from a later one with the
// same inode. Zero is not known.
func folderIdentity(path string) (device, inode uint64, born int64) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return 0, 0, 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, 0
	}
	return uint64(st.Dev), st.Ino, st.Birthtimespec.Nano() //nolint:gosec // a number that is only compared
}
