//go:build linux || darwin

package diskio

import "golang.org/x/sys/unix"

// FreeBytes returns how much the user may still write where a folder lies.
func FreeBytes(dir string) (uint64, bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true //nolint:gosec // the size of a block is positive; its type differs
}
